//! What the cache spares the origin, and what it must not change for the client: a range costs its
//! sectors, many readers cost one question, and every form of a read is answered as the origin would.

use std::sync::Barrier;

use nilas_engine::origin::OriginOperation;
use nilas_net::checksum::{Algorithm, checksum};
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_range_costs_its_sectors_alone
    a_thousand_small_reads_cost_a_thousand_sectors_once
    many_readers_of_a_cold_object_cost_its_bytes_once
    checksums_after_a_range_cost_one_head
    conditions_are_answered_from_the_cache
    the_query_may_override_headers_but_not_add_any
    what_is_not_found_is_asked_for_again
    a_head_with_a_range_is_answered_as_the_get_would_be
    headers_and_metadata_come_back_as_they_were_written
    odd_ranges_are_answered_as_the_origin_answers_them
}

fn a_range_costs_its_sectors_alone(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let bytes = noise(1, 8 << 20);
    node.place("object", &bytes);
    let mut client = node.client();
    let mut cost_of = |range: &str, expected: &[u8]| {
        let before = node.origin_counts();
        let answer = client.get(&format!("/{BUCKET}/object"), &[("Range", range)]);
        assert!(answer.status == 206 && answer.body == expected, "{range}");
        let after = node.origin_counts();
        (after.requests() - before.requests(), after.bytes_received() - before.bytes_received())
    };
    let sector = 64 << 10;
    assert_eq!(cost_of("bytes=100-4195", &bytes[100..4196]), (1, sector));
    assert_eq!(cost_of("bytes=0-65535", &bytes[..65536]), (0, 0));
    assert_eq!(cost_of("bytes=65530-65540", &bytes[65530..65541]), (1, sector));
    assert_eq!(cost_of("bytes=-100", &bytes[(8 << 20) - 100..]), (1, sector));
    let border = 2 << 20;
    assert_eq!(cost_of("bytes=2097142-2097161", &bytes[border - 10..border + 10]), (2, 2 * sector));
    let all = cost_of("bytes=0-", &bytes).1;
    assert_eq!(all, (8 << 20) - 5 * sector, "the rest, and nothing twice");
    assert_eq!(cost_of("bytes=0-", &bytes), (0, 0));
}

fn a_thousand_small_reads_cost_a_thousand_sectors_once(ring: RingBody) {
    let flags = ["--cache.block_bytes", "1MiB", "--cache.data_bytes", "160MiB"];
    let node = TestNode::start(ring, &flags);
    let blocks = 1000;
    let file = std::fs::File::create(node.bucket_directory().join("object")).expect("a file");
    file.set_len(blocks << 20).expect("a sparse file");
    let mut client = node.client();
    let mut pass = || {
        for block in 0..blocks {
            let start = (block << 20) + (block * 4099) % ((1 << 20) - 4096);
            let range = format!("bytes={start}-{}", start + 4095);
            let answer = client.get(&format!("/{BUCKET}/object"), &[("Range", &range)]);
            assert!(answer.status == 206 && answer.body == [0; 4096], "{range}");
        }
        (node.origin_requests(), node.origin_counts().bytes_received())
    };
    let (requests, received) = pass();
    // A read that crosses two sectors costs both.
    assert!(requests <= blocks, "{requests} requests");
    assert!(received <= blocks * (64 << 10) * 110 / 100, "{received} bytes");
    assert_eq!(pass(), (requests, received));
}

fn many_readers_of_a_cold_object_cost_its_bytes_once(ring: RingBody) {
    for (latency, length) in
        [("20ms", 1_000_000), ("20ms", 7 << 20), ("0s", 7 << 20), ("5ms", 21 << 20)]
    {
        let node = TestNode::start(ring, &["--origin.first_byte_latency", latency]);
        let bytes = noise(1, length);
        node.place("object", &bytes);
        let together = Barrier::new(12);
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let mut client = node.client();
                    together.wait();
                    let read = client.get(&format!("/{BUCKET}/object"), &[]);
                    assert!(read.status == 200 && read.body == bytes);
                });
            }
        });
        let received = node.origin_counts().bytes_received();
        // Of a long answer the first block is kept; the piece that crosses its end is read whole.
        let most = length as u64 + if length > 8 << 20 { 256 << 10 } else { 0 };
        assert!((length as u64..=most).contains(&received), "{latency} {length}: {received}");
    }
}

