//! POST forms: whose one is stands before its file. What the origin can check goes there byte for byte;
//! another form goes on in place of what it cannot, under its own key; what is not right never reaches
//! it; and what a form writes is seen by every later read.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nilas_base::Clock;
use nilas_net::form::{FormHead, FormParsed, FormProof, LengthRange, Policy, parse_form};
use nilas_shards::RingBody;
use tempfile::TempDir;

use crate::client::Answer;
use crate::form_wording::{Form, post};
use crate::node::{ACCESS_KEY, SECRET_KEY, TestNode};
use crate::origin::{Asked, Fate, WritableOrigin};
use crate::{node_before, noise, on_both_bodies, target};

on_both_bodies! {
    a_form_of_a_shared_key_goes_to_the_origin_as_it_came
    a_form_of_another_key_goes_on_under_the_origins
    a_form_of_another_key_goes_on_in_chunks_where_its_length_is_unsaid
    a_form_bears_the_token_of_temporary_credentials
    a_form_goes_on_unsigned_where_the_node_signs_nothing
    a_form_that_is_not_proved_never_reaches_the_origin
    a_form_whose_file_is_refused_at_its_end_is_never_whole_at_the_origin
    a_form_writes_no_key_beyond_its_scope
    what_a_form_writes_is_seen_by_every_later_read
    a_form_of_unknown_outcome_is_held
}

const KEY: &str = "t/metadata/a.avro";
const LATE: Duration = Duration::from_millis(150);

/// A node with a key that its origin shares, one that it does not, and one with a narrow scope.
fn house(origin: &WritableOrigin, ring: RingBody) -> (TestNode, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("credentials.toml");
    let item = |name: &str, there: &str, rest: &str| {
        format!(
            "[[credentials]]\naccess_key = \"{name}\"\nsecret_key = \"secret\"\n\
             origin_access_key = \"{there}\"\norigin_secret_key = \"secret-of-{there}\"\n{rest}\n"
        )
    };
    let shared = item("shared", "shared", "").replace("secret-of-shared", "secret");
    let narrow = item("narrow", "narrow", "prefixes = [\"mine/\"]");
    let narrow = narrow.replace("secret-of-narrow", "secret");
    let items = [shared, item("own", "other", ""), narrow].concat();
    std::fs::write(&file, &items).expect("a file");
    let path = file.to_str().expect("a temporary path is text");
    (node_before(origin, ring, &["--auth.credentials_file", path]), folder)
}

fn of(access_key: &str, key: &str) -> Form {
    Form::new((access_key, "secret"), key, &[b'x'; 200_000])
}

fn check(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
}

/// The form that the origin was asked with last, and its file's bytes with what follows them.
fn asked_form(origin: &WritableOrigin) -> (Asked, FormHead, Vec<u8>) {
    let asked = origin.asked().pop().expect("it was asked");
    let body = match asked.header("transfer-encoding") {
        Some(_) => without_chunks(&asked.body),
        None => asked.body.clone(),
    };
    let parsed = parse_form(&body, "b").expect("well formed");
    let FormParsed::Whole(form) = parsed else { panic!("it has a file") };
    let file = body[form.file_offset().expect("a file")..].to_vec();
    (asked, form, file)
}

fn without_chunks(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = chunks.windows(2).position(|bytes| bytes == b"\r\n").expect("a size");
        let size = std::str::from_utf8(&chunks[..line]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("hexadecimal");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[line + 2..line + 2 + size]);
        chunks = &chunks[line + 2 + size + 2..];
    }
}

fn a_form_of_another_key_goes_on_under_the_origins(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    let file = noise(1, 2_000_000);
    let form = Form { file: file.clone(), ..of("own", "up/${filename}") }
        .field("acl", "private")
        .field("x-amz-security-token", "not the origin's")
        .uncovered("X-Ignore-Me", "i")
        .condition("[\"content-length-range\", 10, 2000000]");
    let buttons = Form {
        ending: "\r\n--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--b--"
            .to_owned(),
        ..form.clone()
    };
    for form in [form, buttons] {
        let answer = form.post(&mut node.client());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (asked, sent, sent_file) = asked_form(&origin);
        assert_eq!((asked.method.as_str(), asked.target.as_str()), ("POST", "/lake"));
        assert_eq!(asked.header("content-type"), Some("multipart/form-data; boundary=b"));
        assert!(asked.header("content-length").is_some());
        let unproved = ["authorization", "x-amz-date", "x-amz-acl", "x-amz-content-sha256"];
        assert!(unproved.iter().all(|name| asked.header(name).is_none()), "{:?}", asked.headers);
        let proof = FormProof::of(&sent);
        assert_eq!((proof.access_key(), proof.holds("secret-of-other")), (Some("other"), true));
        assert_eq!((sent.field("key"), sent.field("acl")), (Some("up/f.txt"), Some("private")));
        assert_eq!((sent.field("x-ignore-me"), sent.field("x-amz-security-token")), (None, None));
        let policy = Policy::parse(sent.field("policy").expect("one")).expect("well formed");
        let range = policy.admits(&sent, "lake", Clock::system().wall());
        assert_eq!(range, Ok(LengthRange { bytes_min: 10, bytes_max: 2_000_000 }));
        assert!(sent_file.starts_with(&[&file[..], b"\r\n--b--"].concat()));
        assert!(sent_file[file.len() + 7..].trim_ascii().is_empty(), "nothing else is sent");
    }
}

