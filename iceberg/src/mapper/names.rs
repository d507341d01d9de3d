//! What tables and partitions are called and what their files come to. Names stand here once, beside the
//! files, which have numbers; nothing here is touched by a lookup but the owner's two numbers.

use super::fact::{PartitionNumber, Sums, TableNumber};

/// What a file's entry points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) partition: PartitionNumber,
    pub(super) table: TableNumber,
}

/// A name and its sums; rows ascend by number.
pub(super) struct Row {
    number: u32,
    name_end: u64,
    sums: Sums,
}

/// The side tables.
#[derive(Default)]
pub(super) struct Names {
    tables: Side,
    partitions: Side,
    /// Of each row of `partitions`.
    owners: Box<[Owner]>,
}

/// One side table: rows, and their names one behind the other.
#[derive(Default)]
struct Side {
    rows: Box<[Row]>,
    text: Box<str>,
}

impl Side {
    /// `rows` ascend by number.
    fn new<'a>(rows: impl Iterator<Item = (u32, &'a str, Sums)>) -> Side {
        let mut text = String::new();
        let rows = rows.map(|(number, name, sums)| {
            text.push_str(name);
            Row { number, name_end: text.len() as u64, sums }
        });
        Side { rows: rows.collect(), text: text.into_boxed_str() }
    }

    fn find(&self, number: u32) -> Option<(&str, Sums)> {
        let at = self.rows.binary_search_by_key(&number, |row| row.number).ok()?;
        Some((self.name(at), self.rows[at].sums))
    }

    fn name(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.rows[before].name_end);
        &self.text[start as usize..self.rows[at].name_end as usize]
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &str, Sums)> {
        self.rows.iter().enumerate().map(|(at, row)| (row.number, self.name(at), row.sums))
    }

    fn memory_bytes(&self) -> usize {
        size_of_val::<[Row]>(&self.rows) + self.text.len()
    }
}

/// A partition that has files, for [`Names::new`].
pub(super) struct NamedPartition<'a> {
    pub(super) owner: Owner,
    pub(super) name: &'a str,
    pub(super) sums: Sums,
}

impl Names {
    /// `tables` and `partitions` ascend by number.
    pub(super) fn new<'a>(
        tables: impl Iterator<Item = (TableNumber, &'a str, Sums)>,
        partitions: &[NamedPartition<'a>],
    ) -> Names {
        let rows = partitions.iter().map(|it| (it.owner.partition.0, it.name, it.sums));
        Names {
            tables: Side::new(tables.map(|(number, name, sums)| (number.0, name, sums))),
            partitions: Side::new(rows),
            owners: partitions.iter().map(|it| it.owner).collect(),
        }
    }

    pub(super) fn owner(&self, at: u32) -> Owner {
        self.owners[at as usize]
    }

    pub(super) fn table(&self, number: TableNumber) -> Option<(&str, Sums)> {
        self.tables.find(number.0)
    }

    pub(super) fn partition(&self, number: PartitionNumber) -> Option<(&str, Sums)> {
        self.partitions.find(number.0)
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (TableNumber, &str, Sums)> {
        self.tables.iter().map(|(number, name, sums)| (TableNumber(number), name, sums))
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = (Owner, &str, Sums)> {
        self.owners.iter().zip(self.partitions.iter()).map(|(owner, row)| (*owner, row.1, row.2))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let owners = size_of_val::<[Owner]>(&self.owners);
        self.tables.memory_bytes() + self.partitions.memory_bytes() + owners
    }
}
