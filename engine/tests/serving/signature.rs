//! Who may ask: a request that is signed right is served in every form S3 has, one that is not gets
//! the code that S3 would give, and no answer tells a secret.

use nilas_base::{Clock, UnixMillis};
use nilas_net::sigv4::{PayloadHash, SigningIdentity, ToSign, presign};
use nilas_shards::RingBody;

use crate::client::TestClient;
use crate::node::{ACCESS_KEY, BUCKET, SECRET_KEY, TestNode};
use crate::on_both_bodies;
use crate::wording::Wording;

on_both_bodies! {
    a_bad_signature_gets_the_code_that_s3_gives
    a_key_that_a_catalog_vended_is_told_the_cure
    a_clock_may_be_wrong_by_a_quarter_of_an_hour
    a_presigned_url_works_until_it_expires
    a_bucket_may_be_named_by_the_host_with_and_without_a_port
    a_bucket_that_is_not_allowed_is_refused
}

/// Changes a right request, or its head as it is sent.
type Spoil = fn(&mut Wording);
type SpoilHead = fn(&str) -> String;

const MINUTE_MS: u64 = 60_000;

#[rustfmt::skip]
const SPOILT: &[(&str, Spoil, SpoilHead, u16, &str)] = &[
    ("an unknown key", |it| it.access_key = "AKNOBODY".into(), same, 403, "InvalidAccessKeyId"),
    ("another secret", |it| it.secret = "another".into(), same, 403, "SignatureDoesNotMatch"),
    ("a late clock", |it| it.time = UnixMillis(it.time.0 - 16 * MINUTE_MS), same, 403, "RequestTimeTooSkewed"),
    ("an early clock", |it| it.time = UnixMillis(it.time.0 + 16 * MINUTE_MS), same, 403, "RequestTimeTooSkewed"),
    ("an unsigned header", |it| it.unsigned_headers.push(("x-amz-acl".into(), "public-read".into())), same, 403, "AccessDenied"),
    ("another path", keep, |head| head.replacen("/object", "/other", 1), 403, "SignatureDoesNotMatch"),
    ("another query", keep, |head| head.replacen("/object", "/object?acl", 1), 403, "SignatureDoesNotMatch"),
    ("another method", keep, |head| head.replacen("GET", "HEAD", 1).replacen("HEAD", "DELETE", 1), 403, "SignatureDoesNotMatch"),
    ("another host", keep, |head| head.replacen("127.0.0.1", "127.0.0.2", 1), 403, "SignatureDoesNotMatch"),
    ("another payload", keep, |head| head.replacen("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", 1), 403, "SignatureDoesNotMatch"),
    ("no payload hash", keep, |head| without(head, "x-amz-content-sha256"), 400, "InvalidRequest"),
    ("an odd payload hash", keep, |head| head.replacen("UNSIGNED-PAYLOAD", "WHATEVER", 1), 400, "InvalidArgument"),
    ("no date", keep, |head| without(head, "x-amz-date"), 403, "AccessDenied"),
    ("nobody", keep, |head| without(head, "authorization"), 403, "AccessDenied"),
    ("signature version 2", keep, |head| replaced(head, "authorization", "AWS AK:c2lnbmF0dXJl"), 400, "InvalidRequest"),
    ("another scheme", keep, |head| replaced(head, "authorization", "Bearer token"), 400, "InvalidArgument"),
    ("signature version 4a", keep, |head| head.replacen("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", 1), 501, "NotImplemented"),
    ("another service", keep, |head| head.replacen("/s3/aws4", "/ec2/aws4", 1), 400, "AuthorizationHeaderMalformed"),
    ("no signature", keep, |head| head.replacen(", Signature=", ", Sgnature=", 1), 400, "AuthorizationHeaderMalformed"),
    ("half a signature", keep, |head| head.replacen("Signature=", "Signature=ab", 1), 403, "SignatureDoesNotMatch"),
    ("an unsigned host", keep, |head| head.replacen("SignedHeaders=host;", "SignedHeaders=", 1), 400, "AuthorizationHeaderMalformed"),
];

fn keep(_: &mut Wording) {}

fn same(head: &str) -> String {
    head.to_owned()
}

fn without(head: &str, name: &str) -> String {
    head.split_inclusive("\r\n").filter(|line| !line.starts_with(&format!("{name}:"))).collect()
}

fn replaced(head: &str, name: &str, value: &str) -> String {
    without(head, name).replacen("\r\n\r\n", &format!("\r\n{name}: {value}\r\n\r\n"), 1)
}

fn a_bad_signature_gets_the_code_that_s3_gives(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"content");
    for (about, spoil, spoil_head, status, code) in SPOILT {
        let mut client = node.client();
        let mut wording = client.wording("GET", &format!("/{BUCKET}/object"));
        spoil(&mut wording);
        let head = String::from_utf8(wording.head()).expect("heads are text");
        client.write(spoil_head(&head).as_bytes());
        let answer = client.answer(false);
        let text = answer.text();
        assert_eq!((answer.status, answer.code().as_str()), (*status, *code), "{about}: {text}");
        assert!(!text.contains(SECRET_KEY), "{about}");
    }
    assert_eq!(node.origin_requests(), 0, "nobody is believed before the signature is");
}

fn a_key_that_a_catalog_vended_is_told_the_cure(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    let mut wording = client.wording("GET", &format!("/{BUCKET}/object"));
    wording.access_key = "ASIAVENDED".into();
    wording.session_token = Some("the-token-itself".into());
    let answer = client.send(&wording, b"");
    assert_eq!((answer.status, answer.code().as_str()), (403, "InvalidAccessKeyId"));
    assert!(answer.text().contains("credential vending"), "{}", answer.text());
    assert!(!answer.text().contains("the-token-itself"), "{}", answer.text());
}

