//! The answer of `loadTable`: where the metadata is, the metadata itself byte for byte, and what is lent
//! with it. The metadata is not read here.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::credential::StorageCredential;
use super::{Answer, CatalogError, Properties, StorageCredentials};

/// What a catalog says of a table.
#[derive(Clone, Debug)]
pub struct LoadedTable {
    /// The ETag of this answer, to ask with the next time.
    pub etag: Option<String>,
    /// Where the metadata lies, as it was written; a table that is not committed yet has none.
    pub metadata_location: Option<String>,
    /// The metadata's JSON, byte for byte as it stood in the answer.
    pub metadata: Bytes,
    /// Configuration of the table that is no credential of a prefix.
    pub config: Properties,
    /// What its files may be read with.
    pub credentials: StorageCredentials,
}

/// What came of asking for a table.
#[derive(Clone, Debug)]
pub enum TableAnswer {
    /// It is still what the known ETag stands for.
    Unchanged,
    /// What it is now.
    Loaded(Box<LoadedTable>),
}

#[derive(Deserialize)]
struct TableBody<'a> {
    #[serde(default, rename = "metadata-location")]
    metadata_location: Option<String>,
    #[serde(borrow)]
    metadata: &'a RawValue,
    #[serde(default)]
    config: Option<Properties>,
    #[serde(default, rename = "storage-credentials")]
    storage_credentials: Option<Vec<StorageCredential>>,
}

impl TableAnswer {
    /// Reads the answer. `has_known_etag` is whether an ETag was sent along, without which 304 says nothing.
    pub fn read(answer: &Answer, has_known_etag: bool) -> Result<TableAnswer, CatalogError> {
        if answer.status == 304 && has_known_etag {
            return Ok(TableAnswer::Unchanged);
        }
        let body: TableBody<'_> = answer.json()?;
        let metadata = body.metadata.get();
        if !metadata.starts_with('{') {
            return Err(CatalogError::unusable("the table's metadata is no object"));
        }
        let config = body.config.unwrap_or_default();
        let lent = body.storage_credentials.unwrap_or_default();
        Ok(TableAnswer::Loaded(Box::new(LoadedTable {
            etag: answer.etag.clone(),
            metadata_location: body.metadata_location.filter(|location| !location.is_empty()),
            metadata: answer.body.slice_ref(metadata.as_bytes()),
            credentials: StorageCredentials::new(lent, &config)?,
            config,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<LoadedTable, CatalogError> {
        let (status, etag) = (200, Some("\"e\"".to_owned()));
        let answer = Answer { status, etag, body: body.to_owned().into(), ..Answer::default() };
        match TableAnswer::read(&answer, true)? {
            TableAnswer::Loaded(table) => Ok(*table),
            TableAnswer::Unchanged => panic!("200 is something new"),
        }
    }

    #[test]
    fn metadata_and_location_are_kept_as_they_were_written() {
        let table = read(
            r#"{ "metadata-location": "s3://lake/a%2Fb#1/v1.gz.metadata.json",
                 "metadata" : {"format-version":2 , "x": 1.50, "y":"\u00e9"}, "new": [] }"#,
        );
        let table = table.expect("well formed");
        let location = table.metadata_location.as_deref();
        assert_eq!(location, Some("s3://lake/a%2Fb#1/v1.gz.metadata.json"));
        assert_eq!(&table.metadata[..], br#"{"format-version":2 , "x": 1.50, "y":"\u00e9"}"#);
        assert_eq!(table.etag.as_deref(), Some("\"e\""));
        assert!(table.credentials.is_empty());
    }

    #[test]
    fn credentials_come_by_prefix_and_in_the_tables_own_configuration() {
        let table = read(
            r#"{"metadata":{}, "config":{"s3.access-key-id":"own","client.region":"r"},
                "storage-credentials":[{"prefix":"s3://lake/a","config":{"s3.access-key-id":"a"}}]}"#,
        );
        let table = table.expect("well formed");
        let key = |location: &str| {
            table.credentials.of(location).map(|it| &it.config["s3.access-key-id"])
        };
        assert_eq!(key("s3://lake/a/1").map(String::as_str), Some("a"));
        assert_eq!(key("s3://lake/b/1").map(String::as_str), Some("own"));
        assert!(read(r#"{"metadata":{},"config":null}"#).expect("well formed").config.is_empty());
    }

    #[test]
    fn what_is_no_table_is_told_without_what_stands_in_it() {
        for body in
            ["", "<html>geheim</html>", "{\"metadata\":", r#"{"metadata":null}"#, "{}", "[]"]
        {
            let error = read(body).expect_err(body).to_string();
            assert!(error.contains("spec") && !error.contains("geheim"), "{error}");
        }
    }

    #[test]
    fn only_an_etag_that_was_sent_makes_304_an_answer() {
        let answer = Answer { status: 304, ..Answer::default() };
        assert!(matches!(TableAnswer::read(&answer, true), Ok(TableAnswer::Unchanged)));
        assert!(TableAnswer::read(&answer, false).is_err());
    }
}
