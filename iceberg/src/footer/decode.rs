//! A footer's Thrift into a [`Footer`]. Only what tells whose bytes a range holds is read; statistics,
//! encodings and key-values are stepped over.

use nilas_base::ByteRange;

use super::error::{FooterError, Result};
use super::name_mapping::NameMapping;
use super::schema::{leaves, read_nodes};
use super::thrift::{Field, Thrift};
use super::{Column, Footer, Part, RowGroup, Span};

/// Column chunks of a file: a thousand columns by a thousand row groups. Bounds what a footer of many
/// small lies can make of its 64 MiB.
pub const CHUNKS_MAX: usize = 1 << 20;

/// Decodes the metadata of a file whose footer begins at `footer_start`.
pub(super) fn decode(
    bytes: &[u8],
    footer_start: u64,
    names: Option<&NameMapping>,
) -> Result<Footer> {
    let mut decoder = Decoder { footer_start, ..Decoder::default() };
    let mut rows = 0;
    Thrift::new(bytes).fields(|thrift, field| {
        match field.id {
            2 if decoder.columns.is_some() => {
                return Err(FooterError::Damaged("it has two schemas"));
            }
            2 => decoder.columns = Some(leaves(&read_nodes(thrift, field)?, names)?),
            3 => rows = unsigned(thrift.integer(field)?)?,
            4 => thrift.structures(field, |thrift| decoder.read_row_group(thrift))?,
            _ => thrift.skip(field)?,
        }
        Ok(())
    })?;
    let Decoder { columns, row_groups, mut spans, .. } = decoder;
    let columns = columns.ok_or(FooterError::Damaged("it has no schema"))?;
    spans.sort_unstable_by_key(|span| (span.range.start, span.range.end));
    close_open_spans(&mut spans, footer_start);
    spans.retain(|span| !span.range.is_empty());
    if spans.windows(2).any(|pair| pair[0].range.end > pair[1].range.start) {
        return Err(FooterError::Damaged("two of its ranges overlap"));
    }
    Ok(Footer { rows, row_groups, columns, spans, start: footer_start })
}

/// The end of a range whose length is not told: all up to what follows.
const OPEN: u64 = u64::MAX;

/// Writers before format 2.10 do not tell the length of a Bloom filter.
fn close_open_spans(spans: &mut [Span], footer_start: u64) {
    let mut next = footer_start;
    for span in spans.iter_mut().rev() {
        if span.range.end == OPEN {
            span.range.end = next.max(span.range.start);
        }
        next = span.range.start;
    }
}

#[derive(Default)]
struct Decoder {
    footer_start: u64,
    columns: Option<Vec<Column>>,
    row_groups: Vec<RowGroup>,
    spans: Vec<Span>,
    chunks: usize,
}

/// What a column chunk says of its places; offsets and lengths as they are written.
#[derive(Default)]
struct Chunk {
    elsewhere: bool,
    data: Option<Place>,
    dictionary: Option<i64>,
    offset_index: Place,
    column_index: Place,
    bloom_filter: Place,
}

#[derive(Clone, Copy, Default)]
struct Place {
    offset: Option<i64>,
    length: Option<i64>,
}

impl Decoder {
    fn read_row_group(&mut self, thrift: &mut Thrift<'_>) -> Result<()> {
        if self.row_groups.len() == CHUNKS_MAX {
            return Err(too_many_chunks());
        }
        let mut rows = 0;
        let mut column = 0;
        thrift.fields(|thrift, field| {
            match field.id {
                1 => thrift.structures(field, |thrift| {
                    self.read_chunk(thrift, column)?;
                    column += 1;
                    Ok(())
                })?,
                3 => rows = unsigned(thrift.integer(field)?)?,
                _ => thrift.skip(field)?,
            }
            Ok(())
        })?;
        let columns = self.columns.as_ref().map_or(0, Vec::len);
        if column as usize != columns {
            return Err(FooterError::Damaged("a row group has not the schema's columns"));
        }
        self.row_groups.push(RowGroup { rows });
        Ok(())
    }