fn a_form_of_another_key_goes_on_in_chunks_where_its_length_is_unsaid(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    let form = of("own", "k");
    assert_eq!(form.post_in_chunks(&mut node.client()).status, 200);
    let (asked, _, file) = asked_form(&origin);
    assert_eq!(asked.header("content-length"), None);
    assert!(file == [&form.file[..], b"\r\n--b--\r\n"].concat());
}

fn a_form_bears_the_token_of_temporary_credentials(ring: RingBody) {
    let origin = WritableOrigin::start();
    let key = ("temporary", "secret-of-temporary");
    let token = ["--origin.session_token", "token"];
    let node = TestNode::start_before_as(origin.address(), key, ring, &token);
    let form = Form::new((ACCESS_KEY, SECRET_KEY), "k", b"bytes");
    assert_eq!(form.post(&mut node.client()).status, 200);
    let (_, sent, _) = asked_form(&origin);
    assert_eq!(sent.field("x-amz-security-token"), Some("token"));
    assert!(FormProof::of(&sent).holds("secret-of-temporary"));
    let policy = BASE64_STANDARD.decode(sent.field("policy").expect("one")).expect("base64");
    let policy = String::from_utf8(policy).expect("text");
    assert!(policy.contains("{\"x-amz-security-token\":\"token\"}"), "{policy}");
}

fn a_form_goes_on_unsigned_where_the_node_signs_nothing(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    let form = Form::new((ACCESS_KEY, SECRET_KEY), "k", b"bytes");
    assert_eq!(form.post(&mut node.client()).status, 200);
    let (asked, sent, file) = asked_form(&origin);
    assert_eq!((FormProof::of(&sent), sent.field("key")), (FormProof::None, Some("k")));
    assert_eq!((asked.header("authorization"), &file[..5]), (None, &b"bytes"[..]));
    assert_eq!(form.policy("{}").post(&mut node.client()).code(), "InvalidPolicyDocument");
}

