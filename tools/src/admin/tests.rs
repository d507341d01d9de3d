//! The admin port as this side sees it, before a stand-in that says what it was sent.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// Answers one request with this; gives the request.
fn stand_in(answer: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut request = String::new();
        while !request.ends_with('}') {
            let mut bytes = [0; 1024];
            let count = socket.read(&mut bytes).expect("a request");
            request.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
        }
        socket.write_all(answer.as_bytes()).expect("it is read");
        request
    });
    (url, served)
}

fn purge(key: Option<&str>, prefix: Option<&str>) -> Purge {
    let text = |text: &str| text.to_owned();
    Purge::Objects { bucket: text("lake"), key: key.map(text), prefix: prefix.map(text) }
}

#[tokio::test]
async fn a_purge_is_sent_as_json_with_its_token() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    for (what, order) in [
        (purge(None, None), r#"{"bucket":"lake"}"#),
        (purge(Some("a \"b\"+c"), None), r#"{"bucket":"lake","key":"a \"b\"+c"}"#),
        (Purge::Table("lake.db.t".to_owned()), r#"{"table":"lake.db.t"}"#),
        (purge(None, Some("db/t/")), r#"{"bucket":"lake","prefix":"db/t/"}"#),
    ] {
        let (url, served) = stand_in(ok);
        let port = AdminPort::new(&url, Some("t0ken")).expect("a URL");
        port.purge(&what).await.expect("it is answered with 200");
        let request = served.join().expect("one request").to_lowercase();
        assert!(request.starts_with("post /admin/purge http/1.1\r\n"), "{request}");
        for part in ["authorization: bearer t0ken\r\n", "content-type: application/json\r\n", order]
        {
            assert!(request.contains(part), "{part} is not in {request}");
        }
    }
}

#[tokio::test]
async fn what_the_node_complains_of_is_repeated() {
    for (answer, expected) in [
        ("HTTP/1.1 400 X\r\nContent-Length: 18\r\n\r\n{\"error\":\"a cure\"}", "says 400: a cure"),
        ("HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n", "--token"),
        ("HTTP/1.1 503 X\r\nContent-Length: 9\r\n\r\nstarting\n", "says 503: starting"),
        ("nothing of HTTP\r\n\r\n", "does not answer"),
    ] {
        let (url, _served) = stand_in(answer);
        let port = AdminPort::new(&url, None).expect("a URL");
        let error = port.purge(&purge(None, None)).await.expect_err(answer);
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_node_that_is_not_there_is_said_to_be_so() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    drop(listener);
    let port = AdminPort::new(&url, None).expect("a URL");
    let error = port.purge(&purge(None, None)).await.expect_err("nobody listens");
    assert!(error.contains("does not answer"), "{error}");
}

#[test]
fn what_is_no_admin_port_is_refused() {
    for url in ["", "127.0.0.1:9001", "https://node:9001", "http://node:9001/admin/purge"] {
        let error = AdminPort::new(url, None).err().expect(url);
        assert!(error.contains(&format!("{url:?}")), "{error}");
    }
    assert!(AdminPort::new("http://node:9001", Some("a\nb")).is_err());
}
