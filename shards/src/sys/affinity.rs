//! Which cores a thread may run on, as the kernel's scheduler keeps it.

use std::io;

type CoreSet = libc::cpu_set_t;

/// Keeps the calling thread on one core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut cores = empty();
    // SAFETY: the core's number is below the set's size.
    unsafe { libc::CPU_SET(core, &mut cores) };
    // SAFETY: the set is read within its size; thread 0 is the caller.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<CoreSet>(), &raw const cores) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The cores the calling thread may run on, in order.
pub(crate) fn usable() -> io::Result<Vec<usize>> {
    let mut cores = empty();
    // SAFETY: the set is written within its size; thread 0 is the caller.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<CoreSet>(), &raw mut cores) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: each number is below the set's size.
    let is_set = |&core: &usize| unsafe { libc::CPU_ISSET(core, &cores) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(is_set).collect())
}

fn empty() -> CoreSet {
    // SAFETY: a set of cores is a plain array of bits.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_its_core_only() {
        let core = *usable().expect("the kernel tells").last().expect("this thread runs on one");
        std::thread::spawn(move || {
            pin(core).expect("the core is usable");
            assert_eq!(usable().expect("the kernel tells"), [core]);
        })
        .join()
        .expect("the thread's assertions hold");
    }
}
