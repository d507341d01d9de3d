//! What one run is like, drawn from its seed: the node's size, what its clients do, and which faults
//! the origin and the network have, how often. About a third of all runs have none of a kind. The cache
//! device of some is `device`.

mod device;

use std::time::Duration;

use nilas_base::Rng;
use nilas_engine::config::WriteAllocate;
use nilas_shards::NetworkCondition;
use nilas_shards::admission::AdmissionKind;
use nilas_shards::area::AreaPolicies;
use nilas_shards::carry_over::CarryOverKind;
use nilas_shards::eviction::EvictionKind;

pub use device::{DeviceShare, DeviceWeather, RestartWeather, SmallDevice};

/// One run.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Shards of the node.
    pub shards: u16,
    /// Its blocks and sectors.
    pub geometry: SmallGeometry,
    /// Its memory, for each shard.
    pub budget: SmallBudget,
    /// How long it believes a mutable key.
    pub mutable_ttl: Duration,
    /// How long it asks anew after a write of unknown outcome.
    pub hold: Duration,
    /// Which uploads populate its cache.
    pub write_allocate: WriteAllocate,
    /// Who leaves its memory when it is full.
    pub eviction: EvictionKind,
    /// What decides over what its cache device keeps, if it has one.
    pub policies: AreaPolicies,
    /// Its clients.
    pub crowd: Crowd,
    /// The origin's faults.
    pub origin: OriginWeather,
    /// The network's.
    pub network: NetworkCondition,
    /// One in so many steps the clock leaps; `None` for never.
    pub leap_one_in: Option<u64>,
    /// The longest leap.
    pub leap_max: Duration,
    /// The cache device, if there is one.
    pub device: Option<DeviceWeather>,
}

/// Blocks and sectors, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct SmallGeometry {
    /// A block.
    pub block_bytes: u64,
    /// A sector of the data store.
    pub data_sector_bytes: u64,
    /// A sector of the metadata store.
    pub metadata_sector_bytes: u64,
}

/// Memory of one shard, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct SmallBudget {
    /// The data store.
    pub data_bytes: u64,
    /// The metadata store.
    pub metadata_bytes: u64,
    /// The mappings.
    pub mapping_bytes: u64,
}

/// The clients of a run.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Those that read, and write now and then.
    pub clients: usize,
    /// What each of them does.
    pub steps: usize,
    /// The longest pause between two of them.
    pub pause_us_max: u64,
    /// One in so many steps is a write; `None` for none.
    pub write_one_in: Option<u64>,
    /// Before one in so many steps what never changes by itself is read, kept for a while, and overwritten; `None` for
    /// never. Of clients of a node with a cache device.
    pub overwrite_one_in: Option<u64>,
    /// One in so many steps is a purge; `None` for none.
    pub purge_one_in: Option<u64>,
    /// Writes behind the node's back.
    pub strange_writes: usize,
    /// One in so many reads is slow, or stops, or breaks off.
    pub odd_one_in: Option<u64>,
    /// The largest object.
    pub object_bytes_max: u64,
}

/// The origin's delays and faults. A rate is one in so many; `None` for never.
#[derive(Clone, Copy, Debug, Default)]
pub struct OriginWeather {
    /// The slowest first byte, mostly.
    pub delay_us_max: u64,
    /// One in so many answers takes up to a second.
    pub slow_one_in: Option<u64>,
    /// The largest piece of a body.
    pub piece_bytes_max: u64,
    /// The longest pause between two pieces.
    pub pause_us_max: u64,
    /// No answer: unreachable, silent, or broken off before the head.
    pub silent_one_in: Option<u64>,
    /// A 5xx.
    pub error_one_in: Option<u64>,
    /// A body that is cut.
    pub cut_one_in: Option<u64>,
    /// A head that contradicts itself or its body.
    pub lie_one_in: Option<u64>,
    /// Whether heads name no version, by neither ETag nor date.
    pub hides_versions: bool,
    /// A write whose answer is lost, before it took effect, after it, or long before it.
    pub lost_one_in: Option<u64>,
    /// No delay is by chance, and a body comes in one piece.
    pub steady: Option<Steady>,
}

/// An origin that takes its time always alike.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// Every delay and every pause.
    pub pause: Duration,
    /// Whether what lies later in an object comes before what lies earlier, although it was asked for with it or because
    /// of it: then all has come before the first bytes have, whichever shard asked for it.
    pub last_first: bool,
}

impl Steady {
    /// How long a body takes of which so many bytes of the object are left from its first on.
    pub fn body(&self, left_bytes: u64) -> Duration {
        // More than a question's way for each page, which no two questions share.
        let pages = if self.last_first { left_bytes / 4096 } else { 0 };
        self.pause * (1 + 8 * pages as u32)
    }
}

impl OriginWeather {
    /// The same origin without faults.
    pub fn fair(self) -> OriginWeather {
        OriginWeather {
            silent_one_in: None,
            error_one_in: None,
            cut_one_in: None,
            lie_one_in: None,
            lost_one_in: None,
            ..self
        }
    }

    /// Whether reads can fail for a fault of the origin's: too many lost answers are one, too.
    pub fn fails_reads(&self) -> bool {
        let faults = [
            self.silent_one_in,
            self.error_one_in,
            self.cut_one_in,
            self.lie_one_in,
            self.lost_one_in,
        ];
        faults.iter().any(Option::is_some)
    }
}

