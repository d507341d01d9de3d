//! Forms as browsers and SDKs write them, and forms that nobody should.

use proptest::prelude::*;

use super::*;

pub(super) fn form(parts: &[(&str, &str)], rest: &str) -> Vec<u8> {
    let mut text = String::new();
    for (disposition, value) in parts {
        text.push_str(&format!(
            "--bound\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{value}\r\n"
        ));
    }
    text.push_str(rest);
    text.into_bytes()
}

/// A form of these fields and a file, as far as its file.
pub(super) fn head_of(fields: &[(&str, &str)], file_name: &str) -> FormHead {
    let parts: Vec<(String, &str)> =
        fields.iter().map(|(name, value)| (format!("name=\"{name}\""), *value)).collect();
    let parts: Vec<(&str, &str)> =
        parts.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let file = format!(
        "--bound\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{file_name}\"\r\n\r\n"
    );
    whole(&form(&parts, &file))
}

pub(super) fn whole(bytes: &[u8]) -> FormHead {
    match parse_form(bytes, "bound").expect("well formed") {
        FormParsed::Whole(form) => form,
        FormParsed::Partial => panic!("all of it is here"),
    }
}

const FILE: &str = "--bound\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".txt\"\r\n\
    Content-Type: text/plain\r\n\r\nbytes of the file";

#[test]
fn fields_are_read_as_far_as_the_file() {
    let bytes = form(&[("name=\"key\"", "up/${filename}"), ("name=Policy", "cA==")], FILE);
    let form = whole(&bytes);
    assert_eq!(form.field("policy"), Some("cA=="));
    assert_eq!(form.key().as_deref(), Some("up/a \"b\".txt"));
    assert_eq!(form.field("file"), None);
    let before = form.file_offset().expect("it has a file");
    assert_eq!(&bytes[before..], b"bytes of the file");
}

#[test]
fn a_files_name_is_what_follows_the_last_slash_of_either_kind() {
    for (file_name, key, possible) in [
        ("f", "up/f", &["up/f"][..]),
        ("", "up/", &["up/"]),
        ("a/b/f", "up/f", &["up/f", "up/a/b/f"]),
        ("C:\\\\a\\\\f", "up/f", &["up/f", "up/C:\\a\\f"]),
        ("a/b\\\\f", "up/f", &["up/f", "up/a/b\\f", "up/b\\f"]),
    ] {
        let form = head_of(&[("key", "up/${filename}")], file_name);
        assert_eq!(form.key().as_deref(), Some(key), "{file_name}");
        assert_eq!(form.possible_keys(), possible, "{file_name}");
    }
    let form = head_of(&[("key", "k")], "a/b");
    assert_eq!(form.possible_keys(), ["k"]);
    assert!(head_of(&[], "f").possible_keys().is_empty());
}

#[test]
fn a_field_that_is_there_twice_is_found_whatever_its_case() {
    assert_eq!(head_of(&[("key", "a"), ("acl", "b")], "f").repeated_field(), None);
    let twice = head_of(&[("key", "a"), ("acl", "b"), ("KEY", "c")], "f");
    assert_eq!(twice.repeated_field(), Some("KEY"));
}

#[test]
fn a_form_has_no_more_fields_than_are_allowed() {
    let fields = |count: usize| form(&vec![("name=\"a\"", ""); count], FILE);
    assert!(parse_form(&fields(FIELDS_MAX), "bound").is_ok());
    assert_eq!(parse_form(&fields(FIELDS_MAX + 1), "bound"), Err(FormError::TooLarge));
}

#[test]
fn a_proof_that_is_not_whole_is_told_what_it_lacks() {
    let credential = "AK/20300131/us-east-1/s3/aws4_request";
    let fields = [
        ("x-amz-signature", "s"),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", credential),
        ("x-amz-date", "20300131T120000Z"),
    ];
    assert_eq!(FormProof::check_whole(&head_of(&fields, "f")), Ok(()));
    for (at, (name, _)) in fields.iter().enumerate() {
        let mut without = fields.to_vec();
        without.remove(at);
        let error = FormProof::check_whole(&head_of(&without, "f")).expect_err(name);
        assert!(error.code == crate::Code::InvalidArgument && error.message.contains(name));
        let mut wrong = fields.to_vec();
        wrong[at].1 = if *name == "x-amz-signature" { "" } else { "wrong" };
        assert!(FormProof::check_whole(&head_of(&wrong, "f")).is_err(), "{name}");
    }
}

