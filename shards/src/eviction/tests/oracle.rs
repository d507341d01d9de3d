//! Each policy once more, as plainly as it can be said: lists that are searched from end to end, nothing linked,
//! nothing remembered in two places. Slow, and obviously right.

use std::collections::BTreeMap;

use crate::eviction::EvictionKind;
use crate::sketch::Key;
use crate::store::BlockId;

pub(super) type MayLeave<'a> = &'a dyn Fn(BlockId) -> bool;

/// A policy by ids.
pub(super) trait Oracle {
    fn insert(&mut self, id: BlockId, weight_bytes: u64);
    fn touch(&mut self, id: BlockId);
    fn evict(&mut self, may_leave: MayLeave<'_>) -> Option<BlockId>;
    /// All its blocks, each in one of these.
    fn lines(&mut self) -> Vec<&mut Line>;
    /// A block is about to go.
    fn forget(&mut self, _: BlockId) {}

    fn grow(&mut self, id: BlockId, weight_bytes: u64) {
        let lines = self.lines();
        let block = lines.into_iter().flatten().find(|block| block.id == id);
        block.expect("it is held").weight_bytes += weight_bytes;
    }

    fn remove(&mut self, id: BlockId) {
        self.forget(id);
        self.lines().into_iter().for_each(|line| line.retain(|block| block.id != id));
    }
}

pub(super) fn oracle(kind: EvictionKind) -> Box<dyn Oracle> {
    match kind {
        EvictionKind::Fifo => Box::new(OneLine { line: Line::new(), is_lru: false }),
        EvictionKind::Lru => Box::new(OneLine { line: Line::new(), is_lru: true }),
        EvictionKind::Sieve => Box::<Sieve>::default(),
        EvictionKind::S3Fifo => Box::<S3Fifo>::default(),
        EvictionKind::WTinyLfu => Box::new(TinyLfu::new()),
    }
}

pub(super) struct Block {
    id: BlockId,
    weight_bytes: u64,
    reads: u32,
}

/// Blocks, the oldest first.
type Line = Vec<Block>;

fn weight_bytes(line: &Line) -> u64 {
    line.iter().map(|block| block.weight_bytes).sum()
}

fn take(line: &mut Line, id: BlockId) -> Option<Block> {
    let at = line.iter().position(|block| block.id == id)?;
    Some(line.remove(at))
}

/// Brings the first that may leave to the front; those before it go behind the others.
fn front(line: &mut Line, may_leave: MayLeave<'_>) -> Option<BlockId> {
    let at = line.iter().position(|block| may_leave(block.id))?;
    line.rotate_left(at);
    Some(line[0].id)
}

struct OneLine {
    line: Line,
    is_lru: bool,
}

impl Oracle for OneLine {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) {
        self.line.push(Block { id, weight_bytes, reads: 0 });
    }

    fn touch(&mut self, id: BlockId) {
        if self.is_lru {
            let block = take(&mut self.line, id).expect("it is held");
            self.line.push(block);
        }
    }

    fn evict(&mut self, may_leave: MayLeave<'_>) -> Option<BlockId> {
        front(&mut self.line, may_leave)?;
        Some(self.line.remove(0).id)
    }

    fn lines(&mut self) -> Vec<&mut Line> {
        vec![&mut self.line]
    }
}

#[derive(Default)]
struct Sieve {
    line: Line,
    hand: Option<BlockId>,
}

impl Sieve {
    fn next_of(&self, id: BlockId) -> Option<BlockId> {
        let at = self.line.iter().position(|block| block.id == id)?;
        self.line.get(at + 1).map(|block| block.id)
    }
}

