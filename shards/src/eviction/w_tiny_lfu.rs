//! W-TinyLFU (Einziger, Friedman and Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM ToS 2017), by
//! weight. Newcomers pass a window, a hundredth of what is held. What falls out of it stands against the block that
//! would leave the main part next, and a frequency sketch says which of the two was used more often: the other
//! leaves. Where nobody must leave, all that comes out of the window stays. The main part is a segmented LRU: what is
//! read there is protected, up to four fifths of it.

use super::queue::{Nodes, Queue};
use super::{Eviction, Place};
use crate::sketch::{Key, Sketch};
use crate::store::BlockId;

/// The window has one part in so many of what is held, and its newest block always.
const WINDOW_DIVISOR: u64 = 100;
/// The protected part of the main one: four fifths.
const PROTECTED_PARTS: (u64, u64) = (4, 5);

/// Where a block is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Window,
    /// Out of the window since the last eviction: it may have to stand against another.
    Candidates,
    /// In the main part, and not read there yet, or not for long.
    Probation,
    Protected,
}

const PARTS: usize = 4;

/// The policy's queues and its sketch; see the file's head.
pub struct WTinyLfu {
    nodes: Nodes<Part>,
    parts: [Queue; PARTS],
    sketch: Sketch,
    /// Something had to leave since the last block came.
    has_evicted: bool,
}

impl WTinyLfu {
    /// A policy that holds nothing.
    pub fn new() -> WTinyLfu {
        WTinyLfu {
            nodes: Nodes::new(),
            parts: std::array::from_fn(|_| Queue::new()),
            sketch: Sketch::for_keys(0),
            has_evicted: false,
        }
    }

    fn part(&self, part: Part) -> &Queue {
        &self.parts[part as usize]
    }

    fn blocks(&self) -> usize {
        self.parts.iter().map(Queue::blocks).sum()
    }

    /// Puts a block at the newest end of a part, from wherever it is.
    fn move_to(&mut self, part: Part, place: Place) {
        let from = std::mem::replace(&mut self.nodes.get_mut(place).facts, part);
        self.parts[from as usize].unlink(&mut self.nodes, place);
        self.parts[part as usize].push(&mut self.nodes, place);
    }

    fn frequency(&self, place: Place) -> u8 {
        self.sketch.frequency(Key::of(self.nodes.get(place).id, 0))
    }

    fn count(&mut self, id: BlockId) {
        self.sketch.count(Key::of(id, 0));
    }

    /// Candidates that nobody had to leave for have their place.
    fn admit_candidates(&mut self) {
        while let Some(place) = self.part(Part::Candidates).oldest() {
            self.move_to(Part::Probation, place);
        }
    }

    /// Has the window within its part.
    fn shrink_window(&mut self) {
        loop {
            let window = self.part(Part::Window);
            let is_over = window.weight_bytes() * WINDOW_DIVISOR > self.weight_bytes();
            let Some(place) = window.oldest().filter(|_| is_over && window.blocks() > 1) else {
                return;
            };
            self.move_to(Part::Candidates, place);
        }
    }

    /// Has the protected part within its part.
    fn shrink_protected(&mut self) {
        let (numerator, denominator) = PROTECTED_PARTS;
        loop {
            let protected = self.part(Part::Protected);
            let main_bytes = self.weight_bytes() - self.part(Part::Window).weight_bytes();
            let is_over = protected.weight_bytes() * denominator > main_bytes * numerator;
            let Some(place) = protected.oldest().filter(|_| is_over) else { return };
            self.move_to(Part::Probation, place);
        }
    }

    /// The oldest candidate that may leave; one that may not, for it is being filled, has its place.
    fn candidate(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<Place> {
        loop {
            let place = self.part(Part::Candidates).oldest()?;
            if may_leave(self.nodes.get(place).id) {
                return Some(place);
            }
            self.move_to(Part::Probation, place);
        }
    }

    fn oldest_that(&mut self, part: Part, may_leave: &dyn Fn(BlockId) -> bool) -> Option<Place> {
        self.parts[part as usize].oldest_that(&mut self.nodes, may_leave)
    }

    /// The one of the two that leaves; it is the candidate where they were used equally often.
    fn loser(&mut self, candidate: Place, victim: Place) -> Place {
        if self.frequency(candidate) <= self.frequency(victim) {
            return candidate;
        }
        self.move_to(Part::Probation, candidate);
        victim
    }
}

impl Default for WTinyLfu {
    fn default() -> WTinyLfu {
        WTinyLfu::new()
    }
}

impl Eviction for WTinyLfu {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        if std::mem::take(&mut self.has_evicted) {
            self.admit_candidates();
        }
        let place = self.nodes.add(id, weight_bytes);
        self.parts[Part::Window as usize].push(&mut self.nodes, place);
        self.sketch.expect_keys(self.blocks());
        self.count(id);
        self.shrink_window();
        place
    }

    fn touch(&mut self, place: Place) {
        let node = self.nodes.get(place);
        let (id, part) = (node.id, node.facts);
        self.count(id);
        match part {
            Part::Window => self.move_to(Part::Window, place),
            Part::Candidates | Part::Probation | Part::Protected => {
                self.move_to(Part::Protected, place);
                self.shrink_protected();
            }
        }
    }

    fn grow(&mut self, place: Place, weight_bytes: u64) {
        let part = self.nodes.get(place).facts;
        self.parts[part as usize].grow(&mut self.nodes, place, weight_bytes);
        self.shrink_window();
    }

    fn remove(&mut self, place: Place) {
        let part = self.nodes.get(place).facts;
        self.parts[part as usize].unlink(&mut self.nodes, place);
        self.nodes.forget(place);
    }

    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        self.has_evicted = true;
        let candidate = self.candidate(may_leave);
        let victim = self
            .oldest_that(Part::Probation, may_leave)
            .or_else(|| self.oldest_that(Part::Protected, may_leave));
        let place = match (candidate, victim) {
            (Some(candidate), Some(victim)) => self.loser(candidate, victim),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => self.oldest_that(Part::Window, may_leave)?,
        };
        let id = self.nodes.get(place).id;
        self.remove(place);
        Some(id)
    }

    fn weight_bytes(&self) -> u64 {
        self.parts.iter().map(Queue::weight_bytes).sum()
    }

    fn memory_bytes(&self) -> u64 {
        self.nodes.memory_bytes() + self.sketch.memory_bytes()
    }
}