#[test]
fn a_form_that_is_not_whole_yet_says_so_at_every_byte() {
    let bytes = form(&[("name=\"key\"", "k"), ("name=\"acl\"", "private")], FILE);
    let body = bytes.len() - "bytes of the file".len();
    for end in 0..body {
        assert_eq!(parse_form(&bytes[..end], "bound"), Ok(FormParsed::Partial), "{end}");
    }
    assert_eq!(whole(&bytes[..body]), whole(&bytes));
}

#[test]
fn a_form_without_a_file_ends_at_its_last_delimiter() {
    let found = whole(&form(&[("name=\"key\"", "k")], "--bound--\r\n"));
    assert_eq!((found.field("key"), found.key().as_deref()), (Some("k"), Some("k")));
    assert_eq!(whole(b"--bound--"), FormHead::default());
}

#[test]
fn what_is_no_form_is_refused() {
    for bytes in [
        &b"--bound\r\nContent-Type: text/plain\r\n\r\nx\r\n--bound--"[..],
        b"--bound\r\nContent-Disposition: form-data\r\n\r\nx\r\n--bound--",
        b"--bound\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--bound--",
        b"--boundx\r\n",
        b"--bound\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xff\r\n--bound--",
    ] {
        assert_eq!(parse_form(bytes, "bound"), Err(FormError::Malformed), "{bytes:?}");
    }
    let long = vec![b'x'; FORM_HEAD_BYTES_MAX];
    assert_eq!(parse_form(&long, "bound"), Err(FormError::TooLarge));
}

#[test]
fn a_boundary_is_named_by_the_content_type() {
    assert_eq!(boundary(b"multipart/form-data; boundary=a-b"), Ok("a-b"));
    assert_eq!(boundary(b"Multipart/Form-Data; charset=x; BOUNDARY=\"a b\""), Ok("a b"));
    for odd in [
        &b"text/plain; boundary=a"[..],
        b"multipart/form-data",
        b"multipart/form-data; boundary=",
        b"\xff",
    ] {
        assert_eq!(boundary(odd), Err(FormError::NoBoundary));
    }
}

/// AWS's own example of a policy signed with version 4.
const POLICY: &str = "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

#[test]
fn a_policy_of_version_4_is_held_against_the_secret() {
    let fields = |signature: &str| {
        whole(&form(
            &[
                (
                    "name=\"x-amz-credential\"",
                    "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request",
                ),
                ("name=\"Policy\"", POLICY),
                ("name=\"X-Amz-Signature\"", signature),
            ],
            FILE,
        ))
    };
    let right = fields("8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e");
    let proof = FormProof::of(&right);
    assert_eq!(proof.access_key(), Some("AKIAIOSFODNN7EXAMPLE"));
    assert!(proof.holds(SECRET) && !proof.holds("another"));
    assert!(!FormProof::of(&fields("8afd")).holds(SECRET));
}

#[test]
fn a_policy_of_version_2_is_held_against_the_secret() {
    // HMAC-SHA1 of "cG9saWN5" under "secret", by another implementation.
    let right = whole(&form(
        &[
            ("name=\"AWSAccessKeyId\"", "AK"),
            ("name=\"policy\"", "cG9saWN5"),
            ("name=\"signature\"", V2_SIGNATURE),
        ],
        FILE,
    ));
    let proof = FormProof::of(&right);
    assert_eq!(proof.access_key(), Some("AK"));
    assert!(proof.holds("secret") && !proof.holds("Secret"));
    assert_eq!(FormProof::of(&whole(&form(&[("name=\"key\"", "k")], FILE))), FormProof::None);
}

const V2_SIGNATURE: &str = "xjcOd3+I0tu58AF8jUmwdfvwgBU=";

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = parse_form(&bytes, "b");
        let mut framed = b"--b\r\nContent-Disposition: ".to_vec();
        framed.extend_from_slice(&bytes);
        let _ = parse_form(&framed, "b");
        let _ = boundary(&bytes);
    }

    #[test]
    fn what_was_written_is_read(
        fields in proptest::collection::vec(("[a-z]{1,9}", "[ -~éλ]{0,40}"), 0..9),
    ) {
        let parts: Vec<(String, String)> = fields
            .iter()
            .filter(|(name, _)| name != "file")
            .map(|(name, value)| (format!("name=\"{name}\""), value.clone()))
            .collect();
        let borrowed: Vec<(&str, &str)> =
            parts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let found = whole(&form(&borrowed, FILE));
        let expected: Vec<_> = fields.into_iter().filter(|(name, _)| name != "file").collect();
        prop_assert_eq!(found.fields, expected);
    }
}
