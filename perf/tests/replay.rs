//! The replayer beside a whole node in the simulator: of the same reads both miss the same, request by request, with
//! every policy.

use std::time::Duration;

use nilas_base::{ByteRange, HashSet, KIB, MIB, Rng, ShardId};
use nilas_perf::replay::memory::{MemoryShape, Tally};
use nilas_perf::replay::player::{Naming, Player};
use nilas_perf::replay::trace::Request;
use nilas_shards::NetworkCondition;
use nilas_shards::eviction::EvictionKind;
use nilas_shards::store::Usage;
use nilas_sim::client::{Connection, Pace};
use nilas_sim::judge::Leniency;
use nilas_sim::key::{BUCKET, Key, Nature};
use nilas_sim::node::{NodeShape, ORIGIN_ID};
use nilas_sim::stage::{Stage, small_shape, steady};
use nilas_sim::watch::When;
use nilas_sim::weather::{SmallBudget, SmallGeometry};

/// Longer than a reader is followed who finds everything.
const APART: Duration = Duration::from_secs(1);
/// A send of a sector, even, takes its time.
const NARROW: NetworkCondition = NetworkCondition {
    delay_us_max: 60,
    slow_one_in: 1 << 40,
    slow_delay_us_max: 61,
    pieces_max: 1,
    window_bytes: 2 << 10,
    reset_one_in: None,
};

/// What is played, and on which node.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    shards: u16,
    block_bytes: u64,
    sector_bytes: u64,
    /// Memory of a shard, in blocks.
    blocks: u64,
    /// The longest read.
    read_bytes_max: u64,
    reads: usize,
    policy: EvictionKind,
}

impl Case {
    fn shape(&self) -> MemoryShape {
        let budget_bytes = self.blocks * self.block_bytes * u64::from(self.shards);
        MemoryShape {
            shards: self.shards,
            reads_ahead: true,
            ..MemoryShape::of_one_shard(budget_bytes, self.block_bytes, self.sector_bytes)
        }
    }

    fn node(&self) -> NodeShape {
        NodeShape {
            shards: self.shards,
            geometry: SmallGeometry {
                block_bytes: self.block_bytes,
                data_sector_bytes: self.sector_bytes,
                metadata_sector_bytes: 4 * KIB,
            },
            budget: SmallBudget {
                data_bytes: self.blocks * self.block_bytes,
                metadata_bytes: 2 * self.block_bytes,
                mapping_bytes: MIB,
            },
            mutable_ttl: Duration::from_secs(1 << 20),
            eviction: self.policy,
            seed: self.seed,
            ..small_shape()
        }
    }

    /// Objects, and reads of them: here and there, some objects more than others, some from where another read of the
    /// object has ended. With several shards none of the last kind, and none of two blocks of one shard: who comes first
    /// there, of shards that work at the same time, is by chance.
    fn draw(&self) -> (Vec<u64>, Vec<Request>) {
        let mut rng = Rng::from_seed(self.seed);
        let read_bytes_max = match self.shards {
            1 => self.read_bytes_max,
            shards => self.read_bytes_max.min(u64::from(shards - 1) * self.block_bytes),
        };
        let lengths: Vec<u64> = (0..12).map(|_| 1 + rng.below(6 * self.block_bytes)).collect();
        let (mut requests, mut ends) = (Vec::new(), HashSet::default());
        let mut last: Option<Request> = None;
        while requests.len() < self.reads {
            let object = rng.below(lengths.len() as u64).min(rng.below(lengths.len() as u64));
            let length = lengths[object as usize];
            let most = [4 * KIB, self.sector_bytes * 3, read_bytes_max][rng.below(3) as usize];
            let mut bytes = 1 + rng.below(most.min(read_bytes_max));
            let mut start = rng.below(length);
            // Who ends within a sector finds there what he reads next, and is not followed.
            if rng.chance(1, 2) {
                bytes = bytes.next_multiple_of(self.sector_bytes).min(read_bytes_max);
                start = start / self.sector_bytes * self.sector_bytes;
            }
            let goes_on = self.shards == 1 && rng.chance(1, 3);
            let next = match last.filter(|_| goes_on) {
                Some(last) => {
                    Request::of(last.object, last.length, last.range.end, last.range.end + bytes)
                }
                None => Request::of(object, length, start, start + bytes),
            };
            let Some(next) = next else { continue };
            if self.shards > 1 && ends.contains(&(next.object, next.range.start)) {
                continue;
            }
            ends.insert((next.object, next.range.end));
            last = Some(next);
            requests.push(next);
        }
        (lengths, requests)
    }
}

/// What became of a read, and for each shard the bytes and the blocks that its memory holds then, and the blocks that
/// have left it.
type Outcome = (Tally, Vec<[u64; 3]>);

