//! The journal's entries as bytes. Little-endian, a version first; every text and list comes after its
//! length, and nothing may be left over. The journal checks that bytes are those that were written; here
//! it is checked that they say what an entry can say, so that no mapping comes back that could not have
//! been learnt. What entries mean together is `outline`.

use std::borrow::Cow;

use crate::freshness::Voucher;
use crate::identity::HomeHash;
use crate::mapping::{Mapping, StoreClass};
use crate::purge::{Era, Purged};

/// The version of all entries together. A journal of another one is another owner's; see
/// [`owner`](super::owner).
pub const ENTRY_VERSION: u8 = 2;
/// Keys of one entry; more are told in several.
pub const KEYS_MAX: usize = 1024;
/// The longest object of which a mapping is believed: it has fewer than 2^32 blocks of any length.
const OBJECT_BYTES_MAX: u64 = 1 << 50;

/// One write through this node, from its first word to its last; not two of them are the same while
/// the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteId(pub u64);

/// What one entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A node begins to write here: of the writes that were open it will not hear any more.
    Started,
    /// An immutable object was learnt.
    Learnt(Learnt<'a>),
    /// A write is about to be relayed.
    Began(WriteId, Reach<'a>),
    /// It has ended: by what became of it.
    Ended(WriteId, End),
    /// The outcome of writes to these is unknown: a checkpoint's word for writes that ended so.
    Held(Reach<'a>),
    /// An object that was known is not to be had any more, or not to be believed.
    Gone(HomeHash),
    /// A purge, by its number.
    Purged(Era, Purged<'a>),
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has happened, or never will.
    Settled,
    /// It may still happen.
    Unknown,
}

/// What a write or a hold concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// These keys, by hash: who shares one costs the origin a question, nothing else.
    Keys(Cow<'a, [HomeHash]>),
    /// Every key of a bucket.
    Bucket(Cow<'a, str>),
    /// Every key.
    All,
}

/// A mapping, without what follows from it and the node's geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learnt<'a> {
    /// Whose bucket.
    pub bucket: &'a str,
    /// Whose key.
    pub key: &'a str,
    /// Its ETag.
    pub etag: &'a str,
    /// Its bytes.
    pub length: u64,
    /// `Last-Modified`.
    pub last_modified: Option<&'a str>,
    /// Its header lines.
    pub headers: &'a [u8],
    /// The header lines of its checksums, where they were asked for.
    pub checksums: Option<&'a [u8]>,
    /// After which purge it was asked for.
    pub era: Era,
    /// Which store its blocks are in.
    pub class: StoreClass,
    /// From where on its bytes are in the metadata store all the same.
    pub tail_start: u64,
    /// What says that it never changes.
    pub voucher: Voucher,
}

/// The bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry of the journal says what no entry can say")]
pub struct NoEntry;

const STARTED: u8 = 1;
const LEARNT: u8 = 2;
const BEGAN: u8 = 3;
const ENDED: u8 = 4;
const HELD: u8 = 5;
const GONE: u8 = 6;
const PURGED: u8 = 7;

impl<'a> Learnt<'a> {
    /// Of a mapping, and what vouches for it.
    pub fn of(mapping: &'a Mapping, voucher: Voucher) -> Learnt<'a> {
        Learnt {
            bucket: &mapping.name.bucket,
            key: &mapping.name.key,
            etag: &mapping.etag,
            length: mapping.length,
            last_modified: mapping.last_modified.as_deref(),
            headers: &mapping.headers,
            checksums: mapping.checksums.as_deref(),
            era: mapping.era,
            class: mapping.class,
            tail_start: mapping.tail_start,
            voucher,
        }
    }

    fn is_possible(&self) -> bool {
        let texts = [self.bucket, self.key, self.etag];
        let is_named = texts.iter().all(|text| !text.is_empty());
        let is_strong = !self.etag.starts_with("W/") && is_value(self.etag.as_bytes());
        is_named
            && is_strong
            && self.length < OBJECT_BYTES_MAX
            && self.last_modified.is_none_or(|text| is_value(text.as_bytes()))
            && are_header_lines(self.headers)
            && self.checksums.is_none_or(are_header_lines)
    }
}

impl Entry<'_> {
    /// The entry as bytes; `None` where a text is longer than its length can say.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut fields = Fields { bytes: vec![ENTRY_VERSION], is_whole: true };
        match self {
            Entry::Started => fields.byte(STARTED),
            Entry::Learnt(learnt) => fields.byte(LEARNT).learnt(learnt),
            Entry::Began(write, reach) => fields.byte(BEGAN).number(write.0).reach(reach),
            Entry::Ended(write, end) => {
                fields.byte(ENDED).number(write.0).byte(u8::from(*end == End::Unknown))
            }
            Entry::Held(reach) => fields.byte(HELD).reach(reach),
            Entry::Gone(hash) => fields.byte(GONE).number(hash.0),
            Entry::Purged(era, purged) => fields.byte(PURGED).number(era.0).purged(purged),
        };
        fields.is_whole.then_some(fields.bytes)
    }
}

impl<'a> Entry<'a> {
    /// Reads an entry.
    pub fn decode(bytes: &'a [u8]) -> Result<Entry<'a>, NoEntry> {
        let mut rest = Rest(bytes);
        let entry = entry(&mut rest).ok_or(NoEntry)?;
        if rest.0.is_empty() { Ok(entry) } else { Err(NoEntry) }
    }
}

fn entry<'a>(rest: &mut Rest<'a>) -> Option<Entry<'a>> {
    if rest.byte()? != ENTRY_VERSION {
        return None;
    }
    Some(match rest.byte()? {
        STARTED => Entry::Started,
        LEARNT => Entry::Learnt(rest.learnt().filter(Learnt::is_possible)?),
        BEGAN => Entry::Began(WriteId(rest.number()?), rest.reach()?),
        ENDED => {
            let write = WriteId(rest.number()?);
            Entry::Ended(write, if rest.flag()? { End::Unknown } else { End::Settled })
        }
        HELD => Entry::Held(rest.reach()?),
        GONE => Entry::Gone(HomeHash(rest.number()?)),
        PURGED => Entry::Purged(Era(rest.number()?), rest.purged()?),
        _ => return None,
    })
}

/// Whether a text can stand behind a header's name.
fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f))
}

