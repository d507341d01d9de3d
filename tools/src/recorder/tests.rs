//! The recorder before a small origin of threads and raw sockets, so that what passes is seen
//! byte for byte.

mod fault;
mod rule;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::{Recorder, Settings};

/// An origin that answers every request with the request itself, as a body.
struct EchoOrigin {
    address: SocketAddr,
    /// The requests that it has answered.
    seen: Receiver<String>,
}

impl EchoOrigin {
    fn start() -> EchoOrigin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = listener.local_addr().expect("bound");
        let (told, seen) = channel();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let told = told.clone();
                thread::spawn(move || while echo(&socket, &told).is_some() {});
            }
        });
        EchoOrigin { address, seen }
    }
}

fn echo(mut socket: &TcpStream, told: &Sender<String>) -> Option<()> {
    let mut reader = BufReader::new(socket);
    let mut seen = String::new();
    while !seen.ends_with("\r\n\r\n") {
        if reader.read_line(&mut seen).ok()? == 0 {
            return None;
        }
    }
    let length = seen.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    reader.read_exact(&mut body).ok()?;
    seen.push_str(&String::from_utf8_lossy(&body));
    let length = seen.len();
    let head = format!(
        "HTTP/1.1 203 Odd\r\nContent-Length: {length}\r\nContent-Range: bytes 5-9/100\r\n\
         X-Odd: Yes\r\n\r\n"
    );
    let answer = if seen.starts_with("HEAD") { head } else { format!("{head}{seen}") };
    // A test that has seen enough no longer listens.
    let _ = told.send(seen);
    socket.write_all(answer.as_bytes()).ok()
}

struct Running {
    listen: SocketAddr,
    control: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

fn start(origin: SocketAddr, latency: Duration) -> Running {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = Settings { listen: any, control: any, origin, latency, faults: Vec::new() };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    let recorder = runtime.block_on(Recorder::bind(&settings)).expect("free ports");
    let listen = recorder.listen_address();
    let control = recorder.control_address().expect("bound");
    runtime.spawn(recorder.run());
    Running { listen, control, _runtime: runtime }
}

fn ask(address: SocketAddr, request_line: &str, rest: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    let request =
        format!("{request_line} HTTP/1.1\r\nHost: as.sent:1\r\nConnection: close\r\n{rest}");
    socket.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it closes");
    answer
}

fn records(running: &Running, from: usize) -> serde_json::Value {
    let answer = ask(running.control, &format!("GET /records?from={from}"), "\r\n");
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn a_request_passes_with_its_host_and_is_recorded() {
    let running = start(EchoOrigin::start().address, Duration::ZERO);
    let rest = "Range: bytes=1-2\r\ncontent-length: 4\r\n\r\nbody";
    let answer = ask(running.listen, "PUT /bucket/a%20b?partNumber=1", rest);
    assert!(answer.starts_with("HTTP/1.1 203"), "{answer}");
    assert!(answer.contains("Host: as.sent:1"), "{answer}");
    assert!(answer.contains("PUT /bucket/a%20b?partNumber=1 HTTP/1.1"), "{answer}");
    assert!(answer.contains("X-Odd: Yes") && answer.ends_with("body"), "{answer}");
    let seen = records(&running, 0);
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    assert_eq!(seen[0]["method"], "PUT");
    assert_eq!(seen[0]["path"], "/bucket/a%20b");
    assert_eq!(seen[0]["query"], "partNumber=1");
    assert_eq!(seen[0]["range"], "bytes=1-2");
    assert_eq!(seen[0]["status"], 203);
    assert_eq!(seen[0]["bytes_received"], 4);
    assert_eq!(seen[0]["bytes_sent"], body.len());
    assert_eq!(seen[0]["complete"], true);
    assert_eq!(records(&running, 1), serde_json::json!([]));
}

#[test]
fn latency_is_added_and_can_be_changed() {
    let latency = Duration::from_millis(80);
    let running = start(EchoOrigin::start().address, latency);
    let clock = nilas_base::Clock::system();
    let before = clock.now();
    ask(running.listen, "GET /", "\r\n");
    assert!(clock.now().since(before) >= latency);
    let answer = ask(running.control, "PUT /latency?ms=0", "\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let quickest = (0..20).map(|_| {
        let before = clock.now();
        ask(running.listen, "GET /", "\r\n");
        clock.now().since(before)
    });
    assert!(quickest.min().expect("twenty tries") < latency);
}

#[test]
fn an_origin_that_is_down_gives_a_clear_502_and_a_record() {
    let unused = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let origin = unused.local_addr().expect("bound");
    drop(unused);
    let running = start(origin, Duration::ZERO);
    let answer = ask(running.listen, "GET /", "\r\n");
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(answer.contains("could not reach the origin"), "{answer}");
    assert_eq!(records(&running, 0)[0]["status"], 0);
}
