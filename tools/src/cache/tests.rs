//! Both commands on a small device that is whole, flipped, torn, swapped, cut off, in use.

use clap::{Parser, Subcommand};
use nilas_shards::disk::{PAGE_BYTES, Superblock};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::command::{CacheArguments, InspectArguments, Told};

mod device;

use device::{
    BLOCK_BYTES, DATA, DATA_SEGMENTS, MAPPINGS, METADATA, SEGMENT_BYTES, TestDevice, TestSegment,
    VERSION,
};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(InspectArguments),
    Cache(CacheArguments),
}

fn run(device: &TestDevice, before: &[&str], after: &[&str]) -> Result<Told, String> {
    let path = device.folder.path().display().to_string();
    let arguments = [&["nilas"], before, &[path.as_str()], after].concat();
    let parsed = Arguments::try_parse_from(arguments).map_err(|error| error.to_string())?;
    match parsed.command {
        Command::Inspect(it) => it.carry_out().map(|text| Told { text, code: 0 }),
        Command::Cache(it) => it.carry_out(),
    }
}

fn inspect(device: &TestDevice, flags: &[&str]) -> String {
    run(device, &["inspect"], flags).expect("it can be inspected").text
}

fn inspect_json(device: &TestDevice, flags: &[&str]) -> Value {
    let text = inspect(device, &[flags, &["--json"]].concat());
    serde_json::from_str(&text).expect("one document")
}

/// The exit code, and what was found.
fn verify(device: &TestDevice) -> (u8, Value) {
    let told = run(device, &["cache", "verify"], &["--json"]).expect("it can be verified");
    (told.code, serde_json::from_str(&told.text).expect("one document"))
}

/// A number of the data area.
fn data(verified: &Value, name: &str) -> u64 {
    let areas = verified["areas"].as_array().expect("areas are listed");
    let area = areas.iter().find(|area| area["area"] == DATA).expect("it is one of them");
    area[name].as_u64().unwrap_or_else(|| panic!("{name} of {area}"))
}

/// A sealed segment of ten records of three pages of data, in the data area.
fn sealed(device: &TestDevice, number: u32, generation: u64) -> TestSegment<'_> {
    let mut segment = device.open(DATA, number, generation);
    segment.write_ten();
    segment.seal();
    segment
}

fn finding(verified: &Value, name: &str) -> Value {
    verified["findings"][0][name].clone()
}

#[test]
fn a_whole_device_is_counted_and_not_written() {
    let device = TestDevice::new();
    sealed(&device, 0, 3);
    let mut open = device.open(DATA, 4, 9);
    open.write(70, 100_000);
    let mut metadata = device.open(METADATA, 3, 1);
    metadata.write(80, 5000);
    metadata.seal();
    let before = device.read(0, device.superblock.device_bytes as usize);
    let (code, verified) = verify(&device);
    assert_eq!((code, &verified["verdict"]), (0, &Value::from("whole")), "{verified}");
    assert_eq!(verified["findings"], Value::Array(Vec::new()));
    assert_eq!((data(&verified, "segments"), data(&verified, "used")), (DATA_SEGMENTS, 2));
    assert_eq!(data(&verified, "records"), 11);
    assert_eq!(data(&verified, "bytes"), 10 * (3 * 4096 - 100) + 100_000);
    for nothing in ["damaged_pages", "torn_tails", "unread_pages", "damaged_segments"] {
        assert_eq!(data(&verified, nothing), 0, "{nothing}");
    }
    assert_eq!(verified["areas"].as_array().map(Vec::len), Some(2), "mappings are no records");
    assert!(device.read(0, before.len()) == before, "it has written");
}

#[test]
fn a_flipped_page_is_found_and_named() {
    let device = TestDevice::new();
    let segment = sealed(&device, 2, 3);
    let entry = segment.entries[4];
    device.flip(segment.at(entry.page + entry.header_pages + 1) + 17, 3);
    let (code, verified) = verify(&device);
    assert_eq!(code, 1);
    assert_eq!((data(&verified, "damaged_records"), data(&verified, "damaged_pages")), (1, 1));
    let named = ["area", "segment", "page", "index"].map(|name| finding(&verified, name));
    assert_eq!(named, [DATA.into(), 2.into(), Value::from(entry.page), 4.into()]);
    assert_eq!(finding(&verified, "block"), hex::encode(VERSION));
    let text = run(&device, &["cache", "verify"], &[]).expect("it is verified").text;
    assert!(text.contains("pages of data that do not hold: 1"), "{text}");
    assert!(text.contains("the node never serves what does not hold"), "{text}");
    let shown = inspect_json(&device, &["--area", "2", "--segment", "2"]);
    assert_eq!(shown["records"][4]["wrong"], "pages of data that do not hold: 1");
    assert_eq!(shown["records"][5]["wrong"], Value::Null);
}

