//! POST Object: what a form writes, and how it is answered.

use nilas_net::form::{FormParsed, FormRewrite, LengthRange, parse_form};

use super::Place;
use crate::origin::question::{Told, ask, get};
use crate::origin::{BodyFraming, BodyPart, OriginForm};

/// The form of these fields, as the node sends it on.
fn form(fields: &[(&str, &str)]) -> OriginForm {
    let mut text = String::new();
    for (name, value) in fields {
        text.push_str(&format!(
            "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }
    text.push_str("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n");
    let parsed = parse_form(text.as_bytes(), "b").expect("well formed");
    let FormParsed::Whole(head) = parsed else { panic!("all of it is here") };
    let form = FormRewrite::of(&head, ("lake", "b"), LengthRange::ANY).expect("it can be told on");
    OriginForm { form, rest_bytes: None }
}

async fn post(place: &Place, fields: &[(&str, &str)], status: u16) -> Told {
    let framing = BodyFraming::Form(Box::new(form(fields)));
    let parts = vec![BodyPart::Data("hello".into()), BodyPart::End];
    ask("POST", "/lake").parts(None, framing, parts).expect(&place.origin, status).await
}

#[tokio::test]
async fn a_form_writes_what_its_fields_say() {
    let place = Place::with_bucket().await;
    let fields = [
        ("key", "up/a b"),
        ("Content-Type", "text/plain"),
        ("acl", "private"),
        ("x-amz-meta-owner", "me"),
        ("x-amz-checksum-crc32", "NhCmhg=="),
        ("submit", "Send"),
    ];
    let told = post(&place, &fields, 204).await;
    assert_eq!(told.header("location"), "/lake/up/a%20b");
    assert_eq!(told.header("etag"), "\"5d41402abc4b2a76b9719d911017c592\"");
    let read = get("/lake/up/a%20b").expect(&place.origin, 200).await;
    assert_eq!((read.text().as_str(), read.header("content-type")), ("hello", "text/plain"));
    assert_eq!(read.header("x-amz-meta-owner"), "me");
}

#[tokio::test]
async fn a_form_is_answered_as_it_asks() {
    let place = Place::with_bucket().await;
    for (asked, status) in [("200", 200), ("204", 204), ("404", 204), ("", 204)] {
        let told = post(&place, &[("key", "k"), ("success_action_status", asked)], status).await;
        assert_eq!((told.text().as_str(), told.header("location")), ("", "/lake/k"));
    }
    let told = post(&place, &[("key", "a&b"), ("success_action_status", "201")], 201).await;
    assert_eq!((told.element("Bucket"), told.element("Key")), ("lake".into(), "a&amp;b".into()));
    assert_eq!(told.element("ETag"), "&quot;5d41402abc4b2a76b9719d911017c592&quot;");
    assert_eq!(told.element("Location"), "/lake/a%26b");
    for (name, address, told) in [
        ("success_action_redirect", "https://page/done", "https://page/done?"),
        ("redirect", "http://page/done?a=b", "http://page/done?a=b&"),
    ] {
        let redirected = post(&place, &[("key", "a/b"), (name, address)], 303).await;
        let etag = "%225d41402abc4b2a76b9719d911017c592%22";
        let expected = format!("{told}bucket=lake&key=a%2Fb&etag={etag}");
        assert_eq!(redirected.header("location"), expected);
    }
    let odd = [("key", "k"), ("success_action_redirect", "javascript:x")];
    assert_eq!(post(&place, &odd, 204).await.header("location"), "/lake/k");
}

#[tokio::test]
async fn what_this_origin_does_not_do_is_said_and_nothing_is_written() {
    let place = Place::with_bucket().await;
    for (name, value, status) in [
        ("tagging", "<Tagging/>", 501),
        ("acl", "public-read", 501),
        ("x-amz-server-side-encryption", "AES256", 501),
        ("x-amz-checksum-crc32", "AAAAAA==", 400),
        ("x-amz-meta-a", "a\nb", 400),
    ] {
        post(&place, &[("key", "k"), (name, value)], status).await;
    }
    get("/lake/k").expect(&place.origin, 404).await;
    ask("POST", "/lake").body("as it came").expect(&place.origin, 501).await;
}
