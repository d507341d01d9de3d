//! Builds an index, from nothing or from an older one and what has changed. Paths are hashed as they come
//! and forgotten: of the older index only the hashes are needed.

use std::sync::Arc;

use nilas_base::{HashMap, HashSet};

use super::Mapper;
use super::fact::{ListedFile, PartitionNumber, Sums, TableNumber};
use super::file_table::{FileTable, Numbers};
use super::footer_cache::FooterCache;
use super::merge::{Addition, Merged, merge};
use super::names::{NamedPartition, Names, Owner};
use super::path_hash::{FileId, PathHash};

/// An index in the making.
pub struct MapperBuilder {
    hash: Arc<PathHash>,
    old: Option<Arc<FileTable>>,
    tables: HashMap<Box<str>, TableNumber>,
    /// Of every table, also of one without partitions.
    partitions: HashMap<TableNumber, HashMap<Box<str>, PartitionNumber>>,
    table_of: HashMap<PartitionNumber, TableNumber>,
    next: Numbers,
    added: Vec<Addition>,
    removed: HashSet<(FileId, TableNumber)>,
    dropped: HashSet<TableNumber>,
}

impl MapperBuilder {
    /// From nothing.
    pub fn new(hash: Arc<PathHash>) -> MapperBuilder {
        MapperBuilder {
            hash,
            old: None,
            tables: HashMap::default(),
            partitions: HashMap::default(),
            table_of: HashMap::default(),
            next: Numbers::default(),
            added: Vec::new(),
            removed: HashSet::default(),
            dropped: HashSet::default(),
        }
    }

    /// From an older index: its files stay, and its tables and partitions keep their numbers.
    pub fn from_old(old: &Mapper) -> MapperBuilder {
        let mut builder = MapperBuilder::new(Arc::clone(&old.hash));
        builder.old = Some(Arc::clone(&old.files));
        builder.next = old.files.next;
        for (number, name, _) in old.files.names.tables() {
            builder.tables.insert(name.into(), number);
            builder.partitions.insert(number, HashMap::default());
        }
        for (Owner { partition, table }, name, _) in old.files.names.partitions() {
            builder.partitions.entry(table).or_default().insert(name.into(), partition);
            builder.table_of.insert(partition, table);
        }
        builder
    }

    /// The number of the table that is called `name`.
    pub fn table(&mut self, name: &str) -> TableNumber {
        if let Some(number) = self.tables.get(name) {
            return *number;
        }
        let taken = |number| self.partitions.contains_key(&TableNumber(number));
        let number = TableNumber(fresh(&mut self.next.table, taken));
        self.tables.insert(name.into(), number);
        self.partitions.insert(number, HashMap::default());
        number
    }

    /// The number of a table's partition; what lies in none has the one without a name.
    ///
    /// # Panics
    /// When `table` is not from this builder or the index it started from.
    pub fn partition(&mut self, table: TableNumber, name: &str) -> PartitionNumber {
        let partitions =
            self.partitions.get_mut(&table).expect("a table is numbered before its partitions");
        if let Some(number) = partitions.get(name) {
            return *number;
        }
        let taken = |number| self.table_of.contains_key(&PartitionNumber(number));
        let number = PartitionNumber(fresh(&mut self.next.partition, taken));
        partitions.insert(name.into(), number);
        self.table_of.insert(number, table);
        number
    }

    /// A file that the partition's table lists. It takes the place of what that table said of it before.
    ///
    /// # Panics
    /// When the partition is not from this builder or the index it started from.
    pub fn add(&mut self, bucket: &[u8], key: &[u8], file: ListedFile) {
        let table = self.table_of.get(&file.partition);
        let table = *table.expect("a partition is numbered before its files");
        self.added.push(Addition { id: self.hash.file_id(bucket, key), table, file });
    }

    /// A file of the older index that the table lists no more; other tables may.
    pub fn remove(&mut self, bucket: &[u8], key: &[u8], table: TableNumber) {
        self.removed.insert((self.hash.file_id(bucket, key), table));
    }

    /// All files of a table in the older index.
    pub fn drop_table(&mut self, table: TableNumber) {
        self.dropped.insert(table);
    }

    /// The index, with the footers of `footers` whose files it lists; the others leave the cache.
    ///
    /// # Panics
    /// When `footers` was made with another hash.
    pub fn build(self, footers: &mut FooterCache) -> Mapper {
        let MapperBuilder { removed, dropped, added, old, .. } = self;
        let keeps = |id, table| !dropped.contains(&table) && !removed.contains(&(id, table));
        let merged = merge(old.as_deref(), added, keeps);
        let files = name_owners(merged, &self.tables, &self.partitions, self.next);
        Mapper::of(self.hash, Arc::new(files), footers)
    }
}

/// The first number from `next` on that is free. They come round only after 2³².
fn fresh(next: &mut u32, taken: impl Fn(u32) -> bool) -> u32 {
    loop {
        let number = *next;
        *next = next.wrapping_add(1);
        if !taken(number) {
            return number;
        }
    }
}

/// Puts the names of what has files beside the files, and each file's owner where they say.
fn name_owners(
    merged: Merged,
    tables: &HashMap<Box<str>, TableNumber>,
    partitions: &HashMap<TableNumber, HashMap<Box<str>, PartitionNumber>>,
    next: Numbers,
) -> FileTable {
    let Merged { mut entries, sums } = merged;
    let mut rows: Vec<NamedPartition<'_>> = Vec::with_capacity(sums.len());
    for (table, names) in partitions {
        rows.extend(names.iter().filter_map(|(name, partition)| {
            let owner = Owner { partition: *partition, table: *table };
            Some(NamedPartition { owner, name, sums: *sums.get(partition)? })
        }));
    }
    rows.sort_unstable_by_key(|row| row.owner.partition);
    let mut table_sums: HashMap<TableNumber, Sums> = HashMap::default();
    for row in &rows {
        table_sums.entry(row.owner.table).or_default().merge(row.sums);
    }
    let named = tables.iter().filter_map(|(name, it)| Some((*it, &**name, *table_sums.get(it)?)));
    let mut named: Vec<(TableNumber, &str, Sums)> = named.collect();
    named.sort_unstable_by_key(|(number, ..)| *number);
    let places = rows.iter().enumerate().map(|(at, row)| (row.owner.partition.0, at as u32));
    let places: HashMap<u32, u32> = places.collect();
    for entry in &mut entries {
        entry.owner = places[&entry.owner];
    }
    FileTable::new(entries, Names::new(named.into_iter(), &rows), next)
}