#[test]
fn a_record_without_its_header_is_damaged_whole() {
    let device = TestDevice::new();
    let segment = sealed(&device, 2, 3);
    device.flip(segment.at(segment.entries[9].page) + 2000, 0);
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "damaged_records")), (1, 1));
    assert_eq!(data(&verified, "damaged_pages"), 4);
    assert_eq!(finding(&verified, "wrong"), "header: its checksum does not hold");
}

#[test]
fn the_torn_tail_of_an_open_segment_is_no_damage() {
    // The last pages of the last record did not come.
    let device = TestDevice::new();
    let mut open = device.open(DATA, 1, 5);
    open.write(1, 8000);
    let last = open.write(2, 40_000);
    device.write(open.at(last.page + 7), &[0; 4 * PAGE_BYTES]);
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "torn_tails"), data(&verified, "torn_records")), (0, 1, 1));
    assert_eq!((data(&verified, "records"), data(&verified, "damaged_pages")), (2, 0));

    // Not even its header came whole.
    device.write(open.at(last.page) + 512, &[9; 512]);
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "torn_tails"), data(&verified, "records")), (0, 1, 1));
}

#[test]
fn in_an_open_segment_what_fails_before_a_whole_record_is_damage() {
    let device = TestDevice::new();
    let mut open = device.open(DATA, 1, 5);
    let entries = [1, 2, 3, 4].map(|index| open.write(index, 8000));
    device.flip(open.at(entries[1].page) + 100, 1);
    device.write(open.at(entries[2].page), &[0; 3 * PAGE_BYTES]);
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "torn_tails")), (1, 0));
    assert_eq!((data(&verified, "records"), data(&verified, "damaged_pages")), (2, 6));
    assert_eq!(finding(&verified, "page"), entries[1].page);
}

#[test]
fn what_a_former_life_or_layout_left_is_no_damage() {
    let device = TestDevice::new();
    sealed(&device, 1, 3);
    let mut open = device.open(DATA, 1, 7);
    open.write(50, 3000);
    let mut other = TestDevice::new();
    other.superblock.device.0[0] = 1;
    sealed(&other, 6, 3);
    device.write(device.at(DATA, 6, 0), &other.read(device.at(DATA, 6, 0), 1 << 20));
    device.write(device.at(DATA, 8, 0), &[0xe5; 1 << 20]);
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "torn_tails"), data(&verified, "used")), (0, 0, 1));
    let shown = inspect_json(&device, &["--segments", "--area", "2"]);
    let state = |segment: usize| shown["segments"][segment]["state"].clone();
    assert_eq!([1, 6, 7, 8].map(state), ["open", "stale", "blank", "stale"].map(Value::from));
}

#[test]
fn segments_and_records_that_lie_in_each_others_places_are_damage() {
    let device = TestDevice::new();
    let segment = sealed(&device, 0, 3);
    let (one, other) = (segment.entries[2], segment.entries[6]);
    device.swap(segment.at(one.page), segment.at(other.page), 4 * PAGE_BYTES);
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "damaged_records")), (1, 2));
    assert_eq!(finding(&verified, "wrong"), "header: its checksum does not hold");
    device.swap(segment.at(one.page), segment.at(other.page), 4 * PAGE_BYTES);

    let second = segment.entries[5].page + 2;
    device.swap(segment.at(second), segment.at(second + 1), PAGE_BYTES);
    let (_, verified) = verify(&device);
    assert_eq!((data(&verified, "damaged_records"), data(&verified, "damaged_pages")), (1, 2));
    device.swap(segment.at(second), segment.at(second + 1), PAGE_BYTES);
    assert_eq!(verify(&device).0, 0);

    sealed(&device, 5, 4);
    device.swap(device.at(DATA, 0, 0), device.at(DATA, 5, 0), 1 << 20);
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "damaged_segments")), (1, 2));
    assert_eq!(finding(&verified, "wrong"), "segment 5 of area 2 lies here");
}

#[test]
fn a_device_that_was_cut_off_cannot_be_read_whole() {
    let device = TestDevice::new();
    let segment = sealed(&device, 11, 3);
    let mut open = device.open(DATA, 10, 4);
    open.write(1, 300_000);
    // Within a page of data of the third record: the summary is gone too, so the segment is read through.
    device.file.set_len(segment.at(segment.entries[2].page + 2) + 100).expect("it is cut");
    let (code, verified) = verify(&device);
    assert_eq!((code, &verified["verdict"]), (2, &Value::from("unread")), "{verified}");
    assert!(data(&verified, "unread_pages") > 200);
    assert_eq!(data(&verified, "damaged_pages"), 0);
    assert_eq!(data(&verified, "records"), 1, "of segment 10");
}

