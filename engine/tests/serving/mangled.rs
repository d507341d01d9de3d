//! Mangled requests: bytes flipped, lost, doubled and cut at random places of a right conversation.
//! Whatever arrives, the node answers or closes, blames the client and not itself, stays well, and
//! an object holds only what was signed.

use nilas_base::Rng;
use nilas_net::checksum::{Algorithm, checksum};
use nilas_net::sigv4::PayloadHash;
use nilas_shards::RingBody;

use crate::client::TestClient;
use crate::node::{BUCKET, TestNode};
use crate::time::eventually;
use crate::{noise, on_both_bodies};

on_both_bodies! {
    a_mangled_conversation_harms_nobody
}

const ROUNDS: u64 = 250;

/// A write and two reads, one behind the other.
fn conversation(client: &TestClient, bytes: &[u8]) -> Vec<u8> {
    let target = format!("/{BUCKET}/object");
    let digest = checksum(Algorithm::Sha256, bytes).hex();
    let payload = PayloadHash::parse(digest.as_bytes()).expect("a digest");
    let write = client.wording("PUT", &target).payload(payload);
    let mut sent = write.header("Content-Length", &bytes.len().to_string()).head();
    sent.extend_from_slice(bytes);
    sent.extend(client.signed_head("GET", &target, &[("Range", "bytes=2-40")], 0));
    sent.extend(client.signed_head("HEAD", &target, &[], 0));
    sent
}

fn mangle(sent: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(sent.len() as u64) as usize;
        let end = (at + 1 + rng.below(12) as usize).min(sent.len());
        match rng.below(6) {
            0 => sent[at] ^= 1 << rng.below(8),
            1 => sent[at] = rng.next_u64() as u8,
            2 => drop(sent.drain(at..end)),
            3 => {
                let again = sent[at..end].to_vec();
                sent.splice(at..at, again);
            }
            4 => sent.truncate(at.max(1)),
            _ => {
                let odd: [&[u8]; 6] = [b"\r\n", b"\0", b"\n", b": ", b"\r\n\r\n", b"%"];
                sent.splice(at..at, odd[rng.below(6) as usize].iter().copied());
            }
        }
    }
}

fn a_mangled_conversation_harms_nobody(ring: RingBody) {
    let node = TestNode::start(ring, &[]);
    let mut rng = Rng::from_seed(11);
    let (old, new) = (noise(1, 3000), noise(2, 3000));
    for round in 0..ROUNDS {
        node.place("object", &old);
        let mut client = node.client();
        let mut sent = conversation(&client, &new);
        mangle(&mut sent, &mut rng);
        client.try_write(&sent);
        client.end_sending();
        let answers = client.read_to_end();
        for line in String::from_utf8_lossy(&answers).lines() {
            let blames_itself =
                line.starts_with("HTTP/1.1 500") || line.starts_with("HTTP/1.1 503");
            assert!(!blames_itself, "round {round}: {line}");
        }
        let kept = std::fs::read(node.bucket_directory().join("object")).expect("an object");
        assert!(kept == old || kept == new, "round {round}: nobody signed this");
    }
    eventually("no connection is left", || node.open_connections() == 0);
    let read = node.client().get(&format!("/{BUCKET}/none"), &[]);
    assert_eq!(read.status, 404);
}
