//! What is asked when: each task has a time of its own, by chance a little early or late; one that fails waits
//! twice as long each time, up to a bound. A catalog that fails as a whole is left alone, and then tried with one
//! request. Knows no clock: time goes in, tasks come out.

use std::collections::BTreeSet;
use std::time::Duration;

use nilas_base::{HashMap, Monotonic, Rng};
use nilas_iceberg::catalog::TableName;

use crate::source::doubled;

/// The longest wait of a task that fails, where its interval is no longer.
const BACK_OFF_MAX: Duration = Duration::from_secs(15 * 60);
/// The first pause of a catalog that fails as a whole, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);
/// Failures in a row, whoever's, that say that it is the catalog which fails.
const FAILURES_IN_A_ROW_MAX: u32 = 8;
/// How soon after its last answer a hinted table is asked for again.
const HINT_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Jitter: a wait is longer or shorter by up to one part in so many.
const JITTER_PART: u64 = 10;

/// Something that is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Task {
    /// What the server says of itself, and all its tables.
    List,
    /// A table.
    Load(TableName),
    /// New credentials of a table.
    Renew(TableName),
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Well,
    /// It failed, for a reason of its own.
    Badly,
    /// It failed by a decision, which says that the catalog is well.
    Refused,
    /// It failed because of the catalog, which asks to be left alone for so long.
    ForAll(Option<Duration>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    At(Monotonic),
    UnderWay {
        /// It was asked for again meanwhile.
        is_wanted_again: bool,
        /// It was dropped meanwhile.
        is_forgotten: bool,
    },
}

#[derive(Debug)]
struct Entry {
    when: When,
    failures: u32,
    ended: Option<Monotonic>,
}

/// How often tasks are done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals {
    pub(super) poll: Duration,
    pub(super) listing: Duration,
    pub(super) in_flight_max: usize,
}

/// The tasks of one catalog.
pub(super) struct Schedule {
    intervals: Intervals,
    rng: Rng,
    tasks: HashMap<Task, Entry>,
    due: BTreeSet<(Monotonic, Task)>,
    in_flight: usize,
    paused_until: Option<Monotonic>,
    pauses: u32,
    failures_in_a_row: u32,
}

impl Schedule {
    /// A schedule that begins with a listing.
    pub(super) fn new(intervals: Intervals, rng: Rng, now: Monotonic) -> Schedule {
        let mut schedule = Schedule {
            intervals,
            rng,
            tasks: HashMap::default(),
            due: BTreeSet::default(),
            in_flight: 0,
            paused_until: None,
            pauses: 0,
            failures_in_a_row: 0,
        };
        schedule.set(Task::List, now);
        schedule
    }

