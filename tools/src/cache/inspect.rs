//! What lies on a device, as far as is asked for: its superblock, the segments of its areas, the records of a segment,
//! the records of a block. Nothing is locked, so that a node may go on using it: what it changes meanwhile looks
//! damaged for a moment.

use nilas_base::HashMap;
use nilas_shards::disk::{
    DiskIndex, Generation, Place, Run, ScannedSegment, SegmentHeader, SummaryEntry,
};
use nilas_shards::store::BlockId;
use serde::Serialize;

use super::device::CacheDevice;
use super::fact::{SuperblockFact, has_records, identity_text, version_text};
use super::segment::{CheckedRecord, SegmentReader, SegmentState};

/// What is to be shown beside the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Superblock,
    /// The segments of one area, or of all.
    Segments {
        area: Option<u16>,
    },
    /// The records of a segment.
    Records {
        area: u16,
        segment: u32,
    },
    /// Where a block lies, or all blocks of a version.
    Block {
        version: [u8; 16],
        index: Option<u32>,
        area: Option<u16>,
    },
}

/// All that is shown.
#[derive(Debug, Serialize)]
pub(super) struct Inspection {
    /// The file or block device that was read.
    pub(super) path: String,
    /// How long it is.
    pub(super) bytes: u64,
    pub(super) superblock: SuperblockFact,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) segments: Option<Vec<SegmentFact>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records: Option<Vec<RecordFact>>,
}

/// A segment.
#[derive(Debug, Serialize)]
pub(super) struct SegmentFact {
    pub(super) area: u16,
    pub(super) segment: u32,
    pub(super) generation: Option<u64>,
    /// `sealed`, `open`, `blank`, `stale`, `swapped`, `damaged`, `unread`.
    pub(super) state: &'static str,
    pub(super) records: usize,
    /// Bytes of blocks in them.
    pub(super) bytes: u64,
    /// Those that no later record of the area makes needless.
    pub(super) live_bytes: u64,
    /// What is wrong with it.
    pub(super) wrong: Option<String>,
}

/// A record.
#[derive(Debug, Serialize)]
pub(super) struct RecordFact {
    pub(super) area: u16,
    pub(super) segment: u32,
    /// Where it begins, in pages from the segment's beginning.
    pub(super) page: u32,
    /// The block's version, in hex.
    pub(super) block: String,
    pub(super) index: u32,
    pub(super) first_byte: u32,
    pub(super) bytes: u32,
    pub(super) header_pages: u32,
    /// Escaped where it cannot be printed.
    pub(super) identity: Option<String>,
    pub(super) identity_hex: Option<String>,
    /// What is wrong with it.
    pub(super) wrong: Option<String>,
}

/// Looks at what is asked for.
pub(super) fn inspect(device: &CacheDevice, subject: Subject) -> Result<Inspection, String> {
    let mut inspection = Inspection {
        path: device.path.display().to_string(),
        bytes: device.bytes,
        superblock: SuperblockFact::of(device),
        segments: None,
        records: None,
    };
    match subject {
        Subject::Superblock => {}
        Subject::Segments { area } => {
            let mut segments = Vec::new();
            for area in areas(device, area)? {
                segments.extend(segments_of(reader(device, area)?, area));
            }
            inspection.segments = Some(segments);
        }
        Subject::Records { area, segment } => {
            inspection.records = Some(records_of(device, area, segment)?);
        }
        Subject::Block { version, index, area } => {
            let is_it = |block: BlockId| {
                block.version == version && index.is_none_or(|index| index == block.index)
            };
            let mut records = Vec::new();
            for area in areas(device, area)? {
                find_in(reader(device, area)?, area, &is_it, &mut records);
            }
            inspection.records = Some(records);
        }
    }
    Ok(inspection)
}

/// The areas with records, or the one that is named.
fn areas(device: &CacheDevice, named: Option<u16>) -> Result<Vec<u16>, String> {
    if let Some(named) = named {
        return Ok(vec![named]);
    }
    let all = device.area_numbers().zip(&device.superblock.areas);
    Ok(all.filter(|(_, area)| has_records(area.kind)).map(|(number, _)| number).collect())
}

fn reader(device: &CacheDevice, number: u16) -> Result<SegmentReader<'_>, String> {
    let (area, place) = device.area(number)?;
    if !has_records(area.kind) {
        return Err(format!("area {number} is a log of mappings: it has no segments of records"));
    }
    Ok(SegmentReader::new(device, place))
}

