//! A place in bytes that are read as Avro's primitive values. What the bytes do not hold is a flaw.

use crate::fault::Fault;

/// A fault whose object is not known yet.
#[derive(Debug)]
pub(super) enum Flaw {
    Damaged(Box<str>),
    TooLarge(&'static str, usize),
    Unsupported(Box<str>),
}

impl Flaw {
    pub(super) fn damaged(what: impl Into<Box<str>>) -> Flaw {
        Flaw::Damaged(what.into())
    }

    /// The fault of the object at `path`.
    pub(super) fn at(self, path: &str) -> Fault {
        match self {
            Flaw::Damaged(what) => Fault::damaged(path, what),
            Flaw::TooLarge(what, limit) => Fault::too_large(path, what, limit as u64),
            Flaw::Unsupported(what) => Fault::unsupported(path, what),
        }
    }
}

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// What is left, unread.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn byte(&mut self) -> Result<u8, Flaw> {
        let (first, rest) = self.bytes.split_first().ok_or_else(torn)?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Flaw> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(torn)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Avro's `int` and `long`: zigzag, seven bits a byte, the lowest first.
    pub(super) fn long(&mut self) -> Result<i64, Flaw> {
        let mut value = 0_u64;
        for (index, byte) in self.bytes.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[index + 1..];
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(if self.bytes.len() < 10 {
            torn()
        } else {
            Flaw::damaged("a number of too many bytes")
        })
    }

    /// The length of something that follows.
    pub(super) fn length(&mut self) -> Result<usize, Flaw> {
        let length =
            usize::try_from(self.long()?).map_err(|_| Flaw::damaged("a length below 0"))?;
        if length > self.left() { Err(torn()) } else { Ok(length) }
    }

    /// Avro's `bytes`, and `string` before it is checked.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Flaw> {
        let length = self.length()?;
        self.take(length)
    }
}

fn torn() -> Flaw {
    Flaw::damaged("it ends within a value")
}