/// Whether these are lines as `mapping::learned` makes them.
fn are_header_lines(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n") else { return false };
        if !is_header_line(&bytes[..end]) {
            return false;
        }
        bytes = &bytes[end + 2..];
    }
    true
}

fn is_header_line(line: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', line) else { return false };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    !name.is_empty()
        && name.iter().all(u8::is_ascii_graphic)
        && value.strip_prefix(b" ").is_some_and(is_value)
}

/// An entry that is being written.
struct Fields {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Fields {
    fn byte(&mut self, byte: u8) -> &mut Fields {
        self.bytes.push(byte);
        self
    }

    fn number(&mut self, number: u64) -> &mut Fields {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn text(&mut self, bytes: &[u8]) -> &mut Fields {
        self.is_whole &= u16::try_from(bytes.len()).is_ok();
        self.bytes.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn text_if_any(&mut self, bytes: Option<&[u8]>) -> &mut Fields {
        match bytes {
            Some(bytes) => self.byte(1).text(bytes),
            None => self.byte(0),
        }
    }

    fn learnt(&mut self, learnt: &Learnt<'_>) -> &mut Fields {
        self.text(learnt.bucket.as_bytes()).text(learnt.key.as_bytes());
        self.text(learnt.etag.as_bytes()).number(learnt.length);
        self.text_if_any(learnt.last_modified.map(str::as_bytes));
        self.text(learnt.headers).text_if_any(learnt.checksums).number(learnt.era.0);
        self.byte(u8::from(learnt.class == StoreClass::Data)).number(learnt.tail_start);
        self.byte(match learnt.voucher {
            Voucher::Rule => 0,
            Voucher::Table => 1,
            Voucher::Catalog => 2,
        })
    }

    fn reach(&mut self, reach: &Reach<'_>) -> &mut Fields {
        match reach {
            Reach::Keys(hashes) => {
                self.is_whole &= hashes.len() <= KEYS_MAX;
                self.byte(0).number(hashes.len() as u64);
                hashes.iter().for_each(|hash| {
                    self.number(hash.0);
                });
                self
            }
            Reach::Bucket(bucket) => self.byte(1).text(bucket.as_bytes()),
            Reach::All => self.byte(2),
        }
    }

    fn purged(&mut self, purged: &Purged<'_>) -> &mut Fields {
        match purged {
            Purged::Key(hash) => self.byte(0).number(hash.0),
            Purged::Slot(slot) => self.byte(1).number(u64::from(*slot)),
            Purged::Prefix(bucket, prefix) => {
                self.byte(2).text(bucket.as_bytes()).text(prefix.as_bytes())
            }
            Purged::Bucket(bucket) => self.byte(3).text(bucket.as_bytes()),
            Purged::All => self.byte(4),
        }
    }
}

/// What is left to read of an entry.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(count)?;
        self.0 = later;
        Some(now)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn voucher(&mut self) -> Option<Voucher> {
        match self.byte()? {
            0 => Some(Voucher::Rule),
            1 => Some(Voucher::Table),
            2 => Some(Voucher::Catalog),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let (now, later) = self.0.split_first_chunk()?;
        self.0 = later;
        Some(u64::from_le_bytes(*now))
    }

    fn lines(&mut self) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_first_chunk()?;
        self.0 = later;
        self.bytes(usize::from(u16::from_le_bytes(*now)))
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.lines()?).ok()
    }

    fn learnt(&mut self) -> Option<Learnt<'a>> {
        Some(Learnt {
            bucket: self.text()?,
            key: self.text()?,
            etag: self.text()?,
            length: self.number()?,
            last_modified: if self.flag()? { Some(self.text()?) } else { None },
            headers: self.lines()?,
            checksums: if self.flag()? { Some(self.lines()?) } else { None },
            era: Era(self.number()?),
            class: if self.flag()? { StoreClass::Data } else { StoreClass::Metadata },
            tail_start: self.number()?,
            voucher: self.voucher()?,
        })
    }

    fn reach(&mut self) -> Option<Reach<'a>> {
        match self.byte()? {
            0 => {
                let count = usize::try_from(self.number()?).ok().filter(|it| *it <= KEYS_MAX)?;
                let hashes = (0..count).map(|_| self.number().map(HomeHash));
                Some(Reach::Keys(hashes.collect::<Option<Vec<_>>>()?.into()))
            }
            1 => Some(Reach::Bucket(self.text()?.into())),
            2 => Some(Reach::All),
            _ => None,
        }
    }

    fn purged(&mut self) -> Option<Purged<'a>> {
        Some(match self.byte()? {
            0 => Purged::Key(HomeHash(self.number()?)),
            1 => Purged::Slot(u16::try_from(self.number()?).ok()?),
            2 => Purged::Prefix(self.text()?, self.text()?),
            3 => Purged::Bucket(self.text()?),
            4 => Purged::All,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
