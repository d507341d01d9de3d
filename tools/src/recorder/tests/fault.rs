//! Each fault as a client sees it on the wire, and as the ledger names it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nilas_base::Clock;

use super::{EchoOrigin, Running, ask, records, start};

/// Long enough for anything that comes at all.
const PATIENCE: Duration = Duration::from_secs(10);
/// Nothing comes within it, says a test that waits for nothing.
const SILENCE: Duration = Duration::from_millis(150);
/// A read; the origin's answer has it as its body.
const GET: &str = "GET /bucket/key HTTP/1.1\r\nHost: h\r\n\r\n";
const PUT: &str = "PUT /bucket/key HTTP/1.1\r\nHost: h\r\ncontent-length: 4\r\n\r\nbody";

/// A recorder that plays these rules before an echo.
fn playing(rules: &str) -> (Running, EchoOrigin) {
    let origin = EchoOrigin::start();
    let running = start(origin.address, Duration::ZERO);
    assert_eq!(set(&running, rules), "");
    (running, origin)
}

/// Puts rules; what is said against them.
fn set(running: &Running, rules: &str) -> String {
    let rest = format!("content-length: {}\r\n\r\n{rules}", rules.len());
    let answer = ask(running.control, "PUT /faults", &rest);
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

/// How a connection ended.
#[derive(Debug, PartialEq)]
enum End {
    Closed,
    Reset,
    Silent,
}

/// What comes back for `request` on a connection of its own, and how that ends.
fn exchange(address: SocketAddr, request: &str, patience: Duration) -> (String, End) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(request.as_bytes()).expect("it reads");
    rest(&mut socket, patience)
}

fn rest(socket: &mut TcpStream, patience: Duration) -> (String, End) {
    socket.set_read_timeout(Some(patience)).expect("a time-out");
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    let end = loop {
        match socket.read(&mut piece) {
            Ok(0) => break End::Closed,
            Ok(read) => all.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
            Err(_) => break End::Silent,
        }
    };
    (String::from_utf8(all).expect("text"), end)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer:?}")).1
}

fn took(run: impl FnOnce()) -> Duration {
    let clock = Clock::system();
    let before = clock.now();
    run();
    clock.now().since(before)
}

