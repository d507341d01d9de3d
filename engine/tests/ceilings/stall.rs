//! Readers of large objects that never read: small reads go on at their usual pace, the
//! longest-stalled are closed when others wait, and who reads slowly but steadily is left alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nilas_base::Clock;
use nilas_engine::metrics::{Failure, Resource};
use nilas_shards::RingBody;

use crate::client::TestClient;
use crate::node::{BUCKET, TestNode};
use crate::time::{eventually, pause};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_hundred_stalled_readers_leave_small_reads_alone
    of_two_hundred_stalled_readers_the_longest_stalled_are_closed
    a_slow_but_steady_reader_is_not_closed_under_pressure
    without_pressure_a_stalled_reader_is_left_alone
}

const LARGE_BYTES: usize = 48 << 20;
const SMALL_BYTES: usize = 4 << 10;
const SMALL_OBJECTS: usize = 16;
/// Small reads of which a latency is told; as many as `NILAS_SMALL_READS` says, by hand, where a
/// percentile is to mean something.
fn small_reads() -> usize {
    let asked = std::env::var("NILAS_SMALL_READS").ok();
    asked.map_or(400, |count| count.parse().expect("NILAS_SMALL_READS is a number"))
}

/// A node whose data store holds one large object and some small ones, all warm.
struct Stage {
    node: TestNode,
    large: Vec<u8>,
    small: Vec<Vec<u8>>,
}

impl Stage {
    fn new(ring: RingBody, flags: &[&str]) -> Stage {
        let flags = [&["--cache.data_bytes", "80MiB", "--cache.mutable_ttl", "1h"], flags].concat();
        let node = TestNode::start(ring, &flags);
        let large = noise(1, LARGE_BYTES);
        let small: Vec<Vec<u8>> =
            (0..SMALL_OBJECTS).map(|number| noise(100 + number as u64, SMALL_BYTES)).collect();
        node.place("large", &large);
        for (number, bytes) in small.iter().enumerate() {
            node.place(&format!("small-{number}"), bytes);
        }
        let stage = Stage { node, large, small };
        for _ in 0..2 {
            assert!(stage.node.client().get(&large_target(), &[]).body == stage.large);
        }
        stage.read_small(SMALL_OBJECTS);
        stage
    }

    /// Reads small objects in turn; gives how long each took, in microseconds, ascending.
    fn read_small(&self, count: usize) -> Vec<u64> {
        let clock = Clock::system();
        let mut client = self.node.client();
        let mut latencies_us: Vec<u64> = (0..count)
            .map(|number| {
                let number = number % SMALL_OBJECTS;
                let begun = clock.now();
                let read = client.get(&format!("/{BUCKET}/small-{number}"), &[]);
                assert!(read.status == 200 && read.body == self.small[number]);
                clock.now().since(begun).as_micros() as u64
            })
            .collect();
        latencies_us.sort_unstable();
        latencies_us
    }

    /// Readers that ask for the object from different places on, and read nothing.
    fn stalled(&self, count: usize) -> Vec<TestClient> {
        let reader = |number: usize| {
            let mut client = self.node.client();
            let start = number * (LARGE_BYTES / 2 / count);
            let range = [("Range", &*format!("bytes={start}-"))];
            client.write(&client.signed_head("GET", &large_target(), &range, 0));
            client
        };
        (0..count).map(reader).collect()
    }

    fn used(&self, resource: Resource) -> u64 {
        self.node.node().metrics().total(|cells| cells.used[resource.index()].get())
    }

    fn failures(&self, failure: Failure) -> u64 {
        self.node.node().metrics().total(|cells| cells.failures[failure.index()].get())
    }

    fn ceilings_hold(&self) {
        for cells in self.node.node().metrics().shards() {
            for resource in Resource::ALL {
                let used = cells.used[resource.index()].get();
                let most = cells.ceilings[resource.index()].get();
                assert!(most == 0 || used <= most, "{}: {used} of {most}", resource.label());
            }
        }
    }

    /// Everything is given back when the clients have gone.
    fn comes_to_rest(&self) {
        eventually("all connections end", || self.node.open_connections() == 0);
        eventually("all leases return", || {
            self.used(Resource::LeasedBytes) == 0 && self.used(Resource::WaitingReads) == 0
        });
    }
}

