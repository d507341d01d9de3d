//! How often a key was seen lately, in half a byte a counter: a count-min sketch (Cormode and Muthukrishnan 2005)
//! that forgets by halving, as TinyLFU's (Einziger, Friedman and Manes 2017). It may say too much, where keys share
//! all their counters, and never too little but for what it forgot. It ages by what is counted, never by time.

use crate::store::BlockId;

/// Counters that a key has: one in each row.
const ROWS: usize = 4;
/// Columns for each key where two are weighed against each other, and one halving is between what is hot and what came
/// once. With eight, a scan of ten times the keys counts so many of its blocks twice that strangers, once all is halved,
/// look hotter than what is hot.
const COLUMNS_TO_WEIGH: usize = 16;
/// Columns for each key where memory is given, and the longer it remembers the better.
const COLUMNS_TO_REMEMBER: usize = 8;
/// What a counter holds at most.
pub(crate) const COUNT_MAX: u8 = 15;
/// After so many counts for each key that is to be remembered, all counters are halved.
const SAMPLE_PER_KEY: u64 = 10;
/// Keys that the smallest sketch is for.
const KEYS_MIN: usize = 16;
/// Counters in a byte.
const COUNTERS_PER_BYTE: usize = 2;

/// The counters, and how many counts they have taken.
pub(crate) struct Sketch {
    /// Row by row of each column, two to a byte. The columns are a power of two.
    counters: Vec<u8>,
    columns_per_key: usize,
    counted: u64,
}

impl Sketch {
    /// One that weighs so many keys against others.
    pub(crate) fn for_keys(keys: usize) -> Sketch {
        Sketch::new(keys, COLUMNS_TO_WEIGH)
    }

    /// The largest that takes no more than this memory, or the smallest there is.
    pub(crate) fn within(bytes: u64) -> Sketch {
        let keys = bytes as usize * COUNTERS_PER_BYTE / (COLUMNS_TO_REMEMBER * ROWS);
        // Rounded down to a power of two, since it would else be rounded up.
        Sketch::new(keys.checked_ilog2().map_or(0, |log| 1 << log), COLUMNS_TO_REMEMBER)
    }

    fn new(keys: usize, columns_per_key: usize) -> Sketch {
        let columns = keys.max(KEYS_MIN).next_power_of_two() * columns_per_key;
        Sketch {
            counters: vec![0; columns * ROWS / COUNTERS_PER_BYTE],
            columns_per_key,
            counted: 0,
        }
    }

    /// Keys that it tells about apart.
    pub(crate) fn keys(&self) -> usize {
        self.columns() / self.columns_per_key
    }

    /// Grows until it is for so many keys; what was counted stays.
    pub(crate) fn expect_keys(&mut self, keys: usize) {
        while self.keys() < keys {
            // A key's new column is its old one or as far into the second half: both begin as the old one was.
            self.counters.extend_from_within(..);
        }
    }

    /// Counts a key once more.
    pub(crate) fn count(&mut self, key: Key) {
        let least = self.frequency(key);
        if least < COUNT_MAX {
            // Only the least: the others have counted strangers.
            for row in 0..ROWS {
                let at = self.counter(key, row);
                if self.get(at) == least {
                    self.counters[at / COUNTERS_PER_BYTE] += 1 << shift(at);
                }
            }
        }
        self.counted += 1;
        if self.counted >= SAMPLE_PER_KEY * self.keys() as u64 {
            self.halve();
        }
    }

    /// How often it was seen, about.
    pub(crate) fn frequency(&self, key: Key) -> u8 {
        let counts = (0..ROWS).map(|row| self.get(self.counter(key, row)));
        counts.min().expect("there are rows")
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.counters.capacity() as u64
    }

    fn halve(&mut self) {
        // Both halves of the byte at once: the low bit of the upper would fall into the lower.
        self.counters.iter_mut().for_each(|byte| *byte = (*byte >> 1) & 0x77);
        self.counted /= 2;
    }

    fn columns(&self) -> usize {
        self.counters.len() * COUNTERS_PER_BYTE / ROWS
    }

