//! Random use of a journal on a simulated disk: a life of it ends by a stop, a kill or a power cut, also while it is
//! opened, and between lives segments are damaged or the disk is sick. Loss of power alone must never cost anything.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::Rng;

use super::bench::{OFFSET, OWNER, PAGE, Replay, SEGMENT_PAGES, SEGMENTS, place};
use super::model::{History, spawn_users};
use crate::file::File;
use crate::journal::{Damage, Journal, JournalConfig};
use crate::reactor::Reactor;
use crate::ring::simulated::{DiskCondition, SimulatedWorld};

/// Plays of each kind; a search for a mistake takes more, for it ends where it finds one.
const SEEDS: u64 = 500;
const LIVES: u64 = 6;
const SEGMENT_BYTES: usize = (SEGMENT_PAGES * PAGE) as usize;

/// What goes wrong beside stops, kills and power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    /// One segment at a time, between two lives.
    Damage,
    /// One kind of fault, now and then.
    Sickness,
    /// Many writes go to other places.
    Misdirection,
}

impl Trouble {
    /// Whether it may strike at any time, so that damage is never a surprise.
    fn is_constant(self) -> bool {
        matches!(self, Trouble::Sickness | Trouble::Misdirection)
    }
}

/// How many openings ended so.
#[derive(Default, Debug)]
struct Tally {
    whole: u64,
    entries: u64,
    fresh: u64,
    void: u64,
    damaged: u64,
    interrupted: u64,
}

struct Play {
    seed: u64,
    trouble: Trouble,
    rng: Rng,
    world: SimulatedWorld,
    file: File,
    history: History,
    /// What the area held at the end of each life.
    older: Vec<Vec<u8>>,
    /// Whether an opening has come to its end, so that the area is new no more.
    has_begun: bool,
    /// Whether something was wrong since that allows damage to be seen.
    is_spoilt: bool,
    /// Whether the last life has failed and has had that noted.
    is_void: bool,
    /// Whether segments were exchanged. That is done once: done twice it puts the area back to an older state.
    is_exchanged: bool,
    tally: Tally,
}

