//! What is on a device already, and what becomes of it: kept, where it is laid out as it would be now; laid out anew,
//! where it is ours and is not; never touched, where it is somebody else's or a newer program's.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::DeviceProblem;
use super::error::failed;
use super::target::Kind;
use crate::disk::{HEAD_BYTES, Superblock, Unreadable};

/// Whether what was on the device is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// It is taken as it is.
    Kept,
    /// It is laid out anew, and empty.
    Fresh(Fresh),
}

/// Why a device is laid out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// There was nothing.
    New,
    /// Its superblock, both copies, is damaged or of an older version.
    Unreadable(Unreadable),
    /// It ends before its last area does.
    Short,
    /// It was laid out for another number of shards.
    Shards {
        /// What it was laid out for.
        had: u16,
        /// What runs now.
        wanted: u16,
    },
    /// Its segments have another length.
    Segments {
        /// Bytes of its segments.
        had: u32,
        /// What the budgets lead to.
        wanted: u32,
    },
    /// Its blocks have another length.
    Blocks {
        /// Bytes of its blocks.
        had: u32,
        /// Bytes of a block now.
        wanted: u32,
    },
    /// Its areas have other lengths.
    Budgets,
}

impl fmt::Display for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fresh::New => f.write_str("nothing was there"),
            Fresh::Unreadable(why) => write!(f, "its superblock cannot be used: {why}"),
            Fresh::Short => f.write_str("it is shorter than its superblock says"),
            Fresh::Shards { had, wanted } => {
                write!(f, "it was laid out for {had} shards, and now there are {wanted}")
            }
            Fresh::Segments { had, wanted } => {
                write!(f, "its segments have {had} bytes, and the budgets now ask for {wanted}")
            }
            Fresh::Blocks { had, wanted } => {
                write!(f, "its blocks have {had} bytes, and cache.block_bytes is now {wanted}")
            }
            Fresh::Budgets => f.write_str("it was laid out for other budgets"),
        }
    }
}

/// What becomes of a device's content, the superblock that it then has, and whether a copy of a superblock that is
/// kept cannot be read, or tells of another layout.
pub(super) fn judge(
    file: &File,
    kind: Kind,
    wanted: Superblock,
) -> Result<(Content, Superblock, bool), DeviceProblem> {
    let (head, device_bytes) = read_head(file)?;
    let fresh = |why| Ok((Content::Fresh(why), wanted.clone(), false));
    match decode(&head) {
        Ok(found) => match difference(&found, &wanted) {
            Some(why) => fresh(why),
            None if device_bytes < found.device_bytes => fresh(Fresh::Short),
            None => Ok((Content::Kept, found, has_bad_copy(&head))),
        },
        Err(why) if why.is_of_newer() => Err(refusal(why)),
        Err(Unreadable::Foreign) if head.iter().all(|byte| *byte == 0) => fresh(Fresh::New),
        Err(Unreadable::Foreign) => Err(match kind {
            Kind::BlockDevice => DeviceProblem::Foreign,
            Kind::File => DeviceProblem::ForeignFile,
        }),
        Err(why) => fresh(Fresh::Unreadable(why)),
    }
}

/// The superblock of a device that is only looked at.
pub(super) fn read(file: &File) -> Result<Superblock, DeviceProblem> {
    let (head, _) = read_head(file)?;
    decode(&head).map_err(refusal)
}

/// Why a device is not used whose superblock cannot be.
fn refusal(why: Unreadable) -> DeviceProblem {
    match why {
        Unreadable::UnknownArea(kind) => DeviceProblem::UnknownArea(kind),
        Unreadable::Version(version) if why.is_of_newer() => DeviceProblem::Newer(version),
        why => DeviceProblem::NoSuperblock(why),
    }
}

/// The head as far as it is there, and the bytes of the whole device.
fn read_head(mut file: &File) -> Result<(Vec<u8>, u64), DeviceProblem> {
    let device_bytes = file.seek(SeekFrom::End(0)).map_err(failed("measured"))?;
    let mut head = Vec::with_capacity(HEAD_BYTES as usize);
    file.rewind()
        .and_then(|()| file.take(HEAD_BYTES).read_to_end(&mut head))
        .map_err(failed("read"))?;
    Ok((head, device_bytes))
}

fn decode(head: &[u8]) -> Result<Superblock, Unreadable> {
    let [first, second] = copies(head);
    Superblock::of_copies(first, second)
}

fn has_bad_copy(head: &[u8]) -> bool {
    let [first, second] = copies(head).map(Superblock::decode);
    first.is_err() || first != second
}

fn copies(head: &[u8]) -> [&[u8]; 2] {
    Superblock::COPIES_AT.map(|at| head.get(at as usize..).unwrap_or_default())
}

/// The first thing in which a layout is not the one that is wanted.
fn difference(found: &Superblock, wanted: &Superblock) -> Option<Fresh> {
    let shards = |it: &Superblock| {
        let last = it.areas.iter().map(|area| area.shard).max();
        last.map_or(0, |last| last.saturating_add(1))
    };
    let (had, now) = (shards(found), shards(wanted));
    if had != now {
        return Some(Fresh::Shards { had, wanted: now });
    }
    let (had, now) = (found.block_bytes, wanted.block_bytes);
    if had != now {
        return Some(Fresh::Blocks { had, wanted: now });
    }
    let (had, now) = (found.segment_bytes, wanted.segment_bytes);
    if had != now {
        return Some(Fresh::Segments { had, wanted: now });
    }
    let is_same = found.areas == wanted.areas && found.device_bytes == wanted.device_bytes;
    (!is_same).then_some(Fresh::Budgets)
}
