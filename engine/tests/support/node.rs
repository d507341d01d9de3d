//! A node in this process, on a directory of its own, with one key; stopped when dropped.

use std::net::SocketAddr;
use std::path::Path;

use nilas_engine::config::{Inputs, Order, load};
use nilas_engine::node::Node;
use nilas_engine::origin::OriginSnapshot;
use nilas_shards::RingBody;
use tempfile::TempDir;

use super::client::TestClient;

/// The access key of every test node.
pub const ACCESS_KEY: &str = "AKNILASTEST";
/// Its secret.
pub const SECRET_KEY: &str = "test-secret-of-the-tests";
/// A bucket that is there.
pub const BUCKET: &str = "lake";

/// The target of a key in it.
pub fn target(key: &str) -> String {
    format!("/{BUCKET}/{key}")
}

/// A running node.
pub struct TestNode {
    node: Option<Node>,
    directory: TempDir,
    /// What it has for an origin, where that is no directory.
    behind: Option<Box<TestNode>>,
}

impl TestNode {
    /// Starts one with two shards on this body, with these further flags.
    pub fn start(ring: RingBody, flags: &[&str]) -> TestNode {
        let directory = tempfile::tempdir().expect("a directory for the test");
        std::fs::create_dir(directory.path().join(BUCKET)).expect("a bucket");
        let node = start_on(directory.path(), ring, flags);
        assert_eq!(node.ring(), ring, "no silent fallback");
        TestNode { node: Some(node), directory, behind: None }
    }

    /// Starts one before an origin that is asked as any S3 is, unsigned, with these further flags.
    pub fn start_before(origin: SocketAddr, ring: RingBody, flags: &[&str]) -> TestNode {
        let endpoint = format!("http://{origin}");
        let before = ["--origin.kind", "s3", "--origin.endpoint", &endpoint];
        let unsigned = ["--origin.credentials", "anonymous"];
        TestNode::start(ring, &[&before[..], &unsigned, flags].concat())
    }

    /// The same, asked with this key and its secret.
    pub fn start_before_as(
        origin: SocketAddr,
        (access_key, secret_key): (&str, &str),
        ring: RingBody,
        flags: &[&str],
    ) -> TestNode {
        let endpoint = format!("http://{origin}");
        let before = ["--origin.kind", "s3", "--origin.endpoint", &endpoint];
        let key = ["--origin.access_key", access_key, "--origin.secret_key", secret_key];
        let signed = [&["--origin.credentials", "config"], &key[..]].concat();
        TestNode::start(ring, &[&before[..], &signed, flags].concat())
    }

    /// Starts one whose origin is another node, asked as any S3 is, and a directory behind that.
    pub fn start_on_s3(ring: RingBody, flags: &[&str]) -> TestNode {
        let behind = TestNode::start(ring, &["--cache.mutable_ttl", "0s"]);
        let key = (ACCESS_KEY, SECRET_KEY);
        let mut node = TestNode::start_before_as(behind.endpoint(), key, ring, flags);
        node.behind = Some(Box::new(behind));
        node
    }

    /// A new connection to it.
    pub fn client(&self) -> TestClient {
        TestClient::connect(self.endpoint())
    }

    /// Where it listens.
    pub fn endpoint(&self) -> SocketAddr {
        self.node().endpoint()
    }

    /// The node that it has for an origin.
    pub fn behind(&self) -> &TestNode {
        self.behind.as_ref().expect("one that was started on an S3")
    }

    /// The origin's directory, whose folders are the buckets.
    pub fn directory(&self) -> &Path {
        match &self.behind {
            Some(behind) => behind.directory(),
            None => self.directory.path(),
        }
    }

    /// The bucket's directory: what is changed there is changed behind the node's back.
    pub fn bucket_directory(&self) -> std::path::PathBuf {
        self.directory().join(BUCKET)
    }

    /// Requests that the origin has answered so far, of all kinds.
    pub fn origin_requests(&self) -> u64 {
        self.origin_counts().requests()
    }

    /// What has been asked of the origin so far.
    pub fn origin_counts(&self) -> OriginSnapshot {
        self.node().origin().counters().expect("the node's origin is observed").snapshot()
    }

    /// Connections that are open, as the node counts them.
    pub fn open_connections(&self) -> u64 {
        let shards = self.node().metrics().shards();
        let closed: u64 = shards.iter().map(|cells| cells.connections_closed.get()).sum();
        let opened: u64 = shards.iter().map(|cells| cells.connections_opened.get()).sum();
        opened - closed
    }

    /// Writes an object behind the node's back.
    pub fn place(&self, key: &str, bytes: &[u8]) {
        let path = self.bucket_directory().join(key);
        std::fs::create_dir_all(path.parent().expect("below the bucket")).expect("folders");
        let beside = self.directory().join("placed");
        std::fs::write(&beside, bytes).expect("a file");
        std::fs::rename(beside, path).expect("an object");
    }

    /// The node itself.
    pub fn node(&self) -> &Node {
        self.node.as_ref().expect("running until dropped")
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stop();
        }
    }
}

fn start_on(directory: &Path, ring: RingBody, flags: &[&str]) -> Node {
    let path = directory.to_str().expect("a temporary path is text");
    let mut arguments: Vec<String> = [
        "--listen",
        "127.0.0.1:0",
        "--server.admin",
        "127.0.0.1:0",
        "--shards",
        "2",
        "--server.drain_timeout",
        "100ms",
        "--cache.data_bytes",
        "64MiB",
        "--cache.metadata_bytes",
        "32MiB",
    ]
    .map(str::to_owned)
    .to_vec();
    // Tests count what the origin is asked: neither its pace nor that of a busy machine may add to it.
    for (flag, value) in [("--origin.hedge", "false"), ("--cache.mutable_ttl", "1h")] {
        if !flags.contains(&flag) {
            arguments.extend([flag, value].map(str::to_owned));
        }
    }
    if !flags.contains(&"--origin.kind") && !flags.contains(&"--origin.path") {
        arguments.extend(["--origin.path".to_owned(), path.to_owned()]);
    }
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let inputs = Inputs { arguments, variables: Vec::new(), cores: 2 };
    let order = load(&inputs).unwrap_or_else(|errors| panic!("{errors}"));
    let Order::Run { mut config, .. } = order else { panic!("the flags say to run") };
    let own = nilas_engine::config::ClientCredential::new(ACCESS_KEY, SECRET_KEY);
    config.credentials.insert(0, own);
    Node::start(&config, ring).unwrap_or_else(|error| panic!("{error}"))
}
