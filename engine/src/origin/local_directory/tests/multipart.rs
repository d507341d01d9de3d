//! Multipart uploads.

use nilas_net::checksum::{Algorithm, checksum};

use super::{Place, visible};
use crate::origin::question::{Told, ask, get, put};

const PART: usize = 5 * 1024 * 1024;

async fn create(place: &Place, target: &str) -> String {
    ask("POST", &format!("{target}?uploads"))
        .header("content-type", "a/b")
        .header("x-amz-meta-m", "1")
        .expect(&place.origin, 200)
        .await
        .element("UploadId")
}

async fn part(place: &Place, target: &str, id: &str, number: u32, body: Vec<u8>) -> String {
    let target = format!("{target}?partNumber={number}&uploadId={id}");
    put(&target, body).expect(&place.origin, 200).await.header("etag").to_owned()
}

async fn complete(place: &Place, target: &str, parts: &[(u32, &str)], status: u16) -> Told {
    ask("POST", target).body(list(parts)).expect(&place.origin, status).await
}

fn list(parts: &[(u32, &str)]) -> String {
    let part = |(number, etag): &(u32, &str)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    };
    let parts: String = parts.iter().map(part).collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

#[tokio::test]
async fn parts_become_one_object_with_s3s_etag() {
    let place = Place::with_bucket().await;
    let id = create(&place, "/lake/k").await;
    let first = part(&place, "/lake/k", &id, 1, vec![b'x'; PART]).await;
    let stale = part(&place, "/lake/k", &id, 7, vec![b'y'; 10]).await;
    let last = part(&place, "/lake/k", &id, 7, vec![b'z'; 9]).await;
    get("/lake/k").expect(&place.origin, 404).await;

    let told = get(&format!("/lake/k?uploadId={id}")).expect(&place.origin, 200).await;
    assert_eq!(told.elements("PartNumber"), ["1", "7"]);
    assert_eq!(told.elements("Size"), [PART.to_string(), "9".to_owned()]);
    let target = format!("/lake/k?uploadId={id}");
    let told = complete(&place, &target, &[(1, &first), (7, &stale)], 400).await;
    assert_eq!(told.element("Code"), "InvalidPart");
    let told = complete(&place, &target, &[(7, &last), (1, &first)], 400).await;
    assert_eq!(told.element("Code"), "InvalidPartOrder");

    complete(&place, &target, &[(1, &first), (7, &last)], 200).await;
    let md5 = |body: &[u8]| checksum(Algorithm::Md5, body).bytes().to_vec();
    let sums = [md5(&vec![b'x'; PART]), md5(&[b'z'; 9])].concat();
    let etag = format!("\"{}-2\"", checksum(Algorithm::Md5, &sums).hex());
    let told = get("/lake/k").expect(&place.origin, 200).await;
    assert_eq!((told.header("etag"), told.header("x-amz-meta-m")), (&*etag, "1"));
    assert_eq!(told.header("content-type"), "a/b");
    assert_eq!(told.body.len(), PART + 9);
    assert!(told.body.ends_with(b"xzzzzzzzzz"));

    let told = complete(&place, &target, &[(1, &first)], 404).await;
    assert_eq!(told.element("Code"), "NoSuchUpload");
    assert_eq!(visible(&place.bucket_folder().join(".nilas/uploads")), [""; 0]);
    assert_eq!(visible(&place.bucket_folder().join(".nilas/temporary")), [""; 0]);
}

#[tokio::test]
async fn a_small_part_before_the_last_is_refused() {
    let place = Place::with_bucket().await;
    let id = create(&place, "/lake/k").await;
    let one = part(&place, "/lake/k", &id, 1, b"small".to_vec()).await;
    let two = part(&place, "/lake/k", &id, 2, b"last".to_vec()).await;
    let target = format!("/lake/k?uploadId={id}");
    let told = complete(&place, &target, &[(1, &one), (2, &two)], 400).await;
    assert_eq!(told.element("Code"), "EntityTooSmall");
    complete(&place, &target, &[(2, &two)], 200).await;
    assert_eq!(get("/lake/k").expect(&place.origin, 200).await.text(), "last");
}

