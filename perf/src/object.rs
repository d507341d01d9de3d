//! The objects that every server of a run is asked for: seeded bytes in one bucket's folder,
//! so that a local-directory origin and a static-file server can stand on the same files.

use std::path::Path;
use std::sync::Arc;

use nilas_base::Rng;

use crate::error::{Doing, Result};

/// The bucket's name, and its folder's.
pub const BUCKET: &str = "perf";

/// One object, its bytes kept to compare answers with.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key in [`BUCKET`].
    pub key: String,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

impl Object {
    /// Its path on every server.
    pub fn path(&self) -> String {
        format!("/{BUCKET}/{}", self.key)
    }
}

/// Makes `count` objects of `size_bytes` each, the same for the same arguments.
pub fn make_objects(size_bytes: usize, count: usize) -> Vec<Object> {
    (0..count)
        .map(|number| {
            let mut rng = Rng::from_seed((size_bytes as u64) << 16 | number as u64);
            let bytes = random_bytes(&mut rng, size_bytes).into();
            Object { key: format!("{size_bytes}-{number:03}"), bytes }
        })
        .collect()
}

/// Writes `objects` under `root`, as files of [`BUCKET`]'s folder.
pub fn write_objects(root: &Path, objects: &[Object]) -> Result<()> {
    let bucket = root.join(BUCKET);
    std::fs::create_dir_all(&bucket).doing("making the bucket's folder")?;
    for object in objects {
        std::fs::write(bucket.join(&object.key), &object.bytes)
            .doing(format!("writing object {}", object.key))?;
    }
    Ok(())
}

/// Reads every object that [`write_objects`] left under `root`.
pub fn read_objects(root: &Path) -> Result<Vec<Object>> {
    let entries = std::fs::read_dir(root.join(BUCKET)).doing("listing the bucket's folder")?;
    let mut objects = Vec::new();
    for entry in entries {
        let entry = entry.doing("listing the bucket's folder")?;
        let bytes = std::fs::read(entry.path()).doing("reading an object")?.into();
        objects.push(Object { key: entry.file_name().to_string_lossy().into_owned(), bytes });
    }
    Ok(objects)
}

pub(crate) fn random_bytes(rng: &mut Rng, size_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_bytes + 8);
    while bytes.len() < size_bytes {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(size_bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_the_same_each_time_and_differ_from_each_other() {
        let objects = make_objects(1001, 3);
        assert!(objects.iter().all(|object| object.bytes.len() == 1001));
        assert_eq!(objects[1].bytes, make_objects(1001, 2)[1].bytes);
        assert_ne!(objects[0].bytes, objects[1].bytes);
        assert_eq!(objects[2].path(), "/perf/1001-002");
    }

    #[test]
    fn written_objects_are_read_back() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let objects = make_objects(64, 4);
        write_objects(root.path(), &objects).expect("a writable folder");
        let mut read = read_objects(root.path()).expect("what was written");
        read.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(read.len(), 4);
        for (written, read) in objects.iter().zip(&read) {
            assert_eq!((&written.key, &written.bytes), (&read.key, &read.bytes));
        }
    }
}
