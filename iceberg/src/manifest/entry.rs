//! A manifest's entries: which members they have is learnt once from the writer's schema, then each
//! entry is walked once, and what is wanted of it packed.

use std::sync::Arc;

use nilas_base::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::container::Container;
use super::cursor::Flaw;
use super::file::{
    Commit, Content, FilePath, FileStatus, Format, Manifest, Packed, PackedPath, PackedVector, Span,
};
use super::list::ManifestContent;
use super::partition::Partitions;
use super::schema::{Member, NodeId, Schema};
use super::walk::Walker;
use super::{ENTRIES_MAX, PATH_BYTES_MAX};
use crate::fault::Fault;

/// Members of an entry and of its file that are read; all others are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Status,
    SnapshotId,
    SequenceNumber,
    FileSequenceNumber,
    DataFile,
    Content,
    Path,
    Format,
    Partition,
    Records,
    Size,
    KeyMetadata,
    Referenced,
    Offset,
    VectorSize,
    Skipped,
}

/// Iceberg's field ids, and the names for files that lack them (format specification, "Manifests").
const ENTRY_ROLES: &[(i64, &str, Role)] = &[
    (0, "status", Role::Status),
    (1, "snapshot_id", Role::SnapshotId),
    (3, "sequence_number", Role::SequenceNumber),
    (4, "file_sequence_number", Role::FileSequenceNumber),
    (2, "data_file", Role::DataFile),
];
const FILE_ROLES: &[(i64, &str, Role)] = &[
    (134, "content", Role::Content),
    (100, "file_path", Role::Path),
    (101, "file_format", Role::Format),
    (102, "partition", Role::Partition),
    (103, "record_count", Role::Records),
    (104, "file_size_in_bytes", Role::Size),
    (131, "key_metadata", Role::KeyMetadata),
    (143, "referenced_data_file", Role::Referenced),
    (144, "content_offset", Role::Offset),
    (145, "content_size_in_bytes", Role::VectorSize),
];

type Plan = Vec<(Role, NodeId)>;

fn plan(members: &[Member], roles: &[(i64, &str, Role)]) -> Plan {
    let role = |member: &Member| {
        let found = roles.iter().find(|(id, name, _)| match member.id {
            Some(of_member) => of_member == *id,
            None => **name == *member.name,
        });
        found.map_or(Role::Skipped, |(_, _, role)| *role)
    };
    members.iter().map(|member| (role(member), member.node)).collect()
}

fn node_of(plan: &Plan, role: Role) -> Option<NodeId> {
    plan.iter().find(|(known, _)| *known == role).map(|(_, node)| *node)
}

impl Manifest {
    /// Reads the bytes of the manifest at `path`.
    pub fn parse(path: &Arc<str>, bytes: &[u8]) -> Result<Manifest, Fault> {
        let read = Container::open(bytes).and_then(|container| read(path, &container));
        let mut manifest = read.map_err(|flaw| flaw.at(path))?;
        manifest.length = bytes.len() as u64;
        Ok(manifest)
    }
}

fn read(path: &Arc<str>, container: &Container<'_>) -> Result<Manifest, Flaw> {
    let schema = &container.schema;
    let entry_plan = plan(schema.members(schema.root)?, ENTRY_ROLES);
    let data_file = node_of(&entry_plan, Role::DataFile)
        .ok_or_else(|| Flaw::damaged("its entries have no data file"))?;
    let file_plan = plan(schema.members(data_file)?, FILE_ROLES);
    for (plan, role) in [(&entry_plan, Role::Status), (&file_plan, Role::Path)] {
        if node_of(plan, role).is_none() {
            return Err(Flaw::damaged(format!("its entries have no {role:?}").to_lowercase()));
        }
    }
    let mut packing = Packing::new(container, node_of(&file_plan, Role::Partition))?;
    container.each(|walker| packing.take(walker, &entry_plan, &file_plan))?;
    Ok(packing.finish(path, content(container)))
}

fn content(container: &Container<'_>) -> ManifestContent {
    match container.member("content") {
        Some(b"deletes") => ManifestContent::Deletes,
        _ => ManifestContent::Data,
    }
}

