//! An Avro object container file: a header with the writer's schema, then blocks of values, each
//! followed by the file's marker. Values themselves are read in `walk`.

use super::codec::Codec;
use super::cursor::{Cursor, Flaw};
use super::schema::Schema;
use super::walk::Walker;
use super::{HEADER_BYTES_MAX, INFLATED_BYTES_MAX};

const MAGIC: &[u8] = b"Obj\x01";
/// What Iceberg's encrypted files begin with.
const ENCRYPTED_MAGIC: &[u8] = b"AGS1";
const MARKER_BYTES: usize = 16;

/// Members of a header; more than this is not one.
const MEMBERS_MAX: usize = 1024;

/// A name and its value.
type HeaderMember<'a> = (&'a [u8], &'a [u8]);

/// A file whose header has been read.
pub(super) struct Container<'a> {
    pub(super) schema: Schema,
    members: Vec<HeaderMember<'a>>,
    marker: &'a [u8],
    blocks: Cursor<'a>,
}

impl<'a> Container<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Container<'a>, Flaw> {
        if bytes.starts_with(ENCRYPTED_MAGIC) {
            return Err(Flaw::Unsupported("an encrypted file".into()));
        }
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(Flaw::damaged("not an Avro file"));
        };
        let mut header = Cursor::new(&rest[..rest.len().min(HEADER_BYTES_MAX)]);
        let members = read_members(&mut header)?;
        let marker = header.take(MARKER_BYTES)?;
        let at = rest.len().min(HEADER_BYTES_MAX) - header.left();
        let text = find(&members, "avro.schema").ok_or_else(|| Flaw::damaged("no Avro schema"))?;
        let schema = Schema::parse(text)?;
        Ok(Container { schema, members, marker, blocks: Cursor::new(&rest[at..]) })
    }

    /// A member of the header.
    pub(super) fn member(&self, name: &str) -> Option<&'a [u8]> {
        find(&self.members, name)
    }

    /// Calls `read` for each value of the file. It has to read the value, and nothing else.
    pub(super) fn each<R>(&self, mut read: R) -> Result<(), Flaw>
    where
        R: FnMut(&mut Walker<'_, '_>) -> Result<(), Flaw>,
    {
        let mut codec = Codec::named(self.member("avro.codec").unwrap_or(b""))?;
        let mut blocks = Cursor::new(self.blocks.rest());
        let mut buffer = Vec::new();
        let mut inflated_bytes = 0;
        while !blocks.is_empty() {
            let count = blocks.long()?;
            let block = codec.inflate(blocks.bytes()?, &mut buffer)?;
            if blocks.take(MARKER_BYTES)? != self.marker {
                return Err(Flaw::damaged("a block is not followed by the file's marker"));
            }
            inflated_bytes += block.len();
            if inflated_bytes > INFLATED_BYTES_MAX {
                return Err(Flaw::TooLarge("inflated bytes", INFLATED_BYTES_MAX));
            }
            read_block(&self.schema, block, count, &mut read)?;
        }
        Ok(())
    }
}

fn read_block<R>(schema: &Schema, block: &[u8], count: i64, read: &mut R) -> Result<(), Flaw>
where
    R: FnMut(&mut Walker<'_, '_>) -> Result<(), Flaw>,
{
    // A value takes a byte at least, so that the count bounds nothing but honest work.
    if count < 0 || count as u64 > block.len() as u64 {
        return Err(Flaw::damaged(format!("{count} values in {} bytes", block.len())));
    }
    let mut walker = Walker::new(schema, block);
    for _ in 0..count {
        read(&mut walker)?;
    }
    if walker.is_at_end() { Ok(()) } else { Err(Flaw::damaged("a block has bytes left over")) }
}

fn read_members<'a>(header: &mut Cursor<'a>) -> Result<Vec<HeaderMember<'a>>, Flaw> {
    let mut members = Vec::new();
    loop {
        let mut count = header.long()?;
        if count == 0 {
            return Ok(members);
        }
        if count < 0 {
            count = count.saturating_neg();
            header.long()?; // The size of what follows, for those who skip it.
        }
        for _ in 0..count {
            if members.len() == MEMBERS_MAX {
                return Err(Flaw::TooLarge("members of the header", MEMBERS_MAX));
            }
            members.push((header.bytes()?, header.bytes()?));
        }
    }
}

fn find<'a>(members: &[HeaderMember<'a>], name: &str) -> Option<&'a [u8]> {
    members.iter().find(|(member, _)| *member == name.as_bytes()).map(|(_, value)| *value)
}
