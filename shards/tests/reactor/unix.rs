//! Claims about Unix sockets, on the bodies that have them: what holds of any connection holds of theirs, and
//! reactors that share one listener share its connections.

use crate::stage::{Stage, receive, send};
use nilas_shards::{Buffer, Listener, Peer, Reactor, Socket, Transport, bind_unix};
use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;

struct Place {
    _folder: TempDir,
    path: PathBuf,
    bound: UnixListener,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let bound = bind_unix(&path, 0o600).expect("nothing is there");
        Place { _folder: folder, path, bound }
    }

    fn listener(&self, reactor: &Reactor) -> Listener {
        let shared = self.bound.try_clone().expect("descriptors are left");
        reactor.listen_unix(shared).expect("the body has Unix sockets")
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).expect("somebody listens")
    }

    /// A client's end, which blocks, and the server's.
    async fn connection(&self, reactor: &Reactor) -> (UnixStream, Socket) {
        let client = self.connect();
        (client, self.listener(reactor).accept().await.expect("the client is there"))
    }
}

fn bytes_pass_both_ways_and_the_peer_is_a_process(stage: &Stage) {
    let (reactor, place) = (stage.reactor(), Place::new());
    stage.block_on(async {
        let (mut client, server) = place.connection(&reactor).await;
        assert_eq!(server.transport(), Transport::Unix);
        let Ok(Peer::Process { process, .. }) = server.peer() else { panic!("no process") };
        assert_eq!(u32::try_from(process), Ok(std::process::id()));
        let unsupported = server.local_address().expect_err("a Unix socket has no address");
        assert_eq!(unsupported.kind(), ErrorKind::Unsupported);
        for length in [1, 10, 5000, 60_000] {
            let question: Vec<u8> = (0..length).map(|index| index as u8).collect();
            client.write_all(&question).expect("it is open");
            assert_eq!(receive(&server, length).await, question);
            assert_eq!(send(&server, &question).await.expect("it is open"), length);
            let mut answer = vec![0; length];
            client.read_exact(&mut answer).expect("it was sent");
            assert_eq!(answer, question);
        }
        client.write_all(b"HEADbody").expect("it is open");
        assert_eq!(receive(&server, 8).await, b"HEADbody");
        assert!(server.pause_heads().await.is_empty());
        client.write_all(b"more").expect("it is open");
        let (count, buffer) = server.receive_into(Buffer::with_capacity(100)).await;
        assert_eq!((count.expect("it is open"), buffer.filled()), (4, &b"more"[..]));
        client.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert!(server.receive_head().await.expect("an end is no error").is_empty());
    });
}

fn a_big_send_arrives_whole_at_a_slow_reader(stage: &Stage) {
    let (reactor, place) = (stage.reactor(), Place::new());
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|index| (index % 251) as u8).collect();
    stage.block_on(async {
        let (mut client, server) = place.connection(&reactor).await;
        let reading = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            let mut piece = vec![0; 9973];
            loop {
                match client.read(&mut piece).expect("the server sends on") {
                    0 => return arrived,
                    count => arrived.extend_from_slice(&piece[..count]),
                }
                std::thread::yield_now();
            }
        });
        assert_eq!(send(&server, &bytes).await.expect("the client reads on"), bytes.len());
        drop(server);
        while !reading.is_finished() {
            reactor.sleep(Duration::from_millis(1)).await;
        }
        assert!(reading.join().expect("the client does not panic") == bytes);
    });
}

/// Begins a send of this length, which says when it has ended, and how.
fn begin_send(reactor: &Reactor, server: &Rc<Socket>, length: usize) -> Rc<Cell<Option<bool>>> {
    let ended = Rc::new(Cell::new(None));
    let (server, flag) = (Rc::clone(server), Rc::clone(&ended));
    reactor.spawn(async move {
        flag.set(Some(send(&server, &vec![7; length]).await.is_ok()));
    });
    ended
}

fn a_send_that_nobody_takes_shows_no_progress_and_can_be_aborted(stage: &Stage) {
    let (reactor, place) = (stage.reactor(), Place::new());
    stage.block_on(async {
        let (mut client, server) = place.connection(&reactor).await;
        let server = Rc::new(server);
        let ended = begin_send(&reactor, &server, 8 << 20);
        let taken = || server.taken_bytes().expect("it is open");
        reactor.sleep(Duration::from_millis(50)).await;
        for _ in 0..20 {
            let at_rest = taken();
            for _ in 0..3 {
                reactor.sleep(Duration::from_millis(1)).await;
                assert_eq!(taken(), at_rest, "nobody reads");
            }
            client.read_exact(&mut vec![0; 40_000]).expect("more is there");
            assert!(taken() > at_rest, "somebody has read on");
            reactor.sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(ended.get(), None);
        server.abort().expect("it is open");
        while ended.get().is_none() {
            reactor.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ended.get(), Some(false), "it was aborted");
    });
}

fn a_client_that_is_gone_ends_what_is_sent_to_it(stage: &Stage) {
    let (reactor, place) = (stage.reactor(), Place::new());
    stage.block_on(async {
        let (client, server) = place.connection(&reactor).await;
        let ended = begin_send(&reactor, &Rc::new(server), 8 << 20);
        reactor.sleep(Duration::from_millis(10)).await;
        drop(client);
        while ended.get().is_none() {
            reactor.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ended.get(), Some(false));
    });
}

fn every_connection_of_a_shared_listener_is_accepted_once(stage: &Stage) {
    let place = Place::new();
    let reactors = [stage.reactor(), stage.reactor()];
    let accepted = [Rc::new(Cell::new(0)), Rc::new(Cell::new(0))];
    for (reactor, accepted) in reactors.iter().zip(&accepted) {
        let (mut listener, accepted) = (place.listener(reactor), Rc::clone(accepted));
        reactor.spawn(async move {
            loop {
                let socket = listener.accept().await.expect("clients connect");
                accepted.set(accepted.get() + 1);
                send(&socket, b"hello").await.expect("it is open");
            }
        });
    }
    let total = || accepted.iter().map(|accepted| accepted.get()).sum::<usize>();
    stage.block_on(async {
        for number in 1..=40 {
            let mut client = place.connect();
            while total() < number {
                reactors[0].sleep(Duration::from_millis(1)).await;
            }
            let mut greeting = [0; 5];
            client.read_exact(&mut greeting).expect("it was accepted");
            assert_eq!(&greeting, b"hello");
        }
    });
    assert_eq!(total(), 40);
    if reactors[0].ring_body() == nilas_shards::RingBody::IoUring {
        let each = accepted.map(|accepted| accepted.get());
        assert_eq!(each, [20, 20], "who has got one stands in line again");
    }
}

on_bodies!([io_uring, epoll] {
    unix::bytes_pass_both_ways_and_the_peer_is_a_process,
    unix::a_big_send_arrives_whole_at_a_slow_reader,
    unix::a_send_that_nobody_takes_shows_no_progress_and_can_be_aborted,
    unix::a_client_that_is_gone_ends_what_is_sent_to_it,
    unix::every_connection_of_a_shared_listener_is_accepted_once,
});

#[test]
fn the_simulated_body_refuses_unix_sockets() {
    let (stage, place) = (Stage::simulated(), Place::new());
    let refused = stage.reactor().listen_unix(place.bound).err().expect("there are none");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    stage.end();
}
