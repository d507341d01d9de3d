//! A whole node of two shards on the simulated body: one thread, one seed, one trace. Its clients,
//! its network and its origin are simulated; its stories and its store are the ones that ship.

mod client;
mod origin;

use std::rc::Rc;

use bytes::Bytes;
use nilas_base::{Rng, ShardId};
use nilas_engine::config::{ClientCredential, Inputs, Order, load};
use nilas_engine::metrics::Metrics;
use nilas_engine::node::assembly::{Plan, ShardParts};
use nilas_engine::origin::{ORIGIN_QUEUE_MAX, OriginPort};
use nilas_shards::ring::simulated::SimulatedWorld;
use nilas_shards::{Exchange, RingBody};

use client::SimulatedClient;
use origin::SimulatedOrigin;

const ACCESS_KEY: &str = "AKSIMULATED";
const SECRET_KEY: &str = "simulated-secret";
const ADDRESS: &str = "127.0.0.1:9000";
const SHARDS: u16 = 2;

/// What one run came to.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    trace_hash: u64,
    asked: Vec<String>,
    answered_bytes: u64,
}

#[test]
fn one_seed_gives_one_trace_twice_and_another_seed_another() {
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first.trace_hash, run(2).trace_hash);
    assert!(first.answered_bytes > 0);
}

#[test]
fn ranges_overwrites_and_deletes_are_right_under_many_seeds() {
    for seed in 100..130 {
        run(seed);
    }
}

fn run(seed: u64) -> Run {
    let world = SimulatedWorld::new(seed);
    let (origin, plan) = origin_and_plan(&world, seed);
    let (_metrics, counters) = Metrics::new(usize::from(SHARDS));
    let seats = Exchange::mesh(usize::from(SHARDS));
    let mut shards = Vec::new();
    for (number, (seat, counters)) in seats.into_iter().zip(counters).enumerate() {
        let reactor = world.reactor();
        assert_eq!(reactor.ring_body(), RingBody::Simulated);
        let listener = reactor.listen(ADDRESS.parse().expect("an address")).expect("a listener");
        let parts = ShardParts { id: ShardId(number as u16), seat, counters, disk: None, reactor };
        shards.push(plan.assemble(parts, listener).expect("a shard"));
    }
    let client = world.reactor();
    let answered_bytes = world.block_on(scenario(client.clone(), Rc::clone(&origin), seed));
    for shard in &shards {
        shard.reactor.close();
    }
    client.close();
    Run { trace_hash: world.trace_hash(), asked: origin.asked.take(), answered_bytes }
}

fn origin_and_plan(world: &SimulatedWorld, seed: u64) -> (Rc<SimulatedOrigin>, Plan) {
    let reactor = world.reactor();
    let origin = SimulatedOrigin::new(&reactor, seed);
    let (port, queue) = OriginPort::pair(ORIGIN_QUEUE_MAX);
    reactor.spawn(Rc::clone(&origin).serve(queue));
    let flags = ["--shards", "2", "--cache.data_bytes", "16MiB", "--cache.metadata_bytes", "16MiB"];
    let arguments = flags.map(str::to_owned).to_vec();
    let inputs = Inputs { arguments, variables: Vec::new(), cores: 2 };
    let order = load(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
    let Order::Run { mut config, .. } = order else { panic!("the flags say to run") };
    config.credentials = vec![ClientCredential::new(ACCESS_KEY, SECRET_KEY)];
    (origin, Plan::new(&config, [7; 16], world.clock(), port))
}

/// Reads whole objects and ranges, overwrites and deletes, on two connections in turn; every answer
/// is checked against what was written last.
async fn scenario(reactor: nilas_shards::Reactor, origin: Rc<SimulatedOrigin>, seed: u64) -> u64 {
    let mut rng = Rng::from_seed(seed);
    let mut clients = [connect(&reactor).await, connect(&reactor).await];
    let mut objects: Vec<Bytes> = Vec::new();
    for number in 0..4 {
        let length = [100, 70_000, (2 << 20) + 5, 5 << 20][number];
        objects.push(noise(&mut rng, length));
        origin.write(&path(number), objects[number].clone());
    }
    let mut answered_bytes = 0;
    for _ in 0..25 {
        let client = &mut clients[rng.below(2) as usize];
        let number = rng.below(4) as usize;
        if rng.chance(1, 6) {
            let length = 1 + rng.below(300_000) as usize;
            objects[number] = noise(&mut rng, length);
            let put = client.request("PUT", &path(number), &[], &objects[number]).await;
            assert_eq!(put.status, 200, "seed {seed}");
        } else {
            answered_bytes += read(client, number, &objects[number], &mut rng).await;
        }
    }
    answered_bytes
}

async fn read(client: &mut SimulatedClient, number: usize, bytes: &Bytes, rng: &mut Rng) -> u64 {
    let start = rng.below(bytes.len() as u64) as usize;
    let end = start + 1 + rng.below((bytes.len() - start) as u64) as usize;
    let range = format!("bytes={start}-{}", end - 1);
    let (headers, expected): (&[(&str, &str)], Bytes) = match rng.chance(1, 3) {
        true => (&[], bytes.clone()),
        false => (&[("Range", &range)], bytes.slice(start..end)),
    };
    let answer = client.request("GET", &path(number), headers, b"").await;
    assert!(matches!(answer.status, 200 | 206), "{} for {number}", answer.status);
    assert!(answer.body == expected, "object {number}, {range}");
    expected.len() as u64
}

async fn connect(reactor: &nilas_shards::Reactor) -> SimulatedClient {
    let address = ADDRESS.parse().expect("an address");
    SimulatedClient::connect(reactor, address, (ACCESS_KEY, SECRET_KEY)).await
}

fn path(number: usize) -> String {
    format!("/lake/object-{number}")
}

fn noise(rng: &mut Rng, length: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    Bytes::from(bytes)
}
