//! ListObjects, both versions.

use super::Place;
use crate::origin::Origin;
use crate::origin::question::{Told, get, put};
use std::sync::Arc;

async fn filled(keys: &[&str]) -> Place {
    let place = Place::with_bucket().await;
    for key in keys {
        put(&format!("/lake/{key}"), *key).expect(&place.origin, 200).await;
    }
    place
}

async fn list(origin: &Arc<dyn Origin>, query: &str) -> Told {
    get(&format!("/lake?{query}")).expect(origin, 200).await
}

const TREE: [&str; 8] = ["a", "a-b", "a/1", "a/2/x", "a/2/y", "b/1", "c", "c/"];

#[tokio::test]
async fn keys_come_in_the_order_of_their_bytes() {
    let place = filled(&TREE).await;
    assert_eq!(list(&place.origin, "").await.elements("Key"), TREE);
    assert_eq!(list(&place.origin, "list-type=2").await.elements("Key"), TREE);
    let told = list(&place.origin, "prefix=a/2").await;
    assert_eq!(told.elements("Key"), ["a/2/x", "a/2/y"]);
    assert_eq!(told.elements("Size"), ["5", "5"]);
    assert_eq!(told.elements("StorageClass"), ["STANDARD"; 2]);
}

#[tokio::test]
async fn a_delimiter_rolls_keys_up() {
    let place = filled(&TREE).await;
    for (query, keys, prefixes) in [
        ("delimiter=/", vec!["a", "a-b", "c"], vec!["a/", "b/", "c/"]),
        ("delimiter=/&prefix=a/", vec!["a/1"], vec!["a/2/"]),
        ("delimiter=/&prefix=c/", vec!["c/"], vec![]),
        ("delimiter=-", vec!["a", "a/1", "a/2/x", "a/2/y", "b/1", "c", "c/"], vec!["a-"]),
        ("delimiter=2/", vec!["a", "a-b", "a/1", "b/1", "c", "c/"], vec!["a/2/"]),
        ("delimiter=/&prefix=none", vec![], vec![]),
    ] {
        let told = list(&place.origin, query).await;
        let found: Vec<String> = told
            .elements("CommonPrefixes")
            .iter()
            .map(|text| text.replace("<Prefix>", "").replace("</Prefix>", ""))
            .collect();
        assert_eq!((told.elements("Key"), found), (strings(&keys), strings(&prefixes)), "{query}");
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn pages_of_any_size_hold_every_entry_once() {
    let place = filled(&TREE).await;
    for delimiter in ["", "&delimiter=/"] {
        let whole = list(&place.origin, &format!("x-id=a{delimiter}")).await;
        let all = [whole.elements("Key"), whole.elements("CommonPrefixes")].concat();
        for page_max in 1..=9 {
            let pages = read_v2(&place, page_max, delimiter).await;
            assert_eq!(sorted(pages), sorted(all.clone()), "v2, {page_max} a page{delimiter}");
            let pages = read_v1(&place, page_max, delimiter).await;
            assert_eq!(sorted(pages), sorted(all.clone()), "v1, {page_max} a page{delimiter}");
        }
    }
}

fn sorted(mut entries: Vec<String>) -> Vec<String> {
    entries.sort();
    entries
}

async fn read_v2(place: &Place, page_max: usize, delimiter: &str) -> Vec<String> {
    let (mut entries, mut token) = (Vec::new(), String::new());
    loop {
        let query = format!("list-type=2&max-keys={page_max}{delimiter}{token}");
        let told = list(&place.origin, &query).await;
        let found = [told.elements("Key"), told.elements("CommonPrefixes")].concat();
        assert!(found.len() <= page_max);
        assert_eq!(told.element("KeyCount"), found.len().to_string());
        entries.extend(found);
        match told.element("IsTruncated").as_str() {
            "true" => {
                token = format!("&continuation-token={}", told.element("NextContinuationToken"))
            }
            _ => return entries,
        }
    }
}

async fn read_v1(place: &Place, page_max: usize, delimiter: &str) -> Vec<String> {
    let (mut entries, mut marker) = (Vec::new(), String::new());
    loop {
        let query = format!("max-keys={page_max}{delimiter}&marker={marker}");
        let told = list(&place.origin, &query).await;
        entries.extend([told.elements("Key"), told.elements("CommonPrefixes")].concat());
        if told.element("IsTruncated") != "true" {
            return entries;
        }
        // Without a delimiter S3 names no next marker: it is the last key.
        let last = || told.elements("Key").pop().expect("a page that is cut off is not empty");
        marker = told.elements("NextMarker").pop().unwrap_or_else(last);
    }
}

#[tokio::test]
async fn start_after_and_limits_are_kept() {
    let place = filled(&TREE).await;
    let told = list(&place.origin, "list-type=2&start-after=a/2/x").await;
    assert_eq!(told.elements("Key"), ["a/2/y", "b/1", "c", "c/"]);
    let told = list(&place.origin, "max-keys=0").await;
    assert_eq!((told.elements("Key").len(), told.element("IsTruncated").as_str()), (0, "false"));
    let told = get("/lake?max-keys=many").expect(&place.origin, 400).await;
    assert_eq!(told.element("Code"), "InvalidArgument");
    get("/lake?list-type=2&continuation-token=%21").expect(&place.origin, 400).await;
    get("/lake?list-type=3").expect(&place.origin, 400).await;
    get("/none").expect(&place.origin, 404).await;
}

#[tokio::test]
async fn url_encoded_names_are_echoed_and_encoded_once() {
    let place = filled(&["a%20b%2Bc%25", "line%0Aend", "%E2%98%83"]).await;
    let told = list(&place.origin, "encoding-type=url&prefix=a%20b").await;
    assert_eq!(told.element("EncodingType"), "url");
    assert_eq!(
        (told.element("Prefix").as_str(), told.element("Key").as_str()),
        ("a%20b", "a%20b%2Bc%25")
    );
    let told = list(&place.origin, "").await;
    assert_eq!(told.elements("Key"), ["a b+c%", "line&#xA;end", "\u{2603}"]);
    assert!(told.elements("EncodingType").is_empty());
}
