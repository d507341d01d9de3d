//! What a credential may do: its mode, its buckets, its prefixes and its limits. What is outside
//! them is refused, and nothing of it happens.

use std::time::Duration;

use nilas_shards::RingBody;
use tempfile::TempDir;

use crate::client::{Answer, TestClient};
use crate::node::TestNode;
use crate::on_both_bodies;
use crate::time::pause;

on_both_bodies! {
    who_may_only_read_changes_nothing
    a_scope_of_prefixes_covers_keys_lists_and_copies
    buckets_outside_the_scope_are_neither_listed_nor_reached
    requests_beyond_a_limit_are_told_to_slow_down
    bytes_beyond_a_limit_are_waited_for
}

/// A node with these items in its credentials file; each has the secret `secret`.
fn node_with(ring: RingBody, items: &str) -> (TestNode, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("credentials.toml");
    std::fs::write(&file, items).expect("a file");
    let path = file.to_str().expect("a temporary path is text");
    let node = TestNode::start(ring, &["--auth.credentials_file", path]);
    (node, folder)
}

fn item(access_key: &str, rest: &str) -> String {
    format!("[[credentials]]\naccess_key = \"{access_key}\"\nsecret_key = \"secret\"\n{rest}\n")
}

/// Asks as somebody, on a connection of its own.
fn ask(node: &TestNode, name: &str, method: &str, target: &str, body: &[u8]) -> Answer {
    ask_with(node, name, (method, target), &[], body)
}

fn ask_with(
    node: &TestNode,
    name: &str,
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut client: TestClient = node.client();
    let mut wording = client.wording(method, target).headers(headers);
    (wording.access_key, wording.secret) = (name.to_owned(), "secret".to_owned());
    if matches!(method, "PUT" | "POST") {
        wording = wording.header("Content-Length", &body.len().to_string());
    }
    client.send(&wording, body)
}

fn check(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
}

fn who_may_only_read_changes_nothing(ring: RingBody) {
    let (node, _folder) = node_with(ring, &item("reader", "mode = \"read_only\""));
    node.place("k", b"bytes");
    assert_eq!(ask(&node, "reader", "GET", "/lake/k", b"").text(), "bytes");
    assert_eq!(ask(&node, "reader", "GET", "/lake?list-type=2", b"").status, 200);
    for (method, target) in [
        ("PUT", "/lake/k"),
        ("DELETE", "/lake/k"),
        ("POST", "/lake?delete"),
        ("POST", "/lake/k?uploads"),
        ("PUT", "/new-bucket"),
        ("DELETE", "/lake"),
    ] {
        check(&ask(&node, "reader", method, target, b"x"), 403, "AccessDenied");
    }
    assert_eq!(std::fs::read(node.bucket_directory().join("k")).expect("it is there"), b"bytes");
    assert!(!node.directory().join("new-bucket").exists());
}

fn a_scope_of_prefixes_covers_keys_lists_and_copies(ring: RingBody) {
    let rest = "mode = \"read_write\"\nprefixes = [\"mine/\"]";
    let (node, _folder) = node_with(ring, &item("mine", rest));
    node.place("mine/a", b"mine");
    node.place("yours/a", b"yours");
    assert_eq!(ask(&node, "mine", "GET", "/lake/mine/a", b"").text(), "mine");
    assert_eq!(ask(&node, "mine", "PUT", "/lake/mine/b", b"new").status, 200);
    check(&ask(&node, "mine", "GET", "/lake/yours/a", b""), 403, "AccessDenied");
    check(&ask(&node, "mine", "PUT", "/lake/yours/a", b"x"), 403, "AccessDenied");
    let listed = ask(&node, "mine", "GET", "/lake?list-type=2&prefix=mine%2F", b"").text();
    assert!(listed.contains("<Key>mine/b</Key>"), "{listed}");
    check(&ask(&node, "mine", "GET", "/lake?list-type=2", b""), 403, "AccessDenied");
    check(&ask(&node, "mine", "GET", "/lake?list-type=2&prefix=m", b""), 403, "AccessDenied");
    let copy = [("x-amz-copy-source", "/lake/yours/a")];
    check(&ask_with(&node, "mine", ("PUT", "/lake/mine/c"), &copy, b""), 403, "AccessDenied");
    let list = |key: &str| {
        format!(
            "<Delete><Object><Key>mine/b</Key></Object><Object><Key>{key}</Key></Object></Delete>"
        )
    };
    let refused = ask(&node, "mine", "POST", "/lake?delete", list("yours/a").as_bytes());
    check(&refused, 403, "AccessDenied");
    assert!(node.bucket_directory().join("mine/b").exists(), "not even the first is deleted");
    let done = ask(&node, "mine", "POST", "/lake?delete", list("mine/a").as_bytes());
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(!node.bucket_directory().join("mine/b").exists());
    assert!(node.bucket_directory().join("yours/a").exists());
}