fn large_target() -> String {
    format!("/{BUCKET}/large")
}

fn percentile(sorted_us: &[u64], percent: usize) -> u64 {
    sorted_us[(sorted_us.len() * percent / 100).min(sorted_us.len() - 1)]
}

fn tell(about: &str, before_us: &[u64], during_us: &[u64]) {
    let at = |percent| (percentile(before_us, percent), percentile(during_us, percent));
    let ((p50_before, p50), (p99_before, p99)) = (at(50), at(99));
    println!(
        "{about}: p50 {p50_before} us -> {p50} us, p99 {p99_before} us -> {p99} us ({:.2} x)",
        p99 as f64 / p99_before as f64
    );
}

fn a_hundred_stalled_readers_leave_small_reads_alone(ring: RingBody) {
    let stage = Stage::new(ring, &["--limits.send_stall_max", "1h"]);
    let before_us = stage.read_small(small_reads());
    let stalled = stage.stalled(100);
    eventually("large reads wait in line", || stage.used(Resource::WaitingReads) > 0);
    let during_us = stage.read_small(small_reads());
    tell(&format!("{ring}, a hundred stalled readers"), &before_us, &during_us);
    assert!(stage.used(Resource::WaitingReads) > 0, "they waited all the while");
    assert_eq!(stage.failures(Failure::Overloaded), 0);
    assert_eq!(stage.failures(Failure::ClientStalled), 0, "nobody was due yet");
    stage.ceilings_hold();
    drop(stalled);
    stage.comes_to_rest();
}

fn of_two_hundred_stalled_readers_the_longest_stalled_are_closed(ring: RingBody) {
    let stage = Stage::new(ring, &["--limits.send_stall_max", "400ms"]);
    let before_us = stage.read_small(small_reads());
    let stalled = stage.stalled(200);
    eventually("large reads wait in line", || stage.used(Resource::WaitingReads) > 0);
    let during_us = stage.read_small(small_reads());
    tell(&format!("{ring}, two hundred stalled readers"), &before_us, &during_us);
    // One more, who reads, gets its turn behind all of them.
    assert!(stage.node.client().get(&large_target(), &[]).body == stage.large);
    let closed = stage.failures(Failure::ClientStalled);
    println!("{ring}: {closed} of 200 were closed");
    assert!(closed > 0, "the longest-stalled were closed, and counted");
    assert_eq!(stage.failures(Failure::Overloaded), 0, "nobody was refused");
    stage.ceilings_hold();
    drop(stalled);
    stage.comes_to_rest();
}

fn a_slow_but_steady_reader_is_not_closed_under_pressure(ring: RingBody) {
    let stage = Stage::new(ring, &["--limits.send_stall_max", "1s"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let steady = scope.spawn(|| {
            let mut client = stage.node.client();
            client.write(&client.signed_head("GET", &large_target(), &[], 0));
            let mut read = Vec::new();
            // As slow as it reads, once the kernel's buffers are full; then the rest at once.
            while !is_over.load(Ordering::Relaxed) && read.len() < LARGE_BYTES / 2 {
                read.extend(client.read_some(256 << 10));
                pause(Duration::from_millis(50));
            }
            let head_end =
                read.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
            read.extend(client.read_some(head_end + LARGE_BYTES - read.len()));
            read
        });
        let stalled = stage.stalled(100);
        eventually("others wait", || stage.used(Resource::WaitingReads) > 0);
        eventually("those who stall are closed", || stage.failures(Failure::ClientStalled) > 5);
        is_over.store(true, Ordering::Relaxed);
        drop(stalled);
        assert!(steady.join().expect("it is not closed").ends_with(&stage.large));
    });
    stage.comes_to_rest();
}

fn without_pressure_a_stalled_reader_is_left_alone(ring: RingBody) {
    let stage = Stage::new(ring, &["--limits.send_stall_max", "50ms"]);
    let mut stalled = stage.stalled(1);
    pause(Duration::from_millis(600));
    assert_eq!(stage.failures(Failure::ClientStalled), 0);
    let reader = stalled.first_mut().expect("there is one");
    assert!(reader.answer(false).body == stage.large, "it can still read everything");
    drop(stalled);
    stage.comes_to_rest();
}