fn segments_of(mut reader: SegmentReader<'_>, area: u16) -> Vec<SegmentFact> {
    let mut facts = Vec::new();
    let mut used = Vec::new();
    for segment in 0..reader.count() {
        let found = reader.scan(segment);
        let state = SegmentState::of(&mut reader, &found);
        facts.push(segment_fact(area, segment, state, &found));
        if let Ok(SegmentHeader { generation, .. }) = found.header {
            used.push((generation, segment, found.entries));
        }
    }
    let live = live_bytes(used);
    for fact in &mut facts {
        fact.live_bytes = live.get(&fact.segment).copied().unwrap_or(0);
    }
    facts
}

fn segment_fact(
    area: u16,
    segment: u32,
    state: SegmentState,
    found: &ScannedSegment,
) -> SegmentFact {
    let (state, mut wrong) = (state.name(), state.wrong_text());
    if let [fault, ..] = &found.faults[..]
        && wrong.is_none()
    {
        wrong = Some(format!("page {}: {}", fault.page, fault.fault));
    }
    SegmentFact {
        area,
        segment,
        generation: found.header.ok().map(|header| header.generation.0),
        state,
        records: found.entries.len(),
        bytes: found.entries.iter().map(|entry| u64::from(entry.data_bytes)).sum(),
        live_bytes: 0,
        wrong,
    }
}

/// For each segment of an area the bytes that an index made of all its records would find: of records with the same
/// bytes of a block, the youngest has them.
fn live_bytes(mut used: Vec<(Generation, u32, Vec<SummaryEntry>)>) -> HashMap<u32, u64> {
    used.sort_unstable_by_key(|(generation, ..)| *generation);
    let mut index = DiskIndex::default();
    let mut live: HashMap<u32, u64> = HashMap::default();
    for (_, segment, entries) in used {
        for entry in entries {
            *live.entry(segment).or_default() += u64::from(entry.data_bytes);
            for needless in index.insert(entry.block, run(segment, &entry)) {
                *live.entry(needless.place.segment).or_default() -= u64::from(needless.data_bytes);
            }
        }
    }
    live
}

fn run(segment: u32, entry: &SummaryEntry) -> Run {
    Run {
        place: Place { segment, page: entry.page },
        first_byte: entry.first_byte,
        data_bytes: entry.data_bytes,
        header_pages: entry.header_pages as u16,
        uses: 0,
    }
}

fn records_of(device: &CacheDevice, area: u16, segment: u32) -> Result<Vec<RecordFact>, String> {
    let mut reader = reader(device, area)?;
    let count = reader.count();
    if segment >= count {
        return Err(format!("area {area} has no segment {segment}: it has {count}, from 0"));
    }
    let found = reader.scan(segment);
    let header = match found.header {
        Ok(header) => header,
        Err(_) => {
            let state = SegmentState::of(&mut reader, &found);
            let wrong = state.wrong_text().map(|wrong| format!(" ({wrong})")).unwrap_or_default();
            let state = state.name();
            return Err(format!("segment {segment} of area {area} is {state}{wrong}: no records"));
        }
    };
    let place = (area, segment);
    let fact = |entry| record_fact(place, entry, reader.check(header, entry));
    Ok(found.entries.iter().map(fact).collect())
}

/// Finds records of a block in an area.
fn find_in(
    mut reader: SegmentReader<'_>,
    area: u16,
    is_it: &impl Fn(BlockId) -> bool,
    records: &mut Vec<RecordFact>,
) {
    for segment in 0..reader.count() {
        let found = reader.scan(segment);
        let Ok(header) = found.header else { continue };
        for entry in found.entries.iter().filter(|entry| is_it(entry.block)) {
            let checked = reader.check(header, entry);
            records.push(record_fact((area, segment), entry, checked));
        }
    }
}

fn record_fact(
    (area, segment): (u16, u32),
    entry: &SummaryEntry,
    checked: CheckedRecord,
) -> RecordFact {
    let wrong = checked.wrong_text();
    let identity = checked.header.ok().map(|header| header.identity);
    RecordFact {
        area,
        segment,
        page: entry.page,
        block: version_text(entry.block),
        index: entry.block.index,
        first_byte: entry.first_byte,
        bytes: entry.data_bytes,
        header_pages: entry.header_pages,
        identity: identity.as_deref().map(identity_text),
        identity_hex: identity.map(hex::encode),
        wrong,
    }
}
