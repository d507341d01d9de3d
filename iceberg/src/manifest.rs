//! Manifest lists and manifests: Avro bytes in, facts out, projected by Iceberg's field ids, so that
//! renamed, missing and unknown members cost nothing. Statistics of columns are skipped unread.
//! → `container` and `codec` for Avro's blocks, `schema` and `walk` for its values, `list`, `entry`;
//! `file` is how a million files are kept, `partition` their tuples.

mod codec;
mod container;
mod cursor;
mod entry;
mod file;
mod list;
mod partition;
#[cfg(test)]
pub(crate) mod sample;
mod schema;
#[cfg(test)]
mod tests;
mod walk;

pub use file::{Content, File, FileKey, FilePath, FileStatus, Format, Manifest, Vector};
pub use list::{ManifestContent, ManifestFile, ManifestList};
pub use partition::{Partition, PartitionValue};

/// Bytes of one file's header: schemas as text, and the partition spec.
pub const HEADER_BYTES_MAX: usize = 16 << 20;
/// Bytes of one block, inflated. Writers close a block after some KiB.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;
/// Bytes of one manifest or manifest list, inflated. Writers aim at 8 MiB before compression.
pub const INFLATED_BYTES_MAX: usize = 512 << 20;
/// Entries of one manifest.
pub const ENTRIES_MAX: usize = 4 << 20;
/// Manifests of one snapshot.
pub const MANIFESTS_MAX: usize = 1 << 18;
/// Bytes of one path. Object stores take 1024.
pub const PATH_BYTES_MAX: usize = 16 << 10;
