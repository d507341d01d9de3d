//! Operations on buckets, and the directory as such.

use std::fs;

use nilas_base::Clock;

use super::{LocalDirectory, Place};
use crate::origin::Origin;
use crate::origin::question::{ask, get, put};

#[tokio::test]
async fn buckets_are_made_listed_and_removed() {
    let place = Place::with_bucket().await;
    ask("HEAD", "/lake").expect(&place.origin, 200).await;
    ask("HEAD", "/none").expect(&place.origin, 404).await;
    let told = ask("PUT", "/lake").expect(&place.origin, 409).await;
    assert_eq!(told.element("Code"), "BucketAlreadyOwnedByYou");
    for name in ["UPPER", "ab", ".nilas", "a..b", "1.2.3.4", "-ab", "under_score"] {
        let told = ask("PUT", &format!("/{name}")).expect(&place.origin, 400).await;
        assert_eq!(told.element("Code"), "InvalidBucketName", "{name}");
    }
    fs::write(place.folder.path().join("a-file"), "x").expect("written");
    ask("PUT", "/another").body("<CreateBucketConfiguration/>").expect(&place.origin, 200).await;
    assert_eq!(get("/").expect(&place.origin, 200).await.elements("Name"), ["another", "lake"]);
    let told = get("/lake?location").expect(&place.origin, 200).await;
    assert!(told.text().contains("LocationConstraint"));

    put("/lake/a/b", "x").expect(&place.origin, 200).await;
    let told = ask("DELETE", "/lake").expect(&place.origin, 409).await;
    assert_eq!(told.element("Code"), "BucketNotEmpty");
    ask("DELETE", "/lake/a/b").expect(&place.origin, 204).await;
    ask("DELETE", "/lake").expect(&place.origin, 204).await;
    ask("DELETE", "/lake").expect(&place.origin, 404).await;
    assert_eq!(get("/").expect(&place.origin, 200).await.elements("Name"), ["another"]);
}

#[tokio::test]
async fn a_bucket_with_files_that_are_no_objects_is_not_removed() {
    let place = Place::with_bucket().await;
    fs::create_dir_all(place.bucket_folder().join("x")).expect("made");
    fs::write(place.bucket_folder().join("x/bad^name"), "precious").expect("written");
    ask("DELETE", "/lake").expect(&place.origin, 409).await;
    assert!(place.bucket_folder().join("x/bad^name").exists());
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_with_the_cure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = |path: &std::path::Path| {
        LocalDirectory::open(path, Clock::system()).expect_err("it cannot be used")
    };
    let error = open(&folder.path().join("none"));
    assert!(error.contains("does not exist") && error.contains("mkdir -p"), "{error}");
    fs::write(folder.path().join("file"), "x").expect("written");
    let error = open(&folder.path().join("file"));
    assert!(error.contains("is no directory"), "{error}");
    let error = open(std::path::Path::new("/proc/self"));
    assert!(error.contains("cannot be written to"), "{error}");
}

#[tokio::test]
async fn a_probe_says_what_is_there() {
    let place = Place::with_bucket().await;
    let probe = |bucket: &str| std::sync::Arc::clone(&place.origin).probe(Some(bucket.to_owned()));
    assert!(probe("lake").await.expect("it is there").contains("holds the bucket"));
    assert!(probe("none").await.expect_err("it is not there").contains("mkdir"));
}

#[test]
fn the_id_is_that_of_the_directory() {
    let (one, other) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
    let id = |folder: &tempfile::TempDir| {
        LocalDirectory::open(folder.path(), Clock::system()).expect("usable").id()
    };
    assert_eq!(id(&one), id(&one));
    assert_ne!(id(&one), id(&other));
}
