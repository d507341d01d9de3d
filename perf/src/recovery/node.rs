//! A real node on a device that is full: when it answers its first request, counted from the start of
//! its process, and whether it was still looking through the device then.

use std::time::Duration;

use nilas_base::{Clock, MIB};

use super::RecoveryOptions;
use super::device::CacheDevice;
use crate::error::{Error, Result};
use crate::load::fetch_each;
use crate::object::make_objects;
use crate::processor::usable_cores;
use crate::request::make_targets;
use crate::server::{NodeOrigin, NodePlan, Server, object_folder, start_node};

const OBJECT_BYTES: usize = 4096;
/// Memory of the node's cache for each store, of which a quarter may be for the device's index.
const CACHE_BYTES: u64 = 1 << 30;
/// Looks at a node that recovers, and the pause between two.
const LOOKS_MAX: usize = 60_000;
const PAUSE: Duration = Duration::from_millis(1);

/// What a node did at its start, milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct FirstAnswer {
    /// From the start of its process to the last byte of the first answer.
    pub answered_ms: f64,
    /// Whether it still looked through the device then.
    pub came_before_the_end: bool,
    /// How long it looked, as it says itself.
    pub recovery_ms: f64,
}

/// Starts one, which must find about so many records, asks it, and stops it.
pub fn first_answer(
    options: &RecoveryOptions,
    device: &CacheDevice,
    records: u64,
) -> Result<FirstAnswer> {
    let objects = make_objects(OBJECT_BYTES, 1);
    let folder = object_folder(&objects)?;
    let node = start_node(&plan(options, device, folder.path())?)?;
    let targets = make_targets(&node.access, node.address, &objects, Clock::system().wall())?;
    fetch_each(node.address, &targets)?;
    let answered_ms = node.age().as_secs_f64() * 1e3;
    let came_before_the_end = !is_recovered(&node)?;
    for _ in 0..LOOKS_MAX {
        if is_recovered(&node)? {
            // One that laid the device out anew would have found nothing, and soon.
            let found = node.gauge("nilas_disk_recovery_records")?;
            if found < records as f64 / 2.0 {
                let what = format!("the node has found {found} records of {records}");
                return Err(Error::Failed(what));
            }
            let recovery_ms = node.gauge("nilas_disk_recovery_seconds")? * 1e3;
            return Ok(FirstAnswer { answered_ms, came_before_the_end, recovery_ms });
        }
        std::thread::park_timeout(PAUSE);
    }
    Err(Error::Failed("the node does not end looking through its device".to_owned()))
}

/// What the node tells, which it does a moment after it has begun to answer.
fn is_recovered(node: &Server) -> Result<bool> {
    let mut told = node.gauge("nilas_disk_recovered");
    for _ in 0..LOOKS_MAX {
        if told.is_ok() {
            break;
        }
        std::thread::park_timeout(PAUSE);
        told = node.gauge("nilas_disk_recovered");
    }
    Ok(told? > 0.0)
}

/// As a configuration has it.
fn text(bytes: u64) -> String {
    format!("{}KiB", bytes >> 10)
}

fn plan(
    options: &RecoveryOptions,
    device: &CacheDevice,
    root: &std::path::Path,
) -> Result<NodePlan> {
    let budgets = &device.plan;
    let flags = [
        ("disk.path", device.folder().display().to_string()),
        ("disk.data_bytes", text(budgets.data_bytes)),
        ("disk.metadata_bytes", text(budgets.metadata_bytes)),
        ("disk.mapping_bytes", text(budgets.mapping_bytes)),
        ("cache.metadata_bytes", text(CACHE_BYTES)),
        ("cache.mapping_bytes", text(64 * MIB)),
    ];
    Ok(NodePlan {
        binary: options.server_binary.clone(),
        origin: NodeOrigin::Folder(root.to_owned()),
        cores: usable_cores()?,
        shards: usize::from(options.shards),
        ring: options.ring.clone(),
        data_bytes: text(CACHE_BYTES),
        flags: flags.into_iter().flat_map(|(key, value)| [format!("--{key}"), value]).collect(),
        config: String::new(),
    })
}
