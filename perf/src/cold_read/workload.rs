//! What is read: one large object by one GET, or the ranges that a query reads of Parquet files.
//! The same for the same number of bytes; no byte is asked for twice.

use nilas_base::{ByteRange, KIB, Rng};

use super::content::Content;

/// Parquet files of the workload.
const FILES: u64 = 8;
/// Columns of each row group, and how many of them the query reads.
const COLUMNS: usize = 16;
const COLUMNS_READ: usize = 8;
/// Column chunks are from 64 KiB to 4 MiB, each doubling as likely as another.
const CHUNK_BYTES_MIN: u64 = 64 * KIB;
const CHUNK_DOUBLINGS: u64 = 6;
/// The file's footer is from 32 to 96 KiB, and found by its last eight bytes.
const FOOTER_BYTES_MIN: u64 = 32 * KIB;
const FOOTER_BYTES_SPREAD: u64 = 64 * KIB;
const TAIL_BYTES: u64 = 8;
const MAGIC_BYTES: u64 = 4;
const SEED: u64 = 0x6e69_6c61_7301;

/// What is asked for of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole object.
    Whole,
    /// So many last bytes.
    Last,
    /// From the range's first byte to its last.
    FromTo,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The file's number.
    pub file: usize,
    /// How it is asked for.
    pub form: Form,
    /// The bytes that must come.
    pub range: ByteRange,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in tables and records.
    pub name: &'static str,
    /// Connections, one request in flight on each.
    pub connections: usize,
    /// The files it reads.
    pub files: Vec<Content>,
    /// Requests; a stage begins when the one before it is answered.
    pub stages: Vec<Vec<Ask>>,
}

impl Workload {
    /// One object of so many bytes, by one GET.
    pub fn object(bytes: u64) -> Workload {
        let ask = Ask { file: 0, form: Form::Whole, range: ByteRange::new(0, bytes) };
        let files = vec![Content { seed: SEED, length: bytes }];
        Workload { name: "object", connections: 1, files, stages: vec![vec![ask]] }
    }

    /// About so many bytes in ranges: of each file its last bytes, then its footer, then the chunks
    /// of the columns that are read, row group by row group.
    pub fn ranges(bytes: u64, connections: usize) -> Workload {
        let mut rng = Rng::from_seed(SEED);
        let columns = columns_read(&mut rng);
        let mut files = Vec::new();
        let mut stages = vec![Vec::new(); 3];
        for file in 0..FILES as usize {
            let (chunks, chunks_end) = chunks(&mut rng, &columns, bytes / FILES);
            let footer_bytes = FOOTER_BYTES_MIN + rng.below(FOOTER_BYTES_SPREAD);
            let footer = ByteRange::new(chunks_end, chunks_end + footer_bytes);
            let tail = ByteRange::new(footer.end, footer.end + TAIL_BYTES);
            stages[0].push(Ask { file, form: Form::Last, range: tail });
            stages[1].push(Ask { file, form: Form::FromTo, range: footer });
            let asks = chunks.into_iter().map(|range| Ask { file, form: Form::FromTo, range });
            stages[2].extend(asks);
            files.push(Content { seed: rng.next_u64(), length: tail.end });
        }
        Workload { name: "ranges", connections, files, stages }
    }

    /// The bytes that it reads.
    pub fn bytes(&self) -> u64 {
        self.asks().map(|ask| ask.range.len()).sum()
    }

    /// Its requests.
    pub fn requests(&self) -> usize {
        self.asks().count()
    }

    fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.stages.iter().flatten()
    }
}

/// Which columns the query reads, the same in every row group.
fn columns_read(rng: &mut Rng) -> [bool; COLUMNS] {
    let mut read = [false; COLUMNS];
    while read.iter().filter(|is_read| **is_read).count() < COLUMNS_READ {
        read[rng.below(COLUMNS as u64) as usize] = true;
    }
    read
}

/// The chunks to read of one file, about `bytes` of them, and where the file's footer begins.
fn chunks(rng: &mut Rng, columns: &[bool; COLUMNS], bytes: u64) -> (Vec<ByteRange>, u64) {
    let mut chunks = Vec::new();
    let (mut at, mut read_bytes) = (MAGIC_BYTES, 0);
    while read_bytes < bytes {
        for is_read in columns {
            let least = CHUNK_BYTES_MIN << rng.below(CHUNK_DOUBLINGS);
            let chunk = ByteRange::new(at, at + least + rng.below(least));
            at = chunk.end;
            if *is_read && read_bytes < bytes {
                read_bytes += chunk.len();
                chunks.push(chunk);
            }
        }
    }
    (chunks, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilas_base::MIB;

    #[test]
    fn no_byte_is_asked_for_twice_and_none_beyond_a_file() {
        for workload in [Workload::ranges(256 * MIB, 16), Workload::object(MIB)] {
            for (number, file) in workload.files.iter().enumerate() {
                let of_file = workload.asks().filter(|ask| ask.file == number);
                let mut ranges: Vec<ByteRange> = of_file.map(|ask| ask.range).collect();
                ranges.sort_by_key(|range| range.start);
                assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
                assert_eq!(ranges.last().expect("each file is read").end, file.length);
            }
        }
    }

    #[test]
    fn the_ranges_are_those_of_a_query_and_the_same_each_time() {
        let workload = Workload::ranges(1024 * MIB, 16);
        assert_eq!(workload, Workload::ranges(1024 * MIB, 16));
        assert!((1024 * MIB..1100 * MIB).contains(&workload.bytes()), "{}", workload.bytes());
        let chunks = &workload.stages[2];
        assert!(chunks.iter().all(|ask| (CHUNK_BYTES_MIN..4096 * KIB).contains(&ask.range.len())));
        let next = chunks.windows(2).filter(|pair| pair[0].range.end == pair[1].range.start);
        let next = next.count();
        assert!(next > 0 && next < chunks.len() * 3 / 4, "{next} of {}", chunks.len());
    }
}
