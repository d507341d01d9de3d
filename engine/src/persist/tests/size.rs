//! What mappings take of memory and of the device, by hand, at the number that a large lake has; and what
//! a start on them takes, which is never more than the budget.

use std::sync::Arc;

use nilas_shards::Wait;

use super::bench::{BUCKET, Bench, Disk, Start, persist};
use crate::freshness::Voucher;
use crate::identity::NameRef;
use crate::mapping::{Mapping, StoreClass};
use crate::open;

/// Mappings between two looks at what waits to be written.
const STEP: usize = 512;
/// What the process takes beside the mappings, which does not grow with them: its code, its shards' small
/// stores, and the pieces of the journal that are read at once.
const BESIDE_BYTES: u64 = 160 << 20;
/// Memory for the mappings of both shards.
const BUDGET_BYTES: u64 = 12 << 30;
const FLAGS: &[&str] = &["--cache.mapping_bytes", "12GiB"];

fn count() -> usize {
    let told = std::env::var("NILAS_MAPPINGS").ok();
    told.and_then(|text| text.parse().ok()).unwrap_or(10_000_000)
}

/// A hundred bytes, as writers of Iceberg tables name what never changes.
fn long_key(number: usize) -> String {
    format!(
        "warehouse/sales.db/orders_by_day_{:03}/metadata/{:08x}-7d1c-4b0e-9a52-{number:012x}-optimized-m{}.avro",
        number % 128,
        number.wrapping_mul(0x9e37_79b9) & 0xffff_ffff,
        number % 10,
    )
}

/// What S3 tells of such an object.
fn long_mapping(bench: &Bench, number: usize) -> Arc<Mapping> {
    let key = long_key(number);
    let name = NameRef { bucket: BUCKET, key: &key };
    let geometry = &bench.shards[0].geometry;
    let home_hash = geometry.home_hash(name);
    let home = &bench.shards[geometry.home(home_hash).index()];
    let moment = home.moment(name, home_hash);
    let etag = format!("\"{number:032x}\"");
    let last_modified = "Thu, 01 Jan 2015 00:00:00 GMT";
    let headers = format!(
        "Last-Modified: {last_modified}\r\nETag: {etag}\r\nAccept-Ranges: bytes\r\n\
         Content-Type: application/octet-stream\r\nx-amz-server-side-encryption: AES256\r\n"
    );
    let mapping = Arc::new(Mapping {
        name: name.to_name(),
        home_hash,
        version: geometry.version(name, &etag, number as u64, moment.era()),
        etag: etag.into(),
        length: number as u64,
        last_modified: Some(last_modified.into()),
        headers: headers.into_bytes().into(),
        checksums: Some(Box::default()),
        era: moment.era(),
        class: StoreClass::Metadata,
        tail_start: 0,
    });
    open::install(home, &mapping, home_hash, moment).expect("nothing has happened since");
    mapping
}

/// A line of this process's status, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").trim().parse::<u64>().expect("KiB")
        << 10
}

fn recover(bench: &Bench) {
    let has_ended = |bench: &Bench| {
        bench.shards.iter().all(|shard| {
            let persist = persist(shard);
            persist.recovered.get().is_some() && persist.outline.borrow().is_none()
        })
    };
    while !has_ended(bench) {
        bench.shards.iter().for_each(|shard| {
            shard.reactor.turn(Wait::No);
        });
    }
}

fn held(bench: &Bench) -> (usize, u64) {
    let tables = bench.shards.iter().map(|shard| shard.mappings.borrow());
    tables
        .map(|table| (table.len(), table.held_bytes()))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
#[ignore = "takes gigabytes of memory and of the disk, and minutes: by hand"]
fn millions_of_mappings_take_what_their_budget_says_also_while_they_are_found_again() {
    let count = count();
    // Of the live log no checkpoint is due before half of the area counts.
    let area_mib = (count as u64 * 1000 / 2).div_ceil(1 << 20).max(64);
    let disk = Disk::new(area_mib);
    let start = Start { flags: FLAGS, ..Start::default() };
    let bench = start.on(&disk);
    recover(&bench);
    let before = status_bytes("VmRSS");
    for number in 0..count {
        if number % STEP == 0 {
            for shard in 0..bench.shards.len() {
                let journal = bench.journal(shard).clone();
                bench.run(async move { journal.room(STEP * 1024).await.expect("it is writable") });
            }
        }
        let mapping = long_mapping(&bench, number);
        assert_eq!(
            bench.shards[0].judge.borrow().voucher(mapping.name.as_ref().as_ref()),
            Voucher::Rule
        );
    }
    let resident = status_bytes("VmRSS") - before;
    let (mappings, weight) = held(&bench);
    assert_eq!(mappings, count, "the budget is enough");
    for shard in 0..bench.shards.len() {
        let journal = bench.journal(shard).clone();
        bench.run(async move { journal.flush().await });
    }
    let device: u64 = (0..bench.shards.len()).map(|shard| bench.usage(shard).log_bytes).sum();
    let each = |bytes: u64| bytes / count as u64;
    println!(
        "{count} mappings: {} bytes each in memory, {} by their budget, {} on the device; keys of {} bytes",
        each(resident),
        each(weight),
        each(device),
        long_key(0).len(),
    );
    assert!(resident <= weight + BESIDE_BYTES, "{resident} bytes, {weight} by the budget");
    drop(bench);
    // What the allocator keeps of the first life is used by the second.
    let kept = status_bytes("VmRSS");
    std::fs::write("/proc/self/clear_refs", "5").expect("the mark can be set back");
    let clock = nilas_base::Clock::system();
    let began = clock.now();
    let bench = start.on(&disk);
    recover(&bench);
    let seconds = clock.now().since(began).as_secs_f64();
    let (mappings, weight) = held(&bench);
    let peak = status_bytes("VmHWM");
    println!(
        "found again: {mappings} in {seconds:.1} s; at most {} MiB of memory meanwhile, {} MiB of them kept from \
         before, {} MiB of mappings by their budget",
        peak >> 20,
        kept >> 20,
        weight >> 20,
    );
    assert_eq!(mappings, count, "all are found again");
    assert!(peak <= BUDGET_BYTES + BESIDE_BYTES, "{peak}");
    assert!(peak <= kept.max(weight + weight / 8) + BESIDE_BYTES, "{peak}");
}
