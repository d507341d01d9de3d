//! Policies as S3's documents have them, what is none, and forms held against them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nilas_base::UnixMillis;
use proptest::prelude::*;

use super::super::tests::head_of;
use super::*;

const NOON: UnixMillis = UnixMillis(1_896_091_200_000);
const UNTIL: &str = "\"expiration\": \"2031-01-31T12:00:00.000Z\"";

fn policy(conditions: &str) -> Policy {
    let json = format!("{{ {UNTIL}, \"conditions\": [{conditions}] }}");
    Policy::of_json(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// What a form of these fields comes to, posted to `lake`.
fn verdict(conditions: &str, fields: &[(&str, &str)]) -> Result<LengthRange, PolicyError> {
    policy(conditions).admits(&head_of(fields, "f.txt"), "lake", NOON)
}

fn is_admitted(conditions: &str, fields: &[(&str, &str)]) -> bool {
    verdict(&format!("{{\"bucket\":\"lake\"}},{conditions}"), fields).is_ok()
}

#[test]
fn a_policy_is_read_as_s3_documents_it() {
    let equals = |field: &str, value: &str| Condition::Equals {
        field: field.to_owned(),
        value: value.to_owned(),
    };
    let prefix = "user/eric/".to_owned();
    let read = policy(
        r#"{"Bucket": "lake", "acl": "private"}, ["eq", "$Key", "k"],
           ["STARTS-with", "$key", "user/eric/"], ["content-length-range", 1048576, "10485760"]"#,
    );
    let range = LengthRange { bytes_min: 1 << 20, bytes_max: 10 << 20 };
    assert_eq!(read.expiration, UnixMillis(NOON.0 + 365 * 86_400_000));
    assert_eq!(
        read.conditions,
        [
            equals("bucket", "lake"),
            equals("acl", "private"),
            equals("key", "k"),
            Condition::StartsWith { field: "key".to_owned(), prefix },
            Condition::Length(range),
        ]
    );
}

#[test]
fn s3s_own_escapes_are_read() {
    let read = policy(r#"["eq", "$key", "\$a\v\u0041\\$b\"\\\\$"]"#);
    let value = "$a\u{b}A\\$b\"\\\\$".to_owned();
    assert_eq!(read.conditions, [Condition::Equals { field: "key".to_owned(), value }]);
}

#[test]
fn what_is_no_policy_is_refused() {
    let deep = format!("{{{UNTIL}, \"conditions\": {}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let with = |conditions: &str| format!("{{{UNTIL}, \"conditions\": {conditions}}}");
    for json in [
        String::new(),
        "{}".to_owned(),
        "[]".to_owned(),
        format!("{{{UNTIL}}}"),
        "{\"conditions\": []}".to_owned(),
        format!("{{{UNTIL}, \"CONDITIONS\": []}}"),
        format!("{{{UNTIL}, \"conditions\": [], \"more\": 1}}"),
        format!("{{{UNTIL}, \"conditions\": [], \"conditions\": []}}"),
        "{\"expiration\": \"tomorrow\", \"conditions\": []}".to_owned(),
        "{\"expiration\": 1, \"conditions\": []}".to_owned(),
        with("{}"),
        with("[{}]"),
        with("[[]]"),
        with("[1]"),
        with("[null]"),
        with("[{\"acl\": 1}]"),
        with("[{\"acl\": [\"a\"]}]"),
        with("[[\"eq\", \"$acl\"]]"),
        with("[[\"eq\", \"acl\", \"a\"]]"),
        with("[[\"eq\", \"$acl\", 1]]"),
        with("[[\"ends-with\", \"$acl\", \"a\"]]"),
        with("[[\"content-length-range\", 0]]"),
        with("[[\"content-length-range\", -1, 0]]"),
        with("[[\"content-length-range\", \"a\", 0]]"),
        with("[[\"content-length-range\", 1.5, 2]]"),
        format!("{}x", with("[]")),
        deep,
    ] {
        let error = Policy::of_json(json.as_bytes()).expect_err(&json);
        assert!(matches!(error, PolicyError::Malformed(_)), "{json}: {error}");
        assert_eq!(S3Error::from(error).code, Code::InvalidPolicyDocument);
    }
}

#[test]
fn a_policy_has_a_greatest_length_and_so_many_conditions() {
    let of = |count: usize| {
        let conditions = vec!["{\"a\":\"b\"}"; count].join(",");
        Policy::of_json(format!("{{{UNTIL}, \"conditions\": [{conditions}]}}").as_bytes())
    };
    assert_eq!(of(CONDITIONS_MAX).expect("as many as may be").conditions.len(), CONDITIONS_MAX);
    assert!(of(CONDITIONS_MAX + 1).is_err());
    let base64 = |count: usize| {
        let json = format!("{{{UNTIL}, \"conditions\": []}}");
        BASE64_STANDARD.encode(format!("{json:count$}"))
    };
    assert!(Policy::parse(&base64(100)).is_ok());
    assert!(Policy::parse(&base64(POLICY_BYTES_MAX)).is_err());
    assert!(Policy::parse("%").is_err());
    let lines = base64(100).replace('A', "A\r\n");
    assert!(Policy::parse(&lines).is_ok(), "{lines}");
}

#[test]
fn a_policy_that_has_expired_admits_nothing() {
    let policy = policy("{\"bucket\": \"lake\"}");
    let form = head_of(&[], "f");
    let at = |shift: i64| {
        let now = UnixMillis(policy.expiration.0.saturating_add_signed(shift));
        policy.admits(&form, "lake", now)
    };
    assert_eq!(at(-1), Ok(LengthRange::ANY));
    assert_eq!(at(0), Err(PolicyError::Expired));
}

#[test]
fn every_condition_must_hold() {
    for (conditions, fields, expected) in [
        (r#"{"acl":"private"}"#, &[("acl", "private")][..], true),
        (r#"{"acl":"private"}"#, &[("ACL", "private")], true),
        (r#"{"acl":"private"}"#, &[("acl", "Private")], false),
        (r#"{"acl":"private"}"#, &[], false),
        (r#"["starts-with","$acl",""]"#, &[], false),
        (r#"["starts-with","$acl",""]"#, &[("acl", "")], true),
        (r#"["starts-with","$acl","pub"]"#, &[("acl", "public")], true),
        (r#"["starts-with","$acl","pub"]"#, &[("acl", "private")], false),
        (r#"{"acl":"a","acl":"b"}"#, &[("acl", "b")], false),
        (r#"["starts-with","$key","up/f"]"#, &[("key", "up/${filename}")], true),
        (r#"{"key":"up/f.txt"}"#, &[("key", "up/${filename}")], true),
        (r#"{"key":"up/${filename}"}"#, &[("key", "up/${filename}")], false),
        (
            r#"["starts-with","$Content-Type","image/"]"#,
            &[("Content-Type", "image/a, image/b")],
            true,
        ),
        (
            r#"["starts-with","$Content-Type","image/"]"#,
            &[("Content-Type", "image/a,text/b")],
            false,
        ),
        (r#"["starts-with","$x-a","image/"]"#, &[("x-a", "image/a,text/b")], true),
        (r#"{"bucket":"sea"}"#, &[], false),
        (r#"["starts-with","$bucket","la"]"#, &[("bucket", "lake")], true),
        (r#"["starts-with","$bucket",""]"#, &[("bucket", "sea")], false),
    ] {
        assert_eq!(is_admitted(conditions, fields), expected, "{conditions} {fields:?}");
    }
    let failed = verdict(r#"{"acl":"private"}"#, &[("acl", "public")]).expect_err("another");
    assert!(failed.to_string().ends_with(r#"["eq", "$acl", "private"]"#), "{failed}");
    assert_eq!(S3Error::from(failed).code, Code::AccessDenied);
}

#[test]
fn every_field_must_be_covered() {
    let covered = "{\"bucket\":\"lake\"},{\"acl\":\"a\"}";
    let free = [("acl", "a"), ("x-amz-signature", "s"), ("policy", "p"), ("X-Ignore-Me", "i")];
    assert_eq!(verdict(covered, &free), Ok(LengthRange::ANY));
    for name in ["x-amz-meta-a", "key", "tagging", "x-amz-checksum-crc32", "submit", "signature"] {
        let fields = [("acl", "a"), (name, "")];
        assert_eq!(verdict(covered, &fields), Err(PolicyError::Uncovered(name.to_owned())));
    }
    let no_bucket = verdict("{\"acl\":\"a\"}", &[("acl", "a")]);
    assert_eq!(no_bucket, Err(PolicyError::Uncovered("bucket".to_owned())));
}

#[test]
fn all_ranges_of_lengths_hold_at_once() {
    let range = |first: &str, second: &str| {
        let conditions = format!(
            "{{\"bucket\":\"lake\"}},[\"content-length-range\",{first}],[\"content-length-range\",{second}]"
        );
        let range = verdict(&conditions, &[]).expect("no length was told");
        (range.bytes_min, range.bytes_max)
    };
    assert_eq!(range("0, 10", "5, 20"), (5, 10));
    assert_eq!(range("0, 1", "5, 20"), (5, 1));
}

proptest! {
    #[test]
    fn a_verdict_is_that_of_the_rules_one_by_one(
        fields in proptest::collection::btree_map("[ab]", "[xy]{0,2}", 0..3),
        conditions in proptest::collection::vec(("[ab]", any::<bool>(), "[xy]{0,2}"), 0..4),
    ) {
        let holds = |(field, is_exact, wanted): &(String, bool, String)| {
            fields.get(field).is_some_and(|value| match is_exact {
                true => value == wanted,
                false => value.starts_with(wanted.as_str()),
            })
        };
        let all_hold = conditions.iter().all(holds);
        let is_covered = fields.keys().all(|name| conditions.iter().any(|one| one.0 == *name));
        let text: Vec<String> = conditions
            .iter()
            .map(|(field, is_exact, wanted)| {
                let operator = if *is_exact { "eq" } else { "starts-with" };
                format!("[\"{operator}\",\"${field}\",\"{wanted}\"]")
            })
            .chain(["{\"bucket\":\"lake\"}".to_owned()])
            .collect();
        let pairs: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        prop_assert_eq!(verdict(&text.join(","), &pairs).is_ok(), all_hold && is_covered);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Policy::of_json(&bytes);
        let _ = Policy::parse(&String::from_utf8_lossy(&bytes));
        let _ = Policy::parse(&BASE64_STANDARD.encode(&bytes));
    }
}