    /// The next task to begin; `None` where there is none now.
    pub(super) fn next(&mut self, now: Monotonic) -> Option<Task> {
        if self.pause(now).is_some() || self.in_flight >= self.room() {
            return None;
        }
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, task) = self.due.pop_first().expect("just seen");
        let entry = self.tasks.get_mut(&task).expect("what is due is known");
        entry.when = When::UnderWay { is_wanted_again: false, is_forgotten: false };
        self.in_flight += 1;
        Some(task)
    }

    /// When [`Schedule::next`] is to be asked again, if nothing ends before.
    pub(super) fn wake_at(&self) -> Option<Monotonic> {
        if self.in_flight >= self.room() {
            return None;
        }
        let (due, _) = self.due.first()?;
        Some(self.paused_until.map_or(*due, |until| until.max(*due)))
    }

    /// A catalog that fails is tried with one request at a time.
    fn room(&self) -> usize {
        if self.pauses > 0 { 1 } else { self.intervals.in_flight_max }
    }

    /// How long the catalog is still left alone.
    pub(super) fn pause(&self, now: Monotonic) -> Option<Duration> {
        self.paused_until.filter(|until| now < *until).map(|until| until.since(now))
    }

    /// Whether a task is known.
    pub(super) fn has(&self, task: &Task) -> bool {
        let is_kept =
            |entry: &Entry| !matches!(entry.when, When::UnderWay { is_forgotten: true, .. });
        self.tasks.get(task).is_some_and(is_kept)
    }

    /// Plans a task for a time; one that is under way is done again afterwards.
    pub(super) fn set(&mut self, task: Task, at: Monotonic) {
        let new = Entry { when: When::At(at), failures: 0, ended: None };
        let entry = self.tasks.entry(task.clone()).or_insert(new);
        match &mut entry.when {
            When::UnderWay { is_wanted_again, is_forgotten } => {
                (*is_wanted_again, *is_forgotten) = (true, false);
                return;
            }
            When::At(before) => {
                self.due.remove(&(*before, task.clone()));
                *before = at;
            }
        }
        self.due.insert((at, task));
    }

    /// Does a task as soon as may be, though not too soon after its last time.
    pub(super) fn hasten(&mut self, task: Task, now: Monotonic) {
        let entry = self.tasks.get(&task);
        let last = entry.and_then(|entry| entry.ended).map(|at| at.after(HINT_INTERVAL_MIN));
        let at = last.map_or(now, |earliest| earliest.max(now));
        match entry.map(|entry| entry.when) {
            Some(When::At(due)) if due <= at => {}
            _ => self.set(task, at),
        }
    }

    /// Drops a task; one that is under way ends without consequence.
    pub(super) fn forget(&mut self, task: &Task) {
        let Some(entry) = self.tasks.get_mut(task) else { return };
        match &mut entry.when {
            When::UnderWay { is_forgotten, .. } => *is_forgotten = true,
            When::At(due) => {
                self.due.remove(&(*due, task.clone()));
                self.tasks.remove(task);
            }
        }
    }

    /// A task has ended. One that renews has no next time until one is set.
    pub(super) fn done(&mut self, task: &Task, ended: Ended, now: Monotonic) {
        self.in_flight -= 1;
        self.judge_catalog(ended, now);
        let Some(mut entry) = self.tasks.remove(task) else { return };
        let When::UnderWay { is_wanted_again, is_forgotten } = entry.when else { return };
        if is_forgotten {
            return;
        }
        entry.ended = Some(now);
        entry.failures = match ended {
            Ended::Well => 0,
            Ended::Badly | Ended::Refused => entry.failures.saturating_add(1),
            Ended::ForAll(_) => entry.failures,
        };
        let at = match ended {
            _ if is_wanted_again => now.after(HINT_INTERVAL_MIN),
            Ended::ForAll(_) => self.paused_until.unwrap_or(now),
            Ended::Well if matches!(task, Task::Renew(_)) => return,
            Ended::Well | Ended::Badly | Ended::Refused => {
                let wait = self.wait(task, entry.failures);
                now.after(self.jittered(wait))
            }
        };
        entry.when = When::At(at);
        self.due.insert((at, task.clone()));
        self.tasks.insert(task.clone(), entry);
    }

    fn judge_catalog(&mut self, ended: Ended, now: Monotonic) {
        let is_paused = self.pause(now).is_some();
        let retry_after = match ended {
            Ended::Well | Ended::Refused => {
                self.failures_in_a_row = 0;
                // What was under way when the pause began says nothing of it.
                if !is_paused {
                    (self.pauses, self.paused_until) = (0, None);
                }
                return;
            }
            Ended::Badly => {
                self.failures_in_a_row += 1;
                if self.failures_in_a_row < FAILURES_IN_A_ROW_MAX {
                    return;
                }
                None
            }
            Ended::ForAll(retry_after) => retry_after,
        };
        let asked = retry_after.map(|wait| now.after(wait));
        let until = if is_paused {
            self.paused_until
        } else {
            self.failures_in_a_row = 0;
            let first = PAUSE_MIN.min(self.intervals.poll);
            let wait = doubled(first, self.pauses, PAUSE_MAX);
            self.pauses = self.pauses.saturating_add(1);
            Some(now.after(self.jittered(wait)))
        };
        self.paused_until = until.max(asked);
    }

    fn wait(&self, task: &Task, failures: u32) -> Duration {
        let interval = match task {
            Task::List if failures == 0 => self.intervals.listing,
            Task::List => self.intervals.poll.min(self.intervals.listing),
            Task::Load(_) | Task::Renew(_) => self.intervals.poll,
        };
        doubled(interval, failures.saturating_sub(1), BACK_OFF_MAX)
    }

    fn jittered(&mut self, wait: Duration) -> Duration {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX / 2);
        let part = nanos / JITTER_PART;
        Duration::from_nanos(nanos - part + self.rng.below(2 * part + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);

    fn schedule() -> Schedule {
        let intervals =
            Intervals { poll: POLL, listing: Duration::from_secs(300), in_flight_max: 4 };
        Schedule::new(intervals, Rng::from_seed(7), Monotonic(0))
    }

    fn load(name: &str) -> Task {
        Task::Load(TableName::from_dotted(&format!("n.{name}")).expect("a full name"))
    }

    fn at(after: Duration) -> Monotonic {
        Monotonic(0).after(after)
    }

    /// Takes what is due until nothing is, in order.
    fn drain(schedule: &mut Schedule, now: Monotonic) -> Vec<Task> {
        std::iter::from_fn(|| schedule.next(now)).collect()
    }

    #[test]
    fn a_listing_comes_first_and_tables_come_again_about_every_interval() {
        let mut schedule = schedule();
        assert_eq!(drain(&mut schedule, at(Duration::ZERO)), [Task::List]);
        schedule.set(load("a"), at(SECOND));
        schedule.done(&Task::List, Ended::Well, at(SECOND));
        let mut now = at(SECOND);
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(drain(&mut schedule, now), [load("a")]);
            schedule.done(&load("a"), Ended::Well, now);
            let next = schedule.wake_at().expect("it comes again");
            waits.push(next.since(now));
            assert_eq!(drain(&mut schedule, Monotonic(next.0 - 1)), []);
            now = next;
        }
        let within = |wait: &Duration| *wait >= POLL * 9 / 10 && *wait <= POLL * 11 / 10;
        assert!(waits.iter().all(within), "{waits:?}");
        assert!(waits.iter().any(|wait| wait != &waits[0]), "by chance: {waits:?}");
    }

    #[test]
    fn no_more_is_under_way_than_may_be() {
        let mut schedule = schedule();
        (0..9).for_each(|number| schedule.set(load(&number.to_string()), at(Duration::ZERO)));
        assert_eq!(drain(&mut schedule, at(SECOND)).len(), 4);
        assert_eq!(schedule.wake_at(), None, "only an end makes room");
        schedule.done(&Task::List, Ended::Well, at(SECOND));
        assert_eq!(drain(&mut schedule, at(SECOND)).len(), 1);
    }

    #[test]
    fn a_table_that_fails_waits_twice_as_long_each_time_and_the_others_do_not() {
        let mut schedule = schedule();
        schedule.set(load("bad"), at(Duration::ZERO));
        schedule.set(load("good"), at(Duration::ZERO));
        let (mut waits, mut good) = (Vec::new(), 0);
        let mut now = at(Duration::ZERO);
        while waits.len() < 8 {
            for task in drain(&mut schedule, now) {
                let ended = if task == load("bad") { Ended::Badly } else { Ended::Well };
                good += u32::from(task == load("good"));
                schedule.done(&task, ended, now);
                if task == load("bad") {
                    let When::At(next) = schedule.tasks[&task].when else { panic!("it ended") };
                    waits.push(next.since(now).as_secs_f64() / POLL.as_secs_f64());
                }
            }
            now = schedule.wake_at().expect("something comes");
        }
        for (wait, about) in waits.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]) {
            assert!((wait / about - 1.0).abs() < 0.11, "{waits:?}");
        }
        assert!(good > 80, "{good}");
        schedule.hasten(load("bad"), now);
        assert!(schedule.due.iter().any(|(due, task)| *task == load("bad") && *due <= now));
    }

    #[test]
    fn a_catalog_that_fails_is_left_alone_and_tried_with_one_request() {
        let mut schedule = schedule();
        (0..3).for_each(|number| schedule.set(load(&number.to_string()), at(Duration::ZERO)));
        let tasks = drain(&mut schedule, at(Duration::ZERO));
        for task in &tasks {
            schedule.done(task, Ended::ForAll(None), at(Duration::ZERO));
        }
        assert_eq!(drain(&mut schedule, at(SECOND / 2)), [], "it is left alone");
        let mut now = schedule.wake_at().expect("it is tried again");
        assert!(now.since(Monotonic(0)) <= SECOND * 11 / 10, "four at once are one failure");
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let tried = drain(&mut schedule, now);
            assert_eq!(tried.len(), 1);
            schedule.done(&tried[0], Ended::ForAll(None), now);
            let next = schedule.wake_at().expect("it is tried again");
            pauses.push(next.since(now));
            now = next;
        }
        assert!(pauses.windows(2).all(|pair| pair[1] > pair[0].mul_f64(0.7)), "{pauses:?}");
        assert!(pauses.last().expect("twelve") <= &(PAUSE_MAX * 11 / 10), "{pauses:?}");
        let tried = drain(&mut schedule, now);
        schedule.done(&tried[0], Ended::Well, now);
        assert_eq!(drain(&mut schedule, now).len(), 3, "all at once again");
    }

    #[test]
    fn it_is_left_alone_for_as_long_as_it_asks() {
        let mut schedule = schedule();
        let tasks = drain(&mut schedule, at(Duration::ZERO));
        let asked = Duration::from_secs(77);
        schedule.done(&tasks[0], Ended::ForAll(Some(asked)), at(Duration::ZERO));
        assert_eq!(schedule.wake_at(), Some(at(asked)));
        schedule.hasten(load("hinted"), at(SECOND));
        assert_eq!(drain(&mut schedule, at(asked - SECOND)), []);
        assert_eq!(drain(&mut schedule, at(asked)).len(), 1);
    }

    #[test]
    fn many_failures_in_a_row_are_the_catalogs() {
        let mut schedule = schedule();
        (0..20).for_each(|number| schedule.set(load(&number.to_string()), at(Duration::ZERO)));
        let mut ended = 0;
        while let Some(task) = schedule.next(at(SECOND)) {
            schedule.done(&task, Ended::Badly, at(SECOND));
            ended += 1;
        }
        assert_eq!(ended, FAILURES_IN_A_ROW_MAX);
    }

    #[test]
    fn a_hint_while_a_table_is_asked_for_asks_once_more() {
        let mut schedule = schedule();
        schedule.set(load("a"), at(Duration::ZERO));
        let now = at(SECOND);
        assert_eq!(drain(&mut schedule, now).len(), 2);
        for _ in 0..5 {
            schedule.hasten(load("a"), now);
        }
        assert_eq!(drain(&mut schedule, now), []);
        schedule.done(&load("a"), Ended::Well, now);
        schedule.done(&Task::List, Ended::Well, now);
        let again = schedule.wake_at().expect("once more");
        assert_eq!(again.since(now), HINT_INTERVAL_MIN);
        assert_eq!(drain(&mut schedule, again), [load("a")]);
        schedule.done(&load("a"), Ended::Well, again);
        assert!(schedule.wake_at().expect("later").since(again) > POLL / 2);
    }

    #[test]
    fn what_is_forgotten_does_not_come_again() {
        let mut schedule = schedule();
        schedule.set(load("a"), at(Duration::ZERO));
        schedule.set(load("b"), at(POLL));
        assert_eq!(drain(&mut schedule, at(SECOND)).len(), 2);
        schedule.forget(&load("a"));
        schedule.forget(&load("b"));
        assert!(!schedule.has(&load("a")) && !schedule.has(&load("b")));
        schedule.done(&load("a"), Ended::Well, at(SECOND));
        schedule.done(&Task::List, Ended::Well, at(SECOND));
        let far = at(Duration::from_secs(9999));
        assert_eq!(drain(&mut schedule, far), [Task::List]);
    }
}