fn a_clock_may_be_wrong_by_a_quarter_of_an_hour(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("object", b"content");
    for minutes in [-14, -1, 1, 14] {
        let mut client = node.client();
        let mut wording = client.wording("GET", &format!("/{BUCKET}/object"));
        wording.time = UnixMillis(wording.time.0.saturating_add_signed(minutes * MINUTE_MS as i64));
        assert_eq!(client.send(&wording, b"").text(), "content", "{minutes} minutes");
    }
}

fn presigned(node: &TestNode, target: &str, expires_seconds: u64, age_seconds: u64) -> String {
    let (path_raw, query_raw) = target.split_once('?').unwrap_or((target, ""));
    let host = node.endpoint().to_string();
    let identity = SigningIdentity {
        access_key: ACCESS_KEY,
        secret: SECRET_KEY,
        session_token: None,
        region: "eu-central-1",
    };
    let payload = PayloadHash::Unsigned;
    let request = ToSign { method: "GET", host: &host, path_raw, query_raw, headers: &[], payload };
    let time = UnixMillis(Clock::system().wall().0 - age_seconds * 1000);
    format!("{path_raw}?{}", presign(&identity, &request, expires_seconds, time).expect("a path"))
}

fn get_unsigned(client: &mut TestClient, node: &TestNode, target: &str) -> crate::client::Answer {
    let head = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", node.endpoint());
    client.write(head.as_bytes());
    client.answer(false)
}

fn a_presigned_url_works_until_it_expires(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    node.place("a + b", b"content");
    let target = format!("/{BUCKET}/a%20%2B%20b");
    let fresh = presigned(&node, &target, 60, 0);
    for _ in 0..2 {
        assert_eq!(get_unsigned(&mut node.client(), &node, &fresh).text(), "content");
    }
    let typed = presigned(&node, &format!("{target}?response-content-type=text%2Fcsv"), 60, 0);
    let answer = get_unsigned(&mut node.client(), &node, &typed);
    assert_eq!(
        (answer.text().as_str(), answer.header("content-type")),
        ("content", Some("text/csv"))
    );
    let ranged =
        format!("GET {fresh} HTTP/1.1\r\nHost: {}\r\nRange: bytes=1-3\r\n\r\n", node.endpoint());
    let mut client = node.client();
    client.write(ranged.as_bytes());
    let answer = client.answer(false);
    assert_eq!((answer.status, answer.text().as_str()), (206, "ont"));
    let asked = node.origin_requests();
    for (about, url, status, code) in [
        ("expired", presigned(&node, &target, 60, 61), 403, "AccessDenied"),
        (
            "for too long",
            presigned(&node, &target, 604_801, 0),
            400,
            "AuthorizationQueryParametersError",
        ),
        ("for another key", fresh.replacen("a%20", "b%20", 1), 403, "SignatureDoesNotMatch"),
        (
            "for longer",
            fresh.replacen("Expires=60", "Expires=600", 1),
            403,
            "SignatureDoesNotMatch",
        ),
        ("twice", format!("{fresh}&X-Amz-Expires=60"), 400, "AuthorizationQueryParametersError"),
        (
            "by half",
            fresh.split("&X-Amz-Signature").next().expect("a part").to_owned(),
            400,
            "AuthorizationQueryParametersError",
        ),
    ] {
        let answer = get_unsigned(&mut node.client(), &node, &url);
        let found = (answer.status, answer.code());
        assert_eq!(found, (status, code.to_owned()), "{about}: {}", answer.text());
    }
    let expired = get_unsigned(&mut node.client(), &node, &presigned(&node, &target, 1, 5));
    assert!(expired.text().contains("<Message>Request has expired</Message>"));
    let twice = node.client().get(&fresh, &[]);
    assert_eq!((twice.status, twice.code().as_str()), (400, "InvalidArgument"));
    assert_eq!(node.origin_requests(), asked);
}

fn a_bucket_may_be_named_by_the_host_with_and_without_a_port(ring: RingBody) {
    let node = TestNode::start(ring, &["--server.domains", "s3.test"]);
    for (host, target) in [
        ("lake.s3.test", "/dir/key"),
        ("lake.s3.test:9000", "/dir/key"),
        ("LAKE.s3.TEST".to_lowercase().as_str(), "/dir/key"),
        ("s3.test:9000", "/lake/dir/key"),
        ("s3.test", "/lake/dir/key"),
        ("localhost:1", "/lake/dir/key"),
    ] {
        let mut client = node.client();
        let write = Wording::new("PUT", target, host).header("Content-Length", "7");
        assert_eq!(
            client.send(&write, host.as_bytes().get(..7).expect("long")).status,
            200,
            "{host}"
        );
        let read = client.send(&Wording::new("GET", target, host), b"");
        assert_eq!((read.status, read.text()), (200, host[..7].to_owned()), "{host}");
        let list = client
            .send(&Wording::new("GET", &target.replace("dir/key", "?list-type=2"), host), b"");
        assert!(list.text().contains("<Key>dir/key</Key>"), "{host}: {}", list.text());
    }
}

fn a_bucket_that_is_not_allowed_is_refused(ring: RingBody) {
    let node = TestNode::start(ring, &["--buckets.allow", "la*"]);
    node.place("object", b"content");
    let mut client = node.client();
    assert_eq!(client.get(&format!("/{BUCKET}/object"), &[]).status, 200);
    for target in ["/pond/object", "/pond", "/pond?list-type=2"] {
        let answer = node.client().get(target, &[]);
        assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"), "{target}");
    }
}
