//! A sorted array of what is known by hashes, with room between, so that each stands at or soon behind the
//! place that its hash says: open addressing whose probes never leave the order. A lookup touches one place
//! in memory; an older table is walked in order, so that a new one is made by merging.

use super::path_hash::FileId;

/// Of so many places so many are taken. What is looked for then stands one or two entries behind its own place,
/// on average; with 17 of 20 taken it is three, another cache line, and lookups took a tenth longer.
const PLACES: usize = 4;
const TAKEN: usize = 3;

/// What stands in a place.
pub(super) trait Known {
    fn id(&self) -> FileId;
}

pub(super) struct Slots<T> {
    /// Behind the last place of any hash there are more where the last entries did not find theirs free.
    slots: Box<[Option<T>]>,
    places: u64,
    count: usize,
}

impl<T: Known> Slots<T> {
    /// `entries` ascend by hash; several may have the same.
    pub(super) fn new(entries: impl ExactSizeIterator<Item = T>) -> Slots<T> {
        let count = entries.len();
        let places = count * PLACES / TAKEN + 1;
        let mut slots = Vec::with_capacity(places);
        for entry in entries {
            let place = place(entry.id(), places as u64);
            if slots.len() < place {
                slots.resize_with(place, || None);
            }
            slots.push(Some(entry));
        }
        slots.resize_with(slots.len().max(places), || None);
        Slots { slots: slots.into_boxed_slice(), places: places as u64, count }
    }

    /// The first with this hash. None is before its own place, and no place between the two is free.
    pub(super) fn find(&self, id: FileId) -> Option<&T> {
        let from = &self.slots[place(id, self.places)..];
        let mut until = from.iter().map_while(Option::as_ref).take_while(|entry| entry.id() <= id);
        until.find(|entry| entry.id() == id)
    }

    /// All, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val::<[Option<T>]>(&self.slots)
    }
}

/// The share of all hashes that are below `id`, in places: order stays.
fn place(id: FileId, places: u64) -> usize {
    let high = id.0 >> 64;
    ((high * u128::from(places)) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Known for u128 {
        fn id(&self) -> FileId {
            FileId(*self)
        }
    }

    /// Hashes that crowd at the ends, at one place, and that are equal.
    #[test]
    fn what_is_in_is_found_and_nothing_else() {
        let crowds = [
            vec![],
            vec![0],
            vec![u128::MAX; 3],
            (0..100).collect(),
            (0..100).map(|at| u128::MAX - 2 * (99 - at)).collect(),
            (0..1000).map(|at| (at / 2) << 117).collect(),
            [vec![5 << 100; 50], (6..60).map(|at| at << 100).collect()].concat(),
        ];
        for crowd in crowds {
            let slots = Slots::new(crowd.iter().copied());
            assert_eq!(slots.iter().copied().collect::<Vec<_>>(), crowd);
            assert_eq!(slots.len(), crowd.len());
            for id in &crowd {
                assert_eq!(slots.find(FileId(*id)), Some(id));
                let beside = [id.wrapping_add(1), id.wrapping_sub(1), id ^ (1 << 127)];
                for other in beside.into_iter().filter(|other| !crowd.contains(other)) {
                    assert_eq!(slots.find(FileId(other)), None);
                }
            }
        }
    }
}