fn spec_id(container: &Container<'_>) -> i32 {
    let text = container.member("partition-spec-id").and_then(|id| std::str::from_utf8(id).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// An entry as it is read, before it is packed.
#[derive(Clone, Copy, Default)]
struct Entry<'a> {
    status: Option<i64>,
    snapshot_id: Option<i64>,
    sequence_number: Option<i64>,
    file_sequence_number: Option<i64>,
    content: i64,
    path: Option<&'a str>,
    format: &'a str,
    partition: Option<u32>,
    records: i64,
    size: i64,
    encrypted: bool,
    referenced: Option<&'a str>,
    offset: Option<i64>,
    vector_size: Option<i64>,
}

struct Packing {
    files: Vec<Packed>,
    text: String,
    folders: Vec<Span>,
    folder_numbers: HashMap<u64, u32>,
    partitions: Partitions,
    commits: Vec<Commit>,
    commit_numbers: HashMap<Commit, u32>,
    vectors: Vec<PackedVector>,
}

impl Packing {
    fn new(container: &Container<'_>, tuple: Option<NodeId>) -> Result<Packing, Flaw> {
        let schema: &Schema = &container.schema;
        let spec = container.member("partition-spec");
        Ok(Packing {
            files: Vec::new(),
            text: String::new(),
            folders: Vec::new(),
            folder_numbers: HashMap::default(),
            partitions: Partitions::new(schema, tuple, spec_id(container), spec)?,
            commits: Vec::new(),
            commit_numbers: HashMap::default(),
            vectors: Vec::new(),
        })
    }

    fn take(
        &mut self,
        walker: &mut Walker<'_, '_>,
        entry_plan: &Plan,
        file_plan: &Plan,
    ) -> Result<(), Flaw> {
        let mut entry = Entry::default();
        let no_file = || Flaw::damaged("an entry without its file");
        for (role, node) in entry_plan {
            match role {
                Role::Status => entry.status = walker.integer(*node)?,
                Role::SnapshotId => entry.snapshot_id = walker.integer(*node)?,
                Role::SequenceNumber => entry.sequence_number = walker.integer(*node)?,
                Role::FileSequenceNumber => entry.file_sequence_number = walker.integer(*node)?,
                Role::DataFile => {
                    walker.present(*node)?.ok_or_else(no_file)?;
                    self.take_file(walker, file_plan, &mut entry)?;
                }
                _ => walker.skip(*node)?,
            }
        }
        self.pack(&entry)
    }

    fn take_file<'a>(
        &mut self,
        walker: &mut Walker<'_, 'a>,
        plan: &Plan,
        entry: &mut Entry<'a>,
    ) -> Result<(), Flaw> {
        for (role, node) in plan {
            let node = *node;
            match role {
                Role::Content => entry.content = walker.integer(node)?.unwrap_or(0),
                Role::Path => entry.path = walker.text(node)?,
                Role::Format => entry.format = walker.text(node)?.unwrap_or(""),
                Role::Partition => entry.partition = Some(self.partitions.take(walker, node)?),
                Role::Records => entry.records = walker.integer(node)?.unwrap_or(0),
                Role::Size => entry.size = walker.integer(node)?.unwrap_or(0),
                Role::KeyMetadata => {
                    if let Some(node) = walker.present(node)? {
                        entry.encrypted = true;
                        walker.skip(node)?;
                    }
                }
                Role::Referenced => entry.referenced = walker.text(node)?,
                Role::Offset => entry.offset = walker.integer(node)?,
                Role::VectorSize => entry.vector_size = walker.integer(node)?,
                _ => walker.skip(node)?,
            }
        }
        Ok(())
    }

    fn pack(&mut self, entry: &Entry<'_>) -> Result<(), Flaw> {
        if self.files.len() == ENTRIES_MAX {
            return Err(Flaw::TooLarge("entries of one manifest", ENTRIES_MAX));
        }
        let status = match entry.status {
            Some(0) => FileStatus::Existing,
            Some(1) => FileStatus::Added,
            Some(2) => FileStatus::Deleted,
            other => return Err(Flaw::damaged(format!("an entry's status is {other:?}"))),
        };
        let path = entry.path.ok_or_else(|| Flaw::damaged("an entry without a path"))?;
        let PackedPath { folder, name_start, name_length } = self.pack_path(path)?;
        let format = format(entry.format);
        let content = content_of(entry.content, format);
        let packed = Packed {
            size: entry.size.max(0).unsigned_abs(),
            records: entry.records.max(0).unsigned_abs(),
            folder,
            name_start,
            name_length,
            partition: entry.partition.unwrap_or_else(|| self.partitions.take_none()),
            commit: self.commit(entry),
            status,
            content,
            format,
            encrypted: entry.encrypted,
        };
        self.pack_vector(entry)?;
        self.files.push(packed);
        Ok(())
    }

    fn pack_vector(&mut self, entry: &Entry<'_>) -> Result<(), Flaw> {
        if entry.offset.is_none() && entry.referenced.is_none() {
            return Ok(());
        }
        let count = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        let referenced = entry.referenced.map(|path| self.pack_path(path)).transpose()?;
        self.vectors.push(PackedVector {
            file: self.files.len() as u32,
            referenced,
            offset: count(entry.offset),
            size: count(entry.vector_size),
        });
        Ok(())
    }

    fn pack_path(&mut self, path: &str) -> Result<PackedPath, Flaw> {
        if path.len() > PATH_BYTES_MAX {
            return Err(Flaw::TooLarge("bytes of one path", PATH_BYTES_MAX));
        }
        let FilePath { folder, name } = FilePath::new(path);
        let folder = self.folder(folder);
        let name = self.push_text(name);
        let name_length = u16::try_from(name.length).expect("a path is shorter");
        Ok(PackedPath { folder, name_start: name.start, name_length })
    }

    fn folder(&mut self, folder: &str) -> u32 {
        let hash = xxh3_64(folder.as_bytes());
        let same = |span: Span| &self.text[span.start as usize..][..span.length as usize] == folder;
        if let Some(number) = self.folder_numbers.get(&hash)
            && same(self.folders[*number as usize])
        {
            return *number;
        }
        // Two folders of one hash are kept as often as they alternate: they cost memory, not truth.
        let number = self.folders.len() as u32;
        let span = self.push_text(folder);
        self.folders.push(span);
        self.folder_numbers.insert(hash, number);
        number
    }

    /// Text is bounded by the inflated bytes, so that 32 bits count it.
    fn push_text(&mut self, text: &str) -> Span {
        let span = Span { start: self.text.len() as u32, length: text.len() as u32 };
        self.text.push_str(text);
        span
    }

    fn commit(&mut self, entry: &Entry<'_>) -> u32 {
        let commit = Commit {
            snapshot_id: entry.snapshot_id,
            sequence_number: entry.sequence_number,
            file_sequence_number: entry.file_sequence_number,
        };
        let Packing { commits, commit_numbers, .. } = self;
        *commit_numbers.entry(commit).or_insert_with(|| {
            commits.push(commit);
            commits.len() as u32 - 1
        })
    }

    fn finish(self, path: &Arc<str>, content: ManifestContent) -> Manifest {
        Manifest {
            path: path.clone(),
            length: 0,
            content,
            files: self.files.into(),
            text: self.text.into(),
            folders: self.folders.into(),
            partitions: self.partitions.into_read(),
            commits: self.commits.into(),
            vectors: self.vectors.into(),
        }
    }
}

fn format(text: &str) -> Format {
    let known = [
        ("parquet", Format::Parquet),
        ("avro", Format::Avro),
        ("orc", Format::Orc),
        ("puffin", Format::Puffin),
    ];
    let found = known.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map_or(Format::Other, |(_, format)| *format)
}

fn content_of(number: i64, format: Format) -> Content {
    match (number, format) {
        (0, _) => Content::Data,
        (1, Format::Puffin) => Content::DeletionVector,
        (1, _) => Content::PositionDeletes,
        (2, _) => Content::EqualityDeletes,
        _ => Content::Other,
    }
}
