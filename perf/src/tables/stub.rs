//! A catalog on loopback that behaves as one kind of catalog does, and counts what it is asked. Its threads give way
//! to the load, whose core they share.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::lake::Lake;
use crate::error::{Doing, Result};

/// How long a slow catalog waits before each answer.
const SLOW: Duration = Duration::from_secs(5);
/// The lowest priority: whoever has it takes nothing from the load.
const NICE: i32 = 19;

/// What a catalog does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Its tables never change.
    Unchanged,
    /// The same, and each answer is late.
    Slow,
    /// What it says of tables is no answer.
    Wrong,
    /// Each look at a table finds new metadata, a large document.
    Flooding,
    /// It has one large table with a commit now and then.
    Committing,
}

/// What its connections share.
struct Shared {
    mood: Mood,
    tables: usize,
    lake: Arc<Lake>,
    table_requests: AtomicU64,
    requests: AtomicU64,
    commit: AtomicU64,
    is_stopping: AtomicBool,
}

/// The catalog, for as long as it is held.
pub(super) struct Stub {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Stub {
    /// Starts one of so many tables, whose metadata lies in `lake`.
    pub(super) fn start(mood: Mood, tables: usize, lake: &Arc<Lake>) -> Result<Stub> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("opening the catalog")?;
        let address = listener.local_addr().doing("opening the catalog")?;
        let shared = Arc::new(Shared {
            mood,
            tables,
            lake: Arc::clone(lake),
            table_requests: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            commit: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.is_stopping.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || {
                    give_way();
                    // Who leaves ends the connection.
                    let _ = converse(&stream, &shared);
                });
            }
        });
        Ok(Stub { address, shared, accepting: Some(accepting) })
    }

    /// How often it was asked: for anything, and for tables.
    pub(super) fn requests(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.shared.requests), of(&self.shared.table_requests))
    }

    /// Has the large table be at its commit of that number.
    pub(super) fn commit(&self, number: u64) {
        self.shared.commit.store(number, Ordering::Relaxed);
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        // It waits for one more connection.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Has the calling thread run only where nobody else wants to.
pub(super) fn give_way() {
    // Without it the figures are worse, not wrong.
    let _ = rustix::process::nice(NICE);
}

fn converse(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut etag = None;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? <= 2 {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("if-none-match")
            {
                etag = Some(value.trim().to_owned());
            }
        }
        let reply = answer(shared, &target, etag.as_deref());
        let mut writer = stream;
        writer.write_all(&reply)?;
    }
}

fn answer(shared: &Shared, target: &str, etag: Option<&str>) -> Vec<u8> {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    if shared.mood == Mood::Slow {
        std::thread::park_timeout(SLOW);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/v1/config" => reply(200, "", &json!({"defaults": {}, "overrides": {}}).to_string()),
        "/v1/namespaces" if query.contains("parent=") => {
            reply(200, "", &json!({"namespaces": []}).to_string())
        }
        "/v1/namespaces" => reply(200, "", &json!({"namespaces": [["bench"]]}).to_string()),
        "/v1/namespaces/bench/tables" => {
            let name = |number| json!({"namespace": ["bench"], "name": format!("t{number}")});
            let names: Vec<_> = (0..shared.tables).map(name).collect();
            reply(200, "", &json!({"identifiers": names}).to_string())
        }
        _ if path.starts_with("/v1/namespaces/bench/tables/t") => table(shared, etag),
        _ => reply(404, "", r#"{"error": {"message": "none", "type": "None", "code": 404}}"#),
    }
}

fn table(shared: &Shared, known: Option<&str>) -> Vec<u8> {
    let asked = shared.table_requests.fetch_add(1, Ordering::Relaxed);
    let (etag, (location, metadata)) = match shared.mood {
        Mood::Unchanged | Mood::Slow => ("\"same\"".to_owned(), shared.lake.small()),
        Mood::Flooding => (format!("\"{asked}\""), shared.lake.document(asked)),
        Mood::Committing => {
            let commit = shared.commit.load(Ordering::Relaxed);
            (format!("\"{commit}\""), shared.lake.large(commit))
        }
        Mood::Wrong => return wrong(asked),
    };
    if known == Some(&*etag) {
        return reply(304, &format!("ETag: {etag}\r\n"), "");
    }
    let body =
        format!(r#"{{"metadata-location": "{location}", "metadata": {metadata}, "config": {{}}}}"#);
    reply(200, &format!("ETag: {etag}\r\n"), &body)
}

fn wrong(asked: u64) -> Vec<u8> {
    match asked % 4 {
        0 => reply(500, "", "no"),
        1 => reply(200, "", r#"{"metadata-location": "s3://"#),
        2 => reply(200, "", r#"{"metadata-location": 7, "metadata": [1, 2]}"#),
        _ => reply(
            200,
            "",
            r#"{"metadata-location": "s3://perf/x", "metadata": {"format-version": "two"}}"#,
        ),
    }
}

fn reply(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Perf\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