fn buckets_outside_the_scope_are_neither_listed_nor_reached(ring: RingBody) {
    let items = [item("some", "buckets = [\"la*\"]"), item("all", "")].concat();
    let (node, _folder) = node_with(ring, &items);
    std::fs::create_dir(node.directory().join("sea")).expect("a bucket");
    let all = ask(&node, "all", "GET", "/", b"").text();
    assert!(all.contains("<Name>lake</Name>") && all.contains("<Name>sea</Name>"), "{all}");
    let some = ask(&node, "some", "GET", "/", b"").text();
    assert!(some.contains("<Name>lake</Name>") && !some.contains("sea"), "{some}");
    check(&ask(&node, "some", "GET", "/sea/k", b""), 403, "AccessDenied");
    check(&ask(&node, "some", "GET", "/sea", b""), 403, "AccessDenied");
    check(&ask(&node, "some", "PUT", "/ocean", b""), 403, "AccessDenied");
    assert_eq!(ask(&node, "some", "PUT", "/lagoon", b"").status, 200);
}

fn requests_beyond_a_limit_are_told_to_slow_down(ring: RingBody) {
    let items = [item("slow", "requests_per_second_max = 1"), item("free", "")].concat();
    let (node, _folder) = node_with(ring, &items);
    node.place("k", b"bytes");
    let statuses: Vec<u16> =
        (0..20).map(|_| ask(&node, "slow", "GET", "/lake/k", b"").status).collect();
    assert_eq!(statuses[0], 200, "{statuses:?}");
    assert!(statuses.contains(&503), "{statuses:?}");
    let refused = (0..20).map(|_| ask(&node, "slow", "GET", "/lake/k", b""));
    let refused = refused.into_iter().find(|answer| answer.status == 503).expect("too many");
    check(&refused, 503, "SlowDown");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(ask(&node, "free", "GET", "/lake/k", b"").status, 200, "others are not held");
    pause(Duration::from_millis(1100));
    assert_eq!(ask(&node, "slow", "GET", "/lake/k", b"").status, 200);
}

fn bytes_beyond_a_limit_are_waited_for(ring: RingBody) {
    let (node, _folder) = node_with(ring, &item("thin", "bytes_per_second_max = \"100KiB\""));
    node.place("k", &vec![7; 200 << 10]);
    assert_eq!(ask(&node, "thin", "GET", "/lake/k", b"").body.len(), 200 << 10);
    check(&ask(&node, "thin", "GET", "/lake/k", b""), 503, "SlowDown");
    pause(Duration::from_millis(1300));
    assert_eq!(ask(&node, "thin", "HEAD", "/lake/k", b"").status, 200, "it was paid for");
    let body = vec![7; 300 << 10];
    assert_eq!(ask(&node, "thin", "PUT", "/lake/up", &body).status, 200);
    check(&ask(&node, "thin", "GET", "/lake/k", b""), 503, "SlowDown");
}
