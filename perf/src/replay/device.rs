//! A trace through a whole simulated node with a cache device: the very code that a node runs, on a disk that is
//! simulated. What objects hold is a function of where it lies, so that nothing is kept of them, and every answer is
//! checked. Reads come one after the other, on one connection.

use std::time::Duration;

use nilas_base::{ByteRange, HashMap, KIB, MIB};
use nilas_engine::metrics::DiskCount;
use nilas_shards::NetworkCondition;
use nilas_shards::area::AreaPolicies;
use nilas_shards::eviction::EvictionKind;
use nilas_sim::client::{Connection, Pace};
use nilas_sim::judge::Leniency;
use nilas_sim::key::{Key, Nature};
use nilas_sim::node::NodeShape;
use nilas_sim::stage::{Stage, small_shape, steady};
use nilas_sim::watch::When;
use nilas_sim::weather::{SmallBudget, SmallDevice, SmallGeometry};

use super::trace::{Request, Trace};
use crate::error::{Error, Result};

/// A segment of the device: the shortest there may be, since the devices that are played are small.
const SEGMENT_BYTES: u32 = 1 << 20;
/// An area has at least so many of them.
const SEGMENTS_MIN: u64 = 4;
/// As long as a node looks at a blank device at most.
const LOOK_AT_BLANK: Duration = Duration::from_millis(200);
/// What is still under way after an answer comes to its end in this time.
const APART: Duration = Duration::from_millis(2);
/// One that carries an answer in few steps.
const WIDE: NetworkCondition = NetworkCondition {
    delay_us_max: 60,
    slow_one_in: 1 << 40,
    slow_delay_us_max: 61,
    pieces_max: 1,
    window_bytes: 1 << 20,
    reset_one_in: None,
};

/// The node that is played.
#[derive(Clone, Copy, Debug)]
pub struct DeviceShape {
    /// The arena of its data store, bytes.
    pub budget_bytes: u64,
    /// A block, bytes.
    pub block_bytes: u64,
    /// A sector, bytes.
    pub sector_bytes: u64,
    /// The device's area for data, bytes.
    pub device_bytes: u64,
    /// Who leaves memory.
    pub eviction: EvictionKind,
    /// What is kept on the device.
    pub policies: AreaPolicies,
}

/// What became of a trace's reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTally {
    /// Reads.
    pub requests: u64,
    /// Of them, such as a byte came from the origin for.
    pub origin_reads: u64,
    /// Of the others, such as bytes came from the device for.
    pub device_reads: u64,
    /// Bytes that were wanted.
    pub bytes: u64,
    /// Of them, such as came from the origin.
    pub origin_bytes: u64,
    /// Of the others, such as came from the device.
    pub device_bytes: u64,
    /// Questions to the origin.
    pub origin_requests: u64,
    /// Bytes that it sent.
    pub fetched_bytes: u64,
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Bytes of the origin's that the device was to keep.
    pub admitted_bytes: u64,
}

impl DeviceTally {
    /// Bytes written to the device for each byte that was served.
    pub fn written_by_served(&self) -> f64 {
        self.written_bytes as f64 / self.bytes.max(1) as f64
    }

    /// Bytes written to the device for each byte that it was to keep.
    pub fn amplification(&self) -> f64 {
        self.written_bytes as f64 / self.admitted_bytes.max(1) as f64
    }
}

/// Plays a trace.
///
/// # Errors
/// An answer that is wrong, or none.
pub fn play(trace: &Trace, shape: &DeviceShape) -> Result<DeviceTally> {
    let (lengths, requests) = numbered(trace);
    let name = |object| Key { name: format!("plain/{object}"), nature: Nature::Mutable };
    let stage = Stage::new(&node(shape), (0..lengths.len()).map(name).collect(), steady(false));
    stage.world.set_network(WIDE);
    for (object, length) in lengths.iter().enumerate() {
        stage.write(object, *length);
    }
    stage.world.run_for(LOOK_AT_BLANK);
    let opened = stage.world.block_on(Connection::open(&stage.reactor));
    let connection = opened.map_err(|source| Error::System {
        doing: "connecting to the simulated node".to_owned(),
        source,
    })?;
    let mut player = Player { stage, connection, tally: DeviceTally::default() };
    requests.iter().try_for_each(|request| player.read(request))?;
    player.end()
}

/// The lengths of a trace's objects, and its reads with the objects numbered from nought.
fn numbered(trace: &Trace) -> (Vec<u64>, Vec<Request>) {
    let (mut lengths, mut numbers) = (Vec::new(), HashMap::default());
    let requests = trace.requests.iter().map(|request| {
        let object = *numbers.entry((request.object, request.length)).or_insert_with(|| {
            lengths.push(request.length);
            lengths.len() as u64 - 1
        });
        Request { object, ..*request }
    });
    let requests = requests.collect();
    (lengths, requests)
}

