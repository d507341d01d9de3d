//! Parquet footers: the tail of a file in, out comes whose bytes each range of the file holds.
//! The Thrift is read by a reader of our own that allocates nothing for a length it was told: a footer
//! comes from strangers (docs/DECISIONS.md). Nothing here reads data; `mapper` keeps what is found.

mod decode;
mod error;
mod name_mapping;
mod schema;
#[cfg(test)]
mod tests;
mod thrift;

use nilas_base::ByteRange;

pub use decode::CHUNKS_MAX;
pub use error::FooterError;
pub use name_mapping::NameMapping;
#[cfg(test)]
pub(crate) use tests::write_file;

/// How much of a file's end is read at first. Most footers are smaller.
pub const WINDOW_BYTES: u64 = 64 << 10;
/// The largest footer that is read, its last eight bytes included.
pub const FOOTER_BYTES_MAX: u64 = 64 << 20;

/// The metadata's length and the magic.
const TRAILER_BYTES: u64 = 8;
/// The magic at a file's beginning.
const HEAD_BYTES: u64 = 4;

/// What the end of a file gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FooterRead {
    /// The footer is larger than what was given: so many bytes of the file's end are needed.
    Needs(u64),
    /// All of it.
    Whole(Footer),
}

/// What a footer says of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Rows of the file.
    pub rows: u64,
    /// Its row groups, in order.
    pub row_groups: Vec<RowGroup>,
    /// Its leaf columns, in order.
    pub columns: Vec<Column>,
    /// Whose the file's bytes are: by place, disjoint, none empty. What is between is nobody's.
    pub spans: Vec<Span>,
    /// Where the footer itself begins.
    pub start: u64,
}

impl Footer {
    /// From where on the file holds page indexes and, behind them, its footer: no data. `None` of a file without
    /// indexes, and of one that mixes them with its data.
    pub fn indexes_start(&self) -> Option<u64> {
        let is_index = |span: &&Span| matches!(span.part, Part::OffsetIndex | Part::ColumnIndex);
        let start = self.spans.iter().find(is_index)?.range.start;
        let is_behind = |span: &Span| span.part == Part::Data && span.range.end > start;
        (!self.spans.iter().any(is_behind)).then_some(start)
    }
}

/// A row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowGroup {
    /// Its rows.
    pub rows: u64,
}

/// A leaf column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its field id, which stays through renames and moves; `None` where the file has none and no name
    /// mapping gives one: then the path is all that is known.
    pub field_id: Option<i32>,
    /// The names from the root, joined by dots.
    pub path: Box<str>,
}

/// A range of the file that belongs to one column of one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the row group.
    pub row_group: u32,
    /// Index of the column.
    pub column: u32,
    /// What of it.
    pub part: Part,
    /// Which bytes of the file.
    pub range: ByteRange,
}

/// What a range holds of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its pages, the dictionary's included.
    Data,
    /// Where its pages are.
    OffsetIndex,
    /// What its pages hold, by their bounds.
    ColumnIndex,
    /// What values it does not hold.
    BloomFilter,
}

impl Part {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Part; 4] =
        [Part::Data, Part::OffsetIndex, Part::ColumnIndex, Part::BloomFilter];
}

/// Reads the footer of a file of `file_bytes` from the last `tail.len()` of them. `names` gives field ids
/// where the file has none.
///
/// # Errors
/// Whatever is wrong with the file, see [`FooterError`]. Never panics, whatever the bytes, and holds at
/// most [`CHUNKS_MAX`] chunks and 16 MiB of paths.
pub fn read_footer(
    tail: &[u8],
    file_bytes: u64,
    names: Option<&NameMapping>,
) -> Result<FooterRead, FooterError> {
    let tail_bytes = tail.len() as u64;
    if file_bytes < HEAD_BYTES + TRAILER_BYTES || tail_bytes > file_bytes {
        return Err(FooterError::NotParquet);
    }
    let Some((rest, trailer)) = tail.split_last_chunk::<8>() else {
        return Ok(FooterRead::Needs(WINDOW_BYTES.min(file_bytes)));
    };
    let [a, b, c, d, magic @ ..] = *trailer;
    match &magic {
        b"PAR1" => {}
        b"PARE" => return Err(FooterError::Encrypted),
        _ => return Err(FooterError::NotParquet),
    }
    let metadata_bytes = u32::from_le_bytes([a, b, c, d]);
    let needed = u64::from(metadata_bytes) + TRAILER_BYTES;
    if needed + HEAD_BYTES > file_bytes {
        return Err(FooterError::Damaged("it is longer than the file"));
    }
    if needed > FOOTER_BYTES_MAX {
        let (found, most) = (needed, FOOTER_BYTES_MAX);
        return Err(FooterError::TooLarge { what: "bytes", found, most });
    }
    if needed > tail_bytes {
        return Ok(FooterRead::Needs(needed));
    }
    let metadata = &rest[rest.len() - metadata_bytes as usize..];
    decode::decode(metadata, file_bytes - needed, names).map(FooterRead::Whole)
}
