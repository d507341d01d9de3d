//! Random lives of a node, one after the other on one simulated disk, against what is true. The disk
//! loses power and fails; what may be found is what is true, or nothing.

use std::rc::Rc;
use std::time::Duration;

use nilas_base::Rng;
use nilas_shards::DiskCondition;

use super::bench::{BUCKET, Bench, Disk, key};
use crate::identity::Digest16;
use crate::invalidate::{self, Stage, Touched, Write};
use crate::persist::WriteId;
use crate::purge::PurgeScope;

const KEYS: usize = 12;
const STEPS: u64 = 50;
const LIVES: u64 = 6;
const SEEDS: u64 = 60;

/// What is true at the origin, and what must never be found again.
struct Truth {
    rng: Rng,
    versions: [u64; KEYS],
    /// What is known of each key, and not purged, by its version.
    known: Vec<(usize, Digest16)>,
    /// What was, before a purge.
    purged: Vec<(usize, Digest16)>,
    /// Writes that were relayed and may still happen.
    open: Vec<Open>,
    life: u64,
    next: u64,
}

#[derive(Clone, Copy)]
struct Open {
    id: u64,
    number: usize,
    life: u64,
}

#[test]
fn no_life_of_a_node_brings_back_what_an_earlier_one_has_seen_end() {
    let mut kept = 0;
    for seed in 0..SEEDS {
        kept += run(seed);
    }
    assert!(kept > SEEDS * LIVES, "most lives begin with something known: {kept}");
}

/// Gives how many mappings were known again after starts.
fn run(seed: u64) -> u64 {
    let disk = Disk::simulated(1, seed);
    let mut truth = Truth {
        rng: Rng::from_seed(seed),
        versions: [1; KEYS],
        known: Vec::new(),
        purged: Vec::new(),
        open: Vec::new(),
        life: 0,
        next: 1,
    };
    let mut kept = 0;
    for life in 0..LIVES {
        truth.life = life;
        let (world, file) = disk.world();
        // No node starts twice in a millisecond.
        world.leap(Duration::from_millis(20));
        world.set_disk(file, truth.condition());
        let bench = disk.start();
        if truth.rng.chance(2, 3) {
            bench.recover();
            kept += (0..KEYS).filter(|number| bench.find(&key(*number)).is_some()).count() as u64;
        }
        for step in 0..STEPS {
            truth.step(&bench, &disk);
            truth.check(&bench, &format!("seed {seed}, life {life}, step {step}"));
        }
        match truth.rng.below(4) {
            0 => bench.stop(),
            1 => bench.write_then_end(),
            _ => drop(bench),
        }
        if truth.rng.chance(1, 2) {
            world.crash_disk(file);
        }
    }
    kept
}

impl Truth {
    /// Mostly sound; else it fails now and then, in one way or all.
    fn condition(&mut self) -> DiskCondition {
        let mut fails = |often| self.rng.chance(1, 8).then_some(often);
        DiskCondition {
            write_error_one_in: fails(60),
            sync_error_one_in: fails(40),
            read_error_one_in: fails(30),
            no_space_one_in: fails(80),
            rot_one_in: fails(40),
            stall_one_in: fails(100),
            ..DiskCondition::default()
        }
    }

    fn step(&mut self, bench: &Bench, disk: &Disk) {
        let number = self.rng.below(KEYS as u64) as usize;
        match self.rng.below(24) {
            0..=10 => self.learn(bench, number),
            11..=13 => self.write(bench, number),
            14 => self.write_bucket(bench),
            15..=18 => self.end_one(bench),
            19 => self.purge(bench, number),
            20 | 21 => self.make_a_checkpoint(bench),
            22 => self.outlive_the_holds(bench, disk),
            _ => disk.world().0.run_for(Duration::from_millis(self.rng.below(200))),
        }
    }

    fn learn(&mut self, bench: &Bench, number: usize) {
        let mapping = bench.learn(&key(number), self.versions[number]);
        self.known.push((number, mapping.version));
    }

    fn write(&mut self, bench: &Bench, number: usize) {
        self.next += 1;
        if bench.begin_key(self.next, &key(number)).is_ok() {
            self.open.push(Open { id: self.next, number, life: self.life });
            self.maybe_happen(number);
        }
    }

    fn write_bucket(&mut self, bench: &Bench) {
        self.next += 1;
        let write = || Write { id: WriteId(self.next), touched: Touched::Bucket(BUCKET) };
        if bench.begin(write()).is_ok() {
            self.versions = [self.next; KEYS];
            let (shard, write) = (Rc::clone(&bench.shards[0]), write());
            bench.run(async move { invalidate::announce(&shard, &write, Stage::Settled).await });
        }
    }

    fn maybe_happen(&mut self, number: usize) {
        if self.rng.chance(1, 2) {
            self.next += 1;
            self.versions[number] = self.next;
        }
    }

    fn end_one(&mut self, bench: &Bench) {
        let Some(place) = self.open.iter().position(|open| open.life == self.life) else { return };
        let Open { id, number, .. } = self.open[place];
        if self.rng.chance(1, 4) {
            // It stays open, for nobody knows what became of it.
            bench.announce_key(id, &key(number), Stage::Unknown);
            self.open[place].life = u64::MAX;
            return;
        }
        self.open.remove(place);
        self.maybe_happen(number);
        bench.announce_key(id, &key(number), Stage::Settled);
    }

    /// Of what nobody will hear any more, what is held happens or never will; of what was not, a crash
    /// has lost that it began, as it may where no mapping was kept.
    fn outlive_the_holds(&mut self, bench: &Bench, disk: &Disk) {
        let (life, open) = (self.life, std::mem::take(&mut self.open));
        let (now, lost): (Vec<_>, Vec<_>) = open.into_iter().partition(|open| open.life == life);
        self.open = now;
        bench.recover();
        for Open { number, .. } in lost {
            if bench.is_held(&key(number)) {
                self.maybe_happen(number);
            }
        }
        disk.world().0.run_for(Duration::from_secs(16 * 60));
    }

    fn purge(&mut self, bench: &Bench, number: usize) {
        let (scope, is_purged): (_, fn(usize, usize) -> bool) = match self.rng.below(3) {
            0 => (PurgeScope::Key(key(number)), |known, number| known == number),
            1 => {
                (PurgeScope::Prefix("t/metadata/1".to_owned()), |known, _| known == 1 || known > 9)
            }
            _ => (PurgeScope::Bucket, |_, _| true),
        };
        let is_durable = bench.purge(scope).is_ok();
        let known = std::mem::take(&mut self.known);
        let (purged, known): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|(known, _)| is_purged(*known, number));
        self.known = known;
        if is_durable {
            self.purged.extend(purged);
        }
    }

    fn make_a_checkpoint(&mut self, bench: &Bench) {
        bench.recover();
        bench.checkpoint();
    }

    fn check(&self, bench: &Bench, context: &str) {
        for number in 0..KEYS {
            let is_open = self.open.iter().any(|open| open.number == number);
            // While a write is under way either version may be told.
            if let Some(found) = bench.find(&key(number)).filter(|_| !is_open) {
                assert_eq!(found.length, self.versions[number], "{context}: key {number}");
                let is_purged = self.purged.contains(&(number, found.version));
                assert!(!is_purged, "{context}: key {number} was purged");
            }
        }
    }
}