impl Oracle for Sieve {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) {
        self.line.push(Block { id, weight_bytes, reads: 0 });
    }

    fn touch(&mut self, id: BlockId) {
        self.line.iter_mut().filter(|block| block.id == id).for_each(|block| block.reads = 1);
    }

    fn forget(&mut self, id: BlockId) {
        if self.hand == Some(id) {
            self.hand = self.next_of(id);
        }
    }

    fn evict(&mut self, may_leave: MayLeave<'_>) -> Option<BlockId> {
        if !self.line.iter().any(|block| may_leave(block.id)) {
            return None;
        }
        loop {
            let id = self.hand.unwrap_or(self.line[0].id);
            self.hand = self.next_of(id);
            let block = self.line.iter_mut().find(|block| block.id == id)?;
            match (may_leave(id), block.reads) {
                (true, 0) => return take(&mut self.line, id).map(|block| block.id),
                (true, _) => block.reads = 0,
                (false, _) => {}
            }
        }
    }

    fn lines(&mut self) -> Vec<&mut Line> {
        vec![&mut self.line]
    }
}

#[derive(Default)]
struct S3Fifo {
    small: Line,
    main: Line,
    /// Ids in the order in which they left, and whether that is still of account.
    ghosts: Vec<(BlockId, bool)>,
}

impl S3Fifo {
    fn evict_small(&mut self, may_leave: MayLeave<'_>) -> Option<BlockId> {
        for _ in 0..self.small.len() {
            let block = self.small.remove(0);
            if !may_leave(block.id) {
                self.small.push(block);
            } else if block.reads >= 2 {
                self.main.push(Block { reads: 0, ..block });
            } else {
                self.take_ghost(block.id);
                self.ghosts.push((block.id, true));
                let surplus =
                    self.ghosts.len().saturating_sub(self.small.len() + self.main.len() + 1);
                self.ghosts.drain(..surplus);
                return Some(block.id);
            }
        }
        None
    }

    fn evict_main(&mut self, may_leave: MayLeave<'_>) -> Option<BlockId> {
        for _ in 0..4 * self.main.len() {
            let block = self.main.remove(0);
            if may_leave(block.id) && block.reads == 0 {
                return Some(block.id);
            }
            self.main.push(Block { reads: block.reads.saturating_sub(1), ..block });
        }
        None
    }

    fn take_ghost(&mut self, id: BlockId) -> bool {
        let ghost = self.ghosts.iter_mut().find(|(ghost, is_live)| *ghost == id && *is_live);
        ghost.map(|(_, is_live)| *is_live = false).is_some()
    }
}

impl Oracle for S3Fifo {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) {
        let block = Block { id, weight_bytes, reads: 0 };
        if self.take_ghost(id) { self.main.push(block) } else { self.small.push(block) }
    }

    fn touch(&mut self, id: BlockId) {
        let blocks = self.small.iter_mut().chain(&mut self.main);
        blocks
            .filter(|block| block.id == id)
            .for_each(|block| block.reads = 3.min(block.reads + 1));
    }

    fn evict(&mut self, may_leave: MayLeave<'_>) -> Option<BlockId> {
        let small_bytes = weight_bytes(&self.small);
        let is_small_over = small_bytes * 10 >= small_bytes + weight_bytes(&self.main);
        let of_main = if is_small_over { None } else { self.evict_main(may_leave) };
        of_main.or_else(|| self.evict_small(may_leave)).or_else(|| self.evict_main(may_leave))
    }

    fn lines(&mut self) -> Vec<&mut Line> {
        vec![&mut self.small, &mut self.main]
    }
}

struct TinyLfu {
    window: Line,
    candidates: Line,
    probation: Line,
    protected: Line,
    /// By row and column: a whole number each.
    counts: BTreeMap<(usize, usize), u32>,
    columns: usize,
    counted: usize,
    has_evicted: bool,
}

impl TinyLfu {
    fn new() -> TinyLfu {
        TinyLfu {
            window: Line::new(),
            candidates: Line::new(),
            probation: Line::new(),
            protected: Line::new(),
            counts: BTreeMap::new(),
            columns: 128,
            counted: 0,
            has_evicted: false,
        }
    }

