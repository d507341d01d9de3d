//! The audit file: it tells who was refused and who changed what is not an object, and nothing of
//! anybody else; it holds no secret; and it may be moved away at any time.

use std::path::{Path, PathBuf};

use nilas_base::Clock;
use nilas_net::sigv4::{PayloadHash, SigningIdentity, ToSign, presign};
use nilas_shards::RingBody;
use serde_json::Value;
use tempfile::TempDir;

use crate::node::{ACCESS_KEY, SECRET_KEY, TestNode};
use crate::on_both_bodies;
use crate::time::eventually;

on_both_bodies! {
    who_is_refused_is_recorded_and_who_reads_is_not
    what_changes_a_bucket_is_recorded_with_its_outcome
    a_file_that_was_moved_away_is_begun_anew
    a_full_disk_fails_no_request_and_is_counted
}

const READER: &str = "[[credentials]]\naccess_key = \"reader\"\nsecret_key = \"secret-of-the-reader\"\n\
                      mode = \"read_only\"\n";

/// A node with an audit file.
pub struct Audited {
    /// The node.
    pub node: TestNode,
    path: PathBuf,
    _folder: TempDir,
}

fn audited(ring: RingBody) -> Audited {
    Audited::start(ring, &[])
}

impl Audited {
    /// Starts one with these further flags.
    pub fn start(ring: RingBody, further: &[&str]) -> Audited {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, credentials) =
            (folder.path().join("audit.log"), folder.path().join("credentials"));
        std::fs::write(&credentials, READER).expect("a file");
        let text = |path: &Path| path.to_str().expect("a temporary path is text").to_owned();
        let (audit, credentials) = (text(&path), text(&credentials));
        let flags = ["--log.audit_file", &audit, "--auth.credentials_file", &credentials];
        Audited {
            node: TestNode::start(ring, &[&flags[..], further].concat()),
            path,
            _folder: folder,
        }
    }

    /// The records, once there are so many of them.
    pub fn records(&self, count: usize) -> Vec<Value> {
        let read = || std::fs::read_to_string(&self.path).unwrap_or_default();
        eventually("so many records", || read().lines().count() >= count);
        let text = read();
        for secret in [SECRET_KEY, "secret-of-the-reader", "ignature=", "AWS4", "Authorization"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        let records: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
        assert_eq!(records.len(), count, "{text}");
        records
    }
}

/// Some fields of a record.
fn told(record: &Value) -> [&str; 6] {
    ["access_key", "operation", "bucket", "key", "code", "outcome"]
        .map(|name| record[name].as_str().expect("a text"))
}

