//! What a key's name alone shows, by Iceberg's conventions (spec/cache.md §4): whether the file can
//! ever change, and which store holds it. Pure; `freshness` adds what was learnt from the origin.

/// What a key's name shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameClass {
    /// Iceberg metadata: never rewritten, kept in the metadata store.
    Metadata,
    /// Under a `data/` folder: never rewritten if its sibling `metadata/` shows it to be a table's.
    DataFile,
    /// Nothing is known from the name.
    Plain,
}

/// Classifies a key.
pub fn name_class(key: &str) -> NameClass {
    let Some((folder, file)) = key.rsplit_once('/') else {
        return NameClass::Plain;
    };
    if is_folder(folder, "metadata") && is_metadata_file(file) {
        return NameClass::Metadata;
    }
    match table_roots(key).next() {
        Some(_) => NameClass::DataFile,
        None => NameClass::Plain,
    }
}

fn is_folder(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

fn is_metadata_file(file: &str) -> bool {
    is_table_metadata(file)
        || [".avro", ".puffin", ".stats"].iter().any(|suffix| file.ends_with(suffix))
}

/// `*.metadata.json`, gzipped or not, under either of the names that writers give the gzipped one.
fn is_table_metadata(file: &str) -> bool {
    [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"]
        .iter()
        .any(|suffix| file.ends_with(suffix))
}

/// The table's root, with its slash, if the key is that of a `*.metadata.json` in its `metadata/`.
pub fn table_root_of_metadata(key: &str) -> Option<&str> {
    let (folder, file) = key.rsplit_once('/')?;
    if !is_table_metadata(file) {
        return None;
    }
    let root = folder.strip_suffix("metadata")?;
    (root.is_empty() || root.ends_with('/')).then_some(root)
}

/// The roots, with their slashes, of the tables that a key could be a data file of: one for each
/// folder named `data` above it, the innermost first.
pub fn table_roots(key: &str) -> impl Iterator<Item = &str> {
    key.rmatch_indices("data/")
        .map(|(at, _)| &key[..at])
        .filter(|root| root.is_empty() || root.ends_with('/'))
}

/// The prefix whose listing tells whether `root` is a table's.
pub fn metadata_prefix(root: &str) -> String {
    format!("{root}metadata/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icebergs_own_metadata_names_are_known() {
        for file in [
            "00001-ab.metadata.json",
            "v3.gz.metadata.json",
            "v3.metadata.json.gz",
            "snap-12-1-ab.avro",
            "ab-m0.avro",
            "x.avro",
            "x.puffin",
            "x.stats",
        ] {
            assert_eq!(name_class(&format!("db/t/metadata/{file}")), NameClass::Metadata, "{file}");
            assert_eq!(name_class(&format!("metadata/{file}")), NameClass::Metadata, "{file}");
        }
    }

    #[test]
    fn what_only_resembles_them_is_not() {
        for key in [
            "db/t/metadata/version-hint.text",
            "db/t/metadata/deep/x.avro",
            "db/t/xmetadata/x.avro",
            "x.metadata.json",
            "db/t/metadata.json",
        ] {
            assert_eq!(name_class(key), NameClass::Plain, "{key}");
        }
    }

    #[test]
    fn every_data_folder_above_a_file_names_a_possible_table() {
        let roots = |key| table_roots(key).collect::<Vec<_>>();
        assert_eq!(roots("db/t/data/p=1/x.parquet"), ["db/t/"]);
        assert_eq!(roots("data/x.parquet"), [""]);
        assert_eq!(roots("data/db/t/data/x.parquet"), ["data/db/t/", ""]);
        assert_eq!(roots("db/mydata/x.parquet"), Vec::<&str>::new());
        assert_eq!(name_class("db/t/data/p=1/x.parquet"), NameClass::DataFile);
    }

    #[test]
    fn a_metadata_json_names_its_table() {
        assert_eq!(table_root_of_metadata("db/t/metadata/v1.metadata.json"), Some("db/t/"));
        assert_eq!(table_root_of_metadata("metadata/v1.metadata.json"), Some(""));
        assert_eq!(table_root_of_metadata("db/xmetadata/v1.metadata.json"), None);
        assert_eq!(table_root_of_metadata("db/t/metadata/snap-1.avro"), None);
    }
}
