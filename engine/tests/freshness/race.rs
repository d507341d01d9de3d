//! Readers on many connections, one writer, and everything that changes an object interleaved:
//! overwrites with other lengths, deletes alone and in lists, copies, completed uploads, purges, and
//! writers that are killed before their answer. No answer is of two states, short without a cut, or
//! of a state that was over when it was asked for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nilas_base::Rng;
use nilas_engine::purge::{Purge, PurgeScope};
use nilas_shards::RingBody;

use crate::client::TestClient;
use crate::history::History;
use crate::node::{BUCKET, TestNode};
use crate::time::{eventually, pause};
use crate::{noise, on_both_bodies, target};

on_both_bodies! {
    no_read_mixes_or_outlives_a_change_of_a_mutable_object
    no_read_mixes_or_outlives_a_change_of_a_file_that_should_never_change
    no_read_mixes_or_outlives_a_change_without_a_time_to_live
}

const READERS: u64 = 5;
const CHANGES: u64 = 40;
/// Borders of blocks lie within, whatever the length.
const BLOCK_BYTES: usize = 1 << 20;

fn no_read_mixes_or_outlives_a_change_of_a_mutable_object(ring: RingBody) {
    race(ring, "object", "1h", 1);
}

fn no_read_mixes_or_outlives_a_change_of_a_file_that_should_never_change(ring: RingBody) {
    race(ring, "t/metadata/a.avro", "1h", 2);
}

fn no_read_mixes_or_outlives_a_change_without_a_time_to_live(ring: RingBody) {
    race(ring, "object", "0s", 3);
}

fn race(ring: RingBody, key: &str, ttl: &str, seed: u64) {
    let own = ["--cache.mutable_ttl", ttl, "--cache.block_bytes", "1MiB"];
    let flags = [&own[..], &["--cache.write_allocate", "all"]].concat();
    let node = TestNode::start(ring, &flags);
    let (history, is_over, judged) = (History::new(), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (node, history, is_over, judged) = (&node, &history, &is_over, &judged);
            scope.spawn(move || {
                let _ends_all = EndsAll(is_over);
                let mut rng = Rng::from_seed(seed * 100 + reader);
                while !is_over.load(Ordering::SeqCst) {
                    judged.fetch_add(read_on(node, key, history, &mut rng), Ordering::SeqCst);
                }
            });
        }
        let _ends_all = EndsAll(&is_over);
        let mut writer = Writer::new(&node, &history, key, seed);
        for change in 0..CHANGES {
            writer.change(change);
        }
    });
    let judged = judged.load(Ordering::SeqCst);
    assert!(judged > CHANGES as usize, "only {judged} answers were whole");
}

/// Lets the others end, also when a claim fails here.
struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A few reads on one connection; says how many were whole.
fn read_on(node: &TestNode, key: &str, history: &History, rng: &mut Rng) -> usize {
    let mut client = node.client();
    for read in 0..20 {
        let range = rng.chance(2, 3).then(|| {
            let border = BLOCK_BYTES * (1 + rng.below(2) as usize);
            let start = border - rng.below(70_000) as usize;
            (start, start + 1 + rng.below(140_000) as usize)
        });
        let header = range.map(|(start, end)| format!("bytes={start}-{}", end - 1));
        let headers: Vec<_> = header.iter().map(|value| ("Range", value.as_str())).collect();
        let asked = history.asks();
        client.write(&client.signed_head("GET", &target(key), &headers, 0));
        match client.answer_unless_cut() {
            Some(answer) => history.judge(asked, &answer, range),
            // Its version went away in the middle: visibly so.
            None => return read,
        }
    }
    20
}

/// Changes the object in every way there is.
struct Writer<'a> {
    node: &'a TestNode,
    history: &'a History,
    key: &'a str,
    rng: Rng,
    client: TestClient,
}

