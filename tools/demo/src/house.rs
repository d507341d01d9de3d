//! The demo's node, in this process, and the folder that is its origin. Both end with the demo.

use std::error::Error;
use std::sync::Arc;

use iceberg::CatalogBuilder;
use iceberg::memory::{MEMORY_CATALOG_WAREHOUSE, MemoryCatalog, MemoryCatalogBuilder};
use nilas_engine::config::{self, Config, Inputs, Order};
use nilas_engine::node::Node;
use nilas_engine::startup::{self, connect};
use tempfile::TempDir;

use crate::storage::S3Storage;

/// What the origin waits before each first byte: an object store's usual latency.
pub(crate) const FIRST_BYTE_LATENCY_MS: u64 = 30;
/// The bucket of the sample table; the local directory's default one.
const BUCKET: &str = "lake";

/// A node before a folder.
pub(crate) struct House {
    node: Node,
    access_key: String,
    secret_key: String,
    /// Removed when the house is closed.
    _folder: TempDir,
}

/// What the node has asked of its origin so far.
#[derive(Clone, Copy)]
pub(crate) struct OriginCounts {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl House {
    /// Makes the folder and starts the node, on free ports.
    pub(crate) fn open() -> Result<House, Box<dyn Error>> {
        let folder = tempfile::Builder::new().prefix("nilas-demo-").tempdir()?;
        std::fs::create_dir(folder.path().join(BUCKET))?;
        let mut config = configuration(&folder)?;
        let report = startup::probe(&config)?;
        let credential = startup::generate_credential()?;
        let (access_key, secret_key) =
            (credential.access_key.clone(), credential.secret_key.expose().to_owned());
        config.credentials.push(credential);
        let node = Node::start(&config, report.ring)?;
        Ok(House { node, access_key, secret_key, _folder: folder })
    }

    /// Stops the node, then removes the folder.
    pub(crate) fn close(self) {
        self.node.stop();
    }

    /// Where the node serves S3.
    pub(crate) fn endpoint_url(&self) -> String {
        self.endpoint().url()
    }

    /// How other engines reach the node.
    pub(crate) fn connect_text(&self) -> String {
        connect::text(self.endpoint())
    }

    /// A catalog in memory whose tables are read and written through the node.
    pub(crate) async fn catalog(&self) -> iceberg::Result<MemoryCatalog> {
        let storage = S3Storage {
            endpoint: self.endpoint_url(),
            bucket: BUCKET.into(),
            access_key: self.access_key.clone(),
            secret_key: self.secret_key.clone(),
            client: Default::default(),
        };
        let warehouse = (MEMORY_CATALOG_WAREHOUSE.to_owned(), format!("s3://{BUCKET}"));
        let builder = MemoryCatalogBuilder::default().with_storage_factory(Arc::new(storage));
        builder.load("demo", [warehouse].into()).await
    }

    /// What the node has asked of its origin so far, by its own count.
    pub(crate) fn origin_counts(&self) -> OriginCounts {
        let counters = self.node.origin().counters().expect("a node counts at its origin");
        let snapshot = counters.snapshot();
        OriginCounts { requests: snapshot.requests(), bytes: snapshot.bytes_received() }
    }

    fn endpoint(&self) -> connect::Endpoint<'_> {
        connect::Endpoint {
            address: self.node.endpoint(),
            access_key: &self.access_key,
            secret_key: &self.secret_key,
        }
    }
}

/// The node's configuration, as its command line would give it.
fn configuration(folder: &TempDir) -> Result<Config, Box<dyn Error>> {
    let keys = [
        ("server.listen", "127.0.0.1:0".to_owned()),
        ("server.admin", "127.0.0.1:0".to_owned()),
        ("origin.kind", "local".to_owned()),
        ("origin.path", folder.path().display().to_string()),
        ("origin.first_byte_latency", format!("{FIRST_BYTE_LATENCY_MS}ms")),
        // The table is written through the node, and its first reading is to be a cold one.
        ("cache.write_allocate", "off".to_owned()),
    ];
    let arguments = keys.into_iter().flat_map(|(key, value)| [format!("--{key}"), value]).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match config::load(&Inputs { arguments, variables: Vec::new(), cores })? {
        Order::Run { config, .. } => Ok(*config),
        _ => unreachable!("no flag asks for anything else"),
    }
}
