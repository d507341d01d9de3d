//! What of a table to read so that it is at hand: its planning metadata, as far as it has a place in the
//! store, and on demand its data. Pure: states in, pieces of objects out.

use std::hash::BuildHasher;
use std::ops::ControlFlow;

use nilas_base::{ByteRange, HashMap, HashSet};
use nilas_iceberg::change::Change;
use nilas_iceberg::footer::{Footer, Part as ColumnPart};
use nilas_iceberg::manifest::{Content, File, Format};
use nilas_iceberg::metadata::TableMetadata;
use nilas_iceberg::residents::{self, Part, Resident, ResidentKind};
use nilas_iceberg::state::{TableState, Tier};

use super::reader::{Extent, Piece};
use super::settings::WarmRule;
use crate::node::assembly::METADATA_SECTOR_BYTES;

/// Ranges of data that lie no further apart are read as one.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Where it is.
    pub(super) location: Box<str>,
    /// Which bytes, and how.
    pub(super) piece: Piece,
    /// Whether it is a Parquet footer, of a file of so many bytes.
    pub(super) footer_of: Option<u64>,
    /// Who wants it.
    pub(super) tier: Tier,
    /// What tells it from other items.
    pub(super) hash: u64,
    /// What it takes of the store, about.
    pub(super) bytes: u64,
}

/// What a table's planning metadata comes to.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// What is to be read, in order.
    pub(super) items: Vec<Item>,
    /// All that is worth keeping and has room, read or not: by hash, with what it takes.
    pub(super) kept: HashMap<u64, u64>,
    /// Parts for which there was no room.
    pub(super) left_out: u64,
}

/// Plans the metadata of a state under a budget; what `at_hand` has need not be read again.
pub(super) fn metadata(
    state: &TableState,
    change: Option<&Change>,
    room_bytes: u64,
    at_hand: &HashMap<u64, u64>,
) -> Plan {
    let mut plan = Plan::default();
    let mut taken = 0;
    let hasher = nilas_base::HashMap::<u64, u64>::default().hasher().clone();
    let end = residents::visit(state, change, |resident| {
        if room_bytes - taken < METADATA_SECTOR_BYTES {
            plan.left_out += 1;
            return ControlFlow::Continue(());
        }
        let location: Box<str> = resident.path.to_string().into();
        let piece = metadata_piece(&resident);
        let hash = hasher.hash_one((&location, piece.extent.range().map(|range| range.start)));
        let bytes = at_hand.get(&hash).copied().unwrap_or_else(|| sectors(resident.part.bytes()));
        if taken + bytes > room_bytes {
            plan.left_out += 1;
            // The rest is counted, not listed.
            return ControlFlow::Continue(());
        }
        taken += bytes;
        plan.kept.insert(hash, bytes);
        if !at_hand.contains_key(&hash) {
            let footer_of = (resident.kind == ResidentKind::Footer)
                .then(|| piece.extent.range().map(|range| range.end))
                .flatten();
            plan.items.push(Item { location, piece, footer_of, tier: resident.tier, hash, bytes });
        }
        ControlFlow::Continue(())
    });
    debug_assert!(end.is_continue(), "all are visited");
    plan
}

/// Objects of the metadata are kept as such whatever their names; of other files so much of the end.
/// Puffin files of deletion vectors hold nothing else.
fn metadata_piece(resident: &Resident<'_>) -> Piece {
    let extent = match resident.part {
        Part::Whole { .. } => Extent::Whole,
        Part::Range(range) => Extent::Range(range),
        // Where it begins is not known before it is read.
        Part::Suffix { count } => {
            return Piece { extent: Extent::Last(count), tail_start: None, gives_bytes: false };
        }
    };
    let start = extent.range().map_or(0, |range| range.start);
    match resident.kind {
        ResidentKind::Footer => Piece { extent, tail_start: Some(start), gives_bytes: true },
        _ => Piece { extent, tail_start: Some(0), gives_bytes: false },
    }
}

pub(super) fn sectors(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(METADATA_SECTOR_BYTES)
}

/// Whether a rule or an order means a table's partition.
pub(super) fn means_partition(rule: &WarmRule, partition: &str) -> bool {
    rule.partitions.is_empty() || rule.partitions.iter().any(|glob| glob.matches(partition))
}

/// The data and delete files of a snapshot that a rule means.
pub(super) fn files<'a>(
    state: &'a TableState,
    snapshot_id: Option<i64>,
    rule: &WarmRule,
) -> Vec<File<'a>> {
    let metadata = state.metadata();
    let snapshot = match snapshot_id {
        Some(id) => metadata.snapshot(id),
        None => metadata.current(),
    };
    let list = snapshot.and_then(|snapshot| state.list(snapshot));
    let manifests = list.into_iter().flat_map(|list| &list.manifests);
    let held = manifests.filter_map(|file| state.manifest(&file.path));
    let mut seen: HashSet<&str> = HashSet::default();
    let mut files = Vec::new();
    for (_, file) in held.flat_map(|manifest| manifest.live_files()) {
        let is_meant = means_partition(rule, &file.partition.text);
        // Several vectors share a file, and no two files of a table share a name in a folder.
        let is_new = file.content != Content::DeletionVector || seen.insert(file.path.name);
        if is_meant && is_new {
            files.push(file);
        }
    }
    files
}

/// The ids of columns, and of all that lies in them. The error names the one that the table has not.
pub(super) fn field_ids(
    metadata: &TableMetadata,
    columns: &[String],
) -> Result<HashSet<i32>, String> {
    let mut ids = HashSet::default();
    for column in columns {
        let nested = format!("{column}.");
        let mut is_known = false;
        for field in metadata.fields.iter().filter(|field| field.current) {
            if *field.path == **column || field.path.starts_with(&nested) {
                is_known = true;
                ids.insert(field.id);
            }
        }
        if !is_known {
            return Err(column.clone());
        }
    }
    Ok(ids)
}

/// How many of a table's columns these are, for an estimate.
pub(super) fn share_of_columns(metadata: &TableMetadata, ids: &HashSet<i32>) -> f64 {
    let current = metadata.fields.iter().filter(|field| field.current).count();
    if ids.is_empty() || current == 0 { 1.0 } else { ids.len() as f64 / current as f64 }
}

/// Whether columns of a file can be told apart.
pub(super) fn has_columns(file: &File<'_>) -> bool {
    file.format == Format::Parquet && !file.encrypted
}

/// The ranges of a file that some columns take, neighbours together.
pub(super) fn column_ranges(footer: &Footer, ids: &HashSet<i32>) -> Vec<ByteRange> {
    let mut ranges: Vec<ByteRange> = Vec::new();
    for span in footer.spans.iter().filter(|span| span.part == ColumnPart::Data) {
        let column = footer.columns.get(span.column as usize);
        let is_wanted = column.and_then(|it| it.field_id).is_some_and(|id| ids.contains(&id));
        match ranges.last_mut() {
            _ if !is_wanted => {}
            Some(last) if span.range.start <= last.end + GAP_BYTES_MAX => {
                last.end = last.end.max(span.range.end);
            }
            _ => ranges.push(span.range),
        }
    }
    ranges
}
