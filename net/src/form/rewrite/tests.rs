//! What is sent on says what was admitted, and its policy allows just that.

use proptest::prelude::*;

use super::super::tests::head_of;
use super::super::{FormParsed, FormProof, Policy, PolicyError, parse_form};
use super::*;

const NOW: UnixMillis = UnixMillis(1_896_091_200_000);
const RANGE: LengthRange = LengthRange { bytes_min: 1, bytes_max: 9 };
const IDENTITY: SigningIdentity<'_> = SigningIdentity {
    access_key: "origin",
    secret: "origins secret",
    session_token: Some("token"),
    region: "us-east-1",
};

fn rewritten(fields: &[(&str, &str)], file_name: &str) -> Result<FormRewrite, S3Error> {
    FormRewrite::of(&head_of(fields, file_name), ("lake", "bound"), RANGE)
}

fn read(head: &str) -> FormHead {
    match parse_form(head.as_bytes(), "bound").expect("well formed") {
        FormParsed::Whole(form) => form,
        FormParsed::Partial => panic!("all of it is here: {head}"),
    }
}

const FIELDS: [(&str, &str); 12] = [
    ("acl", "private"),
    ("key", "up/${filename}"),
    ("bucket", "lake"),
    ("x-amz-meta-é", "ignored below"),
    ("x-amz-meta-price", "5 $ \"or\" so\r\n"),
    ("X-Ignore-This", "i"),
    ("X-Amz-Credential", "client/20300131/r/s3/aws4_request"),
    ("X-Amz-Date", "20300131T120000Z"),
    ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
    ("X-Amz-Security-Token", "the client's"),
    ("Policy", "the client's"),
    ("X-Amz-Signature", "the client's"),
];

fn plain_fields() -> Vec<(&'static str, &'static str)> {
    FIELDS.into_iter().filter(|(name, _)| name.is_ascii()).collect()
}

#[test]
fn the_same_fields_go_on_under_the_origins_proof() {
    let form = rewritten(&plain_fields(), "a/f.txt").expect("it can be told on");
    assert_eq!(form.key(), "up/f.txt");
    let head = form.head(Some(&IDENTITY), NOW);
    let sent = read(&head);
    assert_eq!(sent.file_offset(), Some(head.len()));
    assert_eq!(sent.field("x-amz-meta-price"), Some("5 $ \"or\" so\r\n"));
    assert_eq!((sent.field("acl"), sent.field("bucket")), (Some("private"), None));
    assert_eq!((sent.field("x-ignore-this"), sent.key().as_deref()), (None, Some("up/f.txt")));
    assert_eq!(sent.field("x-amz-security-token"), Some("token"));
    assert_eq!(FormProof::check_whole(&sent), Ok(()));
    let proof = FormProof::of(&sent);
    assert_eq!(proof.access_key(), Some("origin"));
    assert!(proof.holds("origins secret") && !proof.holds("the client's"));
    assert!(!head.contains("client"), "{head}");
}

#[test]
fn the_new_policy_allows_these_fields_alone() {
    let form = rewritten(&plain_fields(), "f.txt").expect("it can be told on");
    let head = form.head(Some(&IDENTITY), NOW);
    let sent = read(&head);
    let policy = Policy::parse(sent.field("policy").expect("a policy")).expect("well formed");
    assert_eq!(policy.admits(&sent, "lake", NOW), Ok(RANGE));
    assert!(policy.admits(&sent, "sea", NOW).is_err());
    let late = UnixMillis(NOW.0 + POLICY_LIFETIME.as_millis() as u64);
    assert_eq!(policy.admits(&sent, "lake", late), Err(PolicyError::Expired));
    let other = read(&head.replace("name=\"acl\"\r\n\r\nprivate", "name=\"acl\"\r\n\r\npublic"));
    assert!(policy.admits(&other, "lake", NOW).is_err());
    let more = read(&head.replace(
        "name=\"acl\"",
        "name=\"x\"\r\n\r\n\r\n--bound\r\nContent-Disposition: form-data; name=\"acl\"",
    ));
    assert_eq!(policy.admits(&more, "lake", NOW), Err(PolicyError::Uncovered("x".to_owned())));
    let any = FormRewrite { range: LengthRange::ANY, ..form };
    assert!(!any.policy(&any.fields, NOW).contains("content-length-range"));
}

