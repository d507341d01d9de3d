//! Claims about the simulated world: one seed, one trace.

use crate::stage::{listener, receive, send};
use nilas_base::{Rng, ShardId};
use nilas_shards::{Exchange, SimulatedWorld, TraceEvent};
use std::time::Duration;

/// Two shards that serve and ask each other, and eight clients on a third reactor.
fn play(seed: u64) -> (u64, Vec<TraceEvent>) {
    let world = SimulatedWorld::new(seed);
    world.keep_trace();
    let first = world.reactor();
    let shared = listener(&first);
    let address = shared.local_address().expect("it listens");
    let second = world.reactor();
    let listeners = [shared, second.listen(address).expect("the address is shared")];
    let shards = [first, second].into_iter().zip(listeners).zip(Exchange::<u64>::mesh(2));
    for ((reactor, mut listener), seat) in shards {
        let exchange = seat.sit(&reactor);
        exchange.serve(|mut delivered| {
            *delivered += 1;
            delivered.reply();
        });
        let spawner = reactor.clone();
        reactor.spawn(async move {
            loop {
                let socket = listener.accept().await.expect("clients connect");
                let exchange = exchange.clone();
                spawner.spawn(async move {
                    while let Ok(received) = socket.receive_head().await
                        && !received.is_empty()
                    {
                        let to = ShardId(u16::from(received[0] % 2));
                        let answer = exchange.call(to, Box::new(received.len() as u64)).await;
                        // A client may be gone before it has read the answer to its last piece.
                        if send(&socket, &answer.to_le_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }
    let clients = world.reactor();
    world.block_on(async {
        for number in 0..8_u64 {
            let mut rng = Rng::from_seed(number);
            let client = clients.connect(address).await.expect("two listen");
            for _ in 0..20 {
                let question = vec![number as u8; 1 + rng.below(5000) as usize];
                send(&client, &question).await.expect("it is open");
                receive(&client, 8).await;
                clients.sleep(Duration::from_micros(rng.below(1000))).await;
            }
        }
    });
    world.note("played", 8);
    (world.trace_hash(), world.trace())
}

#[test]
fn simulated_one_seed_gives_one_trace() {
    let mut hashes = Vec::new();
    for seed in 0..10 {
        let (hash, events) = play(seed);
        let (hash_again, events_again) = play(seed);
        let differs = events.iter().zip(&events_again).position(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((hash, events.len()), (hash_again, events_again.len()), "seed {seed}");
        assert!(events.len() > 500, "much happens: {}", events.len());
        hashes.push(hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 10, "other seeds give other traces");
}

#[test]
fn simulated_time_passes_only_when_nothing_else_is_left() {
    let world = SimulatedWorld::new(3);
    let reactor = world.reactor();
    let begin = world.clock().now();
    world.block_on(async { reactor.sleep(Duration::from_secs(86_400)).await });
    assert_eq!(world.clock().now().since(begin), Duration::from_secs(86_400));
    assert!(!world.step(), "nothing is left to happen");
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.clock().now().since(begin), Duration::from_secs(86_401));
}
