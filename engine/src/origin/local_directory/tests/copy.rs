//! CopyObject.

use super::Place;
use crate::origin::question::{ask, get, put};

#[tokio::test]
async fn a_copy_has_the_bytes_and_the_metadata() {
    let place = Place::with_bucket().await;
    put("/lake/a%2Bb", "x").header("x-amz-meta-m", "1").expect(&place.origin, 200).await;
    let told = ask("PUT", "/lake/copy")
        .header("x-amz-copy-source", "/lake/a%2Bb")
        .expect(&place.origin, 200)
        .await;
    assert_eq!(told.element("ETag"), "&quot;9dd4e461268c8034f5c8564e155c67a6&quot;");
    let told = get("/lake/copy").expect(&place.origin, 200).await;
    assert_eq!((told.text().as_str(), told.header("x-amz-meta-m")), ("x", "1"));
}

#[tokio::test]
async fn metadata_is_replaced_on_request() {
    let place = Place::with_bucket().await;
    put("/lake/k", "x").header("x-amz-meta-m", "1").expect(&place.origin, 200).await;
    let onto_itself = || ask("PUT", "/lake/k").header("x-amz-copy-source", "lake/k");
    let told = onto_itself().expect(&place.origin, 400).await;
    assert_eq!(told.element("Code"), "InvalidRequest");
    onto_itself()
        .header("x-amz-metadata-directive", "REPLACE")
        .header("x-amz-meta-n", "2")
        .expect(&place.origin, 200)
        .await;
    let told = get("/lake/k").expect(&place.origin, 200).await;
    assert_eq!((told.header("x-amz-meta-m"), told.header("x-amz-meta-n")), ("", "2"));
    assert_eq!(told.text(), "x");
}

#[tokio::test]
async fn conditions_on_the_source_are_enforced() {
    let place = Place::with_bucket().await;
    put("/lake/k", "x").expect(&place.origin, 200).await;
    let etag = "\"9dd4e461268c8034f5c8564e155c67a6\"";
    for (name, value, status) in [
        ("x-amz-copy-source-if-match", etag, 200),
        ("x-amz-copy-source-if-match", "\"other\"", 412),
        ("x-amz-copy-source-if-none-match", etag, 412),
        ("x-amz-copy-source-if-none-match", "\"other\"", 200),
        ("x-amz-copy-source-if-unmodified-since", "Sat, 01 Jan 2000 00:00:00 GMT", 412),
        ("x-amz-copy-source-if-modified-since", "Sat, 01 Jan 2000 00:00:00 GMT", 200),
    ] {
        let copy = ask("PUT", "/lake/copy").header("x-amz-copy-source", "lake/k");
        copy.header(name, value).expect(&place.origin, status).await;
    }
}

#[tokio::test]
async fn a_copy_of_nothing_is_refused() {
    let place = Place::with_bucket().await;
    for (source, status, code) in [
        ("lake/none", 404, "NoSuchKey"),
        ("none/k", 404, "NoSuchBucket"),
        ("lake", 400, "InvalidArgument"),
        ("../lake/k", 404, "NoSuchBucket"),
        ("lake/k?versionId=3", 501, "NotImplemented"),
    ] {
        let told = ask("PUT", "/lake/copy")
            .header("x-amz-copy-source", source)
            .expect(&place.origin, status);
        assert_eq!(told.await.element("Code"), code, "{source}");
    }
}
