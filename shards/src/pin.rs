//! Threads and cores: which cores this process may use, and a thread's place on one of them.

use crate::sys::affinity;
use std::io;

/// Keeps the calling thread on one core. An error names a core that this process may not use.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    affinity::pin(core)
}

/// The cores this process may use, in order.
pub fn usable_cores() -> io::Result<Vec<usize>> {
    affinity::usable()
}
