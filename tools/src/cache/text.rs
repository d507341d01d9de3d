//! What was found, for people: aligned columns, sizes in units that can be read. Nothing is judged here: `inspect` and
//! `verify` have done so.

use nilas_base::{GIB, KIB, MIB};

use super::fact::{AreaFact, SuperblockFact};
use super::inspect::{Inspection, RecordFact, SegmentFact};
use super::verify::{AreaCount, Finding, Verdict, Verification};

/// A size in the largest unit that leaves it whole, or to a tenth.
pub(crate) fn size_text(bytes: u64) -> String {
    let units = [(GIB << 10, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        None => format!("{bytes} B"),
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
    }
}

/// What [`super::inspect::inspect`] found.
pub(super) fn inspection_text(inspection: &Inspection) -> String {
    let Inspection { path, bytes, superblock, segments, records } = inspection;
    let mut parts = Vec::new();
    if segments.is_none() && records.is_none() {
        parts.push(superblock_text(path, *bytes, superblock));
    }
    parts.extend(segments.as_deref().map(segments_text));
    parts.extend(records.as_deref().map(records_text));
    parts.join("\n\n")
}

fn superblock_text(path: &str, bytes: u64, superblock: &SuperblockFact) -> String {
    let mut lines = vec![
        format!("path      {path} ({})", size_text(bytes)),
        format!("device    {}", superblock.device),
        format!("used      {}", size_text(superblock.bytes)),
        format!("segments  {}", size_text(superblock.segment_bytes.into())),
        format!("blocks    {}", size_text(superblock.block_bytes.into())),
    ];
    for copy in &superblock.copies {
        let state = copy.wrong.as_deref().unwrap_or("good");
        lines.push(format!("copy at   {}: {state}", copy.offset));
    }
    let heads = ["AREA", "KIND", "SHARD", "OFFSET", "LENGTH", "SEGMENTS"];
    let row = |it: &AreaFact| {
        [
            it.area.to_string(),
            it.kind.to_owned(),
            it.shard.to_string(),
            it.offset.to_string(),
            size_text(it.length),
            it.segments.to_string(),
        ]
    };
    lines.push(String::new());
    lines.push(table(heads, superblock.areas.iter().map(row)));
    lines.join("\n")
}

/// Runs of blank segments take a line together.
fn segments_text(segments: &[SegmentFact]) -> String {
    let is_dull = |it: &SegmentFact| it.state == "blank";
    let runs = segments
        .chunk_by(|before, after| before.area == after.area && is_dull(before) && is_dull(after));
    let row = |run: &[SegmentFact]| {
        let it = &run[0];
        let number = match run {
            [first, .., last] => format!("{}–{}", first.segment, last.segment),
            _ => it.segment.to_string(),
        };
        [
            it.area.to_string(),
            number,
            it.generation.map_or("-".to_owned(), |generation| generation.to_string()),
            it.state.to_owned(),
            it.records.to_string(),
            size_text(it.bytes),
            size_text(it.live_bytes),
            it.wrong.clone().unwrap_or_default(),
        ]
    };
    let heads =
        ["AREA", "SEGMENT", "GENERATION", "STATE", "RECORDS", "BYTES", "LIVE", "WHAT IS WRONG"];
    table(heads, runs.map(row))
}

fn records_text(records: &[RecordFact]) -> String {
    if records.is_empty() {
        return "no records".to_owned();
    }
    let row = |it: &RecordFact| {
        [
            it.area.to_string(),
            it.segment.to_string(),
            it.page.to_string(),
            it.block.clone(),
            it.index.to_string(),
            it.first_byte.to_string(),
            it.bytes.to_string(),
            it.wrong.clone().unwrap_or("whole".to_owned()),
            it.identity.clone().unwrap_or("-".to_owned()),
        ]
    };
    let heads =
        ["AREA", "SEGMENT", "PAGE", "BLOCK", "INDEX", "FIRST BYTE", "BYTES", "STATE", "IDENTITY"];
    table(heads, records.iter().map(row))
}

/// What [`super::verify::verify`] found.
pub(super) fn verification_text(verification: &Verification) -> String {
    let Verification { areas, findings, findings_unlisted, verdict, .. } = verification;
    let heads = [
        "AREA",
        "KIND",
        "SHARD",
        "SEGMENTS",
        "USED",
        "RECORDS",
        "BYTES",
        "DAMAGED PAGES",
        "TORN TAILS",
        "UNREAD PAGES",
    ];
    let row = |it: &AreaCount| {
        [
            it.area.area.to_string(),
            it.area.kind.to_owned(),
            it.area.shard.to_string(),
            it.area.segments.to_string(),
            it.used.to_string(),
            it.records.to_string(),
            size_text(it.bytes),
            it.damaged_pages.to_string(),
            it.torn_tails.to_string(),
            it.unread_pages.to_string(),
        ]
    };
    // The longest first, so that what counts is still seen at the end.
    let mut lines: Vec<String> = findings.iter().map(finding_text).collect();
    if *findings_unlisted > 0 {
        lines.push(format!("and {findings_unlisted} more"));
    }
    lines.push(table(heads, areas.iter().map(row)));
    lines.push(verdict_text(*verdict).to_owned());
    lines.join("\n")
}

fn finding_text(finding: &Finding) -> String {
    let Finding { area, segment, page, block, index, wrong } = finding;
    let place: Vec<String> = [
        area.map(|area| format!("area {area}")),
        segment.map(|segment| format!("segment {segment}")),
        page.map(|page| format!("page {page}")),
        block.as_ref().zip(*index).map(|(block, index)| format!("block {block}:{index}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    match &place[..] {
        [] => wrong.clone(),
        place => format!("{}: {wrong}", place.join(" ")),
    }
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Whole => "whole: every page is as it was written",
        Verdict::Damaged => {
            "damaged. Nothing need be done: the node never serves what does not hold, it drops such records itself and \
             asks the origin again. If there is more of it the next time, the device fails."
        }
        Verdict::Unread => {
            "the device does not read all of it. The node drops such records itself and asks the origin again; look at \
             the kernel's log (dmesg) and the device's own (smartctl, nvme smart-log), and replace the device."
        }
    }
}

/// Aligned columns: numbers to the right, all else to the left.
fn table<const COLUMNS: usize>(
    heads: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<[String; COLUMNS]> = rows.collect();
    let is_number = |cell: &String| cell == "-" || cell.parse::<u64>().is_ok();
    let columns: [(usize, bool); COLUMNS] = std::array::from_fn(|column| {
        let cells = || rows.iter().map(|row| &row[column]);
        let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
        (width.max(heads[column].chars().count()), cells().all(is_number))
    });
    let line = |cells: &[String; COLUMNS]| {
        let put = |(cell, (width, is_right)): (&String, (usize, bool))| match is_right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        };
        let cells: Vec<String> = cells.iter().zip(columns).map(put).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let heads = line(&heads.map(str::to_owned));
    std::iter::once(heads).chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n")
}
