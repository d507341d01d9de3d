//! Many seeds, on a few threads: each run is one thread's own, so they do not disturb each other. A
//! run that panics is a violation like any other.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::device::DeviceCounts;
use crate::mistake::{Mistake, plant};
use crate::run::{Outcome, run};
use crate::weather::DeviceShare;
use nilas_base::Clock;

/// Which seeds, and how.
#[derive(Clone, Copy, Debug)]
pub struct Season {
    /// The first.
    pub first_seed: u64,
    /// How many at least.
    pub seeds: u64,
    /// For how long at least.
    pub time: Duration,
    /// On how many threads.
    pub threads: usize,
    /// Which of them have a cache device.
    pub devices: DeviceShare,
    /// With which mistake; the season ends when it is found.
    pub mistake: Option<Mistake>,
}

/// What a season came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Seeds played.
    pub seeds: u64,
    /// Answers judged.
    pub answers: u64,
    /// Seeds in which something was wrong, in order.
    pub wrong_seeds: BTreeSet<u64>,
    /// The lowest of them.
    pub first_wrong: Option<Outcome>,
    /// What became of the cache devices.
    pub device: DeviceCounts,
    /// How long it took.
    pub seconds: f64,
}

/// Plays a season.
pub fn play(season: &Season) -> Tally {
    let clock = Clock::system();
    let start = clock.now();
    let (next, found) = (AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..season.threads {
            scope.spawn(|| {
                while !found.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= season.seeds && clock.now().since(start) >= season.time {
                        return;
                    }
                    let seed = season.first_seed + number;
                    let outcome = one(seed, season.devices, season.mistake, false);
                    let is_found = season.mistake.is_some() && !outcome.violations.is_empty();
                    found.fetch_or(is_found, Ordering::Relaxed);
                    tally.lock().expect("nobody panics with it").add(outcome);
                }
            });
        }
    });
    let mut tally = tally.into_inner().expect("nobody panics with it");
    tally.seconds = clock.now().since(start).as_secs_f64();
    tally
}

/// Plays one seed with a mistake planted, or none.
pub fn one(
    seed: u64,
    devices: DeviceShare,
    mistake: Option<Mistake>,
    keeps_journal: bool,
) -> Outcome {
    plant(mistake);
    listen_to_panics();
    PANIC.take();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, devices, keeps_journal)))
        .unwrap_or_else(|_| {
            let said = PANIC.take().unwrap_or_default();
            Outcome {
                seed,
                violations: vec![format!("panic: {said}")],
                trace_hash: 0,
                answers: 0,
                device: DeviceCounts::default(),
                journal: Vec::new(),
            }
        });
    plant(None);
    outcome
}

thread_local! {
    /// What the last panic on this thread said, and whether runs on it are listened to.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what a run's panic says instead of printing it.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            if thread.name().is_some() {
                before(panic);
            }
            PANIC.replace(Some(panic.to_string()));
        }));
    });
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.answers += outcome.answers;
        self.device.add(&outcome.device);
        if outcome.violations.is_empty() {
            return;
        }
        self.wrong_seeds.insert(outcome.seed);
        if self.first_wrong.as_ref().is_none_or(|first| outcome.seed < first.seed) {
            self.first_wrong = Some(outcome);
        }
    }
}
