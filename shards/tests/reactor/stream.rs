//! Claims about connections: heads, bodies, sends, ends.

use crate::stage::{Stage, connection, listener, receive, send};
use bytes::Bytes;
use nilas_base::Rng;
use nilas_shards::{Buffer, PARTS_MAX, Peer, Transport};
use std::io::ErrorKind;
use std::net::Shutdown;
use std::time::Duration;

pub(crate) fn bytes_come_back_from_an_echo(stage: &Stage) {
    let reactor = stage.reactor();
    let mut listener = listener(&reactor);
    let address = listener.local_address().expect("it listens");
    reactor.spawn(async move {
        let server = listener.accept().await.expect("a client connects");
        loop {
            let received = server.receive_head().await.expect("the client goes on");
            if received.is_empty() {
                return;
            }
            let mut head = server.reactor().head_buffer();
            head.write(&received).expect("a receive is smaller than a head buffer");
            let mut parts = server.reactor().parts();
            parts.push_head(head);
            server.send(parts).await.expect("the client listens");
        }
    });
    stage.block_on(async {
        let client = reactor.connect(address).await.expect("the server listens");
        for length in [1, 10, 4096, 5000] {
            let question: Vec<u8> = (0..length).map(|index| index as u8).collect();
            assert_eq!(send(&client, &question).await.expect("it is open"), length);
            assert_eq!(receive(&client, length).await, question);
        }
    });
}

pub(crate) fn pipelined_heads_arrive_in_order(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        let heads: String =
            (0..1000).map(|number| format!("GET /{number} HTTP/1.1\r\n\r\n")).collect();
        send(&client, heads.as_bytes()).await.expect("the window is wide enough");
        assert_eq!(receive(&server, heads.len()).await, heads.as_bytes());
    });
}

pub(crate) fn a_body_follows_its_head_through_a_pause(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        let body: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
        reactor.spawn({
            let body = body.clone();
            async move {
                for _ in 0..3 {
                    send(&client, b"HEAD").await.expect("the server listens");
                    send(&client, &body).await.expect("the server listens");
                    assert_eq!(receive(&client, 2).await, b"ok");
                }
                assert!(client.receive_head().await.expect("an end is no error").is_empty());
            }
        });
        for _ in 0..3 {
            let mut bytes = receive(&server, 4).await;
            for received in server.pause_heads().await {
                bytes.extend_from_slice(&received);
            }
            let whole = 4 + body.len();
            assert!(bytes.len() <= whole, "the next head is not sent yet");
            let mut rest = Buffer::with_capacity(body.len());
            rest.set_limit(whole - bytes.len());
            while rest.room() > 0 {
                let (count, buffer) = server.receive_into(rest).await;
                assert!(count.expect("the client sends") > 0);
                rest = buffer;
            }
            bytes.extend_from_slice(rest.filled());
            assert_eq!(&bytes[..4], b"HEAD");
            assert!(bytes[4..] == body);
            send(&server, b"ok").await.expect("the client listens");
        }
    });
}

pub(crate) fn a_big_vectored_send_arrives_whole_at_a_slow_reader(stage: &Stage) {
    let reactor = stage.reactor();
    let mut rng = Rng::from_seed(7);
    let pieces: Vec<Bytes> = (0..PARTS_MAX)
        .map(|_| (0..400_000 + rng.below(1000)).map(|_| rng.next_u64() as u8).collect())
        .collect();
    let expected = pieces.concat();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        let total = expected.len();
        reactor.spawn(async move {
            let mut parts = server.reactor().parts();
            pieces.into_iter().for_each(|piece| parts.push_bytes(piece));
            assert_eq!(parts.room(), 0);
            assert_eq!(server.send(parts).await.expect("the client reads on"), total);
        });
        let mut arrived = Vec::new();
        let mut buffer = Buffer::with_capacity(256 << 10);
        loop {
            buffer.clear();
            let (count, filled) = client.receive_into(buffer).await;
            if count.expect("the server sends on") == 0 {
                break;
            }
            buffer = filled;
            arrived.extend_from_slice(buffer.filled());
            reactor.sleep(Duration::from_millis(2)).await;
        }
        assert!(arrived == expected, "{} bytes of {total}", arrived.len());
    });
}

