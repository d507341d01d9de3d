//! POST forms: whose one is stands before its file. What is proved goes to the origin byte for byte,
//! what is not never reaches it, and what a form writes is seen by every later read.

use nilas_net::sigv4::form_signature;
use nilas_shards::RingBody;
use tempfile::TempDir;

use crate::client::Answer;
use crate::node::TestNode;
use crate::origin::WritableOrigin;
use crate::{node_before, on_both_bodies, target};

on_both_bodies! {
    a_form_of_a_shared_key_goes_to_the_origin_as_it_came
    a_form_that_is_not_proved_never_reaches_the_origin
    a_form_writes_no_key_beyond_its_scope
    what_a_form_writes_is_seen_by_every_later_read
}

const POLICY: &str = "eyJjb25kaXRpb25zIjpbXX0=";
const KEY: &str = "t/metadata/a.avro";

/// A node with a key that its origin shares, one that it does not, and one with a narrow scope.
fn house(origin: &WritableOrigin, ring: RingBody) -> (TestNode, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("credentials.toml");
    let item = |name: &str, there: &str, rest: &str| {
        format!(
            "[[credentials]]\naccess_key = \"{name}\"\nsecret_key = \"secret\"\n\
             origin_access_key = \"{there}\"\norigin_secret_key = \"secret\"\n{rest}\n"
        )
    };
    let narrow = item("narrow", "narrow", "prefixes = [\"mine/\"]");
    let items = [item("shared", "shared", ""), item("own", "other", ""), narrow].concat();
    std::fs::write(&file, items).expect("a file");
    let path = file.to_str().expect("a temporary path is text");
    (node_before(origin, ring, &["--auth.credentials_file", path]), folder)
}

fn form(access_key: &str, secret: &str, key: &str) -> Vec<u8> {
    let credential = format!("{access_key}/20260101/us-east-1/s3/aws4_request");
    let signature = form_signature(secret, &credential, POLICY).expect("a credential");
    let fields = [
        ("key", key),
        ("policy", POLICY),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", &credential),
        ("x-amz-signature", &signature),
    ];
    let mut body = String::new();
    for (name, value) in fields {
        body.push_str(&format!(
            "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }
    body.push_str("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n");
    let mut body = body.into_bytes();
    body.extend(std::iter::repeat_n(b'x', 200_000));
    body.extend_from_slice(b"\r\n--b--\r\n");
    body
}

fn post(node: &TestNode, body: &[u8]) -> Answer {
    let mut client = node.client();
    let head = format!(
        "POST /lake HTTP/1.1\r\nHost: here\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    client.write(head.as_bytes());
    client.try_write(body);
    client.answer(false)
}

fn a_form_of_a_shared_key_goes_to_the_origin_as_it_came(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    let body = form("shared", "secret", KEY);
    let answer = post(&node, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = origin.asked().pop().expect("it was asked");
    assert!(asked.body == body && asked.target == "/lake");
    assert_eq!(asked.header("content-type"), Some("multipart/form-data; boundary=b"));
    assert_eq!(asked.header("authorization"), None);
}

fn a_form_that_is_not_proved_never_reaches_the_origin(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    let incomplete = form("own", "secret", KEY);
    let end =
        incomplete.windows(15).position(|bytes| bytes == b"x-amz-signature").expect("a field");
    let incomplete = [&incomplete[..end], b"x-of-no-account", &incomplete[end + 15..]].concat();
    let unsigned = b"--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--b--\r\n";
    for (body, status, code) in [
        (form("shared", "guessed", KEY), 403, "SignatureDoesNotMatch"),
        (form("nobody", "secret", KEY), 403, "InvalidAccessKeyId"),
        (form("own", "secret", KEY), 501, "NotImplemented"),
        (incomplete, 403, "SignatureDoesNotMatch"),
        (unsigned.to_vec(), 403, "AccessDenied"),
        (b"no form".to_vec(), 400, "MalformedPOSTRequest"),
        (vec![b'x'; 200_000], 400, "MaxPostPreDataLengthExceededError"),
        (Vec::new(), 400, "MalformedPOSTRequest"),
    ] {
        let answer = post(&node, &body);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
    }
    assert!(origin.asked().is_empty());
}

fn a_form_writes_no_key_beyond_its_scope(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    for key in ["yours/k", "mine", "${filename}"] {
        let answer = post(&node, &form("narrow", "secret", key));
        assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"), "{key}");
    }
    assert!(origin.asked().is_empty());
    assert_eq!(post(&node, &form("narrow", "secret", "mine/${filename}")).status, 200);
}

fn what_a_form_writes_is_seen_by_every_later_read(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    origin.place(&target(KEY), b"old");
    let mut client = node.client();
    assert_eq!(client.get(&target(KEY), &[]).text(), "old");
    let reads = origin.reads(&target(KEY));
    assert_eq!(post(&node, &form("shared", "secret", KEY)).status, 200);
    assert_eq!(client.get(&target(KEY), &[]).status, 200);
    assert_eq!(origin.reads(&target(KEY)), reads + 1, "what was known is forgotten");
    assert_eq!(post(&node, &form("shared", "secret", "another")).status, 200);
    assert_eq!(client.get(&target(KEY), &[]).status, 200);
    assert_eq!(origin.reads(&target(KEY)), reads + 1, "of that key alone");
}
