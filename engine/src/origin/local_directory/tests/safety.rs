//! Keys that lead nowhere else, files that people put there, links, and what crashes leave.

use std::fs;
use std::os::unix::fs::symlink;

use nilas_net::percent::encode_path;
use proptest::prelude::*;

use super::{Place, visible};
use crate::origin::question::{ask, get, put};

fn target(key: &str) -> String {
    let mut target = b"/lake/".to_vec();
    encode_path(key.as_bytes(), &mut target);
    String::from_utf8(target).expect("percent-encoding writes ASCII")
}

#[tokio::test]
async fn any_key_is_an_object_of_its_own() {
    let place = Place::with_bucket().await;
    let long = "k".repeat(1024);
    let controls = "\u{1}".repeat(341);
    let keys = [
        ".",
        "..",
        "../x",
        "a/../b",
        "a/./b",
        "//",
        "a//b",
        "/a",
        "a/",
        "a",
        "a/b",
        "a/b/",
        "a^",
        "^",
        ".nilas",
        ".nilas/lock",
        ".nilas/temporary/x",
        "a\0b",
        "a\nb",
        "\u{2603}",
        "%2F",
        "a%2Fb",
        "a?b#c",
        "C:\\x",
        "con",
        "~",
        " ",
        &long,
        &controls,
    ];
    for key in keys {
        put(&target(key), key).expect(&place.origin, 200).await;
    }
    for key in keys {
        let told = get(&target(key)).expect(&place.origin, 200).await;
        assert_eq!(told.text(), key, "{key:?}");
    }
    let told = get("/lake?encoding-type=url").expect(&place.origin, 200).await;
    let mut expected: Vec<String> = keys.iter().map(|key| target(key)[6..].to_owned()).collect();
    expected.sort_by_key(|encoded| {
        let mut key = Vec::new();
        nilas_net::percent::decode(encoded.as_bytes(), nilas_net::percent::Plus::Literal, &mut key)
            .expect("encoded by us");
        key
    });
    assert_eq!(told.elements("Key"), expected);
    assert_eq!(visible(place.folder.path()), ["lake"], "nothing is outside of the bucket");
    for key in keys {
        ask("DELETE", &target(key)).expect(&place.origin, 204).await;
        get(&target(key)).expect(&place.origin, 404).await;
    }
    assert_eq!(visible(&place.bucket_folder()), [""; 0]);
    ask("DELETE", "/lake").expect(&place.origin, 204).await;
}

#[tokio::test]
async fn an_object_beside_its_folder_keeps_its_metadata() {
    let place = Place::with_bucket().await;
    put("/lake/a", "file").header("x-amz-meta-m", "1").expect(&place.origin, 200).await;
    put("/lake/a/b", "below").expect(&place.origin, 200).await;
    let told = get("/lake/a").expect(&place.origin, 200).await;
    assert_eq!((told.text().as_str(), told.header("x-amz-meta-m")), ("file", "1"));
    put("/lake/a", "new").expect(&place.origin, 200).await;
    ask("DELETE", "/lake/a/b").expect(&place.origin, 204).await;
    assert_eq!(get("/lake/a").expect(&place.origin, 200).await.text(), "new");
    put("/lake/a", "newer").expect(&place.origin, 200).await;
    assert_eq!(visible(&place.bucket_folder()), ["a"], "it stands in its place again");
    assert_eq!(get("/lake").expect(&place.origin, 200).await.elements("Key"), ["a"]);
    ask("DELETE", "/lake/a").expect(&place.origin, 204).await;
    get("/lake/a").expect(&place.origin, 404).await;
}

#[tokio::test]
async fn a_file_put_there_by_hand_is_an_object() {
    let place = Place::with_bucket().await;
    let file = place.bucket_folder().join("db/x.parquet");
    fs::create_dir_all(file.parent().expect("in the bucket")).expect("made");
    fs::write(&file, "one").expect("written");
    let told = get("/lake/db/x.parquet").expect(&place.origin, 200).await;
    let etag = told.header("etag").to_owned();
    assert_eq!((told.text().as_str(), etag.len()), ("one", 34));
    assert_eq!(
        ask("HEAD", "/lake/db/x.parquet").expect(&place.origin, 200).await.header("etag"),
        etag
    );
    fs::write(&file, "three").expect("written");
    let told = get("/lake/db/x.parquet").expect(&place.origin, 200).await;
    assert_ne!(told.header("etag"), etag, "another version has another ETag");
    assert_eq!(told.text(), "three");
}