fn checksums_after_a_range_cost_one_head(ring: RingBody) {
    complete_a_mapping(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn complete_a_mapping(node: &TestNode) {
    let bytes = noise(1, 300_000);
    let sum = checksum(Algorithm::Crc64Nvme, &bytes).base64();
    let target = format!("/{BUCKET}/object");
    let name = "x-amz-checksum-crc64nvme";
    let mut client = node.client();
    assert_eq!(client.request("PUT", &target, &[(name, &sum)], &bytes).status, 200);
    let ranged =
        client.get(&target, &[("Range", "bytes=0-299998"), ("x-amz-checksum-mode", "ENABLED")]);
    assert_eq!(
        (ranged.status, ranged.header(name)),
        (206, None),
        "a range has no checksum of its own"
    );
    let before = node.origin_counts();
    for _ in 0..3 {
        let whole = client.get(&target, &[("x-amz-checksum-mode", "ENABLED")]);
        assert!(whole.body == bytes && whole.header(name) == Some(sum.as_str()));
        assert_eq!(whole.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
        let plain = client.get(&target, &[]);
        assert!(plain.body == bytes && plain.header(name).is_none(), "nobody asked");
    }
    let after = node.origin_counts();
    let heads = |counts: &nilas_engine::origin::OriginSnapshot| {
        counts.of(OriginOperation::HeadObject).requests
    };
    assert_eq!(heads(&after) - heads(&before), 1);
    assert_eq!(after.requests() - before.requests(), 1);
}

fn conditions_are_answered_from_the_cache(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    let target = format!("/{BUCKET}/object");
    node.place("object", b"content");
    let mut client = node.client();
    let known = client.get(&target, &[]);
    let (etag, date) =
        (known.header("etag").expect("an ETag"), known.header("last-modified").expect("a date"));
    let (past, other) = ("Thu, 01 Jan 2015 00:00:00 GMT", "\"other\"");
    let asked = node.origin_requests();
    for (headers, status) in [
        (vec![("If-Match", etag)], 200),
        (vec![("If-Match", other)], 412),
        (vec![("If-None-Match", etag)], 304),
        (vec![("If-None-Match", other)], 200),
        (vec![("If-Modified-Since", date)], 304),
        (vec![("If-Modified-Since", past)], 200),
        (vec![("If-Unmodified-Since", date)], 200),
        (vec![("If-Unmodified-Since", past)], 412),
        (vec![("If-Match", etag), ("If-Unmodified-Since", past)], 200),
        (vec![("If-None-Match", other), ("If-Modified-Since", date)], 200),
        (vec![("If-None-Match", etag), ("If-Modified-Since", past)], 304),
        (vec![("If-Match", other), ("If-None-Match", etag)], 412),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = client.request(method, &target, &headers, b"");
            assert_eq!(answer.status, status, "{method} {headers:?}");
            if matches!(status, 200 | 206 | 304) {
                assert_eq!(answer.header("etag"), Some(etag), "{method} {headers:?}");
            }
        }
    }
    let ranged = [("If-Match", etag), ("Range", "bytes=0-2")];
    assert_eq!(client.get(&target, &ranged).text(), "con");
    assert_eq!(node.origin_requests(), asked);
    let ranged = [("If-Range", etag), ("Range", "bytes=0-2")];
    assert_eq!(client.get(&target, &ranged).text(), "con");
    let ranged = [("If-Range", other), ("Range", "bytes=0-2")];
    assert_eq!(client.get(&target, &ranged).text(), "content");
}

fn the_query_may_override_headers_but_not_add_any(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    node.place("object", b"content");
    let target = format!("/{BUCKET}/object");
    let mut client = node.client();
    client.get(&target, &[]);
    let asked = node.origin_requests();
    let query = "response-content-type=text%2Fcsv&response-content-disposition=attachment%3B%20filename%3Da.csv\
                 &response-cache-control=no-store&response-content-language=de&response-content-encoding=x\
                 &response-expires=0";
    let answer = client.get(&format!("{target}?{query}"), &[]);
    for (name, value) in [
        ("content-type", "text/csv"),
        ("content-disposition", "attachment; filename=a.csv"),
        ("cache-control", "no-store"),
        ("content-language", "de"),
        ("content-encoding", "x"),
        ("expires", "0"),
    ] {
        let found: Vec<_> = answer.headers.iter().filter(|(known, _)| known == name).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert_eq!(found[0].1, value);
    }
    assert_eq!(node.origin_requests(), asked);
    // What no header can hold is the origin's to judge.
    let split = client.get(&format!("{target}?response-content-type=a%0D%0AX-Evil%3A%201"), &[]);
    assert_eq!((split.status, split.header("x-evil")), (400, None));
}

fn what_is_not_found_is_asked_for_again(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    for key in ["object", "db/t/metadata/v1.metadata.json"] {
        let target = format!("/{BUCKET}/{key}");
        let mut client = node.client();
        for _ in 0..3 {
            let answer = client.get(&target, &[]);
            assert_eq!((answer.status, answer.code().as_str()), (404, "NoSuchKey"));
            assert_eq!(client.request("HEAD", &target, &[], b"").status, 404);
        }
        node.place(key, b"content");
        assert_eq!(client.get(&target, &[]).text(), "content");
    }
}

fn a_head_with_a_range_is_answered_as_the_get_would_be(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "1h"]);
    node.place("object", &noise(1, 1000));
    let target = format!("/{BUCKET}/object");
    let mut client = node.client();
    for round in ["cold", "warm"] {
        for (range, status, length, content_range) in [
            ("bytes=0-9", 206, Some("10"), Some("bytes 0-9/1000")),
            ("bytes=990-2000", 206, Some("10"), Some("bytes 990-999/1000")),
            ("bytes=-1", 206, Some("1"), Some("bytes 999-999/1000")),
            ("bytes=5-", 206, Some("995"), Some("bytes 5-999/1000")),
            ("bytes=1000-", 416, None, Some("bytes */1000")),
            ("bytes=9-1", 200, Some("1000"), None),
        ] {
            let head = client.request("HEAD", &target, &[("Range", range)], b"");
            assert_eq!(
                (head.status, head.header("content-range")),
                (status, content_range),
                "{round} {range}"
            );
            assert!(length.is_none() || head.header("content-length") == length, "{round} {range}");
        }
    }
}

