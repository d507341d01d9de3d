//! Thrift's compact protocol, as much of it as a footer needs: fields are read or stepped over.
//! It allocates nothing, and no length is believed that the bytes left could not hold.
//! Format: the Thrift project's `thrift-compact-protocol.md`.

use super::error::{FooterError, Result};

/// Structures within structures; Parquet's own are seven deep.
const DEPTH_MAX: u32 = 32;
/// Bytes of a varint of 64 bits.
const VARINT_BYTES_MAX: u32 = 10;

/// How a value is written. Others than these end the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A field's truth is in its kind; an element of a list takes a byte.
    True,
    False,
    Byte,
    /// Integers of 16, 32 and 64 bits are written alike.
    Integer,
    Double,
    Binary,
    /// Lists and sets.
    List,
    Map,
    Structure,
}

impl Kind {
    fn of(code: u8) -> Result<Kind> {
        Ok(match code {
            1 => Kind::True,
            2 => Kind::False,
            3 => Kind::Byte,
            4..=6 => Kind::Integer,
            7 => Kind::Double,
            8 => Kind::Binary,
            9 | 10 => Kind::List,
            11 => Kind::Map,
            12 => Kind::Structure,
            _ => return Err(FooterError::Damaged("a value of no known kind")),
        })
    }
}

/// The header of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) id: i16,
    pub(super) kind: Kind,
}

/// What is left to read.
pub(super) struct Thrift<'a> {
    rest: &'a [u8],
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Thrift<'a> {
        Thrift { rest: bytes }
    }

    /// Calls `read` for each field of a structure, up to its end; `read` consumes the value.
    pub(super) fn structure(
        &mut self,
        field: Field,
        read: impl FnMut(&mut Thrift<'a>, Field) -> Result<()>,
    ) -> Result<()> {
        expect(field.kind, Kind::Structure)?;
        self.fields(read)
    }

    /// The same for a structure that is no field: the outermost, or an element of a list.
    pub(super) fn fields(
        &mut self,
        mut read: impl FnMut(&mut Thrift<'a>, Field) -> Result<()>,
    ) -> Result<()> {
        let mut last = 0;
        while let Some(field) = self.field(last)? {
            last = field.id;
            read(self, field)?;
        }
        Ok(())
    }

    /// Calls `read` for each element of a list of structures.
    pub(super) fn structures(
        &mut self,
        field: Field,
        mut read: impl FnMut(&mut Thrift<'a>) -> Result<()>,
    ) -> Result<()> {
        expect(field.kind, Kind::List)?;
        let (kind, length) = self.list()?;
        // Some writers give the elements of an empty list no kind.
        if length > 0 {
            expect(kind, Kind::Structure)?;
        }
        (0..length).try_for_each(|_| read(self))
    }

    pub(super) fn integer(&mut self, field: Field) -> Result<i64> {
        expect(field.kind, Kind::Integer)?;
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn binary(&mut self, field: Field) -> Result<&'a [u8]> {
        expect(field.kind, Kind::Binary)?;
        let length = self.varint()?;
        self.take(length)
    }

    /// Steps over a field's value.
    pub(super) fn skip(&mut self, field: Field) -> Result<()> {
        self.skip_value(field.kind, DEPTH_MAX)
    }

    fn skip_value(&mut self, kind: Kind, depth: u32) -> Result<()> {
        let depth = depth.checked_sub(1).ok_or(FooterError::Damaged("it is nested too deeply"))?;
        match kind {
            Kind::True | Kind::False => Ok(()),
            Kind::Byte => self.byte().map(drop),
            Kind::Integer => self.varint().map(drop),
            Kind::Double => self.take(8).map(drop),
            Kind::Binary => {
                let length = self.varint()?;
                self.take(length).map(drop)
            }
            Kind::List => {
                let (kind, length) = self.list()?;
                (0..length).try_for_each(|_| self.skip_element(kind, depth))
            }
            Kind::Map => self.skip_map(depth),
            Kind::Structure => {
                let mut last = 0;
                while let Some(field) = self.field(last)? {
                    last = field.id;
                    self.skip_value(field.kind, depth)?;
                }
                Ok(())
            }
        }
    }

    fn skip_element(&mut self, kind: Kind, depth: u32) -> Result<()> {
        match kind {
            Kind::True | Kind::False => self.byte().map(drop),
            kind => self.skip_value(kind, depth),
        }
    }

    fn skip_map(&mut self, depth: u32) -> Result<()> {
        let length = self.varint()?;
        if length == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        let (key, value) = (Kind::of(kinds >> 4)?, Kind::of(kinds & 0xf)?);
        let length = self.bounded(length)?;
        (0..length).try_for_each(|_| {
            self.skip_element(key, depth)?;
            self.skip_element(value, depth)
        })
    }

    /// The next field's header; `None` at the structure's end.
    fn field(&mut self, last: i16) -> Result<Option<Field>> {
        let header = self.byte()?;
        if header & 0xf == 0 {
            return Ok(None);
        }
        let kind = Kind::of(header & 0xf)?;
        let id = match header >> 4 {
            0 => {
                let id = self.integer(Field { id: 0, kind: Kind::Integer })?;
                i16::try_from(id).ok()
            }
            delta => last.checked_add(i16::from(delta)),
        };
        let id = id.ok_or(FooterError::Damaged("a field's number is out of range"))?;
        Ok(Some(Field { id, kind }))
    }

    /// The kind of a list's elements and how many follow.
    fn list(&mut self) -> Result<(Kind, u64)> {
        let header = self.byte()?;
        let length = match header >> 4 {
            15 => self.varint()?,
            length => u64::from(length),
        };
        let length = self.bounded(length)?;
        let kind = if length == 0 { Kind::Byte } else { Kind::of(header & 0xf)? };
        Ok((kind, length))
    }

    /// Every element takes a byte at least.
    fn bounded(&self, length: u64) -> Result<u64> {
        if length > self.rest.len() as u64 {
            return Err(FooterError::Damaged("a list is longer than the footer"));
        }
        Ok(length)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for at in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            // Bits beyond the 64th are dropped: a negative number of 32 bits may be written with them.
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FooterError::Damaged("a number has no end"))
    }

    fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let taken =
            usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (taken, rest) = taken.ok_or(FooterError::Damaged("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }
}

fn expect(found: Kind, wanted: Kind) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(FooterError::Damaged("a field is not of its kind")),
    }
}
