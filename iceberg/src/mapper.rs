//! The mapper: an immutable index from an object's path to the table, partition and kind of file it is, and
//! from a range of a Parquet file to row groups and columns by field id. Built aside and published whole, as
//! an `Arc` that readers swap; a lookup takes no lock, allocates nothing and does no I/O.
//! That it lists a file says that the file never changes; what else it says is advice. Footers come from
//! `footer`.

mod builder;
mod columns;
mod fact;
mod file_table;
mod footer_cache;
mod footer_table;
mod merge;
mod names;
mod packed;
mod path_hash;
mod slots;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use nilas_base::ByteRange;

pub use builder::MapperBuilder;
pub use fact::{FileFact, FileFormat, FileKind, ListedFile, PartitionNumber, Sums, TableNumber};
pub use footer_cache::FooterCache;
pub use packed::{Overlap, Overlaps};
pub use path_hash::{PathHash, SECRET_BYTES};

use file_table::FileTable;
use footer_table::FooterTable;

/// The two counts that an `Arc` puts before what it holds.
const SHARED_BYTES: usize = 2 * size_of::<usize>();

/// The index of one moment.
pub struct Mapper {
    hash: Arc<PathHash>,
    files: Arc<FileTable>,
    footers: FooterTable,
}

impl Mapper {
    fn of(hash: Arc<PathHash>, files: Arc<FileTable>, footers: &mut FooterCache) -> Mapper {
        assert!(Arc::ptr_eq(&hash, footers.hash()), "files and footers are known by one hash");
        footers.retain(|id| files.find(id).is_some());
        let footers = FooterTable::new(footers.sorted());
        Mapper { hash, files, footers }
    }

    /// The same files with the footers that the cache has now; the table of files is shared.
    ///
    /// # Panics
    /// When `footers` was made with another hash.
    pub fn with_footers(&self, footers: &mut FooterCache) -> Mapper {
        Mapper::of(Arc::clone(&self.hash), Arc::clone(&self.files), footers)
    }

    /// What is known of an object; `None` where no table lists it.
    pub fn file(&self, bucket: &[u8], key: &[u8]) -> Option<FileFact> {
        let entry = self.files.find(self.hash.file_id(bucket, key))?;
        Some(entry.fact(&self.files.names))
    }

    /// Whose the bytes of a range of an object are; `None` where its footer is not kept. Bytes that are no
    /// column's are passed over: magic, padding, the footer itself.
    pub fn range(&self, bucket: &[u8], key: &[u8], range: ByteRange) -> Option<Overlaps<'_>> {
        let footer = self.footers.find(self.hash.file_id(bucket, key))?;
        Some(footer.overlaps(range))
    }

    /// The name of a table and what its files come to.
    pub fn table(&self, number: TableNumber) -> Option<(&str, Sums)> {
        self.files.names.table(number)
    }

    /// The name of a partition and what its files come to.
    pub fn partition(&self, number: PartitionNumber) -> Option<(&str, Sums)> {
        self.files.names.partition(number)
    }

    /// All tables that have files, by number.
    pub fn tables(&self) -> impl Iterator<Item = (TableNumber, &str, Sums)> {
        self.files.names.tables()
    }

    /// All partitions that have files, by number.
    pub fn partitions(&self) -> impl Iterator<Item = (TableNumber, PartitionNumber, &str, Sums)> {
        let partitions = self.files.names.partitions();
        partitions.map(|(owner, name, sums)| (owner.table, owner.partition, name, sums))
    }

    /// Files that are known; one that several tables list counts for each.
    pub fn file_count(&self) -> usize {
        self.files.entries().len()
    }

    /// Footers that are known.
    pub fn footer_count(&self) -> usize {
        self.footers.len()
    }

    /// What it has on the heap, to the byte. The table of files may be shared with an index before or after
    /// it, footers with those and the cache: each counts them.
    pub fn memory_bytes(&self) -> usize {
        self.files.memory_bytes() + self.footers.memory_bytes()
    }
}