fn who_is_refused_is_recorded_and_who_reads_is_not(ring: RingBody) {
    let audited = audited(ring);
    let node = &audited.node;
    node.place("k", b"bytes");
    assert_eq!(node.client().get("/lake/k", &[]).status, 200);
    assert_eq!(node.client().get("/lake/none", &[]).status, 404);
    assert_eq!(node.client().request("PUT", "/lake/up", &[], b"bytes").status, 200);

    let mut client = node.client();
    let mut wording = client.wording("GET", "/lake/k");
    wording.secret = "a-wrong-secret".to_owned();
    let refused = client.send(&wording, b"");
    assert_eq!(refused.code(), "SignatureDoesNotMatch");

    let mut client = node.client();
    let mut wording = client.wording("DELETE", "/lake/a%20b%0A");
    (wording.access_key, wording.secret) = ("reader".to_owned(), "secret-of-the-reader".to_owned());
    assert_eq!(client.send(&wording, b"").code(), "AccessDenied");

    let mut client = node.client();
    client.write(b"GET /lake/k HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.answer(false).status, 403);

    let late = presigned_long_ago(node);
    assert_eq!(node.client().get(&late, &[]).status, 400, "signed twice");
    let mut client = node.client();
    client.write(format!("GET {late} HTTP/1.1\r\nHost: {}\r\n\r\n", node.endpoint()).as_bytes());
    assert_eq!(client.answer(false).status, 403);

    let records = audited.records(5);
    let sent = refused.header("x-amz-request-id").expect("an id");
    assert_eq!(records[0]["request_id"], sent);
    assert_eq!((&records[0]["status"], &records[0]["method"]), (&403.into(), &"GET".into()));
    assert!(records[0]["client"].as_str().is_some_and(|it| it.starts_with("127.0.0.1:")));
    assert!(records[0]["time"].as_str().is_some_and(|it| it.ends_with('Z')));
    let wrong = [ACCESS_KEY, "GetObject", "lake", "k", "SignatureDoesNotMatch", "refused"];
    assert_eq!(told(&records[0]), wrong);
    let outside = ["reader", "DeleteObject", "lake", "a b\n", "AccessDenied", "refused"];
    assert_eq!(told(&records[1]), outside);
    assert_eq!(told(&records[2])[..2], ["", "GetObject"]);
    assert_eq!(told(&records[4])[..2], [ACCESS_KEY, "GetObject"]);
}

/// A presigned target whose time is over.
fn presigned_long_ago(node: &TestNode) -> String {
    let identity = SigningIdentity {
        access_key: ACCESS_KEY,
        secret: SECRET_KEY,
        session_token: None,
        region: "us-east-1",
    };
    let host = node.endpoint().to_string();
    let request = ToSign {
        method: "GET",
        host: &host,
        path_raw: "/lake/k",
        query_raw: "",
        headers: &[],
        payload: PayloadHash::Unsigned,
    };
    let mut time = Clock::system().wall();
    time.0 -= 3_600_000;
    let query = presign(&identity, &request, 60, time).expect("a valid path");
    format!("/lake/k?{query}")
}

fn what_changes_a_bucket_is_recorded_with_its_outcome(ring: RingBody) {
    let audited = audited(ring);
    let node = &audited.node;
    assert_eq!(node.client().request("PUT", "/new-bucket", &[], b"").status, 200);
    assert_eq!(node.client().request("DELETE", "/no-such-bucket", &[], b"").status, 404);
    assert_eq!(node.client().request("PUT", "/lake?policy", &[], b"{}").status, 501);
    assert_eq!(node.client().request("DELETE", "/new-bucket", &[], b"").status, 204);
    let records = audited.records(4);
    let told: Vec<[&str; 3]> = records
        .iter()
        .map(|it| ["operation", "bucket", "outcome"].map(|name| it[name].as_str().expect("text")))
        .collect();
    assert_eq!(told[0], ["CreateBucket", "new-bucket", "done"]);
    assert_eq!(told[1], ["DeleteBucket", "no-such-bucket", "failed"]);
    assert_eq!(told[2], ["PutBucketSubresource", "lake", "failed"]);
    assert_eq!(told[3], ["DeleteBucket", "new-bucket", "done"]);
    assert!(records.iter().all(|record| record["access_key"] == ACCESS_KEY));
}

fn a_file_that_was_moved_away_is_begun_anew(ring: RingBody) {
    let audited = audited(ring);
    let create = |bucket: &str| {
        let answer = audited.node.client().request("PUT", &format!("/{bucket}"), &[], b"");
        assert_eq!(answer.status, 200);
    };
    create("first");
    assert_eq!(audited.records(1)[0]["bucket"], "first");
    let moved = audited.path.with_extension("1");
    std::fs::rename(&audited.path, &moved).expect("the file is there");
    eventually("a new file", || audited.path.exists());
    create("second");
    assert_eq!(audited.records(1)[0]["bucket"], "second");
    let old = std::fs::read_to_string(moved).expect("it was moved");
    assert_eq!(old.lines().count(), 1, "{old}");
}

fn a_full_disk_fails_no_request_and_is_counted(ring: RingBody) {
    let node = TestNode::start(ring, &["--log.audit_file", "/dev/full"]);
    for number in 0..20 {
        let bucket = format!("/bucket-{number}");
        assert_eq!(node.client().request("PUT", &bucket, &[], b"").status, 200);
    }
    let counts = || node.node().audit().counts().expect("there is a file");
    eventually("all are counted", || counts().failed == 20);
    assert_eq!((counts().written, counts().dropped), (0, 0));
}
