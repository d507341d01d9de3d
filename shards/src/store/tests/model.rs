//! The naive model: maps of bytes, no arena, no slots; and the harness that holds a store to it
//! after every step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use nilas_base::ByteRange;

use super::policy::{Log, Witness};
use crate::doorbell::Doorbell;
use crate::eviction::EvictionKind;
use crate::store::*;

pub(super) const SECTOR: u64 = 64;
pub(super) const BLOCK: u64 = 32 * SECTOR;
const BUDGET: u64 = 5 * BLOCK;
const LEASED_MAX: u64 = 40 * SECTOR;
/// What large reads leave of it.
const LEASED_LARGE_MAX: u64 = 30 * SECTOR;

/// The model's blocks: each held sector's bytes.
type Held = BTreeMap<BlockId, BTreeMap<u64, Vec<u8>>>;

struct ModelFill {
    permit: FillPermit,
    /// What was appended; a sector of it is held only after the end.
    bytes: Vec<u8>,
    generation: u64,
    removed: bool,
}

pub(super) struct Harness {
    store: Store,
    log: Rc<RefCell<Log>>,
    held: Held,
    fills: Vec<ModelFill>,
    leases: Vec<(Leases, Vec<u8>)>,
    /// Removals so far: each gives later fills other bytes, so that stale ones are told apart.
    generation: u64,
}

pub(super) fn id(index: u32) -> BlockId {
    BlockId { version: [index as u8; 16], index }
}

/// Every third block is an object's last and ends inside a sector.
pub(super) fn block_len(index: u32) -> u64 {
    if index.is_multiple_of(3) { BLOCK - 3 * SECTOR - 7 } else { BLOCK }
}