    fn weight_bytes(&self) -> u64 {
        weight_bytes(&self.window) + self.main_bytes()
    }

    fn main_bytes(&self) -> u64 {
        [&self.candidates, &self.probation, &self.protected].into_iter().map(weight_bytes).sum()
    }

    fn counters(&self, id: BlockId) -> [(usize, usize); 4] {
        let key = Key::of(id, 0);
        std::array::from_fn(|row| (row, key.column(row, self.columns)))
    }

    fn frequency(&self, id: BlockId) -> u32 {
        let counters = self.counters(id);
        let counts = counters.iter().map(|at| self.counts.get(at).copied().unwrap_or(0));
        counts.min().unwrap_or(0)
    }

    fn count(&mut self, id: BlockId) {
        let least = self.frequency(id);
        for at in self.counters(id) {
            let count = self.counts.entry(at).or_default();
            *count = (*count).max((least + 1).min(15));
        }
        self.counted += 1;
        if self.counted >= self.columns / 8 * 10 {
            self.counts.values_mut().for_each(|count| *count /= 2);
            self.counted /= 2;
        }
    }

    fn widen(&mut self, blocks: usize) {
        while self.columns < 8 * blocks {
            for ((row, column), count) in self.counts.clone() {
                self.counts.insert((row, column + self.columns), count);
            }
            self.columns *= 2;
        }
    }

    fn settle_window(&mut self) {
        while self.window.len() > 1 && weight_bytes(&self.window) * 100 > self.weight_bytes() {
            let block = self.window.remove(0);
            self.candidates.push(block);
        }
    }
}

impl Oracle for TinyLfu {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) {
        if self.has_evicted {
            self.probation.append(&mut self.candidates);
            self.has_evicted = false;
        }
        self.window.push(Block { id, weight_bytes, reads: 0 });
        let blocks: usize = self.lines().iter().map(|line| line.len()).sum();
        self.widen(blocks);
        self.count(id);
        self.settle_window();
    }

    fn touch(&mut self, id: BlockId) {
        self.count(id);
        if let Some(block) = take(&mut self.window, id) {
            self.window.push(block);
            return;
        }
        let mut lines = [&mut self.candidates, &mut self.probation, &mut self.protected];
        let block = lines.iter_mut().find_map(|line| take(line, id)).expect("it is held");
        self.protected.push(block);
        while weight_bytes(&self.protected) * 5 > self.main_bytes() * 4 {
            let block = self.protected.remove(0);
            self.probation.push(block);
        }
    }

    fn grow(&mut self, id: BlockId, weight_bytes: u64) {
        let lines = self.lines();
        let block = lines.into_iter().flatten().find(|block| block.id == id);
        block.expect("it is held").weight_bytes += weight_bytes;
        self.settle_window();
    }

    fn evict(&mut self, may_leave: MayLeave<'_>) -> Option<BlockId> {
        self.has_evicted = true;
        while self.candidates.first().is_some_and(|block| !may_leave(block.id)) {
            let block = self.candidates.remove(0);
            self.probation.push(block);
        }
        let candidate = self.candidates.first().map(|block| block.id);
        let victim =
            front(&mut self.probation, may_leave).or_else(|| front(&mut self.protected, may_leave));
        let leaves = match (candidate, victim) {
            (Some(candidate), Some(victim)) => {
                if self.frequency(candidate) > self.frequency(victim) {
                    let block = self.candidates.remove(0);
                    self.probation.push(block);
                    victim
                } else {
                    candidate
                }
            }
            (one, other) => one.or(other).or_else(|| front(&mut self.window, may_leave))?,
        };
        self.remove(leaves);
        Some(leaves)
    }

    fn lines(&mut self) -> Vec<&mut Line> {
        vec![&mut self.window, &mut self.candidates, &mut self.probation, &mut self.protected]
    }
}
