//! PutObject, GetObject, HeadObject, DeleteObject, DeleteObjects.

use bytes::Bytes;
use nilas_net::checksum::{Algorithm, checksum};

use super::{Place, visible};
use crate::origin::question::{ask, get, put};
use crate::origin::{BodyFraming, BodyPart, OriginError};

#[tokio::test]
async fn an_object_comes_back_as_it_was_put() {
    let place = Place::with_bucket().await;
    let told = put("/lake/db/t/data/x.parquet", "hello")
        .header("content-type", "application/parquet")
        .header("cache-control", "max-age=3")
        .header("content-encoding", "aws-chunked,gzip")
        .header("x-amz-meta-owner", "me")
        .expect(&place.origin, 200)
        .await;
    assert_eq!(told.header("etag"), "\"5d41402abc4b2a76b9719d911017c592\"");
    for method in ["GET", "HEAD"] {
        let told = ask(method, "/lake/db/t/data/x.parquet").expect(&place.origin, 200).await;
        assert_eq!(told.header("etag"), "\"5d41402abc4b2a76b9719d911017c592\"");
        assert_eq!(told.header("content-type"), "application/parquet");
        assert_eq!(told.header("cache-control"), "max-age=3");
        assert_eq!(told.header("content-encoding"), "gzip");
        assert_eq!(told.header("x-amz-meta-owner"), "me");
        assert_eq!(told.header("accept-ranges"), "bytes");
        assert_eq!((told.header("content-length"), told.length), ("5", Some(5)));
        assert!(told.header("last-modified").ends_with(" GMT"));
        assert_eq!(told.text(), if method == "GET" { "hello" } else { "" });
    }
    let file = place.bucket_folder().join("db/t/data/x.parquet");
    assert_eq!(std::fs::read(file).expect("a plain key is its own path"), b"hello");
}

#[tokio::test]
async fn a_large_object_streams_in_parts() {
    let place = Place::with_bucket().await;
    let body: Vec<u8> = (0..1_500_000_u32).map(|number| (number % 251) as u8).collect();
    put("/lake/large", body.clone()).expect(&place.origin, 200).await;
    assert_eq!(get("/lake/large").expect(&place.origin, 200).await.body, body);
    let told =
        get("/lake/large").header("range", "bytes=1000-1200999").expect(&place.origin, 206).await;
    assert_eq!(told.body, body[1000..1_201_000]);
    assert_eq!(told.header("content-range"), "bytes 1000-1200999/1500000");
}