fn content_byte(id: BlockId, generation: u64, at: u64) -> u8 {
    let mixed =
        (u64::from(id.index) << 40 ^ generation << 20 ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8
}

impl Harness {
    pub(super) fn new(eviction: EvictionKind) -> Harness {
        let (witness, log) = Witness::around(eviction.build());
        let config = StoreConfig {
            budget_bytes: BUDGET,
            sector_bytes: SECTOR,
            block_bytes: BLOCK,
            leases_bytes_max: Some(LEASED_MAX),
            doorbell: Doorbell::unattached(),
        };
        let store = Store::new(config, Box::new(witness)).expect("it can be mapped");
        Harness {
            store,
            log,
            held: Held::new(),
            fills: Vec::new(),
            leases: Vec::new(),
            generation: 0,
        }
    }

    pub(super) fn read(&mut self, index: u32, (want, kind): (ByteRange, ReadKind), keep: bool) {
        let leased_max = match kind {
            ReadKind::Small => LEASED_MAX,
            ReadKind::Large => LEASED_LARGE_MAX,
        };
        let expected: Vec<u8> = (want.start..want.end.min(want.start + READ_BYTES_MAX))
            .map_while(|at| self.byte_at(id(index), at))
            .collect();
        let in_flight = self.fill_of(id(index), want.start).is_some();
        match self.store.read(id(index), want, kind) {
            Read::Hit(leases) => {
                let got: Vec<u8> = leases.iter().flat_map(|lease| lease.iter().copied()).collect();
                assert!(!got.is_empty() && expected.starts_with(&got), "wrong bytes");
                let bounded = leases.is_full() || self.store.usage().leased_bytes >= leased_max;
                assert!(got.len() == expected.len() || bounded, "bytes that it holds are missing");
                if keep {
                    self.leases.push((leases, got));
                }
            }
            Read::Filling => assert!(expected.is_empty() && in_flight),
            Read::Miss => assert!(expected.is_empty() && !in_flight),
            Read::Full => {
                assert!(!expected.is_empty());
                assert!(self.store.usage().leased_bytes >= leased_max);
            }
        }
    }

    pub(super) fn begin_fill(&mut self, index: u32, want: ByteRange) {
        let run = self.store.missing(id(index), want, block_len(index));
        assert_eq!(run, self.missing(index, want));
        let Some(run) = run else { return };
        let need_bytes = run.rounded_out(SECTOR).len();
        let in_flight_bytes = self.in_flight_bytes();
        let result = self.store.begin_fill(id(index), run);
        for victim in self.log.borrow_mut().victims.drain(..) {
            let held = self.held.remove(&victim);
            assert!(held.is_some(), "a victim was held");
            assert!(victim != id(index) && self.fills.iter().all(|fill| !fill.is_of(victim)));
        }
        match result {
            Ok(permit) => {
                let generation = self.generation;
                self.fills.push(ModelFill { permit, bytes: vec![], generation, removed: false });
            }
            Err(NoSpace) if in_flight_bytes + need_bytes > BUDGET / 2 => {}
            Err(NoSpace) => {
                assert!(self.store.usage().free_bytes < need_bytes);
                let leaves = |held: &BlockId| {
                    *held != id(index) && self.fills.iter().all(|fill| !fill.is_of(*held))
                };
                assert!(!self.held.keys().any(leaves), "refused, but a block might have left");
            }
        }
    }

    pub(super) fn append(&mut self, fill: usize, bytes_max: u64) {
        let Some(fill) = pick(fill, self.fills.len()) else { return };
        let fill = &mut self.fills[fill];
        let remaining = fill.permit.remaining();
        let id = fill.permit.id();
        let bytes: Vec<u8> = (remaining.start..remaining.end.min(remaining.start + bytes_max))
            .map(|at| content_byte(id, fill.generation, at))
            .collect();
        self.store.append(&mut fill.permit, &bytes);
        fill.bytes.extend_from_slice(&bytes);
    }

    /// Ends a fill, or drops its permit.
    pub(super) fn end_fill(&mut self, fill: usize, is_dropped: bool) {
        let Some(fill) = pick(fill, self.fills.len()) else { return };
        let fill = self.fills.swap_remove(fill);
        if !fill.removed {
            let is_complete = fill.permit.remaining().is_empty();
            let first = fill.permit.run().start / SECTOR;
            let whole = |bytes: &&[u8]| bytes.len() as u64 == SECTOR || is_complete;
            for (sector, bytes) in fill.bytes.chunks(SECTOR as usize).take_while(whole).enumerate()
            {
                let held = self.held.entry(fill.permit.id()).or_default();
                held.insert(first + sector as u64, bytes.to_vec());
            }
        }
        if is_dropped {
            drop(fill.permit);
            self.store.reclaim();
        } else {
            self.store.end_fill(fill.permit);
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        self.store.remove(id(index));
        self.held.remove(&id(index));
        for fill in self.fills.iter_mut().filter(|fill| fill.is_of(id(index))) {
            fill.removed = true;
        }
        self.generation += 1;
    }

    pub(super) fn drop_leases(&mut self, leases: usize, on_other_thread: bool) {
        let Some(leases) = pick(leases, self.leases.len()) else { return };
        let (leases, _) = self.leases.swap_remove(leases);
        if on_other_thread {
            let dropper = std::thread::spawn(move || drop(leases));
            dropper.join().expect("a drop does not fail");
        }
    }

    pub(super) fn reclaim(&mut self) {
        self.store.reclaim();
        if self.leases.is_empty() {
            let usage = self.store.usage();
            assert_eq!((usage.leased_bytes, usage.detached_bytes), (0, 0), "memory was lost");
        }
    }

    pub(super) fn check(&self) {
        let usage = self.store.usage();
        let parts = [usage.held_bytes, usage.in_flight_bytes, usage.detached_bytes];
        assert_eq!(parts.iter().sum::<u64>() + usage.free_bytes, BUDGET);
        assert_eq!(usage.budget_bytes, BUDGET);
        let held: usize = self.held.values().map(|sectors| sectors.len()).sum();
        assert_eq!(usage.held_bytes, held as u64 * SECTOR);
        assert_eq!(usage.in_flight_bytes, self.in_flight_bytes());
        assert!(usage.in_flight_bytes <= BUDGET / 2);
        assert!(usage.leased_bytes <= LEASED_MAX);
        assert!(usage.detached_bytes <= usage.leased_bytes, "detached memory is leased memory");
        for (leases, bytes) in &self.leases {
            assert!(leases.iter().flat_map(|lease| lease.iter()).eq(bytes), "a lease changed");
        }
    }

    /// Ends everything: then nothing is leased or in flight, and all that is held is still right.
    pub(super) fn finish(mut self) {
        while !self.fills.is_empty() {
            self.end_fill(0, false);
            self.check();
        }
        self.leases.clear();
        self.reclaim();
        for (block, sector) in
            self.held.iter().flat_map(|(id, held)| held.keys().map(move |sector| (*id, *sector)))
        {
            let bytes = &self.held[&block][&sector];
            let start = sector * SECTOR;
            let want = ByteRange::new(start, start + bytes.len() as u64);
            let Read::Hit(leases) = self.store.read(block, want, ReadKind::Large) else {
                panic!("it was lost")
            };
            assert!(leases.iter().flat_map(|lease| lease.iter()).eq(bytes));
        }
        assert_eq!(self.store.usage().blocks, self.held.len() as u64);
    }

    fn missing(&self, index: u32, want: ByteRange) -> Option<ByteRange> {
        let end = want.end.min(block_len(index));
        let is_missing = |sector: &u64| {
            let held = self.held.get(&id(index)).is_some_and(|held| held.contains_key(sector));
            !held && self.fill_of(id(index), sector * SECTOR).is_none()
        };
        let sectors = want.start / SECTOR..end.div_ceil(SECTOR);
        let first = sectors.clone().find(is_missing)?;
        let run = (first..sectors.end).take_while(is_missing).count() as u64;
        Some(ByteRange::new(first * SECTOR, ((first + run) * SECTOR).min(block_len(index))))
    }

    /// The fill whose run's sectors hold the byte at `at`.
    fn fill_of(&self, id: BlockId, at: u64) -> Option<&ModelFill> {
        let byte = ByteRange::new(at, at + 1);
        self.fills
            .iter()
            .find(|fill| fill.is_of(id) && fill.permit.run().rounded_out(SECTOR).contains(byte))
    }

    fn byte_at(&self, id: BlockId, at: u64) -> Option<u8> {
        if let Some(fill) = self.fill_of(id, at) {
            return fill.bytes.get((at - fill.permit.run().start) as usize).copied();
        }
        let sector = self.held.get(&id)?.get(&(at / SECTOR))?;
        sector.get((at % SECTOR) as usize).copied()
    }

    fn in_flight_bytes(&self) -> u64 {
        self.fills.iter().map(|fill| fill.permit.run().rounded_out(SECTOR).len()).sum()
    }
}

impl ModelFill {
    fn is_of(&self, id: BlockId) -> bool {
        !self.removed && self.permit.id() == id
    }
}

fn pick(seed: usize, len: usize) -> Option<usize> {
    (len > 0).then(|| seed % len)
}
