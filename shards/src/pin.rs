//! Threads and cores: which cores this process may use, a thread's place on one of them, and who goes
//! first where several threads want one.

use crate::sys::{affinity, scheduling};
use std::io;
use std::time::Duration;

/// The slices in which a shard asks for its core: the shortest that the kernel knows.
const SLICE: Duration = Duration::from_micros(100);

/// Keeps the calling thread on one core. An error names a core that this process may not use.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    affinity::pin(core)
}

/// The cores this process may use, in order.
pub fn usable_cores() -> io::Result<Vec<usize>> {
    affinity::usable()
}

/// Has the calling thread go before others that become ready on its core, for short turns each time; its share of the
/// core stays what it was.
pub fn go_first() -> io::Result<()> {
    scheduling::take_short_slices(SLICE)
}

/// How long the calling thread has been on a core since it began.
pub fn processor_time() -> io::Result<Duration> {
    scheduling::processor_time()
}

/// Has the calling thread, and those that it starts, interrupt nobody who runs on their core; their share of it stays
/// what it was.
pub fn give_way() -> io::Result<()> {
    scheduling::give_way()
}
