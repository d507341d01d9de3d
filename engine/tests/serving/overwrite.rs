//! Overwrites that race with reads: every answer is one version, whole or visibly cut; a read that
//! begins after a write was answered gives that write's version or a later one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nilas_base::Rng;
use nilas_net::checksum::{Algorithm, checksum};
use nilas_shards::RingBody;

use crate::client::Answer;
use crate::node::{BUCKET, TestNode};
use crate::time::pause;
use crate::{noise, on_both_bodies};

on_both_bodies! {
    reads_that_race_with_writes_never_mix_and_never_go_back
    reads_that_race_with_changes_behind_the_node_never_mix
}

const VERSIONS: usize = 24;
const READERS: u64 = 4;

/// What an object was, is and will be.
struct History {
    versions: Vec<(String, Vec<u8>)>,
    /// The newest version whose write was answered.
    written: AtomicUsize,
    is_over: AtomicBool,
}

impl History {
    fn new() -> History {
        let version = |number: usize| {
            let bytes = noise(number as u64, (2 << 20) + 400_000 * (number % 5) + number);
            (format!("\"{}\"", checksum(Algorithm::Md5, &bytes).hex()), bytes)
        };
        History {
            versions: (0..VERSIONS).map(version).collect(),
            written: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Which version this answer is of; panics if it is of none.
    fn version_of(&self, answer: &Answer, range: Option<(usize, usize)>) -> usize {
        let etag = answer.header("etag").expect("an ETag");
        let number =
            self.versions.iter().position(|(known, _)| known == etag).expect("a known ETag");
        let bytes = &self.versions[number].1;
        let expected = match range {
            Some((start, end)) => &bytes[start..end.min(bytes.len())],
            None => &bytes[..],
        };
        assert!(answer.body == expected, "version {number}: another one's bytes, or too few");
        number
    }
}

/// Reads until it is over; gives how many answers were whole.
fn read_on(node: &TestNode, history: &History, seed: u64, is_ordered: bool) -> usize {
    let mut rng = Rng::from_seed(seed);
    let mut client = node.client();
    let mut whole = 0;
    while !history.is_over.load(Ordering::SeqCst) {
        let range = rng.chance(1, 2).then(|| {
            let start = rng.below(2 << 20) as usize;
            (start, start + 1 + rng.below(900_000) as usize)
        });
        let header = range.map(|(start, end)| format!("bytes={start}-{}", end - 1));
        let headers: Vec<_> = header.iter().map(|value| ("Range", value.as_str())).collect();
        let written = history.written.load(Ordering::SeqCst);
        client.write(&client.signed_head("GET", &format!("/{BUCKET}/object"), &headers, 0));
        let Some(answer) = client.answer_unless_cut() else {
            client = node.client();
            continue;
        };
        assert!(matches!(answer.status, 200 | 206), "{}: {}", answer.status, answer.text());
        let version = history.version_of(&answer, range);
        assert!(
            !is_ordered || version >= written,
            "{version} was read after {written} was written"
        );
        whole += 1;
    }
    whole
}

fn race(node: &TestNode, is_ordered: bool, write: impl Fn(&[u8])) {
    let history = History::new();
    write(&history.versions[0].1);
    let whole: usize = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|seed| {
                let history = &history;
                scope.spawn(move || read_on(node, history, seed, is_ordered))
            })
            .collect();
        for number in 1..VERSIONS {
            pause(Duration::from_millis(30));
            write(&history.versions[number].1);
            history.written.store(number, Ordering::SeqCst);
        }
        pause(Duration::from_millis(100));
        history.is_over.store(true, Ordering::SeqCst);
        readers.into_iter().map(|reader| reader.join().expect("a reader's claims hold")).sum()
    });
    assert!(whole > VERSIONS, "only {whole} reads were whole");
}

fn reads_that_race_with_writes_never_mix_and_never_go_back(ring: RingBody) {
    for flags in [["--cache.mutable_ttl", "1h"], ["--cache.mutable_ttl", "0s"]] {
        race_with_writes(&TestNode::start(ring, &flags));
    }
}

pub fn race_with_writes(node: &TestNode) {
    race(node, true, |bytes| {
        let put = node.client().request("PUT", &format!("/{BUCKET}/object"), &[], bytes);
        assert_eq!(put.status, 200, "{}", put.text());
    });
}

fn reads_that_race_with_changes_behind_the_node_never_mix(ring: RingBody) {
    let node = TestNode::start(ring, &["--cache.mutable_ttl", "5ms"]);
    let behind =
        TestNode::start(ring, &["--origin.path", node.directory().to_str().expect("text")]);
    race(&node, false, |bytes| {
        let put = behind.client().request("PUT", &format!("/{BUCKET}/object"), &[], bytes);
        assert_eq!(put.status, 200, "{}", put.text());
    });
}