#[test]
fn who_signs_nothing_sends_no_policy() {
    let form = rewritten(&plain_fields(), "f").expect("it can be told on");
    let sent = read(&form.head(None, NOW));
    assert_eq!(FormProof::of(&sent), FormProof::None);
    assert_eq!((sent.field("policy"), sent.field("acl")), (None, Some("private")));
}

#[test]
fn what_could_be_read_in_two_ways_is_not_told_on() {
    let invalid = Code::InvalidArgument;
    let malformed = Code::MalformedPOSTRequest;
    for (fields, file_name, code) in [
        (&[("acl", "a")][..], "f", invalid),
        (&[("key", "")], "f", invalid),
        (&[("key", "${filename}")], "", invalid),
        (&[("key", "k${filename}")], "${filename}", invalid),
        (&[("key", "a"), ("Key", "b")], "f", invalid),
        (&[("key", "a"), ("acl", "x"), ("acl", "x")], "f", invalid),
        (&[("key", "k"), ("x-amz-meta-é", "a")], "f", malformed),
        (&[("key", "k"), ("a b", "a")], "f", malformed),
        (&[("key", "k"), ("acl", "--bound")], "f", malformed),
        (&[("key", "k"), ("acl", "x\n--bound--")], "f", malformed),
    ] {
        let error = rewritten(fields, file_name).expect_err("it is in doubt");
        assert_eq!(error.code, code, "{fields:?} {file_name}");
    }
    let no_file = super::super::tests::whole(&super::super::tests::form(
        &[("name=\"key\"", "k")],
        "--bound--",
    ));
    let error = FormRewrite::of(&no_file, ("lake", "bound"), RANGE).expect_err("no file");
    assert_eq!(error.code, invalid);
    let form = head_of(&[("key", "k")], "f");
    assert!(FormRewrite::of(&form, ("lake", "bo\"und"), RANGE).is_err());
}

#[test]
fn a_boundary_is_quoted_where_it_must_be() {
    for (boundary, written) in [
        ("a-b_1", "multipart/form-data; boundary=a-b_1"),
        ("a b:c", "multipart/form-data; boundary=\"a b:c\""),
    ] {
        let form = head_of(&[("key", "k")], "f");
        let form = FormRewrite::of(&form, ("lake", boundary), RANGE).expect("a boundary");
        assert_eq!(form.content_type(), written);
        assert_eq!(super::super::boundary(written.as_bytes()), Ok(boundary));
        assert_eq!(form.end(), format!("\r\n--{boundary}--"));
    }
}

proptest! {
    #[test]
    fn whatever_is_told_on_is_admitted_as_what_it_was(
        fields in proptest::collection::btree_map("x-[a-z]{1,5}", "[ -~é\r\n]{0,20}", 0..6),
        key in "[ -~é]{1,20}",
        file_name in "[a-z.]{0,9}",
    ) {
        let mut pairs: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.push(("key", &key));
        let form = rewritten(&pairs, &file_name).expect("nothing is in doubt");
        let sent = read(&form.head(Some(&IDENTITY), NOW));
        for (name, value) in &fields {
            prop_assert_eq!(sent.field(name), Some(value.as_str()));
        }
        prop_assert_eq!(sent.key(), head_of(&pairs, &file_name).key());
        let policy = Policy::parse(sent.field("policy").expect("a policy")).expect("well formed");
        prop_assert_eq!(policy.admits(&sent, "lake", NOW), Ok(RANGE));
    }
}
