//! Origins that are gone, silent, or break off.

use std::sync::Arc;
use std::time::Duration;

use super::stand_in::Fault;
use super::{IMPATIENCE, connected, keys, relay_with, settings};
use crate::origin::question::{ask, get, put};
use crate::origin::{BodyFraming, BodyPart, BodyStream, Origin, OriginError, PayloadHash};

#[tokio::test]
async fn a_read_on_a_dead_idle_connection_is_asked_again_once() {
    let stand_in = super::StandIn::start().await;
    let resting = super::impatient(&settings(&stand_in, keys("origin-secret")));
    let relay: Arc<dyn Origin> = resting.clone();
    put("/lake/k", "x").expect(&relay, 200).await;
    for method in ["GET", "HEAD"] {
        super::rest(&resting).await;
        stand_in.fail(&[Fault::Close]);
        ask(method, "/lake/k").expect(&relay, 200).await;
    }
    assert_eq!(stand_in.heads().len(), 5, "each was sent twice");
    super::rest(&resting).await;
    stand_in.fail(&[Fault::Close, Fault::Close]);
    let error = get("/lake/k").tell(&relay).await.expect_err("twice in a row is no accident");
    assert!(matches!(error, OriginError::Broken { .. }), "{error}");
}

/// The reader is on a thread of its own, as shards are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_leaves_at_the_last_byte_leaves_the_connection_to_the_next() {
    let stand_in = super::StandIn::start().await;
    let resting = super::impatient(&settings(&stand_in, keys("origin-secret")));
    let relay: Arc<dyn Origin> = resting.clone();
    put("/lake/k", vec![b'x'; 300_000]).expect(&relay, 200).await;
    for _ in 0..200 {
        let idle = tokio::time::timeout(IMPATIENCE, super::rest(&resting));
        idle.await.expect("the connection before is idle");
        let mut answer = get("/lake/k").begin(&relay).await.expect("an answer");
        let mut left = 300_000;
        while left > 0 {
            left -= answer.body.next().await.expect("bytes").expect("no error").len();
        }
    }
    assert_eq!(stand_in.connections(), 1);
}

#[tokio::test]
async fn a_connection_closed_after_its_answer_is_not_used_again() {
    let (stand_in, relay) = connected().await;
    for _ in 0..5 {
        stand_in.fail(&[Fault::CloseAfter]);
        put("/lake/k", "x").expect(&relay, 200).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stand_in.heads().len(), 5, "no write was sent twice");
}

#[tokio::test]
async fn a_write_is_never_sent_twice() {
    let (stand_in, relay) = connected().await;
    put("/lake/k", "x").expect(&relay, 200).await;
    for method in ["PUT", "DELETE", "POST"] {
        stand_in.fail(&[Fault::Close]);
        let before = stand_in.heads().len();
        let error = ask(method, "/lake/k").tell(&relay).await.expect_err("no answer came");
        assert!(matches!(error, OriginError::Broken { .. }), "{method}: {error}");
        assert_eq!(stand_in.heads().len(), before + 1, "{method}");
    }
}

#[tokio::test]
async fn a_cut_body_is_an_error_and_not_an_end() {
    let (stand_in, relay) = connected().await;
    put("/lake/k", vec![7; 400_000]).expect(&relay, 200).await;
    stand_in.fail(&[Fault::CutBody(300_000)]);
    let mut answer = get("/lake/k").begin(&relay).await.expect("a head");
    assert_eq!((answer.status, answer.length), (200, Some(400_000)));
    let mut received = 0;
    let error = loop {
        match answer.body.next().await.expect("no end before the error") {
            Ok(bytes) => received += bytes.len(),
            Err(error) => break error,
        }
    };
    assert!(received <= 300_000 && matches!(error, OriginError::Broken { .. }), "{error}");
    assert!(answer.body.next().await.is_none(), "nothing follows an error");
    assert_eq!(get("/lake/k").expect(&relay, 200).await.body.len(), 400_000);
}

