//! One seed, one trace: faults, crashes and all; and a disk moves nothing on the network.

use crate::scene::{DISK_BYTES, Scene};
use nilas_base::Rng;
use nilas_shards::{Buffer, DiskCondition, DiskEvents, SimulatedWorld, TraceEvent};
use std::net::SocketAddr;
use std::time::Duration;

fn stormy() -> DiskCondition {
    DiskCondition {
        stall_one_in: Some(50),
        read_error_one_in: Some(20),
        write_error_one_in: Some(20),
        sync_error_one_in: Some(5),
        no_space_one_in: Some(20),
        flip_one_in: Some(10),
        rot_one_in: Some(20),
        misdirected_read_one_in: Some(20),
        misdirected_write_one_in: Some(20),
        short_read_one_in: Some(10),
        short_write_one_in: Some(10),
        ..Default::default()
    }
}

/// Eight tasks that read, write and sync at random places, and a crash now and then.
fn play(seed: u64) -> (Vec<TraceEvent>, Vec<u8>, DiskEvents) {
    let scene = Scene::new(seed);
    scene.world.keep_trace();
    scene.world.set_disk(&scene.file, stormy());
    for number in 0..8 {
        let (reactor, file) = (scene.reactor.clone(), scene.file.clone());
        let mut rng = Rng::from_seed(number);
        scene.reactor.spawn(async move {
            for _ in 0..100 {
                let offset = rng.below(DISK_BYTES / 512) * 512;
                let bytes = (1 + rng.below(32) as usize) * 512;
                // How each ends is in the trace.
                match rng.below(4) {
                    0 | 1 => {
                        let buffer = Buffer::from_vec(vec![number as u8; bytes]);
                        let _ = reactor.write_at(&file, buffer, offset).await;
                    }
                    2 => {
                        let buffer = Buffer::with_capacity(bytes);
                        let _ = reactor.read_at(&file, buffer, offset).await;
                    }
                    _ => {
                        let patience = Duration::from_micros(rng.below(1000));
                        let _ = reactor.timeout(patience, reactor.sync(&file)).await;
                    }
                }
            }
        });
    }
    while scene.reactor.task_count() > 0 {
        scene.world.run_for(Duration::from_millis(2));
        scene.crash();
    }
    (scene.world.trace(), scene.bytes(), scene.events())
}

#[test]
fn one_seed_gives_one_trace_and_the_same_bytes() {
    let mut all_bytes = Vec::new();
    for seed in 0..10 {
        let (events, bytes, counts) = play(seed);
        let (events_again, bytes_again, counts_again) = play(seed);
        let differs = events.iter().zip(&events_again).position(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((events.len(), &bytes), (events_again.len(), &bytes_again), "seed {seed}");
        assert_eq!(counts, counts_again, "seed {seed}");
        assert!(events.len() > 1000, "much happens: {}", events.len());
        all_bytes.push(bytes);
    }
    all_bytes.sort_unstable();
    all_bytes.dedup();
    assert_eq!(all_bytes.len(), 10, "other seeds give other disks");
}

#[test]
fn every_fault_strikes_in_a_storm() {
    let counts = play(1).2;
    let nothing_misaligned = DiskEvents { misaligned: 1, ..counts };
    let shown = format!("{nothing_misaligned:?}");
    assert!(!shown.contains(": 0"), "{shown}");
}

/// When each piece of many bytes arrives, with work on a disk meanwhile or without.
fn arrivals(with_disk: bool) -> Vec<TraceEvent> {
    let world = SimulatedWorld::new(5);
    world.keep_trace();
    let reactor = world.reactor();
    if with_disk {
        let file = world.create_file(DISK_BYTES);
        world.set_disk(&file, stormy());
        let worker = reactor.clone();
        reactor.spawn(async move {
            loop {
                let _ = worker.write_at(&file, Buffer::from_vec(vec![1; 4096]), 0).await;
                let _ = worker.sync(&file).await;
            }
        });
    }
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut listener = reactor.listen(address).expect("it is free");
    world.block_on(async {
        let client = reactor.connect(address).await.expect("it listens");
        let server = listener.accept().await.expect("the client is there");
        for _ in 0..50 {
            let mut parts = reactor.parts();
            parts.push_bytes(bytes::Bytes::from_static(&[7; 3000]));
            client.send(parts).await.expect("it is open");
            let mut count = 0;
            while count < 3000 {
                count += server.receive_head().await.expect("it is on its way").len();
            }
        }
    });
    world.trace().into_iter().filter(|event| event.what == "bytes").collect()
}

#[test]
fn a_disk_moves_nothing_on_the_network() {
    let arrivals_alone = arrivals(false);
    assert!(arrivals_alone.len() >= 50);
    assert_eq!(arrivals(true), arrivals_alone);
}
