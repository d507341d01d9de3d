//! From what catalogs lend for tables to the keys that the origin is asked with: each prefix of locations becomes a
//! bucket and a prefix of keys, as far as it is served from here. What is no key of S3's is left alone.

use std::sync::Arc;

use nilas_base::HashMap;
use nilas_iceberg::catalog::{StorageCredential, StorageCredentials};
use serde::Deserialize;

use super::places::Places;
use super::shelf::TableId;
use crate::catalog::CatalogEvent;
use crate::origin::{LentKey, LentKeys, SigningKey};

/// Hands on what catalogs lend.
pub struct Lender {
    places: Places,
    keys: LentKeys,
    /// Where each table lies, whose catalog says for all of its files at once what to read them with.
    roots: HashMap<TableId, String>,
}

/// Of a table's metadata, what is needed here.
#[derive(Deserialize)]
struct Root {
    location: String,
}

impl Lender {
    /// Hands on to `keys`.
    pub fn new(places: Places, keys: LentKeys) -> Lender {
        Lender { places, keys, roots: HashMap::default() }
    }

    /// Takes note of what a catalog says.
    pub fn take(&mut self, event: &CatalogEvent) {
        match event {
            CatalogEvent::TableSeen(seen) => {
                let id = TableId::of(&seen.catalog, &seen.table);
                // The metadata of a table that nothing is lent for may be long.
                if !seen.credentials.is_empty()
                    && let Ok(root) = serde_json::from_slice::<Root>(&seen.metadata)
                {
                    self.roots.insert(id.clone(), root.location);
                }
                self.lend(&id, &seen.credentials);
            }
            CatalogEvent::CredentialsRenewed { catalog, table, credentials } => {
                self.lend(&TableId::of(catalog, table), credentials);
            }
            CatalogEvent::TableGone { catalog, table } => {
                let id = TableId::of(catalog, table);
                self.roots.remove(&id);
                self.lend(&id, &StorageCredentials::default());
            }
            CatalogEvent::CatalogTrouble { .. } => {}
        }
    }

    fn lend(&self, id: &TableId, credentials: &StorageCredentials) {
        let root = self.roots.get(id).map(String::as_str);
        let keys = credentials.iter().filter_map(|credential| self.key(credential, root));
        self.keys.lend(&id.to_string(), keys.collect());
    }

    fn key(&self, credential: &StorageCredential, root: Option<&str>) -> Option<LentKey> {
        let of = |name: &str| credential.config.get(name).cloned();
        let key = SigningKey {
            access_key: of("s3.access-key-id")?,
            secret_key: of("s3.secret-access-key")?,
            session_token: of("s3.session-token").filter(|token| !token.is_empty()),
        };
        // One for everything, or for a whole scheme, is lent for the files of this table alone.
        let (bucket, prefix) = self.places.prefix(&credential.prefix).or_else(|| {
            let root = root.filter(|root| root.starts_with(&credential.prefix))?;
            self.places.folder(root)
        })?;
        Some(LentKey { bucket, prefix, key: Arc::new(key), expires_at: credential.expires_at() })
    }
}

#[cfg(test)]
mod tests {
    use nilas_base::UnixMillis;
    use nilas_iceberg::catalog::{Answer, LoadedTable, TableAnswer, TableName};
    use serde_json::json;

    use super::*;
    use crate::catalog::TableSeen;
    use crate::config::Glob;

    const NOW: UnixMillis = UnixMillis(1000);

    fn config(access_key: &str) -> serde_json::Value {
        json!({"s3.access-key-id": access_key, "s3.secret-access-key": "s",
               "s3.session-token": "t", "s3.session-token-expires-at-ms": "99999999999999"})
    }

    fn answer(config: &serde_json::Value, lent: &serde_json::Value) -> LoadedTable {
        let body = json!({"metadata-location": "s3://lake/db/t/metadata/1.json",
                          "metadata": {"location": "s3a://lake/db/t"},
                          "config": config, "storage-credentials": lent});
        let answer = Answer { status: 200, body: body.to_string().into(), ..Answer::default() };
        match TableAnswer::read(&answer, false).expect("well formed") {
            TableAnswer::Loaded(table) => *table,
            TableAnswer::Unchanged => panic!("nothing was known"),
        }
    }

