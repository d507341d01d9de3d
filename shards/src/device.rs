//! The cache device: one file or raw block device a node, cut into an area of each kind for each shard. Here it is
//! found, locked, laid out where it must be, given its place on the disk, and tried for `O_DIRECT`. All of it blocks, at
//! start only; what is then written into the areas is no business of this room.
//! Begin at `layout` for how long the areas are, at `head` for what becomes of what is there already.

mod direct;
mod discard;
mod error;
mod head;
mod layout;
#[cfg(test)]
mod loop_tests;
mod room;
mod target;
#[cfg(test)]
mod tests;

use std::fs::File as StdFile;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::{DeviceError, DeviceProblem};
pub use head::{Content, Fresh};
pub use layout::{SHARDS_MAX, area_budget_min};
pub use target::FILE_NAME;

use crate::File;
use crate::disk::{DeviceId, Superblock};
use target::Target;

/// What a node wants of its cache device. Budgets are for all shards together; none is exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlan {
    /// A directory, whose file `nilas.cache` is used, or a block device.
    pub path: PathBuf,
    /// Shards: each gets an area of each kind.
    pub shards: u16,
    /// Bytes for blocks of the data stores, and for the head.
    pub data_bytes: u64,
    /// Bytes for blocks of the metadata stores.
    pub metadata_bytes: u64,
    /// Bytes for mappings, tombstones and purges.
    pub mapping_bytes: u64,
    /// A block's length, a power of two.
    pub block_bytes: u64,
}

/// How the device is read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Past the page cache.
    Direct,
    /// Through the page cache, for the reason told: half a sentence.
    Buffered(String),
}

impl Access {
    /// Whether it passes by the page cache.
    pub fn is_direct(&self) -> bool {
        *self == Access::Direct
    }
}

/// A device that is ready: locked against other processes for as long as a clone of its file is open.
#[derive(Debug)]
pub struct OpenDevice {
    /// The file, or the block device.
    pub path: PathBuf,
    /// Open for reading and writing.
    pub file: File,
    /// Where the areas lie.
    pub superblock: Superblock,
    /// Whether what was there is kept.
    pub content: Content,
    /// Whether one copy of the superblock was damaged, and written anew from the other.
    pub is_mended: bool,
    /// How it is read and written.
    pub access: Access,
    /// Whether the device was told that nothing of what was on it is of use.
    pub is_discarded: bool,
    /// Whether every byte has its place already, so that no write finds the disk full.
    pub is_preallocated: bool,
}

/// What [`open_device`] would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProspect {
    /// The file, or the block device.
    pub path: PathBuf,
    /// The layout; its id is random where it would be laid out anew.
    pub superblock: Superblock,
    /// Whether what is there would be kept.
    pub content: Content,
    /// How it would be read and written, as far as can be told without writing.
    pub access: Access,
}

/// Opens the device, and lays it out where it is new or of another layout.
///
/// # Errors
/// Nothing was laid out, and the node must not start; the error says why and what to change.
pub fn open_device(plan: &DevicePlan) -> Result<OpenDevice, DeviceError> {
    let target = Target::find(&plan.path)?;
    open_target(&target, plan).map_err(|problem| target.error(problem))
}

fn open_target(target: &Target, plan: &DevicePlan) -> Result<OpenDevice, DeviceProblem> {
    let wanted = plan.lay_out(random_id()?)?;
    let file = target.open()?;
    let (content, superblock, is_mended) = head::judge(&file, target.kind, wanted)?;
    let is_preallocated = room::take(&file, target.kind, superblock.device_bytes)?;
    let access = direct::write_head(&file, target.kind, &superblock)?;
    let is_fresh = content != Content::Kept;
    let is_discarded = is_fresh && discard::discard_areas(&file, target.kind, &superblock);
    let (path, file) = (target.path.clone(), File::from(file));
    Ok(OpenDevice {
        path,
        file,
        superblock,
        content,
        is_mended,
        access,
        is_discarded,
        is_preallocated,
    })
}

/// What [`open_device`] would do, found out without making or changing anything.
///
/// # Errors
/// Those of [`open_device`], as far as they can be told without writing.
pub fn check_device(plan: &DevicePlan) -> Result<DeviceProspect, DeviceError> {
    let target = Target::find(&plan.path)?;
    check_target(&target, plan).map_err(|problem| target.error(problem))
}

fn check_target(target: &Target, plan: &DevicePlan) -> Result<DeviceProspect, DeviceProblem> {
    let wanted = plan.lay_out(random_id()?)?;
    let path = target.path.clone();
    let Some(file) = target.open_existing()? else {
        let folder = target.folder()?;
        room::check(&folder, target.kind, wanted.device_bytes)?;
        let access = direct::of_filesystem(&folder, target.kind);
        let content = Content::Fresh(Fresh::New);
        return Ok(DeviceProspect { path, superblock: wanted, content, access });
    };
    let (content, superblock, _) = head::judge(&file, target.kind, wanted)?;
    room::check(&file, target.kind, superblock.device_bytes)?;
    let access = direct::turn_on(&file, target.kind);
    Ok(DeviceProspect { path, superblock, content, access })
}

/// Opens a device to look at it: without a lock, for reading only. The path may also be that of the file itself.
///
/// # Errors
/// There is no device, or none that this program can read.
pub fn read_superblock(path: &Path) -> Result<(StdFile, Superblock), DeviceError> {
    let target = Target::find_to_read(path)?;
    let read = || {
        let file = target.open_to_read()?;
        let superblock = head::read(&file)?;
        Ok((file, superblock))
    };
    read().map_err(|problem| target.error(problem))
}

/// An id that no other device has, nor this one in a former life: what was written under another is not believed.
fn random_id() -> Result<DeviceId, DeviceProblem> {
    let mut id = [0; 16];
    let read = StdFile::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut id));
    read.map_err(error::failed("given a random id from /dev/urandom"))?;
    Ok(DeviceId(id))
}
