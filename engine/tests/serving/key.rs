//! Keys: any text of up to 1024 bytes, decoded once and never normalised, names one object in every
//! request that can name it.

use nilas_net::percent::encode_path;
use nilas_shards::RingBody;

use crate::node::{BUCKET, TestNode};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    any_key_is_written_read_listed_and_deleted
    a_key_is_the_same_however_it_is_escaped
    keys_that_look_alike_are_different_objects
    a_key_that_is_too_long_is_refused_by_the_origin
}

fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "plain",
        "a+b",
        "a b",
        "a%b",
        "a%2Fb",
        "a%252Fb",
        "a%00b",
        "a#b",
        "a?b",
        "a&b=c;d",
        "@:=,$!*'()~",
        "a//b",
        "//a",
        "/a",
        "a/./b",
        "a/../b",
        "./a",
        "../a",
        ".",
        "..",
        "a/..",
        "a/.",
        "dir/",
        "a/b//",
        "ü",
        "日本/キー",
        "e\u{301}",
        "😀",
        "a\"b<c>d\\e|f^g`h{i}",
        "a\tb",
        "\u{7f}",
        " ",
        " a ",
        "+",
        "%",
        "data/x",
        "db/t/data/p=1%202/x.parquet",
        "metadata/v1.metadata.json",
        "CON",
        "a:b",
        "-rf",
    ]
    .map(str::to_owned)
    .to_vec();
    keys.push("k".repeat(1024));
    keys.push("ü".repeat(512));
    keys.push("a/".repeat(512));
    keys.push("+".repeat(1024));
    keys
}

fn target_of(key: &str) -> String {
    let mut path = format!("/{BUCKET}/").into_bytes();
    encode_path(key.as_bytes(), &mut path);
    String::from_utf8(path).expect("what is percent-encoded is ASCII")
}

fn any_key_is_written_read_listed_and_deleted(ring: RingBody) {
    use_any_key(&TestNode::start(ring, &[]));
}

pub fn use_any_key(node: &TestNode) {
    let mut client = node.client();
    for (number, key) in keys().iter().enumerate() {
        let (target, bytes) = (target_of(key), noise(number as u64, 100 + number));
        let length = bytes.len().to_string();
        let put = client.request("PUT", &target, &[], &bytes);
        assert_eq!(put.status, 200, "PUT {key:?}: {}", put.text());
        for _ in 0..2 {
            let head = client.request("HEAD", &target, &[], b"");
            assert_eq!(
                (head.status, head.header("content-length")),
                (200, Some(length.as_str())),
                "{key:?}"
            );
            assert_eq!(head.header("etag"), put.header("etag"), "{key:?}");
            let read = client.get(&target, &[]);
            assert!(read.status == 200 && read.body == bytes, "GET {key:?}: {}", read.status);
            let part = client.get(&target, &[("Range", "bytes=3-10")]);
            assert!(
                part.status == 206 && part.body == bytes[3..11],
                "GET {key:?}: {}",
                part.status
            );
        }
        assert_eq!(client.request("DELETE", &target, &[], b"").status, 204, "DELETE {key:?}");
        assert_eq!(client.get(&target, &[]).status, 404, "GET deleted {key:?}");
        assert_eq!(client.request("HEAD", &target, &[], b"").status, 404, "HEAD deleted {key:?}");
    }
}

fn a_key_is_the_same_however_it_is_escaped(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut client = node.client();
    for (spelt, otherwise) in [
        ("a+b", "a%2Bb"),
        ("a@b:c=d", "a%40b%3Ac%3Dd"),
        ("a/b", "a%2Fb"),
        ("%7Etilde", "~tilde"),
        ("%61%62", "ab"),
        ("%c3%bc", "%C3%BC"),
        ("a/%2e%2e/b", "a/../b"),
        ("it's(1)!*", "it%27s%281%29%21%2A"),
    ] {
        let (spelt_target, other_target) =
            (format!("/{BUCKET}/{spelt}"), format!("/{BUCKET}/{otherwise}"));
        for (write, read) in [(&spelt_target, &other_target), (&other_target, &spelt_target)] {
            let bytes = noise(write.len() as u64, 50);
            assert_eq!(client.request("PUT", write, &[], &bytes).status, 200, "{write}");
            let answer = client.get(read, &[]);
            assert!(
                answer.status == 200 && answer.body == bytes,
                "{write} {read}: {}",
                answer.status
            );
            assert_eq!(client.request("DELETE", read, &[], b"").status, 204, "{read}");
            assert_eq!(client.get(write, &[]).status, 404, "{write}");
        }
    }
}

fn keys_that_look_alike_are_different_objects(ring: RingBody) {
    use_keys_that_look_alike(&TestNode::start(ring, &[]));
}

pub fn use_keys_that_look_alike(node: &TestNode) {
    let mut client = node.client();
    let alike = [
        "a/b", "a//b", "/a/b", "a/b/", "a/./b", "a/x/../b", "a%2Fb", "A/b", "a/b ", "a+b", "a b",
        "a%20b",
    ];
    for (number, key) in alike.iter().enumerate() {
        let bytes = noise(number as u64, 64);
        assert_eq!(client.request("PUT", &target_of(key), &[], &bytes).status, 200, "{key:?}");
    }
    for (number, key) in alike.iter().enumerate() {
        assert!(client.get(&target_of(key), &[]).body == noise(number as u64, 64), "{key:?}");
    }
}

fn a_key_that_is_too_long_is_refused_by_the_origin(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    for key in ["k".repeat(1025), format!("{}k", "ü".repeat(512))] {
        for method in ["PUT", "GET", "DELETE"] {
            let answer = node.client().request(method, &target_of(&key), &[], b"");
            let found = (answer.status, answer.code());
            assert_eq!(found, (400, "KeyTooLongError".to_owned()), "{method}");
        }
        assert_eq!(node.client().request("HEAD", &target_of(&key), &[], b"").status, 400);
    }
}
