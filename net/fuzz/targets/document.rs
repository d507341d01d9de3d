//! Any bytes as the body of a list of deletes, as the source of a copy, as the query of a listing and
//! as percent-encoded text: what is decoded and encoded again is decoded to the same.

use nilas_net::copy_source::parse_copy_source;
use nilas_net::delete_list::{KEYS_MAX, parse_delete_list};
use nilas_net::percent::{Plus, decode, encode_path, encode_query};
use nilas_net::query;

pub fn run(data: &[u8]) {
    if let Ok(list) = parse_delete_list(data) {
        assert!(list.objects.len() <= KEYS_MAX);
    }
    if let Ok(source) = parse_copy_source(data) {
        assert!(!source.bucket.is_empty() && !source.key.is_empty());
    }
    for plus in [Plus::Literal, Plus::Space] {
        let mut decoded = Vec::new();
        if decode(data, plus, &mut decoded).is_ok() {
            for encode in [encode_path, encode_query] {
                let (mut encoded, mut again) = (Vec::new(), Vec::new());
                encode(&decoded, &mut encoded);
                assert!(decode(&encoded, Plus::Literal, &mut again).is_ok() && again == decoded);
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        listing(text);
    }
}

fn listing(query_raw: &str) {
    for pair in query::pairs(query_raw) {
        let _ = pair.decoded();
    }
    let _ = query::find(query_raw, "prefix").map(|pair| pair.decoded());
    let mut left = Vec::new();
    query::without_presign(query_raw, &mut left);
    let left = String::from_utf8(left).expect("text stays text");
    assert!(query::pairs(&left).all(|pair| !pair.is_presign()));
}