#[tokio::test]
async fn silence_ends_in_a_time_out() {
    let (stand_in, relay) = connected().await;
    put("/lake/k", vec![7; 100_000]).expect(&relay, 200).await;
    stand_in.fail(&[Fault::Stall]);
    let error = get("/lake/k").tell(&relay).await.expect_err("no answer came");
    assert!(
        matches!(error, OriginError::TimedOut { waited, .. } if waited == IMPATIENCE),
        "{error}"
    );
    stand_in.fail(&[Fault::Stall]);
    let error = put("/lake/k", "new").tell(&relay).await.expect_err("no answer came");
    assert!(matches!(error, OriginError::TimedOut { .. }), "{error}");
    stand_in.fail(&[Fault::StallBody(50_000)]);
    let error = get("/lake/k").tell(&relay).await.expect_err("half a body came");
    assert!(error.to_string().contains("sending its answer's body"), "{error}");
}

#[tokio::test]
async fn a_slow_client_is_not_the_origins_silence() {
    let (stand_in, relay) = connected().await;
    let framing = BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned };
    let (sender, stream) = BodyStream::channel(Some(3), framing);
    let mut question = ask("PUT", "/lake/k");
    question.stream(stream);
    let client = async {
        for byte in [b"a", b"b", b"c"] {
            tokio::time::sleep(IMPATIENCE + Duration::from_millis(50)).await;
            let part = BodyPart::Data(bytes::Bytes::from_static(byte));
            sender.send(part).await.expect("the relay listens");
        }
        sender.send(BodyPart::End).await.expect("the relay listens");
    };
    let (told, ()) = tokio::join!(question.tell(&relay), client);
    assert_eq!(told.expect("an answer").status, 200);
    assert_eq!(get("/lake/k").expect(stand_in.directory(), 200).await.text(), "abc");
}

#[tokio::test]
async fn an_early_answer_comes_through() {
    let (stand_in, relay) = connected().await;
    stand_in.fail(&[Fault::EarlyAnswer]);
    let framing = BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned };
    let (sender, stream) = BodyStream::channel(Some(10_000_000), framing);
    // A part is held back until another follows, and no head is sent before a byte can be.
    for _ in 0..2 {
        let part = BodyPart::Data(bytes::Bytes::from_static(b"part"));
        sender.send(part).await.expect("it is read");
    }
    let mut question = ask("PUT", "/lake/k");
    question.stream(stream);
    let told = question.tell(&relay).await.expect("an answer");
    assert_eq!(told.status, 403);
    drop(sender);
}

#[tokio::test]
async fn an_origin_that_is_not_there_is_unreachable() {
    let stand_in = super::StandIn::start().await;
    let settings = settings(&stand_in, keys("origin-secret"));
    // Bound and not listened to any more: nobody else gets the port in between.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    let settings = crate::origin::S3Settings { endpoint: format!("http://{address}"), ..settings };
    let relay = relay_with(&settings);
    let error = get("/lake/k").tell(&relay).await.expect_err("nobody is there");
    assert!(matches!(error, OriginError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_dropped_body_closes_its_connection() {
    let (stand_in, relay) = connected().await;
    put("/lake/k", vec![7; 4_000_000]).expect(&relay, 200).await;
    let answer = get("/lake/k").begin(&relay).await.expect("a head");
    drop(answer);
    get("/lake/k").expect(&relay, 200).await;
    assert_eq!(stand_in.connections(), 2, "the first cannot be used again");
}

#[tokio::test]
async fn unread_bodies_hold_back_the_origin() {
    let (stand_in, relay) = connected().await;
    put("/lake/k", vec![7; 4_000_000]).expect(&relay, 200).await;
    let mut answer = get("/lake/k").begin(&relay).await.expect("a head");
    // Longer than the origin may be silent: it is not the origin that is waited for.
    tokio::time::sleep(IMPATIENCE * 2).await;
    let mut received = 0;
    while let Some(bytes) = answer.body.next().await {
        received += bytes.expect("the body is whole").len();
    }
    assert_eq!(received, 4_000_000);
    drop(stand_in);
}
