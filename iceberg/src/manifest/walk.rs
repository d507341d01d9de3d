//! Walks over values by the writer's schema: reads what is asked for, and skips the rest unread.
//! Work is bounded by the bytes, whatever the schema says: a schema can make nothing out of nothing
//! a billion times.

use super::cursor::{Cursor, Flaw};
use super::schema::{Node, NodeId, Schema};

/// Values within values that are skipped.
const DEPTH_MAX: usize = 64;
/// Nodes that are visited for each byte. A value of no bytes is an index of a union at most, and what
/// it chooses.
const VISITS_PER_BYTE_MAX: usize = 16;
/// Nodes that are visited in a block of no bytes.
const VISITS_MIN: usize = 4096;

pub(super) struct Walker<'s, 'a> {
    schema: &'s Schema,
    cursor: Cursor<'a>,
    visits_left: usize,
}

impl<'s, 'a> Walker<'s, 'a> {
    pub(super) fn new(schema: &'s Schema, block: &'a [u8]) -> Walker<'s, 'a> {
        let visits_left = VISITS_MIN + VISITS_PER_BYTE_MAX * block.len();
        Walker { schema, cursor: Cursor::new(block), visits_left }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.cursor.is_empty()
    }

    pub(super) fn schema(&self) -> &'s Schema {
        self.schema
    }

    /// What is chosen in a union; `None` for a null.
    pub(super) fn present(&mut self, node: NodeId) -> Result<Option<NodeId>, Flaw> {
        let chosen = match self.schema.node(node) {
            Node::Union(branches) => self.branch(branches)?,
            _ => node,
        };
        Ok((*self.schema.node(chosen) != Node::Null).then_some(chosen))
    }

    fn branch(&mut self, branches: &[NodeId]) -> Result<NodeId, Flaw> {
        let index = usize::try_from(self.cursor.long()?).ok();
        let branch = index.and_then(|index| branches.get(index));
        branch.copied().ok_or_else(|| Flaw::damaged("a union has no such branch"))
    }

    /// An `int` or a `long`, if it is not null.
    pub(super) fn integer(&mut self, node: NodeId) -> Result<Option<i64>, Flaw> {
        let Some(node) = self.present(node)? else { return Ok(None) };
        match self.schema.node(node) {
            Node::Int => self.int().map(Some),
            Node::Long => self.cursor.long().map(Some),
            _ => Err(Flaw::damaged("a number was due")),
        }
    }

    fn int(&mut self) -> Result<i64, Flaw> {
        let value = self.cursor.long()?;
        i32::try_from(value).map(i64::from).map_err(|_| Flaw::damaged("an int of too many bits"))
    }

    /// A `string`, if it is not null.
    pub(super) fn text(&mut self, node: NodeId) -> Result<Option<&'a str>, Flaw> {
        let Some(node) = self.present(node)? else { return Ok(None) };
        match self.schema.node(node) {
            Node::Text | Node::Bytes => utf8(self.cursor.bytes()?).map(Some),
            _ => Err(Flaw::damaged("a text was due")),
        }
    }

    /// The raw bytes of a value of no more than primitive kind, which is not null.
    pub(super) fn primitive(&mut self, node: NodeId) -> Result<Primitive<'a>, Flaw> {
        Ok(match self.schema.node(node) {
            Node::Boolean => Primitive::Boolean(self.boolean()?),
            Node::Int => Primitive::Integer(self.int()?),
            Node::Long => Primitive::Integer(self.cursor.long()?),
            Node::Float => Primitive::Float(u32::from_le_bytes(self.array()?)),
            Node::Double => Primitive::Double(u64::from_le_bytes(self.array()?)),
            Node::Bytes => Primitive::Bytes(self.cursor.bytes()?),
            Node::Text => Primitive::Text(utf8(self.cursor.bytes()?)?),
            Node::Fixed(size) => Primitive::Bytes(self.cursor.take(*size)?),
            _ => return Err(Flaw::damaged("a simple value was due")),
        })
    }

    fn boolean(&mut self) -> Result<bool, Flaw> {
        match self.cursor.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Flaw::damaged("a boolean is neither 0 nor 1")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let bytes = self.cursor.take(N)?;
        Ok(bytes.try_into().expect("as many were taken"))
    }

    /// Skips a value, and gives its bytes.
    pub(super) fn raw(&mut self, node: NodeId) -> Result<&'a [u8], Flaw> {
        let from = self.cursor.rest();
        self.skip(node)?;
        Ok(&from[..from.len() - self.cursor.left()])
    }

    pub(super) fn skip(&mut self, node: NodeId) -> Result<(), Flaw> {
        self.skip_at(node, 0)
    }

    fn skip_at(&mut self, node: NodeId, depth: usize) -> Result<(), Flaw> {
        if self.visits_left == 0 || depth == DEPTH_MAX {
            return Err(Flaw::damaged("values within values without end"));
        }
        self.visits_left -= 1;
        match self.schema.node(node) {
            Node::Null => Ok(()),
            Node::Boolean => self.boolean().map(drop),
            Node::Int => self.int().map(drop),
            Node::Long => self.cursor.long().map(drop),
            Node::Float => self.cursor.take(4).map(drop),
            Node::Double => self.cursor.take(8).map(drop),
            Node::Bytes => self.cursor.bytes().map(drop),
            Node::Text => utf8(self.cursor.bytes()?).map(drop),
            Node::Fixed(size) => self.cursor.take(*size).map(drop),
            Node::Enum(symbols) => {
                let index = self.cursor.long()?;
                let known = usize::try_from(index).is_ok_and(|index| index < symbols.len());
                known.then_some(()).ok_or_else(|| Flaw::damaged("an enum has no such symbol"))
            }
            Node::Union(branches) => {
                let branch = self.branch(branches)?;
                self.skip_at(branch, depth + 1)
            }
            Node::Record(members) => {
                members.iter().try_for_each(|member| self.skip_at(member.node, depth + 1))
            }
            Node::Array(items) => self.skip_items(|walker| walker.skip_at(*items, depth + 1)),
            Node::Map(values) => self.skip_items(|walker| {
                utf8(walker.cursor.bytes()?)?;
                walker.skip_at(*values, depth + 1)
            }),
        }
    }

    /// Items in blocks: a count, or a negative count and the bytes of the block; 0 ends them.
    fn skip_items(&mut self, skip: impl Fn(&mut Self) -> Result<(), Flaw>) -> Result<(), Flaw> {
        loop {
            let mut count = self.cursor.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                count =
                    count.checked_neg().ok_or_else(|| Flaw::damaged("a count of too many bits"))?;
                // The block is walked all the same: a size that lies would lead astray.
                self.cursor.long()?;
            }
            for _ in 0..count {
                skip(self)?;
            }
        }
    }
}

/// A value that is no record, list or map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Primitive<'a> {
    Boolean(bool),
    Integer(i64),
    /// The bits of a float.
    Float(u32),
    /// The bits of a double.
    Double(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

fn utf8(bytes: &[u8]) -> Result<&str, Flaw> {
    std::str::from_utf8(bytes).map_err(|_| Flaw::damaged("a text is not UTF-8"))
}
