//! Memory for bytes that are on their way through a shard and in no store: uploads and relayed
//! answers. Each body reserves what it may hold at most before its first byte, so none waits for
//! memory half-way; at the ceiling the next one waits, in order, and is refused with SlowDown last.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::relief::{self, MEMORY_WAIT_MAX};
use crate::shard::Shard;

/// What one body on its way holds at most. Up: a piece being received, one held back, those that
/// wait for the origin's connection, and what that connection has taken and not sent. Down: the
/// parts that wait for the client, the one being sent and the one being received.
pub const BODY_WINDOW_BYTES: u64 = 1536 << 10;

/// The grain in which memory is counted.
const UNIT_BYTES: u64 = 1 << 10;

/// Uploads have at most one part in so many of the memory for what is kept aside of them.
const ASIDE_DIVISOR: u32 = 4;

/// The memory of one shard.
pub struct Buffers {
    units: Arc<Semaphore>,
    units_max: u32,
    /// Of them, those that may still be set aside.
    aside_units: Arc<Semaphore>,
    waiting: Cell<usize>,
}

/// Memory that is reserved until this is dropped, on whichever shard.
#[derive(Debug)]
pub struct Reserved(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

/// Memory for what is kept aside of an upload, until this is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held until it is dropped")]
pub struct SetAside(Reserved, Reserved);

/// There was none for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBuffers;

impl Buffers {
    /// Memory of so many bytes.
    pub fn new(bytes_max: u64) -> Buffers {
        let units_max = u32::try_from(bytes_max / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let semaphore = |units: u32| Arc::new(Semaphore::new(units as usize));
        let (units, aside_units) = (semaphore(units_max), semaphore(units_max / ASIDE_DIVISOR));
        Buffers { units, units_max, aside_units, waiting: Cell::default() }
    }

    /// The ceiling.
    pub fn bytes_max(&self) -> u64 {
        u64::from(self.units_max) * UNIT_BYTES
    }

    /// What is reserved.
    pub fn reserved_bytes(&self) -> u64 {
        self.bytes_max() - self.units.available_permits() as u64 * UNIT_BYTES
    }

    /// Memory for so many bytes, if it is there at once.
    pub fn try_reserve(&self, bytes: u64) -> Option<Reserved> {
        try_take(&self.units, bytes)
    }

    /// The same for bytes that are kept aside, unless others wait or too many are.
    pub fn try_set_aside(&self, bytes: u64) -> Option<SetAside> {
        if self.is_waited_for() {
            return None;
        }
        Some(SetAside(try_take(&self.aside_units, bytes)?, self.try_reserve(bytes)?))
    }

    /// Whether a body waits for its memory.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.get() > 0
    }
}

fn try_take(units: &Arc<Semaphore>, bytes: u64) -> Option<Reserved> {
    let count = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
    Arc::clone(units).try_acquire_many_owned(count).ok().map(Reserved)
}

/// Reserves memory for a body, in turn.
pub async fn reserve(shard: &Rc<Shard>, bytes: u64) -> Result<Reserved, NoBuffers> {
    let buffers = &shard.buffers;
    let units = bytes.div_ceil(UNIT_BYTES).min(u64::from(buffers.units_max)) as u32;
    if let Ok(permit) = Arc::clone(&buffers.units).try_acquire_many_owned(units) {
        return Ok(Reserved(permit));
    }
    let _waiting = Waiting::new(&buffers.waiting);
    relief::begin(shard);
    let turn = Arc::clone(&buffers.units).acquire_many_owned(units);
    match shard.reactor.timeout(MEMORY_WAIT_MAX, turn).await {
        Ok(Ok(permit)) => Ok(Reserved(permit)),
        _ => Err(NoBuffers),
    }
}

struct Waiting<'a>(&'a Cell<usize>);

impl Waiting<'_> {
    fn new(count: &Cell<usize>) -> Waiting<'_> {
        count.set(count.get() + 1);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn what_is_set_aside_is_a_part_and_counts_as_reserved_until_it_is_dropped() {
        let buffers = Buffers::new(400 * KIB);
        let first = buffers.try_set_aside(60 * KIB).expect("there is room");
        let second = buffers.try_set_aside(40 * KIB - 1).expect("there is room");
        assert_eq!(buffers.reserved_bytes(), 100 * KIB);
        assert!(buffers.try_set_aside(1).is_none(), "no more than a part");
        assert!(buffers.try_reserve(300 * KIB).is_some(), "the rest is for bodies on their way");
        drop((first, second));
        assert_eq!(buffers.reserved_bytes(), 0);
        assert!(buffers.try_set_aside(100 * KIB).is_some());
    }

    #[test]
    fn nothing_is_set_aside_of_what_is_reserved_or_waited_for() {
        let buffers = Buffers::new(400 * KIB);
        let reserved = buffers.try_reserve(350 * KIB);
        assert!(buffers.try_set_aside(60 * KIB).is_none());
        assert!(buffers.try_set_aside(50 * KIB).is_some());
        drop(reserved);
        let waiting = Waiting::new(&buffers.waiting);
        assert!(buffers.try_set_aside(1).is_none());
        drop(waiting);
        assert!(buffers.try_set_aside(1).is_some());
    }
}
