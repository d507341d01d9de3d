//! The keys of a bucket in S3's order (that of their bytes), without reading what is not wanted.
//! Best first: the smallest entry known is an object, or a folder to be opened next; a folder is
//! never greater than what is in it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::bucket::Bucket;
use super::key_path::{Entry, HIDDEN_FOLDER, entry_of, path_beside_folder, path_of};
use super::object::is_absent;

/// Keys in order, one at a time.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    bucket: &'a Bucket,
    wanted: Wanted<'a>,
    pending: BinaryHeap<Reverse<Pending>>,
}

/// Which keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Those that begin with this,
    pub(super) prefix: &'a str,
    /// and are greater than this.
    pub(super) after: &'a str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    key: String,
    is_folder: bool,
    path: PathBuf,
}

impl<'a> Walk<'a> {
    /// A walk that has not begun.
    pub(super) fn new(bucket: &'a Bucket, wanted: Wanted<'a>) -> Walk<'a> {
        let root = Pending { key: String::new(), is_folder: true, path: PathBuf::new() };
        Walk { bucket, wanted, pending: BinaryHeap::from([Reverse(root)]) }
    }

    /// The next key. Those that begin with `passed`, where it is not empty, are passed over.
    pub(super) fn next_key(&mut self, passed: &str) -> io::Result<Option<String>> {
        while let Some(Reverse(next)) = self.pending.pop() {
            if !passed.is_empty() && next.key.starts_with(passed) {
                continue;
            }
            if next.is_folder {
                self.open_folder(&next)?;
            } else {
                return Ok(Some(next.key));
            }
        }
        Ok(None)
    }

    fn open_folder(&mut self, folder: &Pending) -> io::Result<()> {
        let entries = match fs::read_dir(self.bucket.folder().join(&folder.path)) {
            Err(error) if is_absent(&error) => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            let (name, path) = (entry.file_name(), folder.path.join(entry.file_name()));
            let is_key_part = kind.is_dir() && path != Path::new(HIDDEN_FOLDER) || kind.is_file();
            let Some(name) = name.to_str().filter(|_| is_key_part) else { continue };
            match entry_of(&folder.key, name, kind.is_dir()) {
                Some(Entry::Folder(key)) => self.push(Pending { key, is_folder: true, path }),
                Some(Entry::Object(key)) => self.push(Pending { key, is_folder: false, path }),
                None => {}
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: Pending) {
        if self.may_hold(&entry) && self.is_canonical(&entry) {
            self.pending.push(Reverse(entry));
        }
    }

    fn may_hold(&self, entry: &Pending) -> bool {
        let Wanted { prefix, after } = self.wanted;
        if entry.is_folder {
            let may_begin = entry.key.starts_with(prefix) || prefix.starts_with(&entry.key);
            may_begin && (entry.key.as_str() > after || after.starts_with(&entry.key))
        } else {
            entry.key.starts_with(prefix) && entry.key.as_str() > after
        }
    }

    /// A file whose name no key would get is not an object: a read of its key would not find it.
    fn is_canonical(&self, entry: &Pending) -> bool {
        if entry.is_folder {
            return true;
        }
        let plain = path_of(&entry.key);
        let stands_aside = || {
            let taken = fs::symlink_metadata(self.bucket.folder().join(&plain));
            entry.path == path_beside_folder(&plain) && !taken.is_ok_and(|found| found.is_file())
        };
        entry.path == plain || stands_aside()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bucket_with(keys: &BTreeSet<String>) -> (tempfile::TempDir, Bucket) {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(root.path().join("lake")).expect("a new folder");
        let bucket = Bucket::open(root.path(), "lake").expect("readable").expect("just made");
        for key in keys {
            let path = bucket.folder().join(path_of(key));
            fs::create_dir_all(path.parent().expect("within the bucket")).expect("made");
            fs::write(path, key).expect("written");
        }
        (root, bucket)
    }

    fn walk(bucket: &Bucket, prefix: &str, after: &str) -> Vec<String> {
        let mut walk = Walk::new(bucket, Wanted { prefix, after });
        std::iter::from_fn(|| walk.next_key("").expect("readable")).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_walk_gives_the_wanted_keys_in_order(
            names in proptest::collection::btree_set("[ab/!]{0,5}[ab!0]", 0..12),
            prefix in "[ab/]{0,2}",
            after in "[ab/!]{0,3}",
        ) {
            // A key that is also a folder is for the suite of the whole origin.
            let clashes = |key: &String| names.iter().any(|other| other.starts_with(&format!("{key}/")));
            let keys: BTreeSet<String> = names.iter().filter(|key| !clashes(key)).cloned().collect();
            let (_root, bucket) = bucket_with(&keys);
            let wanted = |key: &&String| key.starts_with(&prefix) && key.as_str() > after.as_str();
            let expected: Vec<String> = keys.iter().filter(wanted).cloned().collect();
            prop_assert_eq!(walk(&bucket, &prefix, &after), expected);
        }
    }

    #[test]
    fn long_names_stay_in_order() {
        let long = "p".repeat(240);
        let keys: BTreeSet<String> =
            ["!", "/x", "abc", "", "/"].iter().map(|end| format!("{long}{end}")).collect();
        let keys: BTreeSet<String> = keys.into_iter().filter(|key| *key != long).collect();
        let (_root, bucket) = bucket_with(&keys);
        assert_eq!(walk(&bucket, "", ""), keys.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn names_that_no_key_has_are_not_listed() {
        let (root, bucket) = bucket_with(&BTreeSet::from(["good".to_owned()]));
        for name in ["bad^", "bad^zz", "bad^41", "^6Eot"] {
            fs::write(root.path().join("lake").join(name), "x").expect("written");
        }
        assert_eq!(walk(&bucket, "", ""), ["good"]);
    }
}
