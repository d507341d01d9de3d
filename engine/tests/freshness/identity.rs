//! Clients who are different identities at the origin, before one cache: none ever gets what its own
//! identity is refused, and rights that are withdrawn end within the stated time.

use std::path::PathBuf;
use std::time::Duration;

use nilas_shards::RingBody;
use tempfile::TempDir;

use crate::client::{Answer, TestClient};
use crate::node::TestNode;
use crate::origin::{WritableOrigin, signer};
use crate::time::{eventually, pause};
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    what_one_identity_was_shown_another_asks_for_itself
    a_refusal_to_one_identity_leaves_the_others_what_they_have
    a_right_that_is_withdrawn_ends_when_its_time_is_over
    an_outage_shows_nobody_what_was_not_shown_to_them
    a_write_by_one_identity_is_seen_by_all
    nobody_is_an_identity_too
    a_signature_of_version_2_goes_along_as_it_came
    no_way_of_signing_leads_out_of_a_scope
    the_credentials_file_is_followed
}

/// A key whose object never changes.
const KEY: &str = "t/metadata/a.avro";
const ANNA: &str = "anna";
const BERT: &str = "bert";

/// A node, and the file that names its clients.
struct House {
    node: TestNode,
    file: PathBuf,
    _folder: TempDir,
}

/// A node whose clients Anna and Bert are Anna and Bert at the origin, too.
fn house(origin: &WritableOrigin, ring: RingBody, flags: &[&str]) -> House {
    let folder = tempfile::tempdir().expect("a folder for the credentials");
    let file = folder.path().join("credentials.toml");
    std::fs::write(&file, [item(ANNA), item(BERT)].concat()).expect("the file");
    let path = file.to_str().expect("a temporary path is text");
    let flags = [&["--auth.credentials_file", path][..], flags].concat();
    House { node: node_before(origin, ring, &flags), file, _folder: folder }
}

fn item(name: &str) -> String {
    format!(
        "[[credentials]]\naccess_key = \"{name}\"\nsecret_key = \"{name} of the node\"\n\
         origin_access_key = \"{name}-there\"\norigin_secret_key = \"{name} of the origin\"\n"
    )
}

/// Asks as somebody.
fn ask(client: &mut TestClient, name: &str, method: &str, key: &str, body: &[u8]) -> Answer {
    let mut wording = client.wording(method, &target(key));
    wording.access_key = name.to_owned();
    wording.secret = format!("{name} of the node");
    if method == "PUT" {
        wording = wording.header("Content-Length", &body.len().to_string());
    }
    client.send(&wording, body)
}

fn get(client: &mut TestClient, name: &str, key: &str) -> Answer {
    ask(client, name, "GET", key, b"")
}

fn what_one_identity_was_shown_another_asks_for_itself(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, .. } = &house(&origin, ring, &[]);
    origin.place(&target(KEY), &noise(1, 5000));
    origin.refuse_key("bert-there", true);
    let mut client = node.client();
    for _ in 0..3 {
        assert!(get(&mut client, ANNA, KEY).body == noise(1, 5000));
        let refused = get(&mut client, BERT, KEY);
        assert_eq!((refused.status, refused.code().as_str()), (403, "AccessDenied"));
        assert_eq!(ask(&mut client, BERT, "HEAD", KEY, b"").status, 403);
    }
    origin.refuse_key("bert-there", false);
    assert!(get(&mut client, BERT, KEY).body == noise(1, 5000), "no refusal is kept");
    let before = origin.reads(&target(KEY));
    assert!(get(&mut client, ANNA, KEY).body == get(&mut client, BERT, KEY).body);
    assert_eq!(origin.reads(&target(KEY)), before, "both were shown it");
    let asked = origin.asked();
    let askers: Vec<&str> =
        asked.iter().filter(|one| one.target == target(KEY)).map(signer).collect();
    assert!(askers.contains(&"anna-there") && askers.contains(&"bert-there"), "{askers:?}");
}

fn a_refusal_to_one_identity_leaves_the_others_what_they_have(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, .. } = &house(&origin, ring, &[]);
    origin.place(&target(KEY), b"bytes");
    origin.refuse_key("bert-there", true);
    let mut client = node.client();
    assert_eq!(get(&mut client, ANNA, KEY).text(), "bytes");
    assert_eq!(get(&mut client, BERT, KEY).status, 403);
    let mut odd = client.wording("GET", &target(KEY)).header("Range", "bytes=odd");
    (odd.access_key, odd.secret) = (BERT.to_owned(), "bert of the node".to_owned());
    assert_eq!(client.send(&odd, b"").status, 403, "a relayed read");
    let before = origin.reads(&target(KEY));
    assert_eq!(get(&mut client, ANNA, KEY).text(), "bytes");
    assert_eq!(origin.reads(&target(KEY)), before, "from memory");
}

fn a_right_that_is_withdrawn_ends_when_its_time_is_over(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, .. } = &house(&origin, ring, &["--cache.authorisation_ttl", "300ms"]);
    origin.place(&target(KEY), b"bytes");
    let mut client = node.client();
    for name in [ANNA, BERT] {
        assert_eq!(get(&mut client, name, KEY).text(), "bytes");
    }
    origin.refuse_key("bert-there", true);
    pause(Duration::from_millis(400));
    assert_eq!(get(&mut client, BERT, KEY).status, 403);
    assert_eq!(get(&mut client, ANNA, KEY).text(), "bytes");
}