    /// Where a key's counter of a row is.
    fn counter(&self, key: Key, row: usize) -> usize {
        key.column(row, self.columns()) * ROWS + row
    }

    fn get(&self, at: usize) -> u8 {
        (self.counters[at / COUNTERS_PER_BYTE] >> shift(at)) & COUNT_MAX
    }
}

fn shift(at: usize) -> usize {
    at % COUNTERS_PER_BYTE * 4
}

/// What is counted: a block, or a piece of one, by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64, u64);

impl Key {
    /// A block's piece of this number; a block as a whole is its piece 0.
    pub(crate) fn of(block: BlockId, piece: u64) -> Key {
        let [first, second] = [0, 8].map(|at| {
            let half = block.version[at..at + 8].try_into().expect("eight bytes are eight");
            u64::from_le_bytes(half)
        });
        let base = mixed(first ^ mixed(u64::from(block.index) ^ piece << 32));
        // The step follows from all of the key, so that two keys that meet in one row part in the next.
        Key(base, mixed(second ^ base.rotate_left(32)))
    }

    /// Its column of a row, where there are so many columns.
    pub(crate) fn column(self, row: usize, columns: usize) -> usize {
        let hash = self.0.wrapping_add(self.1.wrapping_mul(row as u64));
        hash as usize & (columns - 1)
    }
}

/// SplitMix64's last step: every bit of the input reaches every bit of the output.
fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn key(number: u64) -> Key {
        let mut version = [0; 16];
        version[..8].copy_from_slice(&number.to_le_bytes());
        Key::of(BlockId { version, index: 7 }, 0)
    }

    proptest! {
        #[test]
        fn it_never_says_too_little_before_it_forgets(
            numbers in vec(0_u64..60, 0..159),
            grown in 0_usize..200,
        ) {
            let mut sketch = Sketch::for_keys(16);
            for (at, number) in numbers.iter().enumerate() {
                if at == 80 {
                    sketch.expect_keys(grown);
                }
                sketch.count(key(*number));
            }
            for number in 0..60 {
                let exact = numbers.iter().filter(|it| **it == number).count();
                prop_assert!(usize::from(sketch.frequency(key(number))) >= exact.min(15));
            }
        }

        #[test]
        fn its_memory_is_within_what_it_was_given(bytes in 256_u64..10_000_000) {
            let sketch = Sketch::within(bytes);
            prop_assert!(sketch.memory_bytes() <= bytes && sketch.memory_bytes() * 2 > bytes);
        }
    }

    #[test]
    fn what_was_counted_is_halved_after_so_many_counts() {
        let mut sketch = Sketch::for_keys(16);
        for _ in 0..11 {
            sketch.count(key(1));
        }
        (0..148).for_each(|_| sketch.count(key(2)));
        assert_eq!((sketch.frequency(key(1)), sketch.frequency(key(2))), (11, COUNT_MAX));
        sketch.count(key(2));
        assert_eq!((sketch.frequency(key(1)), sketch.frequency(key(2))), (5, COUNT_MAX / 2));
        for _ in 0..100 {
            assert!(sketch.frequency(key(1)) <= COUNT_MAX);
            sketch.count(key(1));
        }
    }

    #[test]
    fn strangers_are_seldom_taken_for_what_was_seen() {
        let mut sketch = Sketch::for_keys(1000);
        (0..1000).for_each(|number| sketch.count(key(number)));
        let mistaken = (1000..11_000).filter(|number| sketch.frequency(key(*number)) > 0).count();
        assert!(mistaken < 500, "{mistaken} of 10000");
    }

    #[test]
    fn pieces_of_a_block_and_blocks_of_an_object_are_counted_apart() {
        let block = |index| BlockId { version: [3; 16], index };
        let mut sketch = Sketch::for_keys(64);
        sketch.count(Key::of(block(0), 0));
        for (block, piece) in [(block(0), 1), (block(1), 0), (block(1), 1)] {
            assert_eq!(sketch.frequency(Key::of(block, piece)), 0);
        }
        assert_eq!(sketch.frequency(Key::of(block(0), 0)), 1);
    }
}