#[test]
fn pages_that_cannot_be_read_cost_only_their_record() {
    let device = TestDevice::new();
    let mut segment = device.open(DATA, 11, 3);
    let entries = [0, 1, 2].map(|index| segment.write(index, 100_000));
    let length = device.superblock.device_bytes;
    // Found by its header, but cut off within its data: what comes before is read page by page.
    device.file.set_len(segment.at(entries[2].page + 20)).expect("it is cut");
    let found = super::device::CacheDevice::open(&device.path(), super::device::Sharing::Shared);
    let found = found.expect("it has a superblock");
    let mut reader = super::segment::SegmentReader::new(&found, device.place(DATA));
    device.file.set_len(length).expect("it is whole");
    let header = reader.scan(11).header.expect("it has one");
    device.file.set_len(segment.at(entries[2].page + 20)).expect("it is cut");
    let checked = entries.map(|entry| reader.check(header, &entry));
    assert!(checked[0].is_whole() && checked[1].is_whole());
    assert!(checked[2].header.is_ok());
    assert_eq!(checked[2].unread, (19..25).collect::<Vec<u32>>());
    assert_eq!(
        checked[2].wrong_text().as_deref(),
        Some("pages of data that cannot be read: 19–24")
    );
}

#[test]
fn a_device_in_use_is_inspected_and_not_verified() {
    let device = TestDevice::new();
    sealed(&device, 0, 3);
    device.file.try_lock().expect("nobody has it");
    let error = run(&device, &["cache", "verify"], &[]).expect_err("it is in use");
    assert!(error.contains("in use") && error.contains("stop the node"), "{error}");
    assert!(inspect(&device, &["--segments"]).contains("sealed"));
    device.file.unlock().expect("it was ours");
    assert_eq!(verify(&device).0, 0);
}

#[test]
fn a_copy_of_the_superblock_may_be_damaged_both_may_not() {
    let device = TestDevice::new();
    device.flip(Superblock::COPIES_AT[1] + 30, 2);
    let (code, verified) = verify(&device);
    assert_eq!((code, finding(&verified, "area")), (1, Value::Null));
    let text = inspect(&device, &[]);
    assert!(text.contains("copy at   0: good"), "{text}");
    assert!(text.contains("copy at   524288: its checksum does not hold"), "{text}");
    device.flip(40, 2);
    for command in [&["inspect"][..], &["cache", "verify"]] {
        let error = run(&device, command, &[]).expect_err("there is none");
        assert!(error.contains("has no superblock: its checksum does not hold"), "{error}");
    }
}

#[test]
fn more_findings_than_are_listed_are_counted() {
    let device = TestDevice::new();
    for number in 0..10 {
        let mut segment = device.open(DATA, number, 1 + u64::from(number));
        for index in 0..110 {
            let entry = segment.write(index, 10);
            device.flip(segment.at(entry.page + 1), 0);
        }
        segment.seal();
    }
    let (code, verified) = verify(&device);
    assert_eq!((code, data(&verified, "damaged_records")), (1, 1100));
    assert_eq!(verified["findings"].as_array().map(Vec::len), Some(1000));
    assert_eq!(verified["findings_unlisted"], 100);
}

#[test]
fn a_superblock_is_shown_with_its_areas() {
    let device = TestDevice::new();
    let text = inspect(&device, &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "device    07070707070707070707070707070707");
    assert_eq!(
        lines[lines.len() - 4..],
        [
            "AREA  KIND      SHARD   OFFSET  LENGTH  SEGMENTS",
            "   0  mappings      0  1048576  1 MiB          1",
            "   1  metadata      0  2097152  4 MiB          4",
            "   2  data          0  6291456  12 MiB        12",
        ]
    );
    let shown = inspect_json(&device, &[]);
    assert_eq!(shown["superblock"]["areas"][2]["kind"], "data");
    assert_eq!(shown["superblock"]["areas"][2]["length"], DATA_SEGMENTS << 20);
    assert_eq!(shown["superblock"]["segment_bytes"], SEGMENT_BYTES);
    assert_eq!(shown["superblock"]["block_bytes"], BLOCK_BYTES);
}

#[test]
fn segments_are_shown_with_what_is_still_live_in_them() {
    let device = TestDevice::new();
    let mut younger = device.open(DATA, 1, 9);
    younger.write(5, 3 * PAGE_BYTES - 100);
    younger.write(77, 1000);
    sealed(&device, 3, 4);
    let shown = inspect_json(&device, &["--area", "2"]);
    let segment = |number: usize| &shown["segments"][number];
    assert_eq!(segment(1)["live_bytes"], 3 * 4096 - 100 + 1000);
    assert_eq!((&segment(3)["generation"], &segment(3)["records"]), (&4.into(), &10.into()));
    assert_eq!(segment(3)["bytes"], 10 * (3 * 4096 - 100));
    assert_eq!(segment(3)["live_bytes"], 9 * (3 * 4096 - 100), "the younger has one of them");
    let text = inspect(&device, &["--segments"]);
    let starts: Vec<&str> = text.lines().filter(|line| line.contains("blank")).collect();
    assert_eq!(starts.len(), 4, "runs of blank segments take a line:\n{text}");
    assert!(text.contains("4–11"), "{text}");
}