    fn seen(config: &serde_json::Value, lent: &serde_json::Value) -> CatalogEvent {
        let LoadedTable { etag, metadata_location, metadata, credentials, .. } =
            answer(config, lent);
        let table = TableName::from_dotted("db.t").expect("in a namespace");
        let catalog = Arc::from("c");
        let seen = TableSeen { catalog, table, etag, metadata_location, metadata, credentials };
        CatalogEvent::TableSeen(Box::new(seen))
    }

    fn lender() -> (Lender, LentKeys) {
        let keys = LentKeys::default();
        let places = Places { buckets: vec![Glob::new("lake")], directory: None };
        (Lender::new(places, keys.clone()), keys)
    }

    fn name_of(keys: &LentKeys, key: &str) -> Option<String> {
        keys.of("lake", key, NOW).map(|key| key.access_key.clone())
    }

    #[test]
    fn each_credential_is_for_its_prefix_and_one_without_for_the_tables_folder() {
        let (mut lender, keys) = lender();
        let lent = json!([{"prefix": "s3://lake/db/t/data", "config": config("data")},
                          {"prefix": "s3://elsewhere/x", "config": config("elsewhere")},
                          {"prefix": "s3://lake/none", "config": {"region": "x"}}]);
        lender.take(&seen(&config("all"), &lent));
        for (key, expected) in [
            ("db/t/data/1.parquet", Some("data")),
            ("db/t/metadata/1.json", Some("all")),
            ("db/t2/metadata/1.json", None),
            ("none", None),
            ("x", None),
        ] {
            assert_eq!(name_of(&keys, key).as_deref(), expected, "{key}");
        }
        let key = keys.of("lake", "db/t/data/1", NOW).expect("lent");
        assert_eq!(key.session_token.as_deref(), Some("t"));
        assert_eq!(keys.of("elsewhere", "x", NOW), None);
    }

    #[test]
    fn a_prefix_that_is_a_bucket_or_a_scheme_reaches_no_further() {
        for (prefix, inside, outside) in [
            ("s3://lake", "anything", None),
            ("s3://lake/", "anything", None),
            ("s3a", "db/t/x", Some("db/u/x")),
            ("s3a://", "db/t/x", Some("db/u/x")),
        ] {
            let (mut lender, keys) = lender();
            let lent = json!([{"prefix": prefix, "config": config("a")}]);
            lender.take(&seen(&json!({}), &lent));
            assert_eq!(name_of(&keys, inside).as_deref(), Some("a"), "{prefix}");
            assert_eq!(outside.and_then(|key| name_of(&keys, key)), None, "{prefix}");
        }
    }

    #[test]
    fn what_is_lent_late_ends_with_its_table_too() {
        let (mut lender, keys) = lender();
        lender.take(&seen(&json!({}), &json!([])));
        let catalog: Arc<str> = Arc::from("c");
        let table = TableName::from_dotted("db.t").expect("in a namespace");
        let lent = json!([{"prefix": "s3://lake/db/t", "config": config("late")}]);
        let credentials = answer(&json!({}), &lent).credentials;
        lender.take(&CatalogEvent::CredentialsRenewed {
            catalog: Arc::clone(&catalog),
            table: table.clone(),
            credentials,
        });
        assert_eq!(name_of(&keys, "db/t/x").as_deref(), Some("late"));
        lender.take(&CatalogEvent::TableGone { catalog, table });
        assert_eq!(name_of(&keys, "db/t/x"), None);
    }

    #[test]
    fn what_is_lent_anew_is_used_and_what_a_dropped_table_had_is_not() {
        let (mut lender, keys) = lender();
        lender.take(&seen(&config("first"), &json!([])));
        let catalog: Arc<str> = Arc::from("c");
        let table = TableName::from_dotted("db.t").expect("in a namespace");
        let credentials = answer(&config("second"), &json!([])).credentials;
        lender.take(&CatalogEvent::CredentialsRenewed {
            catalog: Arc::clone(&catalog),
            table: table.clone(),
            credentials,
        });
        assert_eq!(name_of(&keys, "db/t/x").as_deref(), Some("second"));
        lender.take(&CatalogEvent::TableGone { catalog, table });
        assert_eq!(name_of(&keys, "db/t/x"), None);
    }
}
