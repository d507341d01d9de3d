//! POST forms of a key that is the node's own, before a local directory and before another node, which
//! holds the node's form against the node's policy: what is right is written and answered as the form
//! asks, what is not leaves the object that was there.

use nilas_shards::RingBody;
use tempfile::TempDir;

use crate::client::Answer;
use crate::form_wording::Form;
use crate::node::TestNode;
use crate::time::eventually;
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_form_writes_its_file_to_a_directory
    a_form_writes_its_file_to_another_node
    a_form_that_its_policy_refuses_leaves_the_object_of_a_directory
    a_form_that_its_policy_refuses_leaves_the_object_of_another_node
    forms_count_against_the_limits_of_their_key
    a_refused_form_is_recorded
}

const OWN: (&str, &str) = ("own", "secret");

/// Starts a node that knows this key, too.
fn start(ring: RingBody, is_before_another: bool, rest: &str) -> (TestNode, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("credentials.toml");
    let audit = folder.path().join("audit.log");
    let item = format!("[[credentials]]\naccess_key = \"own\"\nsecret_key = \"secret\"\n{rest}\n");
    std::fs::write(&file, item).expect("a file");
    let text = |path: &std::path::Path| path.to_str().expect("it is text").to_owned();
    let (file, audit) = (text(&file), text(&audit));
    let flags = ["--auth.credentials_file", &file, "--log.audit_file", &audit];
    let node = match is_before_another {
        true => TestNode::start_on_s3(ring, &flags),
        false => TestNode::start(ring, &flags),
    };
    (node, folder)
}

fn check(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
}

fn written(node: &TestNode, key: &str) -> Vec<u8> {
    std::fs::read(node.bucket_directory().join(key)).expect("it was written")
}

fn a_form_writes_its_file_to_a_directory(ring: RingBody) {
    write_forms(&start(ring, false, "").0);
}

fn a_form_writes_its_file_to_another_node(ring: RingBody) {
    write_forms(&start(ring, true, "").0);
}

fn write_forms(node: &TestNode) {
    let mut client = node.client();
    let large = noise(1, 3_000_000);
    for (number, file) in
        [&large[..], b"", b"x", b"\r\n", b"\r\n--\r\n--B--\r\n"].iter().enumerate()
    {
        let key = format!("files/{number}");
        let form = Form::new(OWN, &key, file).condition("[\"content-length-range\", 0, 3000000]");
        assert_eq!(form.post(&mut client).status, 204, "{number}");
        assert!(written(node, &key) == *file, "{number}");
        assert!(client.get(&format!("/lake/{key}"), &[]).body == *file, "{number}");
        assert_eq!(form.post_in_chunks(&mut client).status, 204, "{number}");
        assert!(written(node, &key) == *file, "{number}");
    }
    let described = Form::new(OWN, "up/${filename}", b"bytes")
        .field("Content-Type", "text/plain")
        .field("x-amz-meta-price", "5 $")
        .field("success_action_status", "201")
        .uncovered("x-ignore-me", "i")
        .condition("[\"starts-with\", \"$key\", \"up/f\"]");
    let answer = described.post(&mut client);
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert!(answer.text().contains("<Key>up/f.txt</Key>"), "{}", answer.text());
    let read = client.get("/lake/up/f.txt", &[]);
    assert_eq!((read.text().as_str(), read.header("content-type")), ("bytes", Some("text/plain")));
    assert_eq!(read.header("x-amz-meta-price"), Some("5 $"));
    let redirected = Form::new(OWN, "k", b"b")
        .field("success_action_redirect", "http://page/done")
        .post(&mut client);
    let location = redirected.header("location").unwrap_or_default();
    assert!(
        redirected.status == 303 && location.starts_with("http://page/done?bucket=lake&key=k&")
    );
    let buttons =
        "\r\n--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nother\r\n--b--\r\n";
    let with_buttons = Form { ending: buttons.to_owned(), ..Form::new(OWN, "buttons", b"file") };
    assert_eq!(with_buttons.post(&mut client).status, 204);
    assert_eq!(written(node, "buttons"), b"file");
    assert!(!node.bucket_directory().join("other").exists(), "what follows the file is ignored");
}

fn a_form_that_its_policy_refuses_leaves_the_object_of_a_directory(ring: RingBody) {
    refuse_forms(&start(ring, false, "").0);
}

fn a_form_that_its_policy_refuses_leaves_the_object_of_another_node(ring: RingBody) {
    refuse_forms(&start(ring, true, "").0);
}

