//! The load against a small thread-a-connection server that can be told to lie: what is counted
//! must be true, and a wrong answer must end the run.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use nilas_base::UnixMillis;

use super::*;
use crate::object::{Object, make_objects};
use crate::request::{Access, make_targets};

#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Honest,
    WrongByte,
    ShortLength,
    NotFound,
    InPieces,
}

fn serve(manner: Manner, objects: Vec<Object>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let objects = objects.clone();
            std::thread::spawn(move || answer(manner, &objects, stream));
        }
    });
    address
}

fn answer(manner: Manner, objects: &[Object], stream: TcpStream) {
    let mut writer = stream.try_clone().expect("a second handle");
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(first)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let path = first.split(' ').nth(1).expect("a request line");
        let object = objects.iter().find(|object| object.path() == path).expect("asked for");
        if answer_one(manner, &object.bytes, &mut writer).is_err() {
            return;
        }
    }
}

fn answer_one(manner: Manner, bytes: &[u8], writer: &mut TcpStream) -> std::io::Result<()> {
    let mut body = bytes.to_vec();
    let status = if manner == Manner::NotFound { 404 } else { 200 };
    if manner == Manner::WrongByte {
        *body.last_mut().expect("not empty") ^= 1;
    }
    if manner == Manner::ShortLength {
        body.pop();
    }
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Some\r\ncontent-length: {length}\r\n\r\n");
    if manner != Manner::InPieces {
        return writer.write_all(&[head.as_bytes(), &body].concat());
    }
    for piece in head.as_bytes().chunks(7).chain(body.chunks(1000)) {
        writer.write_all(piece)?;
        writer.flush()?;
    }
    Ok(())
}

fn targets(objects: &[Object], address: SocketAddr) -> Vec<Target> {
    make_targets(&Access::Open, address, objects, UnixMillis(0)).expect("open access signs nothing")
}

fn burst(manner: Manner, size_bytes: usize, discard: bool) -> Result<Burst> {
    let objects = make_objects(size_bytes, 3);
    let address = serve(manner, objects.clone());
    let plan = BurstPlan {
        connections: 4,
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(80),
        discard,
    };
    let own_time = || ProcessorTime::of_server(std::process::id());
    run_burst(address, &targets(&objects, address), &plan, &own_time)
}

#[test]
fn a_burst_counts_answers_latencies_and_time() {
    for (size_bytes, discard) in [(4096, false), (3 << 20, false), (3 << 20, true)] {
        let burst = burst(Manner::Honest, size_bytes, discard).expect("an honest server");
        assert!(burst.requests > 0 && burst.requests == burst.latencies.count());
        assert!(burst.server_us_per_request() > 0.0 && burst.requests_per_second() > 0.0);
        assert!(burst.elapsed >= Duration::from_millis(80) && burst.client_busy() > 0.0);
    }
}

#[test]
fn an_answer_may_come_in_pieces() {
    let burst = burst(Manner::InPieces, 50_000, false).expect("slow is not wrong");
    assert!(burst.requests > 0);
}

#[test]
fn a_wrong_answer_ends_the_burst() {
    for manner in [Manner::WrongByte, Manner::ShortLength, Manner::NotFound] {
        assert!(matches!(burst(manner, 70_000, true), Err(Error::Answer(_))));
        assert!(matches!(burst(manner, 100, false), Err(Error::Answer(_))));
    }
}

#[test]
fn fetching_each_compares_every_byte() {
    let objects = make_objects(2 << 20, 2);
    let honest = serve(Manner::Honest, objects.clone());
    fetch_each(honest, &targets(&objects, honest)).expect("an honest server");
    let liar = serve(Manner::WrongByte, objects.clone());
    assert!(matches!(fetch_each(liar, &targets(&objects, liar)), Err(Error::Answer(_))));
}

#[test]
fn a_server_that_leaves_is_an_error() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || drop(listener.accept()));
    let objects = make_objects(10, 1);
    assert!(fetch_each(address, &targets(&objects, address)).is_err());
}
