//! Whether the node of a run has a cache device, how large it is, what goes wrong with it, and when the node is ended
//! and begun anew. All is drawn from a stream of its own: a run without a device is what it would be if there were none.

use std::time::Duration;

use nilas_base::Rng;
use nilas_shards::DiskCondition;

use super::{Weather, maybe, pick};

/// What the device reads and writes: nothing less, and sectors of stores on top of it are no shorter.
const PAGE_BYTES: u64 = 4096;

/// Which runs have a cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceShare {
    /// None.
    None,
    /// Every second one, drawn.
    Half,
    /// All.
    All,
}

/// A cache device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceWeather {
    /// Its size.
    pub size: SmallDevice,
    /// Its faults.
    pub condition: DiskCondition,
    /// How often its node ends.
    pub restarts: RestartWeather,
}

/// The areas of one shard.
#[derive(Clone, Copy, Debug)]
pub struct SmallDevice {
    /// A segment.
    pub segment_bytes: u32,
    /// Segments for data.
    pub data_segments: u64,
    /// Segments for metadata.
    pub metadata_segments: u64,
}

/// How often a node ends as by `kill -9`, and is followed by another on the same device.
#[derive(Clone, Copy, Debug)]
pub struct RestartWeather {
    /// How often at most.
    pub count_max: u64,
    /// The longest time between two.
    pub apart_max: Duration,
    /// The longest time without a node.
    pub down_max: Duration,
    /// In one of so many the device loses its power too; `None` for never.
    pub power_cut_one_in: Option<u64>,
}

impl DeviceWeather {
    /// Whether what was written and acknowledged may be gone, or not be readable.
    pub fn may_lose(&self) -> bool {
        let of = &self.condition;
        let ways = [
            of.read_error_one_in,
            of.flip_one_in,
            of.rot_one_in,
            of.misdirected_read_one_in,
            of.misdirected_write_one_in,
            of.short_read_one_in,
            of.write_error_one_in,
            of.no_space_one_in,
            of.short_write_one_in,
        ];
        ways.iter().any(Option::is_some)
    }
}

impl Weather {
    /// The same run with a cache device, if it is to have one.
    #[must_use]
    pub fn with_device(mut self, seed: u64, share: DeviceShare) -> Weather {
        // Not of the seed itself, which everything else is drawn from.
        let mut rng = Rng::from_seed(Rng::from_seed(!seed).next_u64());
        let is_drawn = rng.chance(1, 2);
        if share == DeviceShare::None || share == DeviceShare::Half && !is_drawn {
            return self;
        }
        self.geometry.data_sector_bytes = PAGE_BYTES;
        self.geometry.metadata_sector_bytes = PAGE_BYTES;
        let block_bytes = self.geometry.block_bytes;
        // So little that most of what was read is on the device alone.
        self.budget.data_bytes = block_bytes * pick(&mut rng, &[2, 3, 6]);
        self.budget.metadata_bytes = block_bytes * pick(&mut rng, &[2, 4]);
        // And so long that it is read again.
        self.crowd.steps *= 3;
        self.device = Some(DeviceWeather {
            size: SmallDevice {
                segment_bytes: 64 << 10 << rng.below(2),
                data_segments: 3 + rng.below(5),
                metadata_segments: 3 + rng.below(3),
            },
            condition: draw_condition(&mut rng),
            restarts: draw_restarts(&mut rng),
        });
        if rng.chance(1, 4) {
            self.overwrite(&mut rng);
        }
        self
    }

    /// What a node has on its device, which is sound, is overwritten, at an origin that takes its time, and the node ends while it is.
    fn overwrite(&mut self, rng: &mut Rng) {
        self.crowd.overwrite_one_in = Some(pick(rng, &[1, 3]));
        self.crowd.clients = self.crowd.clients.max(4);
        // What is kept of a key is not forgotten with a purge.
        self.crowd.purge_one_in = None;
        self.origin.delay_us_max = pick(rng, &[30_000, 150_000]);
        self.origin.slow_one_in = Some(3);
        if let Some(device) = &mut self.device {
            // Faults but delays would cost it what is to be overwritten.
            let DiskCondition { delay_us_max, slow_one_in, stall_one_in, .. } = device.condition;
            device.condition = DiskCondition {
                delay_us_max,
                slow_one_in,
                stall_one_in,
                alignment_bytes: PAGE_BYTES as usize,
                ..DiskCondition::default()
            };
            device.restarts.count_max = 12;
            device.restarts.apart_max = Duration::from_millis(pick(rng, &[1000, 3000]));
        }
    }
}

fn draw_restarts(rng: &mut Rng) -> RestartWeather {
    RestartWeather {
        count_max: pick(rng, &[0, 1, 2, 6]),
        apart_max: Duration::from_millis(pick(rng, &[50, 400, 3000])),
        down_max: Duration::from_millis(pick(rng, &[1, 60])),
        power_cut_one_in: maybe(rng, 2, 3, &[1, 2]),
    }
}

fn draw_condition(rng: &mut Rng) -> DiskCondition {
    DiskCondition {
        delay_us_max: pick(rng, &[50, 200, 5000]),
        slow_one_in: pick(rng, &[16, 64]),
        stall_one_in: maybe(rng, 1, 4, &[30, 200]),
        read_error_one_in: maybe(rng, 1, 3, &[10, 50]),
        write_error_one_in: maybe(rng, 1, 4, &[5, 30]),
        no_space_one_in: maybe(rng, 1, 6, &[10, 50]),
        flip_one_in: maybe(rng, 1, 3, &[5, 30]),
        rot_one_in: maybe(rng, 1, 3, &[10, 40]),
        misdirected_read_one_in: maybe(rng, 1, 3, &[5, 30]),
        misdirected_write_one_in: maybe(rng, 1, 3, &[3, 20]),
        short_read_one_in: maybe(rng, 1, 3, &[10, 50]),
        short_write_one_in: maybe(rng, 1, 4, &[5, 30]),
        alignment_bytes: PAGE_BYTES as usize,
        ..DiskCondition::default()
    }
}