impl Weather {
    /// The run of a seed, without a cache device.
    pub fn draw(rng: &mut Rng) -> Weather {
        let write_allocate = draw_write_allocate(rng);
        let (eviction, policies) = draw_policies(rng);
        let block_bytes = 4096 << rng.below(3);
        let geometry = SmallGeometry {
            block_bytes,
            data_sector_bytes: 1024 << rng.below(2),
            metadata_sector_bytes: 512 << rng.below(2),
        };
        let budget = SmallBudget {
            data_bytes: block_bytes * pick(rng, &[2, 3, 6, 16, 64]),
            metadata_bytes: block_bytes * pick(rng, &[2, 4, 32]),
            mapping_bytes: pick(rng, &[1500, 8 << 10, 64 << 10]),
        };
        let origin = draw_origin(rng);
        Weather {
            shards: 1 + rng.below(3) as u16,
            geometry,
            budget,
            mutable_ttl: Duration::from_millis(pick(rng, &[0, 20, 500, 5000])),
            hold: Duration::from_secs(pick(rng, &[2, 900])),
            write_allocate,
            eviction,
            policies,
            crowd: draw_crowd(rng, block_bytes),
            origin,
            network: draw_network(rng),
            leap_one_in: maybe(rng, 1, 3, &[300, 2000]),
            leap_max: Duration::from_millis(pick(rng, &[1000, 20_000, 100_000])),
            device: None,
        }
    }
}

/// From a stream of its own, so that everything else is drawn as it would be without it.
fn draw_write_allocate(rng: &Rng) -> WriteAllocate {
    let mut rng = Rng::from_seed(rng.clone().next_u64());
    match rng.below(4) {
        0 => WriteAllocate::Off,
        1 => WriteAllocate::Metadata,
        _ => WriteAllocate::All,
    }
}

/// From a stream of its own, too.
fn draw_policies(rng: &Rng) -> (EvictionKind, AreaPolicies) {
    let mut rng = Rng::from_seed(!rng.clone().next_u64());
    let eviction = EvictionKind::ALL[rng.below(EvictionKind::ALL.len() as u64) as usize];
    let admission = AdmissionKind::ALL[rng.below(AdmissionKind::ALL.len() as u64) as usize];
    let carry_over = CarryOverKind::ALL[rng.below(CarryOverKind::ALL.len() as u64) as usize];
    (eviction, AreaPolicies { admission, carry_over })
}

fn draw_crowd(rng: &mut Rng, block_bytes: u64) -> Crowd {
    Crowd {
        clients: 1 + rng.below(6) as usize,
        steps: 4 + rng.below(20) as usize,
        pause_us_max: pick(rng, &[1, 2000, 60_000]),
        write_one_in: maybe(rng, 4, 5, &[3, 8]),
        overwrite_one_in: None,
        purge_one_in: maybe(rng, 1, 3, &[5, 20]),
        strange_writes: rng.below(3).min(1) as usize * (1 + rng.below(15) as usize),
        odd_one_in: maybe(rng, 2, 3, &[3, 10]),
        object_bytes_max: block_bytes * pick(rng, &[1, 3, 6]),
    }
}

fn draw_origin(rng: &mut Rng) -> OriginWeather {
    OriginWeather {
        delay_us_max: pick(rng, &[1, 2000, 30_000, 150_000]),
        slow_one_in: maybe(rng, 1, 2, &[20, 5]),
        piece_bytes_max: pick(rng, &[500, 4000, 100_000]),
        pause_us_max: pick(rng, &[1, 300, 5000]),
        silent_one_in: maybe(rng, 1, 3, &[30, 8]),
        error_one_in: maybe(rng, 1, 3, &[30, 8]),
        cut_one_in: maybe(rng, 1, 3, &[20, 4]),
        lie_one_in: maybe(rng, 1, 3, &[20, 4]),
        hides_versions: false,
        lost_one_in: maybe(rng, 1, 3, &[6, 2]),
        steady: None,
    }
}

fn draw_network(rng: &mut Rng) -> NetworkCondition {
    NetworkCondition {
        delay_us_max: pick(rng, &[40, 300, 5000]),
        slow_one_in: pick(rng, &[16, 64, 100_000]),
        slow_delay_us_max: pick(rng, &[20_000, 400_000]),
        pieces_max: pick(rng, &[1, 4, 12]) as usize,
        window_bytes: pick(rng, &[1500, 6000, 256 << 10]) as usize,
        reset_one_in: maybe(rng, 1, 3, &[20, 100]),
    }
}

/// One of these.
pub fn pick(rng: &mut Rng, choices: &[u64]) -> u64 {
    choices[rng.below(choices.len() as u64) as usize]
}

/// One of these in `numerator` of `denominator` draws, else nothing.
fn maybe(rng: &mut Rng, numerator: u64, denominator: u64, choices: &[u64]) -> Option<u64> {
    let choice = pick(rng, choices);
    rng.chance(numerator, denominator).then_some(choice)
}

/// Whether something happens that happens once in so many times.
pub fn happens(rng: &mut Rng, one_in: Option<u64>) -> bool {
    one_in.is_some_and(|one_in| rng.chance(1, one_in))
}
