//! Conditional reads and writes, and writers who race.

use std::sync::Arc;

use super::Place;
use crate::origin::question::{ask, get, put};

const ETAG: &str = "\"9dd4e461268c8034f5c8564e155c67a6\"";

#[tokio::test]
async fn conditional_reads_give_304_and_412() {
    let place = Place::with_bucket().await;
    put("/lake/k", "x").expect(&place.origin, 200).await;
    for (name, value, status) in [
        ("if-match", ETAG, 200),
        ("if-match", "\"other\"", 412),
        ("if-none-match", ETAG, 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"other\"", 200),
        ("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT", 304),
        ("if-modified-since", "Sat, 01 Jan 2000 00:00:00 GMT", 200),
        ("if-unmodified-since", "Sat, 01 Jan 2000 00:00:00 GMT", 412),
    ] {
        let told = get("/lake/k").header(name, value).expect(&place.origin, status).await;
        match status {
            304 => assert_eq!((told.header("etag"), told.body.len()), (ETAG, 0)),
            412 => assert_eq!(told.element("Code"), "PreconditionFailed"),
            _ => assert_eq!(told.text(), "x"),
        }
        ask("HEAD", "/lake/k").header(name, value).expect(&place.origin, status).await;
    }
}

#[tokio::test]
async fn if_range_gives_the_whole_of_another_version() {
    let place = Place::with_bucket().await;
    put("/lake/k", "x").expect(&place.origin, 200).await;
    let ranged = |tag: &str| get("/lake/k").header("range", "bytes=0-0").header("if-range", tag);
    ranged(ETAG).expect(&place.origin, 206).await;
    ranged("\"other\"").expect(&place.origin, 200).await;
}

#[tokio::test]
async fn conditional_writes_are_enforced() {
    let place = Place::with_bucket().await;
    let told = put("/lake/k", "x").header("if-match", ETAG).expect(&place.origin, 404).await;
    assert_eq!(told.element("Code"), "NoSuchKey");
    put("/lake/k", "x").header("if-none-match", "*").expect(&place.origin, 200).await;
    let told = put("/lake/k", "y").header("if-none-match", "*").expect(&place.origin, 412).await;
    assert_eq!(told.element("Code"), "PreconditionFailed");
    put("/lake/k", "y").header("if-match", "\"other\"").expect(&place.origin, 412).await;
    assert_eq!(get("/lake/k").expect(&place.origin, 200).await.text(), "x");
    ask("DELETE", "/lake/k").header("if-match", "\"other\"").expect(&place.origin, 412).await;
    put("/lake/k", "y").header("if-match", ETAG).expect(&place.origin, 200).await;
    assert_eq!(get("/lake/k").expect(&place.origin, 200).await.text(), "y");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_writers_exactly_one_creates_the_object() {
    let place = Place::with_bucket().await;
    // A second origin on the same directory stands for a second node.
    let other = super::LocalDirectory::open(place.folder.path(), nilas_base::Clock::system());
    let other: Arc<dyn crate::origin::Origin> = Arc::new(other.expect("usable"));
    for round in 0..8 {
        let target = format!("/lake/v{round}.metadata.json");
        let mut racers = tokio::task::JoinSet::new();
        for racer in 0..8 {
            let origin = if racer % 2 == 0 { &place.origin } else { &other };
            let (origin, target) = (Arc::clone(origin), target.clone());
            racers.spawn(async move {
                let body = format!("racer {racer}");
                let question = put(&target, body.clone()).header("if-none-match", "*");
                (body, question.tell(&origin).await.expect("an answer").status)
            });
        }
        let answers = racers.join_all().await;
        let winners: Vec<&String> =
            answers.iter().filter(|(_, status)| *status == 200).map(|(body, _)| body).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        assert!(answers.iter().all(|(_, status)| [200, 412].contains(status)), "{answers:?}");
        assert_eq!(get(&target).expect(&place.origin, 200).await.text(), *winners[0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_never_sees_one_version_under_anothers_name() {
    let place = Place::with_bucket().await;
    let write =
        |number: u32| put("/lake/k", vec![b'a' + (number % 26) as u8; 3000 + number as usize]);
    write(0).expect(&place.origin, 200).await;
    let writer = {
        let origin = Arc::clone(&place.origin);
        tokio::spawn(async move {
            for number in 1..40 {
                put("/lake/k", vec![b'a' + (number % 26) as u8; 3000 + number as usize])
                    .expect(&origin, 200)
                    .await;
            }
        })
    };
    while !writer.is_finished() {
        let told = get("/lake/k").expect(&place.origin, 200).await;
        let digest = nilas_net::checksum::checksum(nilas_net::checksum::Algorithm::Md5, &told.body);
        assert_eq!(told.header("etag"), format!("\"{}\"", digest.hex()));
    }
    writer.await.expect("the writer went through");
}
