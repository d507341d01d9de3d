//! The objects of a run: mutable ones, Iceberg's metadata, data files of a table and of none. Their
//! names decide what the node may believe of them, so the workload keeps to what the names promise.

use nilas_base::Rng;
use nilas_net::percent::encode_path;

/// The one bucket.
pub const BUCKET: &str = "lake";

/// A key's number in its book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(pub usize);

/// What a key's name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Nothing: anybody may overwrite it at any time.
    Mutable,
    /// That nobody overwrites it but through the node.
    Immutable,
    /// The same, once its table was seen; until then it is believed as mutable keys are.
    TableData,
}

/// One key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// What the name promises.
    pub nature: Nature,
}

impl Key {
    fn new(name: impl Into<String>, nature: Nature) -> Key {
        Key { name: name.into(), nature }
    }

    /// `/bucket/key`, percent-encoded.
    pub fn path(&self) -> String {
        let mut path = format!("/{BUCKET}/").into_bytes();
        encode_path(self.name.as_bytes(), &mut path);
        String::from_utf8(path).expect("what is percent-encoded is ASCII")
    }
}

/// Names of mutable keys; some need care on the wire.
const MUTABLE_NAMES: [&str; 4] = ["plain/a", "plain/b+c d", "logs/data/x=%2F", "plain/é"];
/// Names that never change by Iceberg's convention.
const METADATA_NAMES: [&str; 3] =
    ["db/t/metadata/v1.metadata.json", "db/t/metadata/snap-1-1.avro", "db/t/metadata/m0.avro"];
/// Data files of that table.
const DATA_NAMES: [&str; 2] = ["db/t/data/a.parquet", "db/t/data/p=1/b.parquet"];

/// The keys of one run, at least one.
pub fn draw_keys(rng: &mut Rng) -> Vec<Key> {
    let take = |names: &[&str], count: u64, nature| {
        let names = names.iter().take(count as usize);
        names.map(|name| Key::new(*name, nature)).collect::<Vec<_>>()
    };
    let mut keys = take(&MUTABLE_NAMES, 1 + rng.below(4), Nature::Mutable);
    keys.extend(take(&METADATA_NAMES, rng.below(4), Nature::Immutable));
    keys.extend(take(&DATA_NAMES, rng.below(3), Nature::TableData));
    keys
}
