//! Versions that go from the origin while the cache holds some of their bytes: the reader gets the
//! new version, or a visibly cut answer once; nobody is cut for ever, and nothing is mixed.

use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_read_whose_version_has_gone_begins_anew
    a_read_that_was_cut_succeeds_when_it_is_tried_again
    an_object_that_has_gone_is_not_found_when_its_bytes_are_wanted
    an_object_cut_short_in_its_place_is_read_as_it_is_now
}

const OBJECT_BYTES: usize = 6 << 20;

/// A node that believes what it knows for long, and knows the first bytes of this object.
fn node_that_knows(ring: RingBody, key: &str, bytes: &[u8]) -> TestNode {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    node.place(key, bytes);
    let first = node.client().get(&format!("/{BUCKET}/{key}"), &[("Range", "bytes=0-99")]);
    assert!(first.status == 206 && first.body == bytes[..100]);
    node
}

const KEYS: [&str; 2] = ["object", "t/metadata/a.avro"];

fn a_read_whose_version_has_gone_begins_anew(ring: RingBody) {
    for key in KEYS {
        let (old, new) = (noise(1, OBJECT_BYTES), noise(2, OBJECT_BYTES + 5));
        let node = node_that_knows(ring, key, &old);
        node.place(key, &new);
        let mut client = node.client();
        for range in ["bytes=5000000-5000999", "bytes=0-999"] {
            let read = client.get(&format!("/{BUCKET}/{key}"), &[("Range", range)]);
            let start = if range.starts_with("bytes=0") { 0 } else { 5_000_000 };
            assert!(read.status == 206 && read.body == new[start..start + 1000], "{key} {range}");
        }
        assert!(client.get(&format!("/{BUCKET}/{key}"), &[]).body == new, "{key}");
    }
}

fn a_read_that_was_cut_succeeds_when_it_is_tried_again(ring: RingBody) {
    for key in KEYS {
        let (old, new) = (noise(1, OBJECT_BYTES), noise(2, OBJECT_BYTES + 5));
        let node = node_that_knows(ring, key, &old);
        node.place(key, &new);
        let mut cuts = 0;
        let read = loop {
            let mut client = node.client();
            client.write(&client.signed_head("GET", &format!("/{BUCKET}/{key}"), &[], 0));
            match client.answer_unless_cut() {
                Some(answer) => break answer,
                None => cuts += 1,
            }
            assert!(cuts < 3, "{key}: cut again and again");
        };
        assert!(read.status == 200 && read.body == new, "{key}");
    }
}

fn an_object_that_has_gone_is_not_found_when_its_bytes_are_wanted(ring: RingBody) {
    for key in KEYS {
        let node = node_that_knows(ring, key, &noise(1, OBJECT_BYTES));
        std::fs::remove_file(node.bucket_directory().join(key)).expect("the object");
        let mut client = node.client();
        for _ in 0..3 {
            let read = client.get(&format!("/{BUCKET}/{key}"), &[("Range", "bytes=5000000-")]);
            assert_eq!((read.status, read.code().as_str()), (404, "NoSuchKey"), "{key}");
        }
        assert_eq!(client.get(&format!("/{BUCKET}/{key}"), &[]).status, 404, "{key}");
    }
}

fn an_object_cut_short_in_its_place_is_read_as_it_is_now(ring: RingBody) {
    for key in KEYS {
        let old = noise(1, OBJECT_BYTES);
        let node = node_that_knows(ring, key, &old);
        let path = node.bucket_directory().join(key);
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("the object");
        file.set_len(3 << 20).expect("shorter");
        let mut client = node.client();
        let read = client.get(&format!("/{BUCKET}/{key}"), &[("Range", "bytes=3000000-")]);
        assert!(read.status == 206 && read.body == old[3_000_000..3 << 20], "{key}");
        let past = client.get(&format!("/{BUCKET}/{key}"), &[("Range", "bytes=5000000-5000009")]);
        assert_eq!((past.status, past.code().as_str()), (416, "InvalidRange"), "{key}");
    }
}
