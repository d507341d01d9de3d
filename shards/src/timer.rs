//! Timers of one shard: deadlines in a heap that knows where each of them stands, so that the many
//! time-outs that never fire are removed without a trace and without an allocation.

use nilas_base::Monotonic;
use std::task::Waker;

/// Names a timer until it has fired or was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    index: u32,
    generation: u32,
}

/// All timers that wait.
#[derive(Default)]
pub(crate) struct Timers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Indexes of slots, the earliest deadline first; ties by order of arrival.
    heap: Vec<u32>,
    arrivals: u64,
}

struct Slot {
    generation: u32,
    deadline: Monotonic,
    arrival: u64,
    place: usize,
    waker: Option<Waker>,
}

impl Timers {
    /// Wakes `waker` when the time is `deadline`.
    pub(crate) fn insert(&mut self, deadline: Monotonic, waker: Waker) -> TimerKey {
        let place = self.heap.len();
        let arrival = self.arrivals;
        self.arrivals += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            let generation = 0;
            self.slots.push(Slot { generation, deadline, arrival, place, waker: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        *slot = Slot { deadline, arrival, place, waker: Some(waker), ..*slot };
        let generation = slot.generation;
        self.heap.push(index);
        self.sift_up(place);
        TimerKey { index, generation }
    }

    /// Sets who is woken; false when the timer has fired.
    pub(crate) fn set_waker(&mut self, key: TimerKey, waker: &Waker) -> bool {
        let slot = &mut self.slots[key.index as usize];
        if slot.generation != key.generation {
            return false;
        }
        match &mut slot.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }

    /// Forgets a timer, if it has not fired.
    pub(crate) fn remove(&mut self, key: TimerKey) {
        let slot = &self.slots[key.index as usize];
        if slot.generation == key.generation {
            self.take(slot.place);
        }
    }

    /// Takes the earliest timer whose deadline is not after `now`.
    pub(crate) fn fire(&mut self, now: Monotonic) -> Option<Waker> {
        if self.next_deadline()? > now {
            return None;
        }
        self.take(0)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.heap.first().map(|&index| self.slots[index as usize].deadline)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    fn take(&mut self, place: usize) -> Option<Waker> {
        let index = self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.slots[self.heap[place] as usize].place = place;
            self.sift_down(place);
            self.sift_up(place);
        }
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        slot.waker.take()
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 {
            let above = (place - 1) / 2;
            if !self.is_before(place, above) {
                return;
            }
            self.swap(place, above);
            place = above;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let right = left + 1;
            let below = if right < self.heap.len() && self.is_before(right, left) {
                right
            } else if left < self.heap.len() {
                left
            } else {
                return;
            };
            if !self.is_before(below, place) {
                return;
            }
            self.swap(place, below);
            place = below;
        }
    }

    fn is_before(&self, one: usize, other: usize) -> bool {
        let key = |place: usize| {
            let slot = &self.slots[self.heap[place] as usize];
            (slot.deadline, slot.arrival)
        };
        key(one) < key(other)
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.slots[self.heap[one] as usize].place = one;
        self.slots[self.heap[other] as usize].place = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilas_base::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn timers_fire_in_the_order_of_a_sorted_map() {
        for seed in 0..50 {
            let mut rng = Rng::from_seed(seed);
            let mut timers = Timers::default();
            let mut model = BTreeMap::new();
            let mut keys = Vec::new();
            for arrival in 0..500_u64 {
                if rng.chance(1, 3) && !keys.is_empty() {
                    let place = rng.below(keys.len() as u64) as usize;
                    let (key, entry) = keys.swap_remove(place);
                    timers.remove(key);
                    model.remove(&entry);
                }
                let deadline = Monotonic(rng.below(100));
                let key = timers.insert(deadline, Waker::noop().clone());
                model.insert((deadline, arrival), key);
                keys.push((key, (deadline, arrival)));
            }
            while let Some(((deadline, _), key)) = model.pop_first() {
                assert_eq!(timers.next_deadline(), Some(deadline), "seed {seed}");
                assert!(timers.set_waker(key, Waker::noop()));
                assert!(timers.fire(deadline).is_some());
                assert!(!timers.set_waker(key, Waker::noop()), "the model's first one fired");
            }
            assert_eq!(timers.next_deadline(), None);
        }
    }

    #[test]
    fn nothing_fires_early() {
        let mut timers = Timers::default();
        timers.insert(Monotonic(10), Waker::noop().clone());
        assert!(timers.fire(Monotonic(9)).is_none());
        assert!(timers.fire(Monotonic(10)).is_some());
        assert!(timers.fire(Monotonic(u64::MAX)).is_none());
    }
}
