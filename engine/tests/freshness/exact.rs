//! Invalidation that names: what a request may change is forgotten, and nothing else is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nilas_net::checksum::{Algorithm, checksum};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies, target};

on_both_bodies! {
    a_list_of_deletes_forgets_its_keys_and_no_other
    a_list_that_cannot_be_read_forgets_its_bucket
    each_kind_of_write_forgets_its_own_key
    a_bucket_request_forgets_the_bucket_and_no_other
}

const KEYS: usize = 16;

/// A node that knows these objects and asks nothing more about them.
fn node_that_knows(ring: RingBody) -> TestNode {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let mut client = node.client();
    for number in 0..KEYS {
        node.place(&key(number), &noise(number as u64, 1000));
        assert_eq!(client.get(&target(&key(number)), &[]).status, 200);
    }
    node
}

fn key(number: usize) -> String {
    format!("folder/a&b-{number}")
}

/// Which of the objects are asked about when all are read.
fn asked_about(node: &TestNode) -> Vec<usize> {
    let mut client = node.client();
    let mut asked = Vec::new();
    for number in 0..KEYS {
        let before = node.origin_requests();
        client.get(&target(&key(number)), &[]);
        if node.origin_requests() > before {
            asked.push(number);
        }
    }
    asked
}

fn delete(node: &TestNode, xml: &str) -> u16 {
    let md5 = BASE64.encode(checksum(Algorithm::Md5, xml.as_bytes()).bytes());
    let headers = [("Content-MD5", md5.as_str())];
    node.client().request("POST", &format!("/{BUCKET}?delete="), &headers, xml.as_bytes()).status
}

fn list(numbers: &[usize]) -> String {
    let object = |number: &usize| {
        format!("<Object><Key>{}</Key></Object>", key(*number).replace('&', "&amp;"))
    };
    numbers.iter().map(object).collect()
}

fn a_list_of_deletes_forgets_its_keys_and_no_other(ring: RingBody) {
    let node = node_that_knows(ring);
    let listed = [1, 4, 5, 11];
    assert_eq!(delete(&node, &format!("<Delete>{}</Delete>", list(&listed))), 200);
    assert_eq!(asked_about(&node), listed);
    for number in 0..KEYS {
        let expected = if listed.contains(&number) { 404 } else { 200 };
        assert_eq!(node.client().get(&target(&key(number)), &[]).status, expected, "{number}");
    }
}

fn a_list_that_cannot_be_read_forgets_its_bucket(ring: RingBody) {
    let node = node_that_knows(ring);
    let too_long = format!("<Delete>{}<!--{}--></Delete>", list(&[1]), "x".repeat(5 << 20));
    for xml in ["<Delete><Object>", "no list", &too_long] {
        assert_eq!(asked_about(&node), [0; 0]);
        assert!(delete(&node, xml) >= 400, "the origin does not take it either");
        assert_eq!(asked_about(&node), (0..KEYS).collect::<Vec<_>>(), "{:.20}", xml);
    }
}

/// Method, target, headers and body.
type Change<'a> = (&'a str, String, Vec<(&'a str, &'a str)>, &'a [u8]);

fn each_kind_of_write_forgets_its_own_key(ring: RingBody) {
    let node = node_that_knows(ring);
    let mut client = node.client();
    let source = format!("{BUCKET}/folder/a%26b-0");
    let path = target(&key(7));
    let begun = client.request("POST", &format!("{path}?uploads="), &[], b"").text();
    let id = between(&begun, "<UploadId>", "</UploadId>").to_owned();
    let part = client.request("PUT", &format!("{path}?partNumber=1&uploadId={id}"), &[], b"part");
    let etag = part.header("etag").expect("an ETag").to_owned();
    assert_eq!(asked_about(&node), [0; 0], "a part is no object yet");
    let complete = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let writes: [Change<'_>; 5] = [
        ("PUT", path.clone(), vec![], b"new"),
        ("PUT", path.clone(), vec![("x-amz-copy-source", &source)], b""),
        ("POST", format!("{path}?uploadId={id}"), vec![], complete.as_bytes()),
        ("PUT", format!("{path}?tagging="), vec![], b"<Tagging></Tagging>"),
        ("PUT", format!("{path}?acl="), vec![("x-amz-acl", "private")], b""),
    ];
    for (method, target, headers, body) in writes {
        // The directory knows neither tags nor access lists; what was asked for counts.
        // One that is refused early ends its connection.
        let status = node.client().request(method, &target, &headers, body).status;
        assert!(matches!(status, 200 | 501), "{method} {target}: {status}");
        assert_eq!(asked_about(&node), [7], "{method} {target}");
    }
    assert_eq!(client.request("DELETE", &path, &[], b"").status, 204);
    assert_eq!(asked_about(&node), [7]);
}

fn a_bucket_request_forgets_the_bucket_and_no_other(ring: RingBody) {
    let node = node_that_knows(ring);
    assert_eq!(node.client().request("PUT", "/pond", &[], b"").status, 200);
    assert_eq!(asked_about(&node), [0; 0]);
    node.client().request("PUT", &format!("/{BUCKET}?policy="), &[], b"{}");
    assert_eq!(asked_about(&node), (0..KEYS).collect::<Vec<_>>());
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).expect("the opening");
    rest.split_once(after).expect("the closing").0
}