fn refuse_forms(node: &TestNode) {
    node.place("k", b"old");
    let of = |bytes: usize| Form::new(OWN, "k", &vec![b'x'; bytes]);
    let range = |bytes| of(bytes).condition("[\"content-length-range\", 100000, 200000]");
    let expired = Form { expiration: "2020-01-01T00:00:00Z".to_owned(), ..of(1) };
    let guessed = Form { secret: "guessed".to_owned(), ..of(1) };
    let endless = Form { ending: String::new(), ..of(200_000) };
    let doubtful = Form { ending: "\r\n--boundary--\r\n".to_owned(), ..of(1) };
    for (form, status, code) in [
        (expired, 403, "AccessDenied"),
        (guessed, 403, "SignatureDoesNotMatch"),
        (of(1).condition("{\"acl\": \"private\"}"), 403, "AccessDenied"),
        (of(1).condition("[\"starts-with\", \"$key\", \"up/\"]"), 403, "AccessDenied"),
        (of(1).uncovered("x-amz-meta-a", "a"), 403, "AccessDenied"),
        (of(1).condition("{\"bucket\": \"sea\"}"), 403, "AccessDenied"),
        (of(1).policy("{}"), 400, "InvalidPolicyDocument"),
        (of(1).policy("no JSON"), 400, "InvalidPolicyDocument"),
        (of(1).condition("[\"content-length-range\", 0]"), 400, "InvalidPolicyDocument"),
        (of(1).without("x-amz-date"), 400, "InvalidArgument"),
        (of(1).field("acl", "private").field("acl", "private"), 400, "InvalidArgument"),
        (range(99_999), 400, "EntityTooSmall"),
        (range(200_001), 400, "EntityTooLarge"),
        (range(900_000), 400, "EntityTooLarge"),
        (endless, 400, "MalformedPOSTRequest"),
        (doubtful, 400, "MalformedPOSTRequest"),
    ] {
        check(&form.post(&mut node.client()), status, code);
        check(&form.post_in_chunks(&mut node.client()), status, code);
    }
    assert_eq!(written(node, "k"), b"old");
    assert_eq!(range(200_000).post(&mut node.client()).status, 204);
    assert_eq!(range(100_000).post_in_chunks(&mut node.client()).status, 204);
    assert_eq!(written(node, "k").len(), 100_000);
}

fn forms_count_against_the_limits_of_their_key(ring: RingBody) {
    let form = Form::new(OWN, "k", &[7; 300 << 10]);
    let (node, _folder) = start(ring, false, "requests_per_second_max = 1");
    let answers: Vec<Answer> = (0..10).map(|_| form.post(&mut node.client())).collect();
    assert_eq!(answers[0].status, 204);
    let refused = answers.iter().find(|answer| answer.status != 204).expect("too many");
    check(refused, 503, "SlowDown");
    let guessed = Form { secret: "guessed".to_owned(), ..form.clone() };
    check(&guessed.post(&mut node.client()), 403, "SignatureDoesNotMatch");

    let (node, _folder) = start(ring, false, "bytes_per_second_max = \"100KiB\"");
    assert_eq!(form.post(&mut node.client()).status, 204);
    check(&form.post(&mut node.client()), 503, "SlowDown");

    let (node, _folder) = start(ring, false, "requests_in_flight_max = 1");
    let mut first = node.client();
    let body = form.body();
    let head = format!(
        "POST /lake HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    first.write(head.as_bytes());
    first.write(&body[..200_000]);
    eventually("the first is under way", || node.origin_counts().in_flight == 1);
    check(&form.post(&mut node.client()), 503, "SlowDown");
    first.write(&body[200_000..]);
    assert_eq!(first.answer(false).status, 204);
    eventually("the first has left", || form.post(&mut node.client()).status == 204);
}

fn a_refused_form_is_recorded(ring: RingBody) {
    let (node, folder) = start(ring, false, "mode = \"read_only\"");
    check(&Form::new(OWN, "k", b"x").post(&mut node.client()), 403, "AccessDenied");
    let read = || std::fs::read_to_string(folder.path().join("audit.log")).unwrap_or_default();
    eventually("a record", || !read().is_empty());
    let record: serde_json::Value = serde_json::from_str(read().trim()).expect("one JSON line");
    let told = ["access_key", "operation", "bucket", "code", "outcome"]
        .map(|name| record[name].as_str().unwrap_or_default());
    assert_eq!(told, ["own", "PostObject", "lake", "AccessDenied", "refused"]);
}
