//! What of a table's metadata to keep resident, in the order in which it is worth its bytes: current
//! snapshots before named ones before history, and within each what a query reads first. What a change
//! brought comes before what was there. Nothing here reads a budget: who fetches stops where it likes.

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;

use nilas_base::{ByteRange, HashMap, HashSet};

use crate::change::Change;
use crate::manifest::{Content, File, FilePath, Format, ManifestFile};
use crate::metadata::{Snapshot, StatisticsFile};
use crate::state::{TableState, Tier};

/// Bytes of the end of a file that hold its footer, as a rule. Readers ask for this much or less.
pub const FOOTER_WINDOW_BYTES: u64 = 64 << 10;

/// An object, or a part of one, that is worth keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident<'a> {
    /// Where it is.
    pub path: ResidentPath<'a>,
    /// What it is.
    pub kind: ResidentKind,
    /// Which of its bytes.
    pub part: Part,
    /// Which snapshots want it: the most asked for of them.
    pub tier: Tier,
    /// The partition of the file; empty for what belongs to none.
    pub partition: &'a str,
}

/// A path, whole or as a manifest has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResidentPath<'a> {
    /// An object of the table's metadata.
    Object(&'a Arc<str>),
    /// A file that a manifest lists.
    File(FilePath<'a>),
}

impl fmt::Display for ResidentPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResidentPath::Object(path) => out.write_str(path),
            ResidentPath::File(path) => path.fmt(out),
        }
    }
}

/// What a resident is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResidentKind {
    /// The table's metadata.json.
    Metadata,
    /// A manifest list.
    ManifestList,
    /// A manifest.
    Manifest,
    /// The footer of a data or delete file.
    Footer,
    /// A deletion vector.
    Vector,
    /// A file with statistics, or its footer.
    Statistics,
}

/// Which bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// All; 0 where the size is not known.
    Whole {
        /// The object's size.
        size: u64,
    },
    /// These.
    Range(ByteRange),
    /// As many from the end of an object whose size is not known.
    Suffix {
        /// How many.
        count: u64,
    },
}

impl Part {
    /// Bytes to fetch, as far as is known.
    pub fn bytes(&self) -> u64 {
        match self {
            Part::Whole { size } => *size,
            Part::Range(range) => range.len(),
            Part::Suffix { count } => *count,
        }
    }

    fn footer(size: u64, count: u64) -> Part {
        match size {
            0 => Part::Suffix { count },
            size => Part::Range(ByteRange::new(size.saturating_sub(count), size)),
        }
    }
}

/// All residents of a table: see [`visit`], which keeps none of them.
pub fn residents<'a>(state: &'a TableState, change: Option<&Change>) -> Vec<Resident<'a>> {
    let mut residents = Vec::new();
    let _ = visit(state, change, |resident| {
        residents.push(resident);
        ControlFlow::Continue(())
    });
    residents
}