    fn read_chunk(&mut self, thrift: &mut Thrift<'_>, column: u32) -> Result<()> {
        self.chunks += 1;
        if self.chunks > CHUNKS_MAX {
            return Err(too_many_chunks());
        }
        let chunk = Chunk::read(thrift)?;
        if chunk.elsewhere {
            return Ok(());
        }
        if let Some(data) = chunk.data {
            let place = with_dictionary(data, chunk.dictionary);
            self.push(column, Part::Data, place)?;
        }
        self.push(column, Part::OffsetIndex, chunk.offset_index)?;
        self.push(column, Part::ColumnIndex, chunk.column_index)?;
        self.push(column, Part::BloomFilter, chunk.bloom_filter)
    }

    fn push(&mut self, column: u32, part: Part, place: Place) -> Result<()> {
        let Some(offset) = place.offset else { return Ok(()) };
        let start = unsigned(offset)?;
        let end = match place.length {
            Some(length) => start.checked_add(unsigned(length)?),
            None if part == Part::BloomFilter => Some(OPEN),
            None => return Err(FooterError::Damaged("a range has no length")),
        };
        let end = end.ok_or(FooterError::Damaged("a range has no end"))?;
        if start > self.footer_start || (end > self.footer_start && end != OPEN) {
            return Err(FooterError::Damaged("a range ends behind the data"));
        }
        let row_group = self.row_groups.len() as u32;
        self.spans.push(Span { row_group, column, part, range: ByteRange { start, end } });
        Ok(())
    }
}

impl Chunk {
    fn read(thrift: &mut Thrift<'_>) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        thrift.fields(|thrift, field| {
            match field.id {
                // The chunk is in another file.
                1 => chunk.elsewhere = !thrift.binary(field)?.is_empty(),
                3 => chunk.read_metadata(thrift, field)?,
                4 => chunk.offset_index.offset = Some(thrift.integer(field)?),
                5 => chunk.offset_index.length = Some(thrift.integer(field)?),
                6 => chunk.column_index.offset = Some(thrift.integer(field)?),
                7 => chunk.column_index.length = Some(thrift.integer(field)?),
                _ => thrift.skip(field)?,
            }
            Ok(())
        })?;
        Ok(chunk)
    }

    /// Absent where the column is encrypted and the footer is not: such a chunk's place is unknown.
    fn read_metadata(&mut self, thrift: &mut Thrift<'_>, field: Field) -> Result<()> {
        let mut data = Place::default();
        thrift.structure(field, |thrift, field| {
            match field.id {
                7 => data.length = Some(thrift.integer(field)?),
                9 => data.offset = Some(thrift.integer(field)?),
                11 => self.dictionary = Some(thrift.integer(field)?),
                14 => self.bloom_filter.offset = Some(thrift.integer(field)?),
                15 => self.bloom_filter.length = Some(thrift.integer(field)?),
                _ => thrift.skip(field)?,
            }
            Ok(())
        })?;
        if data.offset.is_none() || data.length.is_none() {
            return Err(FooterError::Damaged("a column chunk has no place"));
        }
        self.data = Some(data);
        Ok(())
    }
}

/// A chunk begins with its dictionary, if it has one. Some writers tell 0, or another chunk's, for none:
/// a dictionary that would lie outside the chunk is not believed.
fn with_dictionary(data: Place, dictionary: Option<i64>) -> Place {
    let (Some(offset), Some(length)) = (data.offset, data.length) else { return data };
    let inside = |at: &i64| *at > 0 && *at < offset && offset.saturating_sub(*at) < length;
    match dictionary.filter(inside) {
        Some(dictionary) => Place { offset: Some(dictionary), ..data },
        None => data,
    }
}

fn unsigned(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| FooterError::Damaged("a count or place is negative"))
}

fn too_many_chunks() -> FooterError {
    let (found, most) = (CHUNKS_MAX as u64 + 1, CHUNKS_MAX as u64);
    FooterError::TooLarge { what: "column chunks", found, most }
}