impl Writer<'_> {
    fn new<'a>(node: &'a TestNode, history: &'a History, key: &'a str, seed: u64) -> Writer<'a> {
        let rng = Rng::from_seed(seed);
        Writer { node, history, key, rng, client: node.client() }
    }

    fn change(&mut self, number: u64) {
        pause(Duration::from_millis(self.rng.below(15)));
        let bytes = noise(1000 + number, BLOCK_BYTES + self.rng.below(2 << 20) as usize);
        match self.rng.below(10) {
            0 => self.delete(),
            1 => self.delete_in_a_list(),
            2 => self.copy(bytes),
            3 => self.complete_an_upload(bytes),
            4 => self.purge(),
            5 => self.be_killed(bytes),
            _ => self.put(bytes),
        }
    }

    fn put(&mut self, bytes: Vec<u8>) {
        self.history.begin(Some(bytes.clone()));
        let put = self.client.request("PUT", &target(self.key), &[], &bytes);
        assert_eq!(put.status, 200, "{}", put.text());
        self.history.finish();
    }

    fn delete(&mut self) {
        self.history.begin(None);
        assert_eq!(self.client.request("DELETE", &target(self.key), &[], b"").status, 204);
        self.history.finish();
    }

    fn delete_in_a_list(&mut self) {
        self.history.begin(None);
        let xml = format!(
            "<Delete><Object><Key>other</Key></Object><Object><Key>{}</Key></Object></Delete>",
            self.key
        );
        let crc =
            nilas_net::checksum::checksum(nilas_net::checksum::Algorithm::Crc32, xml.as_bytes());
        let headers = [("x-amz-checksum-crc32", &*crc.base64())];
        let path = format!("/{BUCKET}?delete=");
        let deleted = self.client.request("POST", &path, &headers, xml.as_bytes());
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        self.history.finish();
    }

    fn copy(&mut self, bytes: Vec<u8>) {
        let put = self.client.request("PUT", &target("source"), &[], &bytes);
        assert_eq!(put.status, 200, "{}", put.text());
        self.history.begin(Some(bytes.clone()));
        let source = [("x-amz-copy-source", &*format!("{BUCKET}/source"))];
        let copied = self.client.request("PUT", &target(self.key), &source, b"");
        assert_eq!(copied.status, 200, "{}", copied.text());
        self.history.finish();
    }

    fn complete_an_upload(&mut self, bytes: Vec<u8>) {
        let path = target(self.key);
        let begun = self.client.request("POST", &format!("{path}?uploads="), &[], b"").text();
        let (_, rest) = begun.split_once("<UploadId>").expect("an upload id");
        let (id, _) = rest.split_once("</UploadId>").expect("an upload id");
        let part = format!("{path}?partNumber=1&uploadId={id}");
        let put = self.client.request("PUT", &part, &[], &bytes);
        let etag = put.header("etag").expect("an ETag");
        let xml = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        );
        self.history.begin(Some(bytes.clone()));
        let complete = format!("{path}?uploadId={id}");
        let done = self.client.request("POST", &complete, &[], xml.as_bytes());
        assert_eq!(done.status, 200, "{}", done.text());
        self.history.finish();
    }

    /// Changes nothing; what is read must stay what it is.
    fn purge(&mut self) {
        let scope = match self.rng.below(3) {
            0 => PurgeScope::Key(self.key.to_owned()),
            1 => PurgeScope::Prefix(self.key[..1].to_owned()),
            _ => PurgeScope::Bucket,
        };
        let what = Purge { bucket: BUCKET.to_owned(), scope };
        let purges = self.node.node().purges().clone();
        let purged = self.node.node().control().block_on(async move { purges.purge(what).await });
        purged.expect("the shards answer");
    }

    /// Sends a whole write and leaves before its answer. It happens or not; once the origin shows
    /// that it has, and a read has seen it, every read does.
    fn be_killed(&mut self, bytes: Vec<u8>) {
        self.history.begin(Some(bytes.clone()));
        let mut victim = self.node.client();
        victim.write(&victim.signed_head("PUT", &target(self.key), &[], bytes.len()));
        victim.write(&bytes);
        drop(victim);
        let file = self.node.bucket_directory().join(self.key);
        eventually("the origin has it", || {
            std::fs::read(&file).is_ok_and(|stored| stored == bytes)
        });
        eventually("it is read", || self.client.get(&target(self.key), &[]).body == bytes);
        self.history.finish();
    }
}