#[tokio::test]
async fn ranges_are_read_as_s3_reads_them() {
    let place = Place::with_bucket().await;
    put("/lake/ten", "0123456789").expect(&place.origin, 200).await;
    put("/lake/empty", "").expect(&place.origin, 200).await;
    for (key, range, status, body, content_range) in [
        ("ten", "bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("ten", "bytes=7-", 206, "789", "bytes 7-9/10"),
        ("ten", "bytes=-3", 206, "789", "bytes 7-9/10"),
        ("ten", "bytes=-99", 206, "0123456789", "bytes 0-9/10"),
        ("ten", "bytes=8-99", 206, "89", "bytes 8-9/10"),
        ("ten", "bytes=4-2", 200, "0123456789", ""),
        ("ten", "bytes=0-1,3-4", 200, "0123456789", ""),
        ("ten", "lines=1-2", 200, "0123456789", ""),
        ("ten", "bytes=10-", 416, "", "bytes */10"),
        ("ten", "bytes=-0", 416, "", "bytes */10"),
        ("empty", "bytes=0-", 416, "", "bytes */0"),
        ("empty", "bytes=-5", 416, "", "bytes */0"),
    ] {
        let target = format!("/lake/{key}");
        let told = get(&target).header("range", range).expect(&place.origin, status).await;
        assert_eq!(told.header("content-range"), content_range, "{range}");
        if status == 416 {
            assert_eq!(told.element("Code"), "InvalidRange");
        } else {
            assert_eq!(told.text(), body, "{range}");
        }
        let head = ask("HEAD", &target).header("range", range).expect(&place.origin, status).await;
        assert_eq!(head.header("content-range"), content_range, "HEAD {range}");
        assert_eq!(head.header("content-length"), told.header("content-length"));
        assert!(head.body.is_empty());
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_so() {
    let place = Place::with_bucket().await;
    assert_eq!(get("/lake/no").expect(&place.origin, 404).await.element("Code"), "NoSuchKey");
    assert_eq!(get("/none/no").expect(&place.origin, 404).await.element("Code"), "NoSuchBucket");
    assert!(ask("HEAD", "/lake/no").expect(&place.origin, 404).await.body.is_empty());
    let long = format!("/lake/{}", "k".repeat(1025));
    assert_eq!(put(&long, "x").expect(&place.origin, 400).await.element("Code"), "KeyTooLongError");
    ask("DELETE", "/lake/no").expect(&place.origin, 204).await;
}

#[tokio::test]
async fn response_overrides_replace_headers() {
    let place = Place::with_bucket().await;
    put("/lake/k", "x").header("content-type", "a/b").expect(&place.origin, 200).await;
    let told =
        get("/lake/k?response-content-type=c%2Fd&x-id=GetObject").expect(&place.origin, 200).await;
    assert_eq!(told.header("content-type"), "c/d");
}

#[tokio::test]
async fn a_wrong_digest_is_refused_and_the_old_object_stays() {
    let place = Place::with_bucket().await;
    put("/lake/k", "old").expect(&place.origin, 200).await;
    for (name, value, code) in [
        ("content-md5", "XUFAKrxLKna5cZ2REBfFkg==", "BadDigest"),
        ("content-md5", "short", "InvalidDigest"),
        ("x-amz-checksum-crc32", "AAAAAA==", "BadDigest"),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=", "BadDigest"),
        ("x-amz-checksum-sha256", "zzz", "InvalidRequest"),
    ] {
        let told = put("/lake/k", "new").header(name, value).expect(&place.origin, 400).await;
        assert_eq!(told.element("Code"), code, "{name}: {value}");
    }
    assert_eq!(get("/lake/k").expect(&place.origin, 200).await.text(), "old");
}

#[tokio::test]
async fn checksums_are_kept_and_given_on_request() {
    let place = Place::with_bucket().await;
    for algorithm in Algorithm::ALL.into_iter().filter(|known| *known != Algorithm::Md5) {
        let (name, value) = (algorithm.header_name(), checksum(algorithm, b"data").base64());
        let told = put("/lake/k", "data").header(name, &value).expect(&place.origin, 200).await;
        assert_eq!(told.header(name), value);
        assert_eq!(get("/lake/k").expect(&place.origin, 200).await.header(name), "");
        let asked = || get("/lake/k").header("x-amz-checksum-mode", "ENABLED");
        let told = asked().expect(&place.origin, 200).await;
        assert_eq!(
            (told.header(name), told.header("x-amz-checksum-type")),
            (&*value, "FULL_OBJECT")
        );
        let told = asked().header("range", "bytes=0-1").expect(&place.origin, 206).await;
        assert_eq!(told.header(name), "", "a part has no checksum of the whole");
    }
}

#[tokio::test]
async fn a_trailing_checksum_is_verified() {
    let place = Place::with_bucket().await;
    let name = Algorithm::Crc32C.header_name().to_owned();
    let framing = || BodyFraming::AwsChunked { signed: false, trailer_names: vec![name.clone()] };
    let parts = |value: String| {
        let trailer = BodyPart::Trailer(vec![(name.clone(), value)]);
        vec![BodyPart::Data(Bytes::from_static(b"data")), trailer, BodyPart::End]
    };
    let good = checksum(Algorithm::Crc32C, b"data").base64();
    let told = ask("PUT", "/lake/k").parts(Some(4), framing(), parts(good.clone()));
    assert_eq!(told.expect(&place.origin, 200).await.header(&name), good);
    let bad = checksum(Algorithm::Crc32C, b"other").base64();
    let told = ask("PUT", "/lake/k2").parts(Some(4), framing(), parts(bad));
    assert_eq!(told.expect(&place.origin, 400).await.element("Code"), "BadDigest");
    get("/lake/k2").expect(&place.origin, 404).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    let place = Place::with_bucket().await;
    put("/lake/k", "old").expect(&place.origin, 200).await;
    let framing = BodyFraming::Plain { payload_sha256: crate::origin::PayloadHash::Unsigned };
    let whole_but_unended = vec![BodyPart::Data(Bytes::from_static(b"new"))];
    let broken = ask("PUT", "/lake/k").parts(Some(3), framing.clone(), whole_but_unended);
    assert_eq!(broken.tell(&place.origin).await.expect_err("it broke"), OriginError::BodyAborted);
    let short = vec![BodyPart::Data(Bytes::from_static(b"ne")), BodyPart::End];
    let told =
        ask("PUT", "/lake/k").parts(Some(3), framing, short).expect(&place.origin, 400).await;
    assert_eq!(told.element("Code"), "IncompleteBody");
    assert_eq!(get("/lake/k").expect(&place.origin, 200).await.text(), "old");
    let temporary = place.bucket_folder().join(".nilas/temporary");
    assert_eq!(visible(&temporary), [""; 0], "no temporary file is left");
}

#[tokio::test]
async fn what_is_not_done_is_not_implemented() {
    let place = Place::with_bucket().await;
    put("/lake/k", "x").expect(&place.origin, 200).await;
    for (method, target) in [
        ("GET", "/lake/k?acl"),
        ("GET", "/lake/k?tagging"),
        ("GET", "/lake/k?versionId=1"),
        ("GET", "/lake/k?partNumber=1"),
        ("HEAD", "/lake/k?partNumber=1"),
        ("GET", "/lake/k?attributes"),
        ("PUT", "/lake/k?acl"),
        ("PUT", "/lake/k?tagging"),
        ("PUT", "/lake/k?legal-hold"),
        ("DELETE", "/lake/k?versionId=1"),
        ("DELETE", "/lake/k?tagging"),
        ("POST", "/lake/k?restore"),
        ("POST", "/lake/k?select&select-type=2"),
        ("GET", "/lake?versioning"),
        ("GET", "/lake?versions"),
        ("GET", "/lake?policy"),
        ("PUT", "/lake?versioning"),
        ("PUT", "/lake?some-future-thing"),
        ("DELETE", "/lake?policy"),
        ("POST", "/lake"),
        ("PATCH", "/lake/k"),
    ] {
        let told = ask(method, target).expect(&place.origin, 501).await;
        if method != "HEAD" {
            assert_eq!(told.element("Code"), "NotImplemented", "{method} {target}");
        }
    }
    for (name, value) in [
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-acl", "public-read"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-website-redirect-location", "/"),
        ("if-none-match", "\"etag\""),
    ] {
        let told = put("/lake/k", "y").header(name, value).expect(&place.origin, 501).await;
        assert_eq!(told.element("Code"), "NotImplemented", "{name}");
    }
    assert_eq!(get("/lake/k").expect(&place.origin, 200).await.text(), "x");
}

#[tokio::test]
async fn deleted_objects_and_their_folders_are_gone() {
    let place = Place::with_bucket().await;
    put("/lake/a/b/c", "1").expect(&place.origin, 200).await;
    put("/lake/a/d", "2").expect(&place.origin, 200).await;
    ask("DELETE", "/lake/a/b/c").expect(&place.origin, 204).await;
    get("/lake/a/b/c").expect(&place.origin, 404).await;
    assert_eq!(visible(&place.bucket_folder().join("a")), ["d"]);
    ask("DELETE", "/lake/a/d").expect(&place.origin, 204).await;
    assert_eq!(visible(&place.bucket_folder()), [""; 0]);
}

#[tokio::test]
async fn many_objects_are_deleted_at_once() {
    let place = Place::with_bucket().await;
    for key in ["a", "b%26c", "d"] {
        put(&format!("/lake/{key}"), "x").expect(&place.origin, 200).await;
    }
    let list = "<Delete><Object><Key>a</Key></Object><Object><Key>b&amp;c</Key></Object>\
                <Object><Key>none</Key></Object>\
                <Object><Key>d</Key><VersionId>3</VersionId></Object></Delete>";
    let told = ask("POST", "/lake?delete").body(list).expect(&place.origin, 200).await;
    assert_eq!(told.elements("Deleted").len(), 3);
    assert_eq!(told.element("Code"), "NotImplemented", "a version is never deleted as the object");
    get("/lake/a").expect(&place.origin, 404).await;
    get("/lake/b&c").expect(&place.origin, 404).await;
    get("/lake/d").expect(&place.origin, 200).await;

    let quiet = "<Delete><Quiet>true</Quiet><Object><Key>d</Key></Object></Delete>";
    let told = ask("POST", "/lake?delete").body(quiet).expect(&place.origin, 200).await;
    assert_eq!(told.elements("Deleted").len(), 0);
    get("/lake/d").expect(&place.origin, 404).await;

    let told = ask("POST", "/lake?delete").body("<Delete>").expect(&place.origin, 400).await;
    assert_eq!(told.element("Code"), "MalformedXML");
    let wrong = ask("POST", "/lake?delete").header("content-md5", "XUFAKrxLKna5cZ2REBfFkg==");
    assert_eq!(wrong.body(quiet).expect(&place.origin, 400).await.element("Code"), "BadDigest");
}