fn an_outage_shows_nobody_what_was_not_shown_to_them(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, .. } = &house(&origin, ring, &[]);
    origin.place(&target(KEY), b"bytes");
    let mut client = node.client();
    assert_eq!(get(&mut client, ANNA, KEY).text(), "bytes");
    origin.refuse_reads(Some(503));
    assert_eq!(get(&mut client, ANNA, KEY).text(), "bytes");
    assert_eq!(get(&mut client, BERT, KEY).status, 503);
    assert_eq!(ask(&mut client, BERT, "HEAD", KEY, b"").status, 503);
}

fn a_write_by_one_identity_is_seen_by_all(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, .. } = &house(&origin, ring, &[]);
    let mut client = node.client();
    for round in 0..4_u64 {
        let bytes = noise(round, 3000 + round as usize);
        assert_eq!(
            ask(&mut client, [ANNA, BERT][round as usize % 2], "PUT", KEY, &bytes).status,
            200
        );
        for name in [ANNA, BERT] {
            assert!(get(&mut client, name, KEY).body == bytes);
        }
    }
}

fn nobody_is_an_identity_too(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, .. } = &house(&origin, ring, &["--auth.anonymous", "relay"]);
    origin.place(&target(KEY), b"bytes");
    origin.refuse_key("", true);
    let mut client = node.client();
    let unsigned = format!("GET {} HTTP/1.1\r\nHost: here\r\n\r\n", target(KEY));
    assert_eq!(get(&mut client, ANNA, KEY).text(), "bytes");
    client.write(unsigned.as_bytes());
    assert_eq!(client.answer(false).status, 403);
    origin.refuse_key("", false);
    for _ in 0..2 {
        client.write(unsigned.as_bytes());
        assert_eq!(client.answer(false).text(), "bytes");
    }
    let asked = origin.asked();
    let askers = asked.iter().filter(|one| one.target == target(KEY)).map(signer);
    assert_eq!(askers.collect::<Vec<_>>(), ["anna-there", "", ""], "then from memory");
}

fn a_signature_of_version_2_goes_along_as_it_came(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, .. } = &house(&origin, ring, &["--auth.sigv2", "relay"]);
    origin.place(&target(KEY), b"bytes");
    let mut client = node.client();
    for _ in 0..2 {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: here\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
             Authorization: AWS clara:c2lnbmF0dXJl\r\n\r\n",
            target(KEY)
        );
        client.write(request.as_bytes());
        assert_eq!(client.answer(false).text(), "bytes");
        let asked = origin.asked().pop().expect("it was asked");
        assert_eq!(asked.header("authorization"), Some("AWS clara:c2lnbmF0dXJl"));
        assert_eq!(asked.header("date"), Some("Thu, 01 Jan 2026 00:00:00 GMT"));
    }
    assert_eq!(origin.reads(&target(KEY)), 2, "whose it is only the origin knows");
}

fn no_way_of_signing_leads_out_of_a_scope(ring: RingBody) {
    let origin = WritableOrigin::start();
    let flags = ["--auth.sigv2", "relay", "--auth.anonymous", "relay"];
    let House { node, file, .. } = &house(&origin, ring, &flags);
    let shared = |name: &str, rest: &str| {
        format!(
            "[[credentials]]\naccess_key = \"{name}\"\nsecret_key = \"s\"\n\
             origin_access_key = \"{name}\"\norigin_secret_key = \"s\"\n{rest}\n"
        )
    };
    let narrow = shared("narrow", "mode = \"read_only\"\nprefixes = [\"mine/\"]");
    std::fs::write(file, [narrow, shared("wide", "")].concat()).expect("the file");
    eventually("the new credential is known", || get(&mut node.client(), ANNA, KEY).status == 403);
    let before = origin.asked().len();
    let odd = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260101T000000Z&X-Amz-Expires=999999999\
        &X-Amz-SignedHeaders=host&X-Amz-Signature=00\
        &X-Amz-Credential=narrow%2F20260101%2Fus-east-1%2Fs3%2Faws4_request";
    for (method, query, header) in [
        ("GET", "", "Authorization: AWS narrow:c2lnbmF0dXJl\r\n"),
        ("GET", "AWSAccessKeyId=narrow&Signature=00&Expires=9999999999", ""),
        ("GET", odd, ""),
        ("DELETE", odd, ""),
        ("GET", &format!("{odd}&AWSAccessKeyId=wide"), ""),
    ] {
        let mut client = node.client();
        let request =
            format!("{method} {}?{query} HTTP/1.1\r\nHost: here\r\n{header}\r\n", target(KEY));
        client.write(request.as_bytes());
        let answer = client.answer(false);
        assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"), "{request}");
    }
    assert_eq!(origin.asked().len(), before, "the origin hears of none");
}

fn the_credentials_file_is_followed(ring: RingBody) {
    let origin = WritableOrigin::start();
    let House { node, file, .. } = &house(&origin, ring, &[]);
    origin.place(&target(KEY), b"bytes");
    // Who is refused loses the connection.
    let get = |name: &str| get(&mut node.client(), name, KEY);
    assert_eq!(get(ANNA).text(), "bytes");
    assert_eq!(get("carl").code(), "InvalidAccessKeyId");
    std::fs::write(file, [item(BERT), item("carl")].concat()).expect("the file");
    eventually("a new credential is good", || get("carl").status == 200);
    assert_eq!(get(ANNA).code(), "InvalidAccessKeyId", "who is not in it is out");
    std::fs::write(file, "[[credentials]]\naccess_key = 7\n").expect("the file");
    pause(Duration::from_millis(1500));
    assert_eq!(get(BERT).text(), "bytes", "a broken file changes nothing");
}
