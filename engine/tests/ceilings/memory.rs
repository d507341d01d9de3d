//! The whole process under everything at once: readers fast and slow, uploads, malformed clients.
//! Its resident memory stays under the budget and the documented overhead.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nilas_base::{Clock, MIB, Rng};

use crate::child::ChildNode;
use crate::client::TestClient;
use crate::node::BUCKET;
use crate::noise;
use crate::time::{eventually, pause};
use crate::wording::Wording;

/// 256 MiB in all: data, metadata, mappings, and bytes on their way.
const BUDGET: [&str; 4] = [
    "--cache.data_bytes=160MiB",
    "--cache.metadata_bytes=32MiB",
    "--cache.mapping_bytes=16MiB",
    "--limits.buffer_bytes=48MiB",
];
/// A device that the objects do not fit on.
const DEVICE: [&str; 3] =
    ["--disk.data_bytes=128MiB", "--disk.metadata_bytes=64MiB", "--disk.mapping_bytes=32MiB"];
const DEVICE_BYTES: u64 = 224 * MIB;
const BUDGET_BYTES: u64 = 256 * MIB;
/// What `docs/OPERATIONS.md` promises beside the budgets.
const OVERHEAD_BYTES_MAX: u64 = 64 * MIB;

const OBJECTS: u64 = 8;
const OBJECT_BYTES: u64 = 64 * MIB;
/// Files that engines plan with: they have a store of their own, which is filled too.
const METADATA_FILES: u64 = 48;
const METADATA_FILE_BYTES: u64 = MIB;
const UPLOAD_BYTES: usize = 6 << 20;

/// How long that may take.
const TIME_MAX: Duration = Duration::from_secs(300);

const READERS: usize = 24;
const SLOW_READERS: usize = 40;
const UPLOADERS: usize = 40;
const MALFORMED: usize = 24;

#[test]
fn a_process_stays_within_its_budget_under_everything_at_once() {
    stays_within_its_budget("io_uring", 768 * MIB);
}

#[test]
fn a_process_with_a_full_device_stays_within_its_budget_too() {
    let folder = tempfile::tempdir().expect("a directory for the device");
    let path = format!("--disk.path={}", folder.path().display());
    let flags = [&DEVICE[..], &[&path]].concat();
    let node = within_its_budget(("io_uring", &flags), 768 * MIB);
    assert!(node.metric("nilas_disk_written_bytes_total", "") > 256e6, "it was used");
    assert!(node.metric("nilas_disk_segments_reclaimed_total", "") > 0.0, "and was full");
    assert!(node.metric("nilas_disk_hits_total", "") > 0.0, "and read");
    let bytes = folder.path().join("nilas.cache").metadata().expect("the device").len();
    assert!(bytes <= DEVICE_BYTES, "{bytes}");
}

#[test]
#[ignore = "reads 4 GiB on each body: a minute or two"]
fn a_process_stays_within_its_budget_for_as_long_as_it_takes() {
    stays_within_its_budget("io_uring", 4096 * MIB);
    stays_within_its_budget("epoll", 4096 * MIB);
}

/// An upload that is short enough to be kept aside.
const KEPT_BYTES: usize = 1 << 20;

/// What goes on at the same time, and how far it has come.
struct Load<'a> {
    node: &'a ChildNode,
    wanted_bytes: u64,
    read_bytes: AtomicU64,
    uploads: AtomicU64,
    refused: AtomicU64,
    is_over: AtomicBool,
}

fn stays_within_its_budget(ring: &str, wanted_bytes: u64) {
    drop(within_its_budget((ring, &[]), wanted_bytes));
}