/// Shows the residents of a table, the most valuable first, each part once, until `take` breaks off.
/// After a change, what it brought comes first within its kind.
pub fn visit<'a>(
    state: &'a TableState,
    change: Option<&Change>,
    take: impl FnMut(Resident<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut listing = Listing::new(state, change, take);
    let path = ResidentPath::Object(&state.metadata().path);
    listing.push(path, ResidentKind::Metadata, Part::Whole { size: 0 }, "")?;
    let tiers = state.tiers();
    for tier in [Tier::Current, Tier::Named, Tier::History] {
        listing.tier = tier;
        let of_tier = |(of, snapshot): &(Tier, &'a Snapshot)| (*of == tier).then_some(*snapshot);
        let snapshots: Vec<&Snapshot> = tiers.iter().filter_map(of_tier).collect();
        listing.lists(&snapshots)?;
        let files = listing.manifests(&snapshots);
        listing.manifest_objects(&files)?;
        listing.footers(&files)?;
        listing.statistics(&snapshots)?;
    }
    ControlFlow::Continue(())
}

struct Listing<'a, 'c, T> {
    state: &'a TableState,
    /// Paths of metadata that the change brought.
    fresh: HashSet<&'c str>,
    /// Hashes of parts that were shown: two of one hash cost the second its warmth, no more.
    seen: HashSet<u64>,
    visited: HashSet<&'a str>,
    take: T,
    tier: Tier,
}

impl<'a, 'c, T: FnMut(Resident<'a>) -> ControlFlow<()>> Listing<'a, 'c, T> {
    fn new(state: &'a TableState, change: Option<&'c Change>, take: T) -> Listing<'a, 'c, T> {
        let added = change.map_or(&[][..], |change| &change.objects_added);
        Listing {
            state,
            fresh: added.iter().map(|path| &**path).collect(),
            seen: HashSet::default(),
            visited: HashSet::default(),
            take,
            tier: Tier::Current,
        }
    }

    fn push(
        &mut self,
        path: ResidentPath<'a>,
        kind: ResidentKind,
        part: Part,
        partition: &'a str,
    ) -> ControlFlow<()> {
        let start = match part {
            Part::Range(range) => Some(range.start),
            Part::Whole { .. } | Part::Suffix { .. } => None,
        };
        let hash = self.seen.hasher().hash_one((path, start));
        if !self.seen.insert(hash) {
            return ControlFlow::Continue(());
        }
        (self.take)(Resident { path, kind, part, tier: self.tier, partition })
    }

    fn lists(&mut self, snapshots: &[&'a Snapshot]) -> ControlFlow<()> {
        for snapshot in snapshots {
            if let Some(path) = &snapshot.manifest_list {
                let size = self.state.list(snapshot).map_or(0, |list| list.length);
                let path = ResidentPath::Object(path);
                self.push(path, ResidentKind::ManifestList, Part::Whole { size }, "")?;
            }
        }
        ControlFlow::Continue(())
    }

    /// The manifests of some snapshots that no earlier tier had, changed ones first.
    fn manifests(&mut self, snapshots: &[&'a Snapshot]) -> Vec<&'a Arc<ManifestFile>> {
        let state = self.state;
        let lists = snapshots.iter().filter_map(|snapshot| state.list(snapshot));
        let mut files: Vec<_> = Vec::new();
        for file in lists.flat_map(|list| &list.manifests) {
            if self.visited.insert(&file.path) {
                files.push(file);
            }
        }
        files.sort_by_key(|file| !self.fresh.contains(&*file.path));
        files
    }

    /// Those whose bytes were never supplied are residents too.
    fn manifest_objects(&mut self, files: &[&'a Arc<ManifestFile>]) -> ControlFlow<()> {
        for file in files {
            let path = ResidentPath::Object(&file.path);
            self.push(path, ResidentKind::Manifest, Part::Whole { size: file.length }, "")?;
        }
        ControlFlow::Continue(())
    }

    fn footers(&mut self, files: &[&'a Arc<ManifestFile>]) -> ControlFlow<()> {
        let state = self.state;
        for manifest in files.iter().filter_map(|file| state.manifest(&file.path)) {
            for (_, file) in manifest.live_files() {
                self.footer(file)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// ORC's and Avro's files are kept whole or not at all, by their heat; a reader cannot use the
    /// footer of an encrypted file before it has a key, but asks for it all the same.
    fn footer(&mut self, file: File<'a>) -> ControlFlow<()> {
        if !matches!(file.format, Format::Parquet | Format::Puffin) {
            return ControlFlow::Continue(());
        }
        let (path, partition) = (ResidentPath::File(file.path), &*file.partition.text);
        let footer = Part::footer(file.size, FOOTER_WINDOW_BYTES);
        self.push(path, ResidentKind::Footer, footer, partition)?;
        match vector_range(&file) {
            // What lies within the footer's window has come with it.
            Some(vector) if !matches!(footer, Part::Range(window) if window.contains(vector)) => {
                self.push(path, ResidentKind::Vector, Part::Range(vector), partition)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn statistics(&mut self, snapshots: &[&'a Snapshot]) -> ControlFlow<()> {
        let metadata = &**self.state.metadata();
        let by_snapshot = |files: &'a [StatisticsFile]| {
            let mut of: HashMap<i64, Vec<&'a StatisticsFile>> = HashMap::default();
            files.iter().for_each(|file| of.entry(file.snapshot_id).or_default().push(file));
            of
        };
        let puffin = by_snapshot(&metadata.statistics);
        let partitions = by_snapshot(&metadata.partition_statistics);
        for snapshot in snapshots {
            for file in puffin.get(&snapshot.id).into_iter().flatten() {
                let footer =
                    if file.footer_size > 0 { file.footer_size } else { FOOTER_WINDOW_BYTES };
                self.push_statistics(file, Part::footer(file.size, footer))?;
            }
            for file in partitions.get(&snapshot.id).into_iter().flatten() {
                self.push_statistics(file, Part::Whole { size: file.size })?;
            }
        }
        ControlFlow::Continue(())
    }

    fn push_statistics(&mut self, file: &'a StatisticsFile, part: Part) -> ControlFlow<()> {
        self.push(ResidentPath::Object(&file.path), ResidentKind::Statistics, part, "")
    }
}

/// Where a deletion vector lies, if its entry says so and it lies within the file.
fn vector_range(file: &File<'_>) -> Option<ByteRange> {
    let vector = file.vector.filter(|_| file.content == Content::DeletionVector)?;
    let (start, size) = (vector.offset?, vector.size?);
    let end = start.checked_add(size)?;
    let within = size > 0 && (file.size == 0 || end <= file.size);
    within.then(|| ByteRange::new(start, end))
}