#[tokio::test]
async fn a_file_changed_by_hand_loses_what_was_said_of_the_old_one() {
    let place = Place::with_bucket().await;
    put("/lake/k", "old").header("x-amz-meta-m", "1").expect(&place.origin, 200).await;
    fs::write(place.bucket_folder().join("k"), "other").expect("written");
    let told = get("/lake/k").expect(&place.origin, 200).await;
    assert_eq!((told.text().as_str(), told.header("x-amz-meta-m")), ("other", ""));
    assert_ne!(told.header("etag"), "\"149603e6c03516362a8da23f624db945\"");
}

#[tokio::test]
async fn no_symbolic_link_is_followed() {
    let place = Place::with_bucket().await;
    let outside = tempfile::tempdir().expect("a temporary folder");
    fs::write(outside.path().join("secret"), "s").expect("written");
    let bucket = place.bucket_folder();
    symlink(outside.path(), bucket.join("dir")).expect("linked");
    symlink(outside.path().join("secret"), bucket.join("file")).expect("linked");
    symlink(outside.path(), place.folder.path().join("linked")).expect("linked");
    get("/lake/dir/secret").expect(&place.origin, 404).await;
    get("/lake/file").expect(&place.origin, 404).await;
    assert_eq!(
        get("/linked/secret").expect(&place.origin, 404).await.element("Code"),
        "NoSuchBucket"
    );
    assert_eq!(get("/lake").expect(&place.origin, 200).await.elements("Key"), [""; 0]);
    assert_eq!(get("/").expect(&place.origin, 200).await.elements("Name"), ["lake"]);

    let told = put("/lake/dir/new", "x").expect(&place.origin, 403).await;
    assert_eq!(told.element("Code"), "AccessDenied");
    put("/lake/file", "mine").expect(&place.origin, 200).await;
    assert_eq!(fs::read(outside.path().join("secret")).expect("still there"), b"s");
    assert_eq!(visible(outside.path()), ["secret"]);
}

#[tokio::test]
async fn names_of_buckets_lead_nowhere() {
    let place = Place::with_bucket().await;
    for name in ["..", ".", ".nilas", "lake%2F..", "a%00b"] {
        for method in ["GET", "PUT", "DELETE"] {
            let told =
                ask(method, &format!("/{name}/k")).tell(&place.origin).await.expect("an answer");
            assert_eq!(told.status, 404, "{method} {name}");
        }
    }
    assert_eq!(visible(place.folder.path()), ["lake"]);
}

#[tokio::test]
async fn pipes_and_damaged_sidecars_do_no_harm() {
    let place = Place::with_bucket().await;
    put("/lake/k", "x").expect(&place.origin, 200).await;
    let metadata = place.bucket_folder().join(".nilas/metadata");
    for folder in fs::read_dir(&metadata).expect("readable") {
        for sidecar in fs::read_dir(folder.expect("readable").path()).expect("readable") {
            fs::write(sidecar.expect("readable").path(), "{not json").expect("written");
        }
    }
    let told = get("/lake/k").expect(&place.origin, 200).await;
    assert_eq!((told.text().as_str(), told.header("etag").len()), ("x", 34));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_request_leaves_the_bucket(
        pieces in proptest::collection::vec("(\\.|\\.\\.|/|\\^|[a-z]|\\PC|\\x00|%)", 1..12),
    ) {
        let key = pieces.concat();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let place = Place::with_bucket().await;
            put(&target(&key), key.clone()).expect(&place.origin, 200).await;
            assert_eq!(get(&target(&key)).expect(&place.origin, 200).await.text(), key);
            assert_eq!(visible(place.folder.path()), ["lake"]);
            ask("DELETE", &target(&key)).expect(&place.origin, 204).await;
            assert_eq!(visible(&place.bucket_folder()), [""; 0]);
        });
    }
}