#[tokio::test]
async fn an_aborted_upload_is_gone() {
    let place = Place::with_bucket().await;
    let id = create(&place, "/lake/k").await;
    part(&place, "/lake/k", &id, 1, b"x".to_vec()).await;
    let target = format!("/lake/k?uploadId={id}");
    ask("DELETE", &target).expect(&place.origin, 204).await;
    ask("DELETE", &target).expect(&place.origin, 404).await;
    let told = put(&format!("/lake/k?partNumber=1&uploadId={id}"), "x").expect(&place.origin, 404);
    assert_eq!(told.await.element("Code"), "NoSuchUpload");
    for odd in ["", "..", "../../x", "zz", &"a".repeat(300)] {
        let told =
            put(&format!("/lake/k?partNumber=1&uploadId={odd}"), "x").expect(&place.origin, 404);
        assert_eq!(told.await.element("Code"), "NoSuchUpload", "{odd:?}");
    }
    let other = create(&place, "/lake/k").await;
    put(&format!("/lake/other?partNumber=1&uploadId={other}"), "x")
        .expect(&place.origin, 404)
        .await;
    for number in ["0", "10001", "x"] {
        let target = format!("/lake/k?partNumber={number}&uploadId={other}");
        assert_eq!(
            put(&target, "x").expect(&place.origin, 400).await.element("Code"),
            "InvalidArgument"
        );
    }
}

#[tokio::test]
async fn uploads_under_way_are_listed_in_pages() {
    let place = Place::with_bucket().await;
    let mut made = Vec::new();
    for key in ["b", "a/1", "a/1", "c"] {
        made.push((key.to_owned(), create(&place, &format!("/lake/{key}")).await));
    }
    made.sort();
    let mut found = Vec::new();
    let mut marker = String::new();
    loop {
        let target = format!("/lake?uploads&max-uploads=1{marker}");
        let told = get(&target).expect(&place.origin, 200).await;
        found.extend(told.elements("Key").into_iter().zip(told.elements("UploadId")));
        if told.element("IsTruncated") != "true" {
            break;
        }
        let (key, id) = (told.element("NextKeyMarker"), told.element("NextUploadIdMarker"));
        marker = format!("&key-marker={key}&upload-id-marker={id}");
    }
    assert_eq!(found, made);
    let told = get("/lake?uploads&prefix=a/").expect(&place.origin, 200).await;
    assert_eq!(told.elements("Key"), ["a/1", "a/1"]);
}

#[tokio::test]
async fn a_conditional_completion_is_enforced() {
    let place = Place::with_bucket().await;
    let id = create(&place, "/lake/k").await;
    let etag = part(&place, "/lake/k", &id, 1, b"x".to_vec()).await;
    put("/lake/k", "first").expect(&place.origin, 200).await;
    let target = format!("/lake/k?uploadId={id}");
    let question = ask("POST", &target).header("if-none-match", "*").body(list(&[(1, &etag)]));
    assert_eq!(question.expect(&place.origin, 412).await.element("Code"), "PreconditionFailed");
    complete(&place, &target, &[(1, &etag)], 200).await;
    assert_eq!(get("/lake/k").expect(&place.origin, 200).await.text(), "x");
}

#[tokio::test]
async fn checksums_of_parts_make_that_of_the_whole() {
    let place = Place::with_bucket().await;
    let (one, two) = (vec![b'x'; PART], b"rest".to_vec());
    for (algorithm, kind) in [
        (Algorithm::Crc32, "COMPOSITE"),
        (Algorithm::Sha256, "COMPOSITE"),
        (Algorithm::Crc32C, "FULL_OBJECT"),
        (Algorithm::Crc64Nvme, "FULL_OBJECT"),
    ] {
        let created = ask("POST", "/lake/k?uploads")
            .header("x-amz-checksum-algorithm", algorithm.name())
            .header("x-amz-checksum-type", kind)
            .expect(&place.origin, 200)
            .await;
        let id = created.element("UploadId");
        let first = part(&place, "/lake/k", &id, 1, one.clone()).await;
        let second = part(&place, "/lake/k", &id, 2, two.clone()).await;
        let target = format!("/lake/k?uploadId={id}");
        let told = complete(&place, &target, &[(1, &first), (2, &second)], 200).await;
        let whole = [one.clone(), two.clone()].concat();
        let sums = [checksum(algorithm, &one), checksum(algorithm, &two)];
        let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.bytes().to_vec()).collect();
        let expected = match kind {
            "COMPOSITE" => format!("{}-2", checksum(algorithm, &sums).base64()),
            _ => checksum(algorithm, &whole).base64(),
        };
        assert_eq!(told.element(&format!("Checksum{}", algorithm.name())), expected, "{kind}");
        let told =
            get("/lake/k").header("x-amz-checksum-mode", "enabled").expect(&place.origin, 200);
        let told = told.await;
        assert_eq!(told.header(algorithm.header_name()), expected);
        assert_eq!(told.header("x-amz-checksum-type"), kind);
    }
    for (algorithm, kind) in [("CRC64NVME", "COMPOSITE"), ("SHA1", "FULL_OBJECT")] {
        let create = ask("POST", "/lake/k?uploads").header("x-amz-checksum-algorithm", algorithm);
        create.header("x-amz-checksum-type", kind).expect(&place.origin, 501).await;
    }
}
