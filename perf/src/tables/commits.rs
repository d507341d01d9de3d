//! What happens at a catalog while the load is measured: commits to the large table, each waited for until the shards
//! know it, and hints as fast as one connection takes them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use hmac::{Hmac, Mac};
use nilas_base::Clock;
use sha2::Sha256;

use super::lake::{COMMITS_MAX, Lake};
use super::stub::{Stub, give_way};
use crate::error::Result;
use crate::server::Server;

/// What hints are signed with.
pub(super) const HINT_SECRET: &str = "guards-only-the-hints-of-a-measurement";
/// From one commit to the next, if the one is known by then.
const COMMIT_INTERVAL: Duration = Duration::from_secs(2);
/// Between two looks whether the shards know it: how exact the time is.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const ANSWER_BYTES_MAX: usize = 4096;

/// Commits, one after another, until it is finished.
pub(super) struct Commits<'scope> {
    is_over: Arc<AtomicBool>,
    running: ScopedJoinHandle<'scope, Result<Vec<Duration>>>,
}

impl<'scope> Commits<'scope> {
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        stub: &'env Stub,
        node: &'env Server,
        lake: &'env Lake,
    ) -> Commits<'scope> {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let running = scope.spawn(move || {
            give_way();
            commit(stub, node, lake, &told)
        });
        Commits { is_over, running }
    }

    /// How long after each commit the shards knew it.
    pub(super) fn finish(self) -> Result<Vec<Duration>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.running.join().expect("committing does not panic")
    }
}

fn commit(stub: &Stub, node: &Server, lake: &Lake, is_over: &AtomicBool) -> Result<Vec<Duration>> {
    let clock = Clock::system();
    let mut known_after = Vec::new();
    for number in 1..=COMMITS_MAX {
        let began = clock.now();
        stub.commit(number);
        let files = (lake.files + number * lake.files_a_commit) as f64;
        let mut is_known = false;
        while !is_known || clock.now().since(began) < COMMIT_INTERVAL {
            if is_over.load(Ordering::Relaxed) {
                return Ok(known_after);
            }
            if !is_known && node.gauge("nilas_table_index_files")? >= files {
                known_after.push(clock.now().since(began));
                is_known = true;
            }
            std::thread::park_timeout(LOOK_INTERVAL);
        }
    }
    Ok(known_after)
}

/// Hints, until it is dropped.
pub(super) struct Hints(Arc<AtomicBool>);

impl Hints {
    pub(super) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        admin: SocketAddr,
    ) -> Hints {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        scope.spawn(move || {
            give_way();
            while !told.load(Ordering::Relaxed) {
                // One that is refused or cut off is sent again: it is a flood.
                let _ = send(admin, &told);
            }
        });
        Hints(is_over)
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn send(admin: SocketAddr, is_over: &AtomicBool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let seconds = Clock::system().wall().0 / 1000;
    let mut answer = [0; ANSWER_BYTES_MAX];
    for number in (0..super::FLOODING_TABLES).cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        stream.write_all(hint(admin, number, seconds).as_bytes())?;
        if stream.read(&mut answer)? == 0 {
            break;
        }
    }
    Ok(())
}

/// A signed hint that a table has changed.
fn hint(admin: SocketAddr, table: usize, seconds: u64) -> String {
    let body = format!(r#"{{"catalog": "bench", "namespace": ["bench"], "table": "t{table}"}}"#);
    let mut mac =
        Hmac::<Sha256>::new_from_slice(HINT_SECRET.as_bytes()).expect("any length is taken");
    mac.update(format!("{seconds}.{body}").as_bytes());
    let mac = hex::encode(mac.finalize().into_bytes());
    let length = body.len();
    format!(
        "POST /admin/catalog/events HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\n\
         X-Nilas-Signature: t={seconds},v1={mac}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}
