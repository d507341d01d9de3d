//! Waiting, for tests: a pause, and a look that is repeated until it sees what it waits for.

use std::sync::mpsc;
use std::time::Duration;

/// How often [`eventually`] looks, 10 ms apart.
const LOOKS_MAX: usize = 1500;

/// Lets time pass.
pub fn pause(duration: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    // Nobody sends: the time-out is what is waited for.
    let _ = receiver.recv_timeout(duration);
}

/// Waits until `look` sees it; panics, naming `what`, after fifteen seconds.
pub fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if look() {
            return;
        }
        pause(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
