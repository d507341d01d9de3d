//! Random lives of a node, one after the other on one disk, against what is true.

use nilas_base::Rng;

use super::bench::{BUCKET, Bench, Disk, key};
use crate::identity::Digest16;
use crate::invalidate::{Stage, Touched, Write};
use crate::persist::WriteId;
use crate::purge::PurgeScope;

const KEYS: usize = 12;
const STEPS: u64 = 60;
const LIVES: u64 = 5;

/// What is true at the origin, and what must never be found again.
struct Truth {
    rng: Rng,
    versions: [u64; KEYS],
    /// Versions that were known before a purge.
    purged: Vec<(usize, Digest16)>,
    known: Vec<(usize, Digest16)>,
    /// Writes that were relayed and may still happen.
    open: Vec<(u64, usize)>,
    next: u64,
}

#[test]
fn no_life_of_a_node_brings_back_what_an_earlier_one_has_seen_end() {
    for seed in 0..12 {
        let disk = Disk::new(1);
        let mut truth = Truth {
            rng: Rng::from_seed(seed),
            versions: [1; KEYS],
            purged: Vec::new(),
            known: Vec::new(),
            open: Vec::new(),
            next: 1,
        };
        for life in 0..LIVES {
            let bench = disk.start();
            if truth.rng.chance(2, 3) {
                bench.recover();
            }
            for step in 0..STEPS {
                truth.step(&bench);
                truth.check(&bench, &format!("seed {seed}, life {life}, step {step}"));
            }
            match truth.rng.below(3) {
                0 => bench.stop(),
                1 => bench.write_then_end(),
                _ => drop(bench),
            }
        }
    }
}

impl Truth {
    fn step(&mut self, bench: &Bench) {
        let number = self.rng.below(KEYS as u64) as usize;
        match self.rng.below(20) {
            0..=9 => self.learn(bench, number),
            10..=12 => self.write(bench, number),
            13 => self.write_bucket(bench),
            14..=16 => self.end_one(bench),
            17 => self.purge(bench, number),
            18 => {
                bench.recover();
                bench.checkpoint();
            }
            _ => self.happen_late(),
        }
    }

    fn learn(&mut self, bench: &Bench, number: usize) {
        // A reader is told what is true now.
        let mapping = bench.learn(&key(number), self.versions[number]);
        self.known.push((number, mapping.version));
    }

    fn write(&mut self, bench: &Bench, number: usize) {
        self.next += 1;
        bench.begin_key(self.next, &key(number)).expect("the disk is sound");
        self.open.push((self.next, number));
        self.maybe_happen(number);
    }

    fn write_bucket(&mut self, bench: &Bench) {
        self.next += 1;
        let write = Write { id: WriteId(self.next), touched: Touched::Bucket(BUCKET) };
        bench.begin(write).expect("the disk is sound");
        (0..KEYS).for_each(|number| self.versions[number] = self.next);
        let shard = std::rc::Rc::clone(&bench.shards[0]);
        let write = Write { id: WriteId(self.next), touched: Touched::Bucket(BUCKET) };
        bench.run(async move { crate::invalidate::announce(&shard, &write, Stage::Settled).await });
    }

    fn maybe_happen(&mut self, number: usize) {
        if self.rng.chance(1, 2) {
            self.next += 1;
            self.versions[number] = self.next;
        }
    }

    fn end_one(&mut self, bench: &Bench) {
        if let Some((id, number)) = self.open.pop() {
            self.maybe_happen(number);
            bench.announce_key(id, &key(number), Stage::Settled);
        }
    }

    /// A write whose node has ended, or has not heard of its end, happens.
    fn happen_late(&mut self) {
        let open = self.open.clone();
        open.iter().for_each(|(_, number)| self.maybe_happen(*number));
    }

    fn purge(&mut self, bench: &Bench, number: usize) {
        let (scope, is_purged): (_, fn(usize, usize) -> bool) = match self.rng.below(3) {
            0 => (PurgeScope::Key(key(number)), |known, number| known == number),
            1 => (PurgeScope::Prefix("t/metadata/1".to_owned()), |known, _| {
                known == 1 || known >= 10
            }),
            _ => (PurgeScope::Bucket, |_, _| true),
        };
        bench.purge(scope).expect("the disk is sound");
        let known = std::mem::take(&mut self.known);
        let (purged, known): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|(known, _)| is_purged(*known, number));
        self.purged.extend(purged);
        self.known = known;
    }

    fn check(&self, bench: &Bench, context: &str) {
        for number in 0..KEYS {
            let is_open = self.open.iter().any(|(_, open)| *open == number);
            // While a write is under way either version may be told.
            if let Some(found) = bench.find(&key(number)).filter(|_| !is_open) {
                assert_eq!(found.length, self.versions[number], "{context}: key {number}");
                let is_purged = self.purged.contains(&(number, found.version));
                assert!(!is_purged, "{context}: key {number} was purged");
            }
        }
    }
}