pub(crate) fn an_end_is_no_bytes(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        send(&client, b"last").await.expect("it is open");
        client.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(receive(&server, 4).await, b"last");
        for _ in 0..2 {
            assert!(server.receive_head().await.expect("an end is no error").is_empty());
        }
        let (count, buffer) = server.receive_into(Buffer::with_capacity(10)).await;
        assert_eq!((count.expect("an end is no error"), buffer.len()), (0, 0));
        send(&server, b"still").await.expect("the other direction is open");
        assert_eq!(receive(&client, 5).await, b"still");
    });
}

pub(crate) fn a_closed_port_refuses(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let address = listener(&reactor).local_address().expect("it listened");
        let refused = reactor.connect(address).await.err().expect("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

pub(crate) fn listeners_share_an_address(stage: &Stage) {
    let (one, other) = (stage.reactor(), stage.reactor());
    let first = listener(&one);
    let address = first.local_address().expect("it listens");
    let second = other.listen(address).expect("the address is shared");
    let accepted = std::rc::Rc::new(std::cell::Cell::new(0));
    for (reactor, mut listener) in [(&one, first), (&other, second)] {
        let accepted = accepted.clone();
        reactor.spawn(async move {
            loop {
                let socket = listener.accept().await.expect("clients connect");
                accepted.set(accepted.get() + 1);
                send(&socket, b"hello").await.expect("it is open");
            }
        });
    }
    stage.block_on(async {
        for _ in 0..20 {
            let client = one.connect(address).await.expect("two listen");
            assert_eq!(receive(&client, 5).await, b"hello");
        }
    });
    assert_eq!(accepted.get(), 20);
}

pub(crate) fn a_reader_that_does_not_read_takes_no_more_buffers(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        let (other_client, other_server) = connection(&reactor).await;
        // The first head is received, and then nothing is read of what follows without a pause.
        let flood = vec![1; 8 << 20];
        let length = flood.len();
        reactor.spawn(async move {
            send(&client, &flood).await.expect("it is read in the end");
        });
        let mut first = receive(&server, 1).await;
        reactor.sleep(Duration::from_millis(50)).await;
        for _ in 0..10 {
            send(&other_client, b"small").await.expect("it is open");
            assert_eq!(receive(&other_server, 5).await, b"small");
        }
        first.extend(receive(&server, length - first.len()).await);
        assert_eq!(first.len(), length);
    });
}

pub(crate) fn a_send_that_nobody_takes_shows_no_progress_and_can_be_aborted(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        let server = std::rc::Rc::new(server);
        let taken = || server.taken_bytes().expect("it is open");
        let before = taken();
        let sending = {
            let server = std::rc::Rc::clone(&server);
            async move { send(&server, &vec![7; 32 << 20]).await }
        };
        let (ended, outcome) = (std::rc::Rc::new(std::cell::Cell::new(false)), reactor.clone());
        let flag = std::rc::Rc::clone(&ended);
        outcome.spawn(async move {
            assert!(sending.await.is_err(), "it was aborted");
            flag.set(true);
        });
        assert!(receive(&client, 100_000).await.len() >= 100_000);
        reactor.sleep(Duration::from_millis(50)).await;
        let at_rest = taken();
        assert!(at_rest >= before + 100_000, "what was read was taken");
        reactor.sleep(Duration::from_millis(50)).await;
        assert_eq!(taken(), at_rest, "nobody reads on");
        let _ = receive(&client, 4 << 20).await;
        assert!(taken() > at_rest, "somebody has read on");
        assert!(!ended.get());
        server.abort().expect("it is open");
        while !ended.get() {
            reactor.sleep(Duration::from_millis(1)).await;
        }
    });
}

pub(crate) fn addresses_of_both_ends_agree(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        let (client, server) = connection(&reactor).await;
        for (one, other) in [(&client, &server), (&server, &client)] {
            let address = one.local_address().expect("it is open");
            assert_eq!(other.peer().expect("it is open"), Peer::Address(address));
            assert_eq!(other.transport(), Transport::Tcp);
        }
    });
}
