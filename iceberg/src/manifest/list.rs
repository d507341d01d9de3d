//! Manifest lists: the manifests of one snapshot, as their entries in the list tell of them. What is
//! in a manifest, the list does not know but for counts: see `entry`.

use std::sync::Arc;

use super::MANIFESTS_MAX;
use super::PATH_BYTES_MAX;
use super::container::Container;
use super::cursor::Flaw;
use super::schema::NodeId;
use super::walk::Walker;
use crate::fault::Fault;

/// The manifests of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestList {
    /// In the list's order. States share them: a manifest stands in the lists of many snapshots.
    pub manifests: Vec<Arc<ManifestFile>>,
    /// The list's own bytes; 0 where the manifests stand in the table's metadata.
    pub length: u64,
}

/// A manifest as a list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Where it is.
    pub path: Arc<str>,
    /// Its bytes; 0 where the list does not say.
    pub length: u64,
    /// The spec of its files' partitions.
    pub spec_id: i32,
    /// Data or deletes.
    pub content: ManifestContent,
    /// The number of the commit that added it, which entries without one inherit; 0 in format 1.
    pub sequence_number: i64,
    /// The snapshot that added it, which entries without one inherit.
    pub added_snapshot_id: Option<i64>,
    /// Entries with the status "added".
    pub added_files: Option<u64>,
    /// Entries with the status "existing".
    pub existing_files: Option<u64>,
    /// Entries with the status "deleted".
    pub deleted_files: Option<u64>,
    /// It is encrypted, so that it cannot be read here.
    pub encrypted: bool,
}

/// What the files of a manifest hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManifestContent {
    /// Rows.
    Data,
    /// Deletes of rows, of each kind.
    Deletes,
}

impl ManifestFile {
    /// A manifest of which only the path is known.
    pub fn named(path: &Arc<str>) -> ManifestFile {
        ManifestFile {
            path: path.clone(),
            length: 0,
            spec_id: 0,
            content: ManifestContent::Data,
            sequence_number: 0,
            added_snapshot_id: None,
            added_files: None,
            existing_files: None,
            deleted_files: None,
            encrypted: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Path,
    Length,
    SpecId,
    Content,
    SequenceNumber,
    AddedSnapshotId,
    AddedFiles,
    ExistingFiles,
    DeletedFiles,
    KeyMetadata,
    Skipped,
}

/// Iceberg's field ids, and the names for lists that lack them. Counts were named otherwise once.
const ROLES: &[(i64, &str, Role)] = &[
    (500, "manifest_path", Role::Path),
    (501, "manifest_length", Role::Length),
    (502, "partition_spec_id", Role::SpecId),
    (517, "content", Role::Content),
    (515, "sequence_number", Role::SequenceNumber),
    (503, "added_snapshot_id", Role::AddedSnapshotId),
    (504, "added_files_count", Role::AddedFiles),
    (505, "existing_files_count", Role::ExistingFiles),
    (506, "deleted_files_count", Role::DeletedFiles),
    (519, "key_metadata", Role::KeyMetadata),
];

impl ManifestList {
    /// Reads the bytes of the manifest list at `path`.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<ManifestList, Fault> {
        let manifests = Container::open(bytes).and_then(|container| read(&container));
        let manifests = manifests.map_err(|flaw| flaw.at(path))?;
        Ok(ManifestList { manifests, length: bytes.len() as u64 })
    }

    /// The list of a snapshot whose manifests stand in the table's metadata.
    pub fn inline(paths: &[Arc<str>]) -> ManifestList {
        let manifests = paths.iter().map(|path| Arc::new(ManifestFile::named(path))).collect();
        ManifestList { manifests, length: 0 }
    }
}

fn read(container: &Container<'_>) -> Result<Vec<Arc<ManifestFile>>, Flaw> {
    let schema = &container.schema;
    let members = schema.members(schema.root)?;
    let plan: Vec<(Role, NodeId)> = members
        .iter()
        .map(|member| {
            let found = ROLES.iter().find(|(id, name, _)| match member.id {
                Some(of_member) => of_member == *id,
                None => **name == *member.name,
            });
            (found.map_or(Role::Skipped, |(_, _, role)| *role), member.node)
        })
        .collect();
    let mut manifests = Vec::new();
    container.each(|walker| {
        if manifests.len() == MANIFESTS_MAX {
            return Err(Flaw::TooLarge("manifests of one snapshot", MANIFESTS_MAX));
        }
        manifests.push(Arc::new(read_entry(walker, &plan)?));
        Ok(())
    })?;
    Ok(manifests)
}

fn read_entry(walker: &mut Walker<'_, '_>, plan: &[(Role, NodeId)]) -> Result<ManifestFile, Flaw> {
    let mut path: Option<Arc<str>> = None;
    let mut file = ManifestFile::named(&Arc::from(""));
    let count = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    for (role, node) in plan {
        let node = *node;
        match role {
            Role::Path => path = walker.text(node)?.map(Arc::from),
            Role::Length => file.length = count(walker.integer(node)?).unwrap_or(0),
            Role::SpecId => {
                let id = walker.integer(node)?.and_then(|id| i32::try_from(id).ok());
                file.spec_id = id.unwrap_or(0);
            }
            Role::Content => {
                if walker.integer(node)? == Some(1) {
                    file.content = ManifestContent::Deletes;
                }
            }
            Role::SequenceNumber => file.sequence_number = walker.integer(node)?.unwrap_or(0),
            Role::AddedSnapshotId => file.added_snapshot_id = walker.integer(node)?,
            Role::AddedFiles => file.added_files = count(walker.integer(node)?),
            Role::ExistingFiles => file.existing_files = count(walker.integer(node)?),
            Role::DeletedFiles => file.deleted_files = count(walker.integer(node)?),
            Role::KeyMetadata => {
                if let Some(node) = walker.present(node)? {
                    file.encrypted = true;
                    walker.skip(node)?;
                }
            }
            Role::Skipped => walker.skip(node)?,
        }
    }
    file.path = path.ok_or_else(|| Flaw::damaged("a manifest without a path"))?;
    if file.path.len() > PATH_BYTES_MAX {
        return Err(Flaw::TooLarge("bytes of one path", PATH_BYTES_MAX));
    }
    Ok(file)
}