fn headers_and_metadata_come_back_as_they_were_written(ring: RingBody) {
    keep_headers(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn keep_headers(node: &TestNode) {
    let target = format!("/{BUCKET}/object");
    let headers = [
        ("Content-Type", "application/x-test; charset=utf-8"),
        ("Cache-Control", "max-age=60"),
        ("Content-Disposition", "attachment; filename=\"a, b\""),
        ("Content-Language", "de, en"),
        ("x-amz-meta-Name", "a value, with (all) sorts; of=things"),
        ("x-amz-meta-empty", ""),
    ];
    let mut client = node.client();
    let put = client.request("PUT", &target, &headers, b"content");
    assert_eq!(put.status, 200, "{}", put.text());
    for round in ["cold", "warm"] {
        for method in ["GET", "HEAD"] {
            let answer = client.request(method, &target, &[], b"");
            for (name, value) in headers {
                let name = name.to_ascii_lowercase();
                if !value.is_empty() {
                    assert_eq!(answer.header(&name), Some(value), "{round} {method} {name}");
                }
            }
            let mut names: Vec<_> = answer.headers.iter().map(|(name, _)| name).collect();
            names.sort();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{round} {method}: no header twice");
        }
    }
}

fn odd_ranges_are_answered_as_the_origin_answers_them(ring: RingBody) {
    ask_for_odd_ranges(&TestNode::start(ring, &["--cache.mutable_ttl", "1h"]));
}

pub fn ask_for_odd_ranges(node: &TestNode) {
    node.place("object", b"0123456789");
    node.place("empty", b"");
    let mut client = node.client();
    for round in ["cold", "warm"] {
        for (key, range, status, body) in [
            ("object", "bytes=0-0", 206, "0"),
            ("object", "bytes=9-9", 206, "9"),
            ("object", "bytes=9-", 206, "9"),
            ("object", "bytes=-100", 206, "0123456789"),
            ("object", "bytes=0-1,3-4", 200, "0123456789"),
            ("object", "bytes=5-2", 200, "0123456789"),
            ("object", "items=0-1", 200, "0123456789"),
            ("object", "bytes=0-18446744073709551615", 200, "0123456789"),
            ("object", "bytes=0-9223372036854775807", 206, "0123456789"),
        ] {
            let answer = client.get(&format!("/{BUCKET}/{key}"), &[("Range", range)]);
            assert_eq!((answer.status, answer.text().as_str()), (status, body), "{round} {range}");
        }
        for (key, range) in [
            ("object", "bytes=10-"),
            ("object", "bytes=10-20"),
            ("object", "bytes=9999999999999999999-"),
            ("object", "bytes=-0"),
            ("empty", "bytes=0-"),
            ("empty", "bytes=-5"),
            ("empty", "bytes=0-0"),
        ] {
            let answer = client.get(&format!("/{BUCKET}/{key}"), &[("Range", range)]);
            let found = (answer.status, answer.code());
            assert_eq!(found, (416, "InvalidRange".to_owned()), "{round} {key} {range}");
            let length = if key == "empty" { "bytes */0" } else { "bytes */10" };
            assert_eq!(answer.header("content-range"), Some(length), "{round} {key} {range}");
        }
    }
}
