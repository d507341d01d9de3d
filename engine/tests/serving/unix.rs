//! S3 over a Unix socket: the same answers as over TCP, by all shards, beside TCP, for whom the file's mode admits.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use nilas_engine::metrics::Failure;
use nilas_shards::RingBody;
use tempfile::TempDir;

use crate::audit::Audited;
use crate::client::TestClient;
use crate::node::{TestNode, target};
use crate::time::{eventually, pause};
use crate::{noise, on_both_bodies};

on_both_bodies! {
    what_is_written_over_one_is_read_over_the_other
    a_large_answer_reaches_a_slow_reader_whole
    whoever_reads_nothing_is_closed_and_whoever_reads_slowly_is_not
    all_shards_accept
    the_signed_host_is_whatever_was_sent
    a_client_is_recorded_as_its_process
    no_proxy_header_is_asked_of_it
    the_file_has_its_mode_and_goes_when_the_node_stops
    connections_over_the_limit_are_turned_away
}

const HOST: &str = "nilas.local";

struct Local {
    node: Option<TestNode>,
    path: PathBuf,
    _folder: TempDir,
}

fn start(ring: RingBody, flags: &[&str]) -> Local {
    let (folder, path) = place();
    let own = ["--server.unix_socket", path.to_str().expect("a temporary path is text")];
    let node = Some(TestNode::start(ring, &[&own[..], flags].concat()));
    Local { node, path, _folder: folder }
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s3.sock");
    (folder, path)
}

impl Local {
    fn node(&self) -> &TestNode {
        self.node.as_ref().expect("it runs until it is stopped")
    }

    fn client(&self) -> TestClient {
        TestClient::connect_unix(&self.path, HOST)
    }

    fn failures(&self, failure: Failure) -> u64 {
        self.node().node().metrics().total(|cells| cells.failures[failure.index()].get())
    }
}

fn what_is_written_over_one_is_read_over_the_other(ring: RingBody) {
    let local = start(ring, &[]);
    let bytes = noise(1, 3 << 20);
    let mut unix = local.client();
    let mut tcp = local.node().client();
    for (key, length) in [("empty", 0), ("small", 10), ("more", 70_000), ("much", bytes.len())] {
        assert_eq!(unix.request("PUT", &target(key), &[], &bytes[..length]).status, 200);
        assert!(tcp.get(&target(key), &[]).body == bytes[..length], "{key}");
        assert!(unix.get(&target(key), &[]).body == bytes[..length], "{key}");
    }
    assert_eq!(tcp.request("PUT", &target("small"), &[], b"newer").status, 200);
    assert_eq!(unix.get(&target("small"), &[]).text(), "newer");
    let range = unix.get(&target("much"), &[("Range", "bytes=1000000-1000009")]);
    assert_eq!(range.body, &bytes[1_000_000..1_000_010]);
    let mut heads = unix.signed_head("GET", &target("small"), &[], 0).repeat(20);
    heads.extend(unix.signed_head("HEAD", &target("much"), &[], 0));
    unix.write(&heads);
    for _ in 0..20 {
        assert_eq!(unix.answer(false).text(), "newer");
    }
    assert_eq!(unix.answer(true).status, 200);
    assert_eq!(unix.request("DELETE", &target("small"), &[], b"").status, 204);
    assert_eq!(tcp.get(&target("small"), &[]).status, 404);
}

fn a_large_answer_reaches_a_slow_reader_whole(ring: RingBody) {
    let local = start(ring, &[]);
    let bytes = noise(2, 9 << 20);
    local.node().place("object", &bytes);
    for round in ["cold", "warm"] {
        let mut client = local.client();
        client.write(&client.signed_head("GET", &target("object"), &[], 0));
        pause(Duration::from_millis(100));
        let body = client.answer(false).body;
        assert!(body == bytes, "{round}");
    }
}

