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

/// The memory of one shard.
pub struct Buffers {
    units: Arc<Semaphore>,
    units_max: u32,
    waiting: Cell<usize>,
}

/// Memory that is reserved until this is dropped.
pub struct Reserved(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

/// There was none for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBuffers;

impl Buffers {
    /// Memory of so many bytes.
    pub fn new(bytes_max: u64) -> Buffers {
        let units_max = u32::try_from(bytes_max / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let units = Arc::new(Semaphore::new(units_max as usize));
        Buffers { units, units_max, waiting: Cell::default() }
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
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        Arc::clone(&self.units).try_acquire_many_owned(units).ok().map(Reserved)
    }

    /// Whether a body waits for its memory.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.get() > 0
    }
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