#[test]
fn a_block_is_found_wherever_it_lies() {
    let device = TestDevice::new();
    sealed(&device, 0, 3);
    device.open(METADATA, 2, 3).write(7, 4000);
    let version = hex::encode(VERSION);
    let shown = inspect_json(&device, &["--block", &format!("{version}:7")]);
    let records = shown["records"].as_array().expect("they are listed");
    assert_eq!(records.len(), 2);
    assert_eq!((&records[0]["area"], &records[0]["segment"]), (&METADATA.into(), &2.into()));
    assert_eq!((&records[1]["area"], &records[1]["first_byte"]), (&DATA.into(), &4096.into()));
    assert_eq!(records[1]["identity"], "lake/orders/part-7.parquet\\n\\\"etag\\\"");
    let shown = inspect_json(&device, &["--block", &version, "--area", "2"]);
    assert_eq!(shown["records"].as_array().map(Vec::len), Some(10));
    assert_eq!(inspect(&device, &["--block", &"0".repeat(32)]), "no records");
}

#[test]
fn what_is_not_there_is_refused_with_what_there_is() {
    let device = TestDevice::new();
    let refused = |flags: &[&str], told: &str| {
        let error = run(&device, &["inspect"], flags).expect_err("it is not there");
        assert!(error.contains(told), "{error}");
    };
    refused(&["--area", "3"], "no area 3: it has 3, from 0");
    refused(&["--area", &MAPPINGS.to_string()], "is a log of mappings");
    refused(&["--area", "2", "--segment", "12"], "it has 12, from 0");
    refused(&["--area", "2", "--segment", "1"], "is blank: no records");
    refused(&["--segment", "1"], "--area");
    refused(&["--block", "12"], "32 hexadecimal digits");
    std::fs::remove_file(device.path()).expect("it was there");
    refused(&[], "there is no ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_flipped_bit_of_a_segments_records_goes_unseen(
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
        is_sealed: bool,
    ) {
        let device = TestDevice::new();
        let mut segment = sealed(&device, 0, 3);
        if !is_sealed {
            segment = device.open(DATA, 0, 4);
            segment.write_ten();
        }
        let bytes = segment.entries[9].pages_end() as usize * PAGE_BYTES;
        device.flip(segment.at(0) + at.index(bytes) as u64, bit);
        let (code, verified) = verify(&device);
        let seen = code == 1 || (!is_sealed && data(&verified, "torn_tails") == 1);
        // A record whose first bytes have flipped looks like what a former life left behind the last record.
        let is_lost_tail = !is_sealed && data(&verified, "records") == 9;
        prop_assert!(seen || is_lost_tail, "{verified}");
    }

    #[test]
    fn whatever_a_device_holds_is_told_or_refused_without_a_panic(
        noise in vec((any::<prop::sample::Index>(), vec(any::<u8>(), 1..9000)), 0..12),
        moved in vec(any::<[prop::sample::Index; 2]>(), 0..12),
        generation: u64,
        is_head_spoilt: bool,
        cut_at in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let device = TestDevice::new();
        sealed(&device, 0, 3);
        device.open(DATA, 1, generation).write_ten();
        let length = device.superblock.device_bytes as usize;
        let begins = if is_head_spoilt { 0 } else { device.at(MAPPINGS, 0, 0) as usize };
        let at = |index: &prop::sample::Index, bytes: usize| {
            (begins + index.index(length - begins - bytes)) as u64
        };
        for [from, to] in &moved {
            let page = |index| at(index, PAGE_BYTES) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
            device.write(page(to), &device.read(page(from), PAGE_BYTES));
        }
        for (index, bytes) in &noise {
            device.write(at(index, bytes.len()), bytes);
        }
        if let Some(index) = cut_at {
            device.file.set_len(index.index(length) as u64).expect("it can be cut off");
        }
        let block = hex::encode(VERSION);
        let asked: [&[&str]; 6] = [
            &[],
            &["--segments"],
            &["--area", "2", "--segment", "0"],
            &["--area", "2", "--segment", "1", "--json"],
            &["--area", "0"],
            &["--block", &block],
        ];
        for flags in asked {
            let _ = run(&device, &["inspect"], flags);
        }
        let _ = run(&device, &["cache", "verify"], &[]);
    }
}