fn whoever_reads_nothing_is_closed_and_whoever_reads_slowly_is_not(ring: RingBody) {
    let local = start(ring, &["--limits.send_idle_timeout", "400ms"]);
    local.node().place("object", &noise(3, 9 << 20));
    let head = local.client().signed_head("GET", &target("object"), &[], 0);
    let mut slow = local.client();
    slow.write(&head);
    let mut stuck = local.client();
    stuck.write(&head);
    eventually("the one is closed", || {
        // What the kernel tells of goes by pieces of 36 KiB.
        slow.read_some(60_000);
        local.failures(Failure::ClientTimeout) == 1
    });
    for _ in 0..60 {
        slow.read_some(60_000);
        pause(Duration::from_millis(10));
    }
    assert_eq!(local.failures(Failure::ClientTimeout), 1);
    let got = stuck.read_to_end().len();
    assert!(got < 9 << 20, "it was cut, not served");
}

fn all_shards_accept(ring: RingBody) {
    let local = start(ring, &["--server.pin", "false"]);
    let opened = || {
        let shards = local.node().node().metrics().shards();
        [0, 1].map(|number| shards[number].connections_opened.get())
    };
    let mut clients = Vec::new();
    eventually("both have some", || {
        for _ in 0..8 {
            clients.push(local.client());
        }
        pause(Duration::from_millis(5));
        opened().iter().all(|count| *count > 0)
    });
    for client in &mut clients {
        assert_eq!(client.get(&target("none"), &[]).status, 404);
    }
    assert_eq!(opened().iter().sum::<u64>(), clients.len() as u64);
}

fn the_signed_host_is_whatever_was_sent(ring: RingBody) {
    let local = start(ring, &["--server.domains", "s3.local"]);
    local.node().place("k", b"bytes");
    for (host, target) in [("localhost", "/lake/k"), ("x:1", "/lake/k"), ("lake.s3.local", "/k")] {
        let mut client = TestClient::connect_unix(&local.path, host);
        assert_eq!(client.get(target, &[]).text(), "bytes", "{host}");
    }
    let mut client = local.client();
    let mut wording = client.wording("GET", "/lake/k");
    wording.secret = "a-wrong-secret".to_owned();
    assert_eq!(client.send(&wording, b"").code(), "SignatureDoesNotMatch");
}

fn a_client_is_recorded_as_its_process(ring: RingBody) {
    let (_folder, path) = place();
    let socket = path.to_str().expect("a temporary path is text");
    let audited = Audited::start(ring, &["--server.unix_socket", socket]);
    let mut client = TestClient::connect_unix(&path, HOST);
    client.write(b"GET /lake/k HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.answer(false).status, 403);
    let told = audited.records(1)[0]["client"].as_str().expect("a text").to_owned();
    let process = format!("unix:pid={},uid=", std::process::id());
    assert!(told.starts_with(&process), "{told}");
}

fn no_proxy_header_is_asked_of_it(ring: RingBody) {
    let flags = ["--server.proxy_protocol", "v2", "--server.proxy_protocol_from", "10.0.0.0/8"];
    let local = start(ring, &flags);
    assert_eq!(local.client().get(&target("none"), &[]).status, 404);
    assert!(local.node().client().is_closed(), "over TCP it is");
}

fn the_file_has_its_mode_and_goes_when_the_node_stops(ring: RingBody) {
    for (flags, expected) in [(&[][..], 0o660), (&["--server.unix_socket_mode", "0600"], 0o600)] {
        let mut local = start(ring, flags);
        let mode = std::fs::metadata(&local.path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, expected);
        let mut idle = local.client();
        assert_eq!(idle.get(&target("none"), &[]).status, 404);
        drop(local.node.take());
        assert!(!local.path.exists());
        assert!(idle.is_closed());
    }
}

fn connections_over_the_limit_are_turned_away(ring: RingBody) {
    let local = start(ring, &["--limits.connections_per_shard_max", "2"]);
    let mut clients: Vec<_> = (0..40).map(|_| local.client()).collect();
    let (mut served, mut turned_away) = (0, 0);
    for client in &mut clients {
        client.try_write(&client.signed_head("GET", &target("none"), &[], 0));
        match client.answer(false).status {
            404 => served += 1,
            503 => turned_away += 1,
            other => panic!("{other}"),
        }
    }
    assert!((2..=4).contains(&served), "two a shard, not {served}");
    assert_eq!(served + turned_away, 40);
}
