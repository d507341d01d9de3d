//! Reading ahead of a reader who reads an object from front to back in many requests. The home sees
//! every request, so it sees that one begins where another ended; then the next bytes are fetched
//! before they are asked for: as many as the reader has asked for so far, never more than some.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nilas_base::{ByteRange, MIB, Monotonic};
use nilas_net::range::Resolved;
use nilas_shards::store::Leases;

use crate::call::OpenWant;
use crate::disk;
use crate::fill;
use crate::mapping::Mapping;
use crate::origin::Signer;
use crate::shard::Shard;

/// Bytes that are fetched ahead of one reader at most. At 30 ms and 100 MB/s a connection, four
/// blocks in flight feed a reader of 150 MB/s.
const AHEAD_BYTES_MAX: u64 = 8 * MIB;
/// Readers that are followed on one shard, as a power of two. One that loses its place to another
/// is found again at its next two requests.
const READERS_MAX: usize = 512;

/// How long a reader is followed who asks for nothing: what it left is no trace for the next one.
const FOLLOWED_TIME_MAX: Duration = Duration::from_millis(500);

/// The readers that are followed: where each of them is expected next.
#[derive(Debug)]
pub struct SequentialReads {
    readers: Box<[Reader]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    version: [u8; 16],
    /// Where its last request ended.
    next: u64,
    /// What it has asked for since it began, in bytes.
    asked_bytes: u64,
    /// What has been fetched ahead of it ends here.
    ahead_end: u64,
    /// Until when it is followed if it goes on.
    followed_until: Option<Monotonic>,
}

/// When a request came, and whether it found its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it came.
    pub at: Monotonic,
    /// Whether its first bytes were not at hand.
    pub is_missing: bool,
}

impl Default for SequentialReads {
    fn default() -> SequentialReads {
        SequentialReads { readers: vec![Reader::default(); READERS_MAX].into_boxed_slice() }
    }
}

impl SequentialReads {
    /// Notes a request; gives the bytes to fetch ahead. Who finds everything at hand is not followed:
    /// nothing is fetched for those who read again what was read before.
    pub fn note(
        &mut self,
        version: [u8; 16],
        slice: ByteRange,
        length: u64,
        arrival: Arrival,
    ) -> Option<ByteRange> {
        let before = std::mem::take(&mut self.readers[place(version, slice.start)]);
        let is_next = slice.start > 0 && before.version == version && before.next == slice.start;
        let goes_on = is_next
            && (arrival.is_missing
                || before.followed_until.is_some_and(|until| until > arrival.at));
        let followed_until = goes_on.then(|| arrival.at.after(FOLLOWED_TIME_MAX));
        let mut reader = Reader {
            version,
            next: slice.end,
            asked_bytes: slice.len(),
            ahead_end: slice.end,
            followed_until,
        };
        let mut ahead = None;
        if goes_on {
            reader.asked_bytes = before.asked_bytes.saturating_add(slice.len());
            reader.ahead_end = before.ahead_end.max(slice.end);
            let window = reader.asked_bytes.min(AHEAD_BYTES_MAX);
            // In few large steps rather than many small ones.
            if reader.ahead_end - slice.end <= window / 2 {
                let end = slice.end.saturating_add(window).min(length);
                if end > reader.ahead_end {
                    ahead = Some(ByteRange::new(reader.ahead_end, end));
                    reader.ahead_end = end;
                }
            }
        }
        self.readers[place(version, slice.end)] = reader;
        ahead
    }
}

fn place(version: [u8; 16], offset: u64) -> usize {
    let [a, b, c, d, e, f, g, h, ..] = version;
    let mixed = u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ offset;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % READERS_MAX
}

/// Notes a request for bytes of an object, and begins what is to be fetched ahead of the next.
pub fn note(
    shard: &Rc<Shard>,
    mapping: &Arc<Mapping>,
    want: &OpenWant,
    signer: &Signer,
    is_missing: bool,
) {
    if !want.body {
        return;
    }
    let Resolved::Slice(slice) = want.range.resolve(mapping.length) else { return };
    let arrival = Arrival { at: shard.reactor.clock().now(), is_missing };
    let ahead =
        shard.sequential_reads.borrow_mut().note(mapping.version, slice, mapping.length, arrival);
    if let Some(ahead) = ahead {
        fill::prepare_all(shard, mapping, signer, ahead);
    }
}