/// What a node makes of each read, the shard that served them, and what its objects are called.
fn of_node(
    case: &Case,
    lengths: &[u64],
    reads: &[Request],
) -> (Vec<Outcome>, ShardId, Vec<String>) {
    let name = |object| Key { name: format!("plain/{object}"), nature: Nature::Mutable };
    let keys = (0..lengths.len()).map(name).collect();
    let stage = Stage::new(&case.node(), keys, steady(case.shards > 1));
    stage.world.set_network(NARROW);
    let write = |(object, length): (usize, &u64)| stage.write(object, *length).etag();
    let etags = lengths.iter().enumerate().map(write).collect();
    let mut connection =
        stage.world.block_on(Connection::open(&stage.reactor)).expect("the node listens");
    stage.world.run_for(APART);
    let serves = |watch: &nilas_sim::watch::Watch| watch(When::Running).connections == 1;
    let door = stage.node.watches.iter().position(serves).expect("a shard has the connection");
    let tallies = reads.iter().map(|read| read_one(&stage, &mut connection, read)).collect();
    stage.assert_right();
    (tallies, ShardId(door as u16), etags)
}

fn memory_of(usage: &Usage) -> [u64; 3] {
    [usage.held_bytes, usage.blocks, usage.evictions]
}

fn read_one(stage: &Stage, connection: &mut Connection, read: &Request) -> Outcome {
    let (requests, body_bytes, ranges) = {
        let count = stage.origin.count.borrow();
        (count.requests, count.body_bytes, count.ranges.len())
    };
    let ask = stage.range(read.object as usize, read.range.start, read.range.len());
    let asked = (read.object as usize, ask);
    let answer = stage
        .world
        .block_on(stage.read_on(connection, asked, Pace::FAST, Leniency::NONE))
        .expect("an answer");
    assert!(answer.is_whole, "{read:?}");
    stage.world.run_for(APART);
    let after = stage.origin.count.borrow();
    let missed = |asked: &ByteRange| asked.intersection(read.range).map_or(0, ByteRange::len);
    let missed_bytes = after.byte_ranges(ranges).iter().map(missed).sum();
    let tally = Tally {
        requests: 1,
        missed_requests: u64::from(missed_bytes > 0),
        bytes: read.range.len(),
        missed_bytes,
        origin_requests: after.requests - requests,
        origin_bytes: after.body_bytes - body_bytes,
    };
    (tally, stage.node.watches.iter().map(|look| memory_of(&look(When::Running).data)).collect())
}

fn check(case: Case) -> Tally {
    let (lengths, reads) = case.draw();
    let (of_node, door, etags) = of_node(&case, &lengths, &reads);
    let shape = MemoryShape { door, ..case.shape() };
    let name = |object: u64| {
        (BUCKET.to_owned(), format!("plain/{object}"), etags[object as usize].clone())
    };
    let placement = (shape.geometry(ORIGIN_ID), Naming(Box::new(name)));
    let mut player = Player::new(shape, case.policy, placement).expect("there is memory");
    let mut sum = Tally::default();
    for (number, (read, of_node)) in reads.iter().zip(&of_node).enumerate() {
        let played = player.read(read);
        let memory: Vec<_> = player.usages().iter().map(memory_of).collect();
        assert_eq!((played, memory), *of_node, "read {number} of {case:?}, {door:?}: {read:?}");
        sum.add(&played);
    }
    assert!(sum.missed_requests < sum.requests, "something is found: {sum:?}");
    sum
}

fn case(policy: EvictionKind) -> Case {
    Case {
        seed: 1,
        shards: 1,
        block_bytes: 32 * KIB,
        sector_bytes: 4 * KIB,
        blocks: 24,
        read_bytes_max: 100 * KIB,
        reads: 400,
        policy,
    }
}

#[test]
fn a_node_of_one_shard_misses_what_the_replayer_says() {
    for &policy in EvictionKind::ALL {
        for seed in 1..=6 {
            check(Case { seed, ..case(policy) });
        }
    }
}

#[test]
fn a_node_of_several_shards_misses_what_the_replayer_says() {
    for &policy in EvictionKind::ALL {
        for (seed, shards) in [(1, 2), (2, 2), (3, 3), (4, 5), (5, 3)] {
            check(Case { seed, shards, blocks: 8, ..case(policy) });
        }
    }
}

#[test]
fn blocks_and_sectors_of_the_usual_size_are_missed_as_the_replayer_says() {
    for &policy in EvictionKind::ALL {
        let usual = Case { block_bytes: 2 * MIB, sector_bytes: 64 * KIB, ..case(policy) };
        check(Case { blocks: 20, read_bytes_max: 5 * MIB, reads: 120, ..usual });
    }
}
