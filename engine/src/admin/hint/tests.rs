//! Hints in every form, and what is made of each.

use hmac::{Hmac, Mac};
use nilas_base::{Clock, Rng, UnixMillis};
use sha2::Sha256;
use tokio::runtime::Handle;

use super::*;
use crate::config::{Inputs, Order, load};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
const JSON: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-8")];
const STRUCTURED: &[(&str, &str)] = &[("content-type", "application/cloudevents+json")];
const BINARY: &[(&str, &str)] = &[
    ("content-type", "application/json"),
    ("ce-specversion", "1.0"),
    ("ce-type", COMMITTED),
    ("ce-subject", "not.signed"),
];

/// Catalogs whose watchers find nobody, and take hints; two of them share a secret.
fn catalogs() -> Catalogs {
    let secrets = [("one", "first"), ("two", "second"), ("three", "second"), ("mute", "")];
    let mut arguments = Vec::new();
    for (number, (name, secret)) in secrets.iter().enumerate() {
        let keys = [("name", *name), ("url", "http://127.0.0.1:1"), ("exclude", "*.unwatched")];
        let secret = [("hint_secret", *secret)];
        let keys = keys.iter().chain(secret.iter().filter(|(_, secret)| !secret.is_empty()));
        arguments.extend(keys.map(|(key, value)| format!("--catalog.{number}.{key}={value}")));
    }
    let config = match load(&Inputs { arguments, cores: 2, ..Inputs::default() }) {
        Ok(Order::Run { config, .. }) => *config,
        other => panic!("not a configuration: {other:?}"),
    };
    let (clock, rng) = (Clock::system(), Rng::from_seed(1));
    let started = Catalogs::start(&config.catalogs, &Handle::current(), &clock, rng, |_| ());
    started.expect("these can be used")
}

fn signed(secret: &str, body: &str, headers: &[(&'static str, &str)]) -> HeaderMap {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(format!("1700000000.{body}").as_bytes());
    let signature = format!("t=1700000000,v1={}", hex::encode(mac.finalize().into_bytes()));
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter().copied().chain([(HEADER, signature.as_str())]) {
        map.insert(name, value.parse().expect("a value"));
    }
    map
}

#[tokio::test]
async fn a_table_is_named_in_each_form() {
    let catalogs = catalogs();
    let data = r#""data":{"namespace":["n"],"table":"c"}"#;
    let subject = r#""subject":"n.m.d","data":{"snapshotId":"1"}"#;
    let event = |rest: &str| {
        format!(r#"{{"specversion":"1.0","id":"1","source":"s","type":"{COMMITTED}",{rest}}}"#)
    };
    for (headers, body, table) in [
        (JSON, r#"{"catalog":"one","namespace":"n.m","table":"a"}"#.to_owned(), "n.m.a"),
        (JSON, r#"{"namespace":["n","m"],"table":"b"}"#.to_owned(), "n.m.b"),
        (JSON, r#"{"table":"n.e","more":1}"#.to_owned(), "n.e"),
        (STRUCTURED, event(data), "n.c"),
        (STRUCTURED, event(subject), "n.m.d"),
        (BINARY, r#"{"table":"n.f","snapshotId":"1"}"#.to_owned(), "n.f"),
    ] {
        let headers = signed("first", &body, headers);
        let taken = take(&catalogs, &headers, body.as_bytes(), NOW).expect(&body);
        assert_eq!(taken, json!({"catalog": "one", "table": table, "hint": "taken"}));
    }
    let body = r#"{"table":"n.unwatched"}"#;
    let taken = take(&catalogs, &signed("first", body, JSON), body.as_bytes(), NOW);
    assert_eq!(taken.expect("it is signed")["hint"], "unwatched");
}

#[tokio::test]
async fn events_of_other_types_are_ignored_and_not_refused() {
    let catalogs = catalogs();
    let body = r#"{"specversion":"1.0","type":"org.apache.iceberg.table.dropped"}"#;
    let taken = take(&catalogs, &signed("first", body, STRUCTURED), body.as_bytes(), NOW);
    let ignored = json!({"ignored": "org.apache.iceberg.table.dropped"});
    assert_eq!(taken.expect("it is signed"), ignored);
}

#[tokio::test]
async fn what_is_wrong_with_a_hint_is_told() {
    let catalogs = catalogs();
    let plain = r#"{"catalog":"one","namespace":"n","table":"t"}"#;
    let other = r#"{"catalog":"two","namespace":"n","table":"t"}"#;
    let unnamed = r#"{"namespace":"n","table":"t"}"#;
    let text: &[(&str, &str)] = &[("content-type", "text/plain")];
    let old: &[(&str, &str)] = &[("content-type", "application/json"), ("ce-specversion", "0.3")];
    for (secret, headers, body, status, told) in [
        ("wrong", JSON, plain, 401, "under any catalog.hint_secret"),
        ("first", JSON, other, 403, "not of the catalog \"two\""),
        ("second", JSON, unnamed, 422, "several catalogs"),
        ("first", JSON, "{", 400, "not understood"),
        ("first", JSON, "{}", 422, "names no table"),
        ("first", JSON, r#"{"table":"alone"}"#, 422, "names no table"),
        ("first", JSON, r#"{"namespace":[],"table":"t"}"#, 422, "names no table"),
        ("first", BINARY, r#"{"snapshotId":"1"}"#, 422, "names no table"),
        ("first", text, plain, 415, "send application/json"),
        ("first", old, plain, 400, "version 1"),
    ] {
        let headers = signed(secret, body, headers);
        let refused = take(&catalogs, &headers, body.as_bytes(), NOW).expect_err(body);
        assert!(refused.0 == status && refused.1.contains(told), "{body}: {refused:?}");
    }
    let mut unsigned = signed("first", plain, JSON);
    unsigned.remove(HEADER);
    let refused = take(&catalogs, &unsigned, plain.as_bytes(), NOW).expect_err("no signature");
    assert!(refused.0 == 401 && refused.1.contains("not signed"), "{refused:?}");
    let later = UnixMillis(NOW.0 + 301_000);
    let headers = signed("first", plain, JSON);
    let refused = take(&catalogs, &headers, plain.as_bytes(), later).expect_err("too old");
    assert!(refused.0 == 401 && refused.1.contains("301 s"), "{refused:?}");
    let headers = signed("first", plain, JSON);
    let refused = take(&Catalogs::default(), &headers, plain.as_bytes(), NOW).expect_err("none");
    assert!(refused.0 == 403 && refused.1.contains("set catalog.hint_secret"), "{refused:?}");
}