fn a_form_of_a_shared_key_goes_to_the_origin_as_it_came(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    let body = of("shared", KEY).policy("the origin's to judge").body();
    let answer = post(&mut node.client(), &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = origin.asked().pop().expect("it was asked");
    assert!(asked.body == body && asked.target == "/lake");
    assert_eq!(asked.header("content-type"), Some("multipart/form-data; boundary=b"));
    assert_eq!(asked.header("authorization"), None);
}

fn a_form_that_is_not_proved_never_reaches_the_origin(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    let guessed = Form { secret: "guessed".to_owned(), ..of("shared", KEY) };
    let expired = Form { expiration: "2020-01-01T00:00:00Z".to_owned(), ..of("own", KEY) };
    let without = |name: &str| {
        let body = String::from_utf8(of("own", KEY).body()).expect("text");
        body.replace(name, "x-ignore-it").into_bytes()
    };
    let version_2 = b"--b\r\nContent-Disposition: form-data; name=\"policy\"\r\n\r\ncG9saWN5\r\n\
        --b\r\nContent-Disposition: form-data; name=\"AWSAccessKeyId\"\r\n\r\nown\r\n\
        --b\r\nContent-Disposition: form-data; name=\"signature\"\r\n\r\n\
        xjcOd3+I0tu58AF8jUmwdfvwgBU=\r\n--b--\r\n";
    let unsigned = b"--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n--b--\r\n";
    let long = of("own", KEY).field("x-ignore-length", &"x".repeat(65 << 10)).body();
    for (body, status, code) in [
        (guessed.body(), 403, "SignatureDoesNotMatch"),
        (of("nobody", KEY).body(), 403, "InvalidAccessKeyId"),
        (without("x-amz-signature"), 400, "InvalidArgument"),
        (without("x-amz-algorithm"), 400, "InvalidArgument"),
        (without("x-amz-date"), 400, "InvalidArgument"),
        (of("own", KEY).policy("{}").body(), 400, "InvalidPolicyDocument"),
        (expired.body(), 403, "AccessDenied"),
        (of("own", KEY).uncovered("acl", "private").body(), 403, "AccessDenied"),
        (of("own", KEY).condition("{\"acl\": \"private\"}").body(), 403, "AccessDenied"),
        (of("own", "").body(), 400, "InvalidArgument"),
        (of("own", KEY).field("key", "another").body(), 403, "AccessDenied"),
        (version_2.to_vec(), 501, "NotImplemented"),
        (unsigned.to_vec(), 403, "AccessDenied"),
        (b"no form".to_vec(), 400, "MalformedPOSTRequest"),
        (vec![b'x'; 200_000], 400, "MaxPostPreDataLengthExceededError"),
        (long, 400, "MaxPostPreDataLengthExceededError"),
        (Vec::new(), 400, "MalformedPOSTRequest"),
    ] {
        check(&post(&mut node.client(), &body), status, code);
    }
    assert!(origin.asked().is_empty());
}

fn a_form_whose_file_is_refused_at_its_end_is_never_whole_at_the_origin(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    let form = of("own", "k");
    let range =
        |range: &str| form.clone().condition(&format!("[\"content-length-range\", {range}]"));
    let endless = Form { ending: "\r\n--b".to_owned(), ..form.clone() };
    for (form, code) in [
        (range("0, 199999"), "EntityTooLarge"),
        (range("200001, 900000"), "EntityTooSmall"),
        (endless, "MalformedPOSTRequest"),
    ] {
        check(&form.post(&mut node.client()), 400, code);
        check(&form.post_in_chunks(&mut node.client()), 400, code);
    }
    assert!(origin.asked().is_empty(), "it never had one to its end");
    assert_eq!(range("200000, 200000").post(&mut node.client()).status, 200);
}

fn a_form_writes_no_key_beyond_its_scope(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    for (key, file_name) in [
        ("yours/k", "f"),
        ("mine", "f"),
        ("${filename}", "f"),
        ("${filename}", "mine/f"),
        ("", "f"),
    ] {
        let form = Form { file_name: file_name.to_owned(), ..of("narrow", key) };
        check(&form.post(&mut node.client()), 403, "AccessDenied");
    }
    assert!(origin.asked().is_empty());
    let after =
        "\r\n--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nyours/k\r\n--b--\r\n";
    let form = Form { ending: after.to_owned(), ..of("narrow", "mine/${filename}") };
    assert_eq!(form.post(&mut node.client()).status, 200);
    let sent = String::from_utf8(origin.asked().pop().expect("it was asked").body).expect("text");
    assert!(sent.contains("mine/f.txt") && !sent.contains("yours"), "the origin sees no other key");
}

fn what_a_form_writes_is_seen_by_every_later_read(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    origin.place(&target(KEY), b"old");
    let mut client = node.client();
    assert_eq!(client.get(&target(KEY), &[]).text(), "old");
    // What goes on as it came the origin may read otherwise: all of the bucket is asked for anew.
    for (access_key, reads_for_another) in [("shared", 1), ("own", 0)] {
        let reads = origin.reads(&target(KEY));
        assert_eq!(of(access_key, KEY).post(&mut node.client()).status, 200);
        assert_eq!(client.get(&target(KEY), &[]).status, 200);
        assert_eq!(origin.reads(&target(KEY)), reads + 1, "what was known is forgotten");
        assert_eq!(of(access_key, "another").post(&mut node.client()).status, 200);
        assert_eq!(client.get(&target(KEY), &[]).status, 200);
        assert_eq!(origin.reads(&target(KEY)), reads + 1 + reads_for_another, "{access_key}");
    }
}

fn a_form_of_unknown_outcome_is_held(ring: RingBody) {
    let origin = WritableOrigin::start();
    let (node, _folder) = house(&origin, ring);
    for (key, fate) in [("a", Fate::Cut(LATE)), ("b", Fate::Status(500, LATE))] {
        origin.place(&target(key), b"old");
        let mut client = node.client();
        assert_eq!(client.get(&target(key), &[]).text(), "old");
        origin.next_write(fate);
        assert!(of("own", key).post(&mut node.client()).status >= 500);
        let reads = origin.reads(&target(key));
        for _ in 0..3 {
            assert_eq!(client.get(&target(key), &[]).status, 200);
        }
        assert_eq!(origin.reads(&target(key)), reads + 3, "each read asks");
    }
}
