//! Where the suite runs: the cores, the folders, and a node whose device holds more than its memory.
//! Everything goes with what it is dropped with.

use std::path::Path;
use std::time::Duration;

use nilas_base::{Clock, MIB, Rng};
use nilas_shards::admission::AdmissionKind;
use tempfile::TempDir;

use super::{DiskReadOptions, fio, text};
use crate::error::{Doing, Error, Result};
use crate::load::fetch_each;
use crate::object::{Object, make_objects, write_objects};
use crate::processor::usable_cores;
use crate::request::{Target, make_targets};
use crate::server::{NodeOrigin, NodePlan, Server, start_node};

/// What its device has room for beside what is read.
const DEVICE_SLACK_BYTES: u64 = 512 * MIB;
/// Objects of one size at most.
const OBJECTS_MAX: u64 = 50_000;
/// So often it is looked whether more was written.
const WRITTEN_LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// A device that has written nothing for so long has written all, and the node has counted it.
const QUIET: Duration = Duration::from_millis(1500);
/// It is given up by then.
const WRITTEN_WITHIN: Duration = Duration::from_secs(120);

/// What all parts of the suite share.
pub(super) struct Ground<'a> {
    pub(super) options: &'a DiskReadOptions,
    pub(super) fio_version: String,
    pub(super) server_core: usize,
    pub(super) load_core: usize,
}

/// A node, its device and its origin's files.
pub(super) struct Held {
    pub(super) node: Server,
    pub(super) objects: Vec<Object>,
    _device: TempDir,
    _origin: TempDir,
}

impl<'a> Ground<'a> {
    /// The first core is the servers', the last the load's.
    pub(super) fn find(options: &'a DiskReadOptions) -> Result<Ground<'a>> {
        let cores = usable_cores()?;
        let (first, last) = (cores.first().copied(), cores.last().copied());
        let (Some(server_core), Some(load_core)) = (first, last) else {
            return Err(Error::Failed("there is no core to run on".to_owned()));
        };
        Ok(Ground { options, fio_version: fio::version()?, server_core, load_core })
    }

    /// A folder on the disk that is measured.
    pub(super) fn folder(&self) -> Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("nilas-perf-");
        let made = match &self.options.folder {
            Some(folder) => builder.tempdir_in(folder),
            None => builder.tempdir(),
        };
        made.doing("making a folder on the disk")
    }
}

impl Held {
    /// A node that has read all objects of this size once, and written them.
    pub(super) fn start(ground: &Ground<'_>, size_bytes: usize) -> Result<Held> {
        let count = (ground.options.mebibytes * MIB / size_bytes as u64).min(OBJECTS_MAX);
        let objects = make_objects(size_bytes, count as usize);
        // A page of the record's head goes with each; the index is as large as whole sectors need it.
        let record_bytes = (size_bytes as u64).max(64 << 10) + (4 << 10);
        let needed = count * record_bytes * 5 / 4 + DEVICE_SLACK_BYTES;
        let held = Held::with(ground, objects, needed)?;
        fetch_each(held.node.address, &held.targets_in_order()?)?;
        held.wait_until_written()?;
        Ok(held)
    }

    /// A node that has read nothing.
    pub(super) fn with(
        ground: &Ground<'_>,
        objects: Vec<Object>,
        device_bytes: u64,
    ) -> Result<Held> {
        let options = ground.options;
        let origin = tempfile::tempdir_in(&options.memory_folder).doing("making a folder")?;
        write_objects(origin.path(), &objects)?;
        let device = ground.folder()?;
        let node = start_node(&NodePlan {
            binary: options.server_binary.clone(),
            origin: NodeOrigin::Folder(origin.path().to_owned()),
            cores: vec![ground.server_core],
            shards: 1,
            ring: options.ring.clone(),
            data_bytes: text(options.memory_mebibytes * MIB),
            flags: flags(options, device.path(), device_bytes),
            config: String::new(),
        })?;
        Ok(Held { node, objects, _device: device, _origin: origin })
    }

    /// The node's version.
    pub(super) fn version(&self) -> String {
        self.node.version.clone()
    }

    /// Requests for all objects, in the order in which they are made and written.
    fn targets_in_order(&self) -> Result<Vec<Target>> {
        let (node, wall) = (&self.node, Clock::system().wall());
        make_targets(&node.access, node.address, &self.objects, wall)
    }

    /// The same, in an order that has nothing to do with where they lie.
    pub(super) fn targets(&self) -> Result<Vec<Target>> {
        let mut targets = self.targets_in_order()?;
        Rng::from_seed(1).shuffle(&mut targets);
        Ok(targets)
    }

    /// Reads that the device has answered.
    pub(super) fn device_hits(&self) -> Result<f64> {
        self.node.gauge("nilas_disk_hits_total")
    }

    /// Bytes that were written so far.
    pub(super) fn written_bytes(&self) -> Result<u64> {
        Ok(self.node.gauge("nilas_disk_written_bytes_total")? as u64)
    }

    /// Waits until nothing more is written; gives how long ago the last of it was.
    pub(super) fn wait_until_written(&self) -> Result<Duration> {
        let clock = Clock::system();
        let began = clock.now();
        let (mut seen, mut since) = (self.node.disk_bytes()?, began);
        loop {
            std::thread::park_timeout(WRITTEN_LOOK_INTERVAL);
            let (written, now) = (self.node.disk_bytes()?, clock.now());
            if written != seen {
                (seen, since) = (written, now);
            } else if now.since(since) >= QUIET {
                return Ok(now.since(since));
            } else if now.since(began) > WRITTEN_WITHIN {
                return Err(Error::Failed("the node does not end writing".to_owned()));
            }
        }
    }
}

fn flags(options: &DiskReadOptions, device: &Path, device_bytes: u64) -> Vec<String> {
    let mut flags = vec![
        ("disk.path", device.display().to_string()),
        ("disk.data_bytes", text(device_bytes)),
        // All that the origin brings is written, whether there is room or not.
        ("disk.admission", AdmissionKind::Always.name().to_owned()),
        ("disk.metadata_bytes", text(64 * MIB)),
        ("disk.mapping_bytes", text(256 * MIB)),
        ("cache.mapping_bytes", text(256 * MIB)),
        // Of which a quarter may be for the device's index.
        ("cache.metadata_bytes", text(256 * MIB)),
        ("cache.immutable_globs", "**".to_owned()),
    ];
    flags.extend(options.eviction.as_ref().map(|name| ("cache.eviction", name.clone())));
    flags.into_iter().flat_map(|(key, value)| [format!("--{key}"), value]).collect()
}
