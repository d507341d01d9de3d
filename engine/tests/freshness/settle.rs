//! Writes whose answer begins before they are done, as S3 answers completed uploads and copies: what
//! counts is the answer's end, and a client that leaves before it changes nothing for the others.

use std::time::Duration;

use nilas_shards::RingBody;

use crate::node::BUCKET;
use crate::origin::{Fate, WritableOrigin};
use crate::time::eventually;
use crate::{node_before, on_both_bodies, target};

on_both_bodies! {
    a_write_that_is_done_at_its_answers_end_is_seen_by_reads_after_it
    a_client_that_leaves_within_such_an_answer_changes_nothing_for_others
    a_list_of_deletes_reaches_the_origin_as_it_was_sent
}

const KEYS: [&str; 2] = ["t/metadata/a.avro", "t/metadata/b.avro"];
const WORK: Duration = Duration::from_millis(200);

fn a_write_that_is_done_at_its_answers_end_is_seen_by_reads_after_it(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    let copies = Some(("x-amz-copy-source", "lake/b"));
    for (key, (method, query, header)) in
        KEYS.into_iter().zip([("POST", "?uploadId=1", None), ("PUT", "", copies)])
    {
        origin.place(&target(key), b"old");
        let headers: Vec<_> = header.into_iter().collect();
        let (mut writer, mut reader) = (node.client(), node.client());
        assert_eq!(writer.get(&target(key), &[]).text(), "old");
        origin.next_write(Fate::HeadFirst(WORK));
        let target_of_write = format!("{}{query}", target(key));
        writer.write(&writer.signed_head(method, &target_of_write, &headers, 3));
        writer.write(b"new");
        // The answer's head is on its way, and the write is not done.
        eventually("the write is begun", || {
            origin
                .asked()
                .iter()
                .any(|asked| asked.method == method && asked.target == target_of_write)
        });
        for _ in 0..20 {
            reader.get(&target(key), &[]);
        }
        let answer = writer.answer(false);
        assert!(answer.status == 200 && answer.text().ends_with("<done/>"), "{}", answer.text());
        for _ in 0..4 {
            let read = node.client().get(&target(key), &[]);
            assert!(read.text().ends_with("new"), "{method}: {}", read.text());
        }
    }
}

fn a_client_that_leaves_within_such_an_answer_changes_nothing_for_others(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    origin.place(&target(KEYS[0]), b"old");
    assert_eq!(node.client().get(&target(KEYS[0]), &[]).text(), "old");
    origin.next_write(Fate::HeadFirst(WORK));
    let mut writer = node.client();
    writer.write(&writer.signed_head("POST", &format!("{}?uploadId=1", target(KEYS[0])), &[], 3));
    writer.write(b"new");
    drop(writer);
    let mut reader = node.client();
    eventually("the write is seen", || reader.get(&target(KEYS[0]), &[]).text().ends_with("new"));
    for _ in 0..4 {
        assert!(node.client().get(&target(KEYS[0]), &[]).text().ends_with("new"));
    }
}

fn a_list_of_deletes_reaches_the_origin_as_it_was_sent(ring: RingBody) {
    let origin = WritableOrigin::start();
    let node = node_before(&origin, ring, &[]);
    let objects: String =
        (0..900).map(|number| format!("<Object><Key>key-{number}</Key></Object>")).collect();
    for body in [
        format!("<?xml version=\"1.0\"?>\n <Delete> {objects}<Quiet>true</Quiet></Delete> "),
        "<Delete>not a list".to_owned(),
        format!("<Delete>{objects}<!--{}--></Delete>", "x".repeat(5 << 20)),
    ] {
        let deleted =
            node.client().request("POST", &format!("/{BUCKET}?delete="), &[], body.as_bytes());
        assert_eq!(deleted.status, 200);
        let asked = origin.asked().pop().expect("it was asked");
        assert!(asked.body == body.as_bytes(), "{} bytes", body.len());
    }
}
