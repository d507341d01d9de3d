//! A list of buckets that is shown in part is held whole for it: within the memory for bodies, or not
//! at all.

use nilas_shards::RingBody;

use crate::client::Answer;
use crate::node::TestNode;
use crate::origin::WritableOrigin;
use crate::{node_before, on_both_bodies};

on_both_bodies! {
    a_list_of_buckets_that_finds_no_memory_is_told_to_slow_down
}

/// A list of so many buckets, the first of which is `lake`.
fn list(count: usize) -> String {
    let bucket = |name: &str| format!("<Bucket><Name>{name}</Name></Bucket>");
    let others: String = (1..count).map(|number| bucket(&format!("sea-{number:060}"))).collect();
    format!(
        "<ListAllMyBucketsResult><Buckets>{}{others}</Buckets></ListAllMyBucketsResult>",
        bucket("lake")
    )
}

fn ask(node: &TestNode) -> Answer {
    let mut client = node.client();
    let mut wording = client.wording("GET", "/");
    (wording.access_key, wording.secret) = ("some".to_owned(), "secret".to_owned());
    client.send(&wording, b"")
}

fn a_list_of_buckets_that_finds_no_memory_is_told_to_slow_down(ring: RingBody) {
    let origin = WritableOrigin::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("credentials.toml");
    let item =
        "[[credentials]]\naccess_key = \"some\"\nsecret_key = \"secret\"\nbuckets = [\"la*\"]\n";
    std::fs::write(&file, item).expect("a file");
    let file = file.to_str().expect("a temporary path is text");
    let with = |buffers: &str| {
        let flags = ["--auth.credentials_file", file, "--limits.buffer_bytes", buffers];
        node_before(&origin, ring, &flags)
    };
    let (small, large) = (with("8MiB"), with("128MiB"));
    origin.place("/", list(30_000).as_bytes());
    for _ in 0..3 {
        let refused = ask(&small);
        assert_eq!((refused.status, refused.code().as_str()), (503, "SlowDown"));
        assert!(refused.header("retry-after").is_some());
        let shown = ask(&large);
        assert_eq!(shown.status, 200, "{}", shown.text());
        assert!(shown.text().contains("<Name>lake</Name>") && !shown.text().contains("sea"));
    }
    origin.place("/", list(1_000).as_bytes());
    for _ in 0..20 {
        let shown = ask(&small);
        assert_eq!(shown.status, 200, "what was reserved is given back: {}", shown.text());
        assert!(shown.text().contains("<Name>lake</Name>") && !shown.text().contains("sea"));
    }
}