/// Gives the node as it is when all has come to rest.
fn within_its_budget((ring, flags): (&str, &[&str]), wanted_bytes: u64) -> ChildNode {
    let ring_flag = format!("--ring={ring}");
    let own = [&*ring_flag, "--cache.mutable_ttl=1h", "--cache.write_allocate=all"];
    let own = [&own[..], flags].concat();
    let node = ChildNode::start(&[&BUDGET[..], &own].concat());
    let body = noise(7, OBJECT_BYTES as usize);
    (0..OBJECTS).for_each(|number| node.place(&format!("object-{number}"), &body));
    for number in 0..METADATA_FILES {
        node.place(&metadata_key(number), &body[..METADATA_FILE_BYTES as usize]);
    }
    let at_start_bytes = node.resident_bytes();
    let load = Load {
        node: &node,
        wanted_bytes,
        read_bytes: AtomicU64::new(0),
        uploads: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let (load_of, body_of) = (&load, &body[..]);
    let peak_bytes = std::thread::scope(|scope| {
        for seed in 0..READERS {
            scope.spawn(move || load_of.read(seed, body_of));
        }
        for seed in 0..SLOW_READERS {
            scope.spawn(move || load_of.read_slowly(seed));
        }
        for seed in 0..UPLOADERS {
            scope.spawn(move || load_of.upload(seed, &body_of[..UPLOAD_BYTES]));
        }
        for seed in 0..MALFORMED {
            scope.spawn(move || load_of.send_nonsense(seed));
        }
        let mut peak_bytes = at_start_bytes;
        let clock = Clock::system();
        let end = clock.now().after(TIME_MAX);
        while load.read_bytes.load(Ordering::Relaxed) < wanted_bytes && clock.now() < end {
            peak_bytes = peak_bytes.max(node.resident_bytes());
            pause(Duration::from_millis(10));
        }
        load.is_over.store(true, Ordering::Relaxed);
        peak_bytes
    });
    println!(
        "{ring}: {} MiB at the start, {} MiB at most, of {} + {}; {} MiB read, {} uploads, {} refused",
        at_start_bytes / MIB,
        peak_bytes / MIB,
        BUDGET_BYTES / MIB,
        OVERHEAD_BYTES_MAX / MIB,
        load.read_bytes.load(Ordering::Relaxed) / MIB,
        load.uploads.load(Ordering::Relaxed),
        load.refused.load(Ordering::Relaxed),
    );
    assert!(load.uploads.load(Ordering::Relaxed) > 0, "uploads got on too");
    assert!(peak_bytes <= BUDGET_BYTES + OVERHEAD_BYTES_MAX, "{} MiB", peak_bytes / MIB);
    comes_to_rest(&node);
    stays_below_every_ceiling(&node);
    node
}

/// What is used of each resource, over all shards.
fn stays_below_every_ceiling(node: &ChildNode) {
    let page = node.metrics_page();
    let mut told = 0;
    for (line, value) in page.lines().filter_map(|line| line.rsplit_once(' ')) {
        let Some(series) = line.strip_prefix("nilas_ceiling_bytes") else { continue };
        let used = page.lines().filter_map(|line| line.strip_prefix("nilas_used_bytes"));
        let used: Vec<&str> = used.filter_map(|line| line.strip_prefix(series)).collect();
        let number = |text: &str| text.trim().parse::<f64>().expect("a number");
        assert_eq!(used.len(), 1, "{series}");
        assert!(number(used[0]) <= number(value), "{series}: {} of {value}", used[0]);
        told += 1;
    }
    assert!(told > 10, "{told} ceilings: nothing would be checked");
}

fn metadata_key(number: u64) -> String {
    format!("metadata/{number}.avro")
}

fn comes_to_rest(node: &ChildNode) {
    for resource in ["connections", "leased", "waiting_reads", "buffer", "flights"] {
        eventually(&format!("{resource} come to rest"), || {
            let label = format!("resource=\"{resource}\"");
            node.metric("nilas_used", &label) == 0.0
        });
    }
}

impl Load<'_> {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn endpoint(&self) -> SocketAddr {
        self.node.endpoint
    }

    /// Whole objects and ranges, as fast as they come; each byte is looked at.
    fn read(&self, seed: usize, body: &[u8]) {
        let mut rng = Rng::from_seed(seed as u64);
        let mut client = TestClient::connect(self.endpoint());
        while self.goes_on() && self.read_bytes.load(Ordering::Relaxed) < self.wanted_bytes {
            let (key, bytes) = match rng.chance(1, 4) {
                true => (metadata_key(rng.below(METADATA_FILES)), METADATA_FILE_BYTES),
                false => (format!("object-{}", rng.below(OBJECTS)), OBJECT_BYTES),
            };
            let start = rng.below(bytes);
            let length = if rng.chance(1, 2) { 8 * MIB } else { 64 << 10 };
            let end = (start + 1 + rng.below(length)).min(bytes);
            let range = [("Range", &*format!("bytes={start}-{}", end - 1))];
            let read = client.get(&format!("/{BUCKET}/{key}"), &range);
            assert_eq!(read.status, 206, "{}", read.text());
            assert!(read.body == body[start as usize..end as usize], "{key} {range:?}");
            self.read_bytes.fetch_add(read.body.len() as u64, Ordering::Relaxed);
        }
    }

    /// Asks for much and takes little; leaves in the middle, and comes again.
    fn read_slowly(&self, seed: usize) {
        let mut rng = Rng::from_seed(1000 + seed as u64);
        while self.goes_on() {
            let mut stream = TcpStream::connect(self.endpoint()).expect("the node listens");
            stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a time-out");
            let target = format!("/{BUCKET}/object-{}", rng.below(OBJECTS));
            // Some ask for what only the origin can answer.
            let relayed = [("Range", "bytes=0-1,5-6")];
            let headers = if rng.chance(1, 4) { &relayed[..] } else { &[] };
            let host = self.endpoint().to_string();
            let head = Wording::new("GET", &target, &host).headers(headers).head();
            stream.write_all(&head).expect("the node reads");
            for _ in 0..rng.below(20) {
                // The node may have closed it, or may let it wait.
                if !self.goes_on() || matches!(stream.read(&mut [0; 1024]), Ok(0)) {
                    break;
                }
                pause(Duration::from_millis(100));
            }
        }
    }

    fn upload(&self, seed: usize, body: &[u8]) {
        let mut client = TestClient::connect(self.endpoint());
        let bodies = [body, &body[..KEPT_BYTES]];
        for body in bodies.into_iter().cycle().take_while(|_| self.goes_on()) {
            let put = client.request("PUT", &format!("/{BUCKET}/upload-{seed}"), &[], body);
            match put.status {
                200 => self.uploads.fetch_add(1, Ordering::Relaxed),
                503 => {
                    client = TestClient::connect(self.endpoint());
                    self.refused.fetch_add(1, Ordering::Relaxed)
                }
                other => panic!("{other}: {}", put.text()),
            };
        }
    }

    /// Heads without end, half bodies, binary, silence.
    fn send_nonsense(&self, seed: usize) {
        let mut rng = Rng::from_seed(2000 + seed as u64);
        while self.goes_on() {
            let Ok(mut stream) = TcpStream::connect(self.endpoint()) else { continue };
            let head = match rng.below(4) {
                0 => b"GET / HTTP/1.1\r\nHost: h\r\nX: ".to_vec(),
                1 => noise(rng.next_u64(), 3000),
                2 => {
                    b"PUT /lake/x HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n".to_vec()
                }
                _ => Vec::new(),
            };
            let filler = vec![b'a'; 16 << 10];
            // The node may have closed long before.
            let _ = stream.write_all(&head).and_then(|()| stream.write_all(&filler));
            pause(Duration::from_millis(rng.below(50)));
            let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
            let _ = stream.read(&mut [0; 512]);
        }
    }
}