fn node(shape: &DeviceShape) -> NodeShape {
    let segments = shape.device_bytes / u64::from(SEGMENT_BYTES);
    NodeShape {
        shards: 1,
        geometry: SmallGeometry {
            block_bytes: shape.block_bytes,
            data_sector_bytes: shape.sector_bytes,
            metadata_sector_bytes: 4 * KIB,
        },
        budget: SmallBudget {
            data_bytes: shape.budget_bytes,
            metadata_bytes: 2 * shape.block_bytes,
            mapping_bytes: 64 * MIB,
        },
        mutable_ttl: Duration::from_secs(1 << 20),
        eviction: shape.eviction,
        policies: shape.policies,
        device: Some(SmallDevice {
            segment_bytes: SEGMENT_BYTES,
            data_segments: segments.max(SEGMENTS_MIN),
            metadata_segments: SEGMENTS_MIN,
        }),
        ..small_shape()
    }
}

struct Player {
    stage: Stage,
    connection: Connection,
    tally: DeviceTally,
}

impl Player {
    fn read(&mut self, request: &Request) -> Result<()> {
        let (ranges, device_bytes) = (self.ranges(), self.count(DiskCount::ReadBytes));
        let Request { object, range, .. } = *request;
        let asked = (object as usize, self.stage.range(object as usize, range.start, range.len()));
        let reading = self.stage.read_on(&mut self.connection, asked, Pace::WIDE, Leniency::NONE);
        let answer = self.stage.world.block_on(reading);
        if !answer.is_some_and(|answer| answer.is_whole) {
            return Err(Error::Failed(format!("{request:?} was not answered whole")));
        }
        self.stage.world.run_for(APART);
        let missed = |asked: &ByteRange| asked.intersection(range).map_or(0, ByteRange::len);
        let asked = self.stage.origin.count.borrow().byte_ranges(ranges);
        // What was fetched twice for one read was wanted once.
        let origin_bytes = asked.iter().map(missed).sum::<u64>().min(range.len());
        let from_device = self.count(DiskCount::ReadBytes) - device_bytes;
        let from_device = from_device.min(range.len() - origin_bytes);
        let tally = &mut self.tally;
        tally.requests += 1;
        tally.bytes += range.len();
        tally.origin_bytes += origin_bytes;
        tally.device_bytes += from_device;
        tally.origin_reads += u64::from(origin_bytes > 0);
        tally.device_reads += u64::from(origin_bytes == 0 && from_device > 0);
        Ok(())
    }

    fn end(mut self) -> Result<DeviceTally> {
        if let Some(wrong) = self.stage.history.borrow().violations.first() {
            return Err(Error::Failed(wrong.clone()));
        }
        self.tally.written_bytes = self.count(DiskCount::WrittenBytes);
        self.tally.admitted_bytes = self.count(DiskCount::AdmittedBytes);
        let count = self.stage.origin.count.borrow();
        self.tally.origin_requests = count.requests;
        self.tally.fetched_bytes = count.body_bytes;
        Ok(self.tally)
    }

    fn ranges(&self) -> usize {
        self.stage.origin.count.borrow().ranges.len()
    }

    /// Of all shards, as of now.
    fn count(&self, what: DiskCount) -> u64 {
        for look in &self.stage.node.watches {
            look(When::AtEnd);
        }
        self.stage.node.metrics.total(|shard| shard.disk[what.index()].get())
    }
}

#[cfg(test)]
mod tests {
    use nilas_shards::admission::AdmissionKind;

    use super::*;
    use crate::replay::generate::{FILE_BYTES, Workload};

    fn shape(device_bytes: u64, policies: AreaPolicies) -> DeviceShape {
        let eviction = EvictionKind::S3Fifo;
        let (budget_bytes, block_bytes, sector_bytes) = (4 * MIB, MIB, 64 * KIB);
        DeviceShape { budget_bytes, block_bytes, sector_bytes, device_bytes, eviction, policies }
    }

    #[test]
    fn what_memory_cannot_hold_and_the_device_can_comes_from_the_origin_once() {
        let trace = Workload::Loop.generate(1, 3, 150);
        let tally = play(&trace, &shape(64 * MIB, AreaPolicies::default())).expect("it is played");
        assert_eq!(tally.fetched_bytes, 3 * FILE_BYTES, "{tally:?}");
        assert_eq!(tally.admitted_bytes, 3 * FILE_BYTES, "{tally:?}");
        assert!(tally.device_bytes > tally.bytes / 3, "{tally:?}");
        assert!(tally.amplification() >= 1.0, "{tally:?}");
    }

    #[test]
    fn admission_on_the_second_touch_writes_less_of_a_scan() {
        let trace = Workload::DashboardsAndScans.generate(1, 6, 400);
        let of = |admission| {
            let policies = AreaPolicies { admission, ..AreaPolicies::default() };
            play(&trace, &shape(12 * MIB, policies)).expect("it is played")
        };
        let (always, second) = (of(AdmissionKind::Always), of(AdmissionKind::SecondTouch));
        assert_eq!((always.requests, always.bytes), (second.requests, second.bytes));
        assert!(second.admitted_bytes < always.admitted_bytes, "{always:?} {second:?}");
        assert!(second.written_bytes < always.written_bytes, "{always:?} {second:?}");
    }
}