#[test]
fn a_cut_closes_in_the_body_and_a_reset_resets_there() {
    for (fault, end) in [("cut", End::Closed), ("reset", End::Reset)] {
        let (running, _origin) = playing(&format!(r#"[{{"fault": "{fault}", "after_bytes": 7}}]"#));
        let (answer, ended) = exchange(running.listen, GET, PATIENCE);
        assert_eq!((body(&answer), ended), (&GET[..7], end), "{fault}");
        let length = format!("Content-Length: {}\r\n", GET.len());
        assert!(answer.contains(&length), "the whole was announced: {answer}");
        let seen = &records(&running, 0)[0];
        assert_eq!((&seen["fault"], &seen["complete"]), (&fault.into(), &false.into()));
        assert_eq!((&seen["bytes_sent"], &seen["status"]), (&7.into(), &203.into()));
    }
}

#[test]
fn a_cut_and_a_reset_before_the_head_lose_the_answer_of_what_was_done() {
    for (fault, end) in [("cut", End::Closed), ("reset", End::Reset)] {
        let (running, origin) = playing(&format!(r#"[{{"fault": "{fault}"}}]"#));
        assert_eq!(exchange(running.listen, PUT, PATIENCE), (String::new(), end));
        assert!(origin.seen.try_recv().expect("it was done").ends_with("body"));
        let seen = &records(&running, 0)[0];
        assert_eq!((&seen["fault"], &seen["status"]), (&fault.into(), &203.into()));
    }
}

#[test]
fn what_is_not_to_be_asked_never_reaches_the_origin() {
    let (running, origin) = playing(r#"[{"fault": "reset", "asks_origin": false}]"#);
    assert_eq!(exchange(running.listen, PUT, PATIENCE).1, End::Reset);
    assert!(origin.seen.recv_timeout(SILENCE).is_err());
    assert_eq!(records(&running, 0)[0]["bytes_received"], 4);
}

#[test]
fn what_is_asked_late_reaches_the_origin_after_the_client_has_seen_its_end() {
    let (running, origin) = playing(r#"[{"fault": "cut", "late_ms": 300}]"#);
    let elapsed = took(|| assert_eq!(exchange(running.listen, PUT, PATIENCE).1, End::Closed));
    assert!(elapsed < Duration::from_millis(300), "{elapsed:?}");
    assert!(origin.seen.try_recv().is_err());
    assert!(origin.seen.recv_timeout(PATIENCE).expect("it comes late").ends_with("body"));
}

#[test]
fn a_stall_without_a_time_never_ends_and_one_with_a_time_goes_on() {
    for (at, passed) in [("", 0), (r#", "after_bytes": 9"#, 9)] {
        let (running, _origin) = playing(&format!(r#"[{{"fault": "stall"{at}}}]"#));
        let (answer, end) = exchange(running.listen, GET, SILENCE);
        assert_eq!(end, End::Silent);
        assert!(passed == 0 && answer.is_empty() || body(&answer) == &GET[..passed]);
        set(&running, &format!(r#"[{{"fault": "stall", "ms": 100{at}}}]"#));
        let elapsed = took(|| {
            let (answer, _) = exchange(running.listen, GET, SILENCE);
            assert_eq!(body(&answer), GET);
        });
        assert!(elapsed >= Duration::from_millis(100), "{elapsed:?}");
    }
}

#[test]
fn a_delay_comes_before_the_origin_hears_or_after_it_has_answered() {
    for (before, hears_first) in [("request", false), ("answer", true)] {
        let rules = format!(r#"[{{"fault": "delay", "ms": 200, "before": "{before}"}}]"#);
        let (running, origin) = playing(&rules);
        let mut socket = TcpStream::connect(running.listen).expect("it listens");
        socket.write_all(PUT.as_bytes()).expect("it reads");
        let (answer, _) = rest(&mut socket, Duration::from_millis(100));
        assert_eq!(answer, "", "the answer waits");
        assert_eq!(origin.seen.try_recv().is_ok(), hears_first, "{before}");
        let (answer, _) = rest(&mut socket, Duration::from_secs(1));
        assert!(answer.ends_with("body"), "{answer}");
    }
}

#[test]
fn a_rate_slows_the_body_alone() {
    let (running, _origin) = playing(r#"[{"fault": "rate", "bytes_per_second": 400}]"#);
    let padding = "x".repeat(100);
    let request = format!("GET /{padding} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let elapsed = took(|| {
        let (answer, end) = exchange(running.listen, &request, PATIENCE);
        assert!(body(&answer).contains(&padding) && end == End::Closed);
    });
    assert!(elapsed > Duration::from_millis(250), "{elapsed:?}");
    let seen = &records(&running, 0)[0];
    assert_eq!((&seen["fault"], &seen["complete"]), (&"rate".into(), &true.into()));
}

#[test]
fn a_wrong_length_is_announced_and_the_connection_closed_behind_what_came() {
    for by in [5_i64, -5] {
        let (running, _origin) = playing(&format!(r#"[{{"fault": "wrong_length", "by": {by}}}]"#));
        let (answer, end) = exchange(running.listen, GET, PATIENCE);
        assert_eq!((body(&answer), end), (GET, End::Closed));
        let announced = GET.len() as i64 + by;
        assert!(answer.contains(&format!("Content-Length: {announced}\r\n")), "{answer}");
    }
}

#[test]
fn a_surplus_follows_the_body_on_a_connection_that_stays() {
    let (running, _origin) = playing(r#"[{"fault": "surplus", "bytes": 3, "times": 1}]"#);
    let mut socket = TcpStream::connect(running.listen).expect("it listens");
    socket.write_all(GET.as_bytes()).expect("it reads");
    let (answer, end) = rest(&mut socket, SILENCE);
    assert_eq!((body(&answer), end), (format!("{GET}+++").as_str(), End::Silent));
    socket.write_all(GET.as_bytes()).expect("it still reads");
    assert_eq!(body(&rest(&mut socket, SILENCE).0), GET);
}

#[test]
fn a_wrong_range_is_another_place_in_another_object() {
    let (running, _origin) = playing(r#"[{"fault": "wrong_range", "by": 2, "total_by": -1}]"#);
    let (answer, _) = exchange(running.listen, GET, SILENCE);
    assert!(answer.contains("Content-Range: bytes 7-11/99\r\n"), "{answer}");
    assert_eq!(body(&answer), GET);
}

#[test]
fn a_status_comes_in_the_origins_place_or_over_its_answer() {
    let rules = r#"[{"fault": "status", "status": 500, "asks_origin": true, "method": "put"},
                    {"fault": "status", "retry_after_s": 2}]"#;
    let (running, origin) = playing(rules);
    let (answer, _) = exchange(running.listen, GET, SILENCE);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 2\r\n"), "{answer}");
    assert!(answer.contains("<Code>SlowDown</Code>"), "{answer}");
    assert!(origin.seen.try_recv().is_err());
    let (answer, _) = exchange(running.listen, PUT, SILENCE);
    assert!(answer.starts_with("HTTP/1.1 500 ") && !answer.contains("retry-after"), "{answer}");
    assert!(origin.seen.try_recv().is_ok());
}

#[test]
fn a_refusal_closes_what_stands_lets_nobody_in_and_keeps_the_port() {
    let (running, _origin) = playing("[]");
    let mut standing = TcpStream::connect(running.listen).expect("it listens");
    standing.write_all(GET.as_bytes()).expect("it reads");
    assert_eq!(body(&rest(&mut standing, SILENCE).0), GET);
    for _ in 0..3 {
        assert_eq!(set(&running, r#"[{"fault": "refuse"}]"#), "");
        let refused = TcpStream::connect(running.listen).expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(matches!(rest(&mut standing, PATIENCE).1, End::Closed | End::Reset));
        ask(running.control, "DELETE /faults", "\r\n");
        assert_eq!(body(&exchange(running.listen, GET, SILENCE).0), GET);
    }
}

#[test]
fn rules_meet_what_they_name_as_often_as_they_say_and_are_lifted() {
    let rules = r#"[{"fault": "cut", "path": "/bucket/key", "skip": 1, "times": 1},
                    {"fault": "cut", "path": "/other"}]"#;
    let (running, _origin) = playing(rules);
    let get = || exchange(running.listen, GET, SILENCE).1;
    assert_eq!([get(), get(), get()], [End::Silent, End::Closed, End::Silent]);
    let told = ask(running.control, "GET /faults", "\r\n");
    let expected = r#"[{"fault":"cut","fitted":3,"met":1},{"fault":"cut","fitted":0,"met":0}]"#;
    assert_eq!(body(&told), expected);
    let seen = records(&running, 0);
    let faults: Vec<_> = (0..3).map(|place| seen[place]["fault"].as_str()).collect();
    assert_eq!(faults, [None, Some("cut"), None]);
    ask(running.control, "DELETE /faults", "\r\n");
    let other = GET.replace("/bucket/key", "/other");
    assert_eq!(exchange(running.listen, &other, SILENCE).1, End::Silent);
}

#[test]
fn bad_rules_are_refused_and_those_that_stand_go_on() {
    let (running, _origin) = playing(r#"[{"fault": "cut"}]"#);
    let said = set(&running, r#"[{"fault": "cut", "times": -1}]"#);
    assert_eq!(said, "rule 1: `times` takes a whole number from 0, not -1");
    assert_eq!(exchange(running.listen, GET, PATIENCE), (String::new(), End::Closed));
}