/// Whether the first wanted bytes would be here if they were anywhere, and are neither in memory nor on the
/// device: then the origin is asked for them, and may be asked for what follows.
pub(super) fn is_missing_here(
    shard: &Shard,
    mapping: &Arc<Mapping>,
    want: &OpenWant,
    signer: &Signer,
    leases: &Leases,
) -> bool {
    if !leases.is_empty() {
        return false;
    }
    let Resolved::Slice(slice) = want.range.resolve(mapping.length) else { return false };
    fill::block_want(shard, mapping, signer, slice).is_some_and(|first| {
        shard.geometry.owner(mapping.home_hash, first.index) == shard.id
            && !disk::has_first_byte(shard, &first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: [u8; 16] = [7; 16];
    const MISSING: Arrival = Arrival { at: Monotonic(0), is_missing: true };

    #[test]
    fn who_reads_on_is_read_ahead_of_by_no_more_than_was_asked_for() {
        let mut reads = SequentialReads::default();
        let (piece, length) = (64 << 10, 1 << 30);
        let mut fetched_end = 0;
        for number in 0..1000 {
            let slice = ByteRange::new(number * piece, (number + 1) * piece);
            let ahead = reads.note(VERSION, slice, length, MISSING);
            if let Some(ahead) = ahead {
                assert!(ahead.start >= slice.end && ahead.start >= fetched_end);
                fetched_end = ahead.end;
            }
            assert!(number > 0 || ahead.is_none(), "one request is no sequence");
            assert!(fetched_end <= 2 * slice.end, "{number}");
            assert!(fetched_end.saturating_sub(slice.end) <= AHEAD_BYTES_MAX);
            assert!(number == 0 || fetched_end > slice.end, "it is always ahead: {number}");
        }
    }

    #[test]
    fn who_reads_here_and_there_is_not_read_ahead_of() {
        let mut reads = SequentialReads::default();
        let mut rng = nilas_base::Rng::from_seed(1);
        for number in 0..10_000 {
            let start = match number % 2 {
                0 => number * (2 << 20),
                _ => rng.below(1 << 34) * 4096 + 1,
            };
            let slice = ByteRange::new(start, start + 4096);
            assert_eq!(reads.note(VERSION, slice, 1 << 50, MISSING), None);
        }
    }

    #[test]
    fn nothing_is_fetched_beyond_the_end() {
        let mut reads = SequentialReads::default();
        let length = 3_000_000;
        reads.note(VERSION, ByteRange::new(0, 1_000_000), length, MISSING);
        let ahead = reads.note(VERSION, ByteRange::new(1_000_000, 2_000_000), length, MISSING);
        assert_eq!(ahead, Some(ByteRange::new(2_000_000, length)));
        assert_eq!(reads.note(VERSION, ByteRange::new(2_000_000, length), length, MISSING), None);
    }

    #[test]
    fn who_finds_everything_at_hand_is_not_read_ahead_of() {
        let mut reads = SequentialReads::default();
        let (piece, length) = (64 << 10, 1 << 30);
        let slice = |number: u64| ByteRange::new(number * piece, (number + 1) * piece);
        let found = |at| Arrival { at, is_missing: false };
        for number in 0..10 {
            assert_eq!(reads.note(VERSION, slice(number), length, found(Monotonic(0))), None);
        }
        assert!(reads.note(VERSION, slice(10), length, MISSING).is_some());
        assert!(reads.note(VERSION, slice(11), length, found(Monotonic(1))).is_some());
        let late = Monotonic(1).after(FOLLOWED_TIME_MAX);
        assert_eq!(reads.note(VERSION, slice(12), length, found(late)), None, "its trace is cold");
    }
}