impl Play {
    fn new(seed: u64, trouble: Trouble) -> Play {
        let world = SimulatedWorld::new(seed);
        let file = world.create_file(OFFSET + (SEGMENTS + 1) * SEGMENT_PAGES * PAGE);
        Play {
            seed,
            trouble,
            rng: Rng::from_seed(seed),
            older: vec![vec![0; SEGMENTS as usize * SEGMENT_BYTES]],
            world,
            file,
            history: History::default(),
            has_begun: false,
            is_spoilt: trouble.is_constant(),
            is_void: false,
            is_exchanged: false,
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Result<Tally, String> {
        for life in 0..LIVES {
            let at = format!("seed {} life {life} with {:?}", self.seed, self.trouble);
            self.live().map_err(|wrong| format!("{at}: {wrong}"))?;
            self.spoil();
        }
        Ok(self.tally)
    }

    fn live(&mut self) -> Result<(), String> {
        self.set_condition();
        let reactor = self.world.reactor();
        let opened = self.open(&reactor);
        let Some((journal, replay)) = opened else {
            self.tally.interrupted += 1;
            self.end(&reactor);
            return Ok(());
        };
        self.take(&replay)?;
        spawn_users(&journal, &self.history, &mut self.rng);
        let micros = if self.rng.chance(1, 2) { 5_000 } else { 200_000 };
        self.world.run_for(Duration::from_micros(self.rng.below(micros)));
        if self.rng.chance(1, 4) {
            self.world.block_on(self.history.flush(&journal));
        }
        self.is_spoilt |= journal.has_failed();
        self.is_void = journal.usage().is_void;
        drop(journal);
        self.end(&reactor);
        Ok(())
    }

    /// Opens the journal, or is interrupted on the way.
    fn open(&mut self, reactor: &Reactor) -> Option<(Journal, Replay)> {
        let opened = Rc::new(RefCell::new(None));
        let (file, place) = (self.file.clone(), place(SEGMENTS));
        let config = JournalConfig { reactor: reactor.clone(), file, place, owner: OWNER };
        let slot = Rc::clone(&opened);
        reactor.spawn(async move {
            let result = super::bench::open(config).await;
            *slot.borrow_mut() = Some(result);
        });
        if self.rng.chance(1, 5) {
            self.world.run_for(Duration::from_micros(self.rng.below(10_000)));
        } else {
            while opened.borrow().is_none() && self.world.step() {}
        }
        opened.take()
    }

    fn take(&mut self, replay: &Replay) -> Result<(), String> {
        self.history.take(replay)?;
        let is_allowed = match replay {
            Replay::Whole(entries) => {
                self.tally.whole += 1;
                self.tally.entries += entries.len() as u64;
                !self.is_void
            }
            Replay::Fresh => {
                self.tally.fresh += 1;
                !self.has_begun
            }
            Replay::Another => false,
            // A log that has become full, which is no damage.
            Replay::Damaged(Damage::Void) => {
                self.tally.void += 1;
                true
            }
            Replay::Damaged(_) => {
                self.tally.damaged += 1;
                self.is_spoilt
            }
        };
        self.has_begun = true;
        self.is_spoilt = self.trouble.is_constant();
        if is_allowed { Ok(()) } else { Err(format!("it may not be {replay:?}")) }
    }

    /// Ends a life: the process dies, and power fails too or does not.
    fn end(&mut self, reactor: &Reactor) {
        self.world.remove_reactor(reactor);
        if self.rng.chance(2, 3) {
            self.world.crash_disk(&self.file);
        }
    }

    fn set_condition(&mut self) {
        let one_in = Some(20 + self.rng.below(400));
        let mut condition = DiskCondition {
            alignment_bytes: PAGE as usize,
            short_read_one_in: Some(10),
            short_write_one_in: Some(10),
            ..DiskCondition::default()
        };
        if self.trouble == Trouble::Misdirection {
            condition.misdirected_write_one_in = Some(2 + self.rng.below(4));
        }
        if self.trouble == Trouble::Sickness {
            let faults = [
                &mut condition.read_error_one_in,
                &mut condition.write_error_one_in,
                &mut condition.sync_error_one_in,
                &mut condition.no_space_one_in,
                &mut condition.flip_one_in,
                &mut condition.rot_one_in,
                &mut condition.misdirected_read_one_in,
                &mut condition.misdirected_write_one_in,
            ];
            let which = self.rng.below(faults.len() as u64) as usize;
            *faults.into_iter().nth(which).expect("one of them") = one_in;
        }
        self.world.set_disk(&self.file, condition);
    }

    fn area(&self) -> Vec<u8> {
        let length = SEGMENTS as usize * SEGMENT_BYTES;
        self.world.disk_bytes(&self.file)[OFFSET as usize..][..length].to_vec()
    }

    fn put(&self, segment: u64, bytes: &[u8]) {
        let offset = OFFSET + segment * SEGMENT_BYTES as u64;
        self.world.overwrite_disk(&self.file, offset, bytes);
    }

    /// Damages one segment, or exchanges two, sometimes; not again before that was seen.
    fn spoil(&mut self) {
        let area = self.area();
        if self.trouble == Trouble::Damage && !self.is_spoilt && self.rng.chance(1, 2) {
            self.is_spoilt = true;
            let number = self.rng.below(SEGMENTS);
            let of = |area: &[u8], number: u64| {
                area[number as usize * SEGMENT_BYTES..][..SEGMENT_BYTES].to_vec()
            };
            let mut segment = of(&area, number);
            match self.rng.below(4) {
                0 => {
                    let at = self.rng.below(SEGMENT_BYTES as u64) as usize;
                    segment[at] ^= 1 << self.rng.below(8);
                }
                1 => segment[self.rng.below(SEGMENT_BYTES as u64) as usize..].fill(0),
                2 if !self.is_exchanged => {
                    self.is_exchanged = true;
                    let other = self.rng.below(SEGMENTS);
                    self.put(other, &segment);
                    segment = of(&area, other);
                }
                _ => {
                    let older = self.rng.below(self.older.len() as u64) as usize;
                    segment = of(&self.older[older], number);
                }
            }
            self.put(number, &segment);
        }
        self.older.push(area);
    }
}

fn play_all(trouble: Trouble, seeds: u64) -> Result<Tally, String> {
    let mut all = Tally::default();
    for seed in 0..seeds {
        let tally = Play::new(seed, trouble).run()?;
        all.whole += tally.whole;
        all.entries += tally.entries;
        all.fresh += tally.fresh;
        all.void += tally.void;
        all.damaged += tally.damaged;
        all.interrupted += tally.interrupted;
    }
    Ok(all)
}

fn tally(trouble: Trouble) -> Tally {
    match play_all(trouble, SEEDS) {
        Ok(tally) => tally,
        Err(wrong) => panic!("{wrong}"),
    }
}

#[test]
fn simulated_loss_of_power_costs_nothing_durable_and_is_no_damage() {
    let all = tally(Trouble::Nothing);
    assert_eq!(all.damaged, 0);
    assert!(all.whole > 3 * SEEDS && all.entries > 50 * SEEDS, "{all:?}");
    assert!(all.interrupted > SEEDS / 4 && all.void < all.whole / 20, "{all:?}");
}

#[test]
fn simulated_damage_to_a_segment_loses_all_or_nothing() {
    let all = tally(Trouble::Damage);
    assert!(all.whole > 2 * SEEDS && all.damaged > SEEDS / 4, "{all:?}");
}

#[test]
fn simulated_a_sick_disk_loses_all_or_nothing() {
    let all = tally(Trouble::Sickness);
    assert!(all.whole > SEEDS && all.damaged > SEEDS / 20 && all.void > SEEDS / 10, "{all:?}");
}

/// Batches and ledgers go elsewhere together, so that what lies in their places is whole and old.
#[test]
fn simulated_writes_that_go_elsewhere_are_never_told_durable() {
    let all = tally(Trouble::Misdirection);
    assert!(all.whole > 0 && all.void > SEEDS / 10, "{all:?}");
}

/// The mistakes that the plays above must find.
#[cfg(feature = "mutations")]
mod mutated {
    use super::*;
    use crate::mutation::{JournalMutation, plant_in_journal};

    fn is_found(mutation: JournalMutation, trouble: Trouble) {
        plant_in_journal(Some(mutation));
        let result = play_all(trouble, 10 * SEEDS);
        plant_in_journal(None);
        assert!(result.is_err(), "{mutation:?} is not found: {result:?}");
    }

    #[test]
    fn simulated_a_ledger_before_the_sync_of_its_batches_is_found() {
        is_found(JournalMutation::LedgerBeforeSync, Trouble::Nothing);
    }

    #[test]
    fn simulated_gaps_that_are_ignored_are_found() {
        is_found(JournalMutation::GapsIgnored, Trouble::Damage);
    }

    #[test]
    fn simulated_a_sequence_that_is_ignored_is_found() {
        is_found(JournalMutation::SequenceIgnored, Trouble::Nothing);
    }

    #[test]
    fn simulated_places_that_are_used_again_too_early_are_found() {
        is_found(JournalMutation::ReusedBeforeLedger, Trouble::Nothing);
    }
}
