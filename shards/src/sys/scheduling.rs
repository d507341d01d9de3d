//! How the kernel's scheduler treats a thread beside others that want its core. Without privileges, and only where
//! the thread is an ordinary one: an administrator who chose another policy is not overruled.

use std::io;
use std::time::Duration;

use libc::sched_attr;

/// Has the calling thread ask for its core in slices this long: it is put first for that where it becomes ready beside
/// threads that ask for longer ones. Kernels before 6.12 take no notice.
pub(crate) fn take_short_slices(slice: Duration) -> io::Result<()> {
    change(|attributes| {
        attributes.sched_runtime = u64::try_from(slice.as_nanos()).expect("a slice is short");
    })
}

/// Has the calling thread, and those that it starts, take nobody's core away when they become ready.
pub(crate) fn give_way() -> io::Result<()> {
    change(|attributes| attributes.sched_policy = libc::SCHED_BATCH as u32)
}

/// How long the calling thread has been on a core since it began.
pub(crate) fn processor_time() -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written where the pointer leads, and nowhere else.
    match unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } {
        0 => Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn change(change: impl FnOnce(&mut sched_attr)) -> io::Result<()> {
    let mut attributes = current()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    change(&mut attributes);
    // SAFETY: the attributes are read within the size that they name; thread 0 is the caller.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn current() -> io::Result<sched_attr> {
    // SAFETY: attributes are plain numbers.
    let mut attributes: sched_attr = unsafe { std::mem::zeroed() };
    let bytes = size_of::<sched_attr>() as u32;
    // SAFETY: the attributes are written within the size that is given; thread 0 is the caller.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_thread(check: impl FnOnce() + Send + 'static) {
        std::thread::spawn(check).join().expect("the thread's assertions hold");
    }

    #[test]
    fn a_thread_that_gives_way_passes_it_on_to_those_it_starts() {
        on_a_thread(|| {
            give_way().expect("a thread may give way");
            let policy = || current().expect("the kernel tells").sched_policy;
            assert_eq!(policy(), libc::SCHED_BATCH as u32);
            on_a_thread(move || assert_eq!(policy(), libc::SCHED_BATCH as u32));
        });
    }

    #[test]
    fn a_short_slice_leaves_policy_and_nice_value_as_they_were() {
        on_a_thread(|| {
            let before = current().expect("the kernel tells");
            take_short_slices(Duration::from_micros(100)).expect("a thread may ask for it");
            let after = current().expect("the kernel tells");
            assert_eq!(after.sched_policy, before.sched_policy);
            assert_eq!(after.sched_nice, before.sched_nice);
            // Kernels that take no notice tell of none.
            assert!([0, 100_000].contains(&after.sched_runtime), "{}", after.sched_runtime);
        });
    }

    #[test]
    fn only_time_on_a_core_is_counted() {
        on_a_thread(|| {
            let before = processor_time().expect("the kernel tells");
            std::thread::park_timeout(Duration::from_millis(100));
            let slept = processor_time().expect("the kernel tells") - before;
            assert!(slept < Duration::from_millis(50), "{slept:?}");
            while processor_time().expect("the kernel tells") - before < Duration::from_millis(60) {
            }
        });
    }

    #[test]
    fn a_thread_of_another_policy_keeps_it() {
        on_a_thread(|| {
            give_way().expect("a thread may give way");
            take_short_slices(Duration::from_micros(100)).expect("nothing is done");
            assert_ne!(current().expect("the kernel tells").sched_runtime, 100_000);
        });
    }
}
