//! The program itself: the bake-off's server on the shards' reactor answers the load truly, and
//! `regression` says by its exit code what it found. No peer is needed, nothing is measured.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nilas_base::UnixMillis;
use nilas_perf::load::{BurstPlan, fetch_each, run_burst};
use nilas_perf::object::{Object, make_objects, write_objects};
use nilas_perf::processor::ProcessorTime;
use nilas_perf::record::{Record, Row};
use nilas_perf::request::{Access, make_targets};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nilas-perf");
/// Looks at a starting server, ten milliseconds apart.
const LOOKS_MAX: usize = 1000;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_server(runtime: &str, root: &Path) -> (Running, SocketAddr) {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let mut command = Command::new(PROGRAM);
    command.args(["bake-off-server", "--runtime", runtime, "--address", &address.to_string()]);
    let child = command.arg("--root").arg(root).stdin(Stdio::null()).spawn();
    let running = Running(child.expect("the program starts"));
    for _ in 0..LOOKS_MAX {
        if TcpStream::connect(address).is_ok() {
            return (running, address);
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("the server on {runtime} did not listen");
}

fn a_server_answers_truly(runtime: &str) {
    let root = tempfile::tempdir().expect("a temporary folder");
    let objects: Vec<Object> =
        [make_objects(4096, 2), make_objects(1 << 20, 2)].into_iter().flatten().collect();
    write_objects(root.path(), &objects).expect("a writable folder");
    let (running, address) = start_server(runtime, root.path());
    let targets = make_targets(&Access::Open, address, &objects, UnixMillis(0)).expect("unsigned");
    fetch_each(address, &targets).expect("every byte is right");
    let plan = BurstPlan {
        connections: 8,
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(100),
        discard: false,
    };
    let time = || ProcessorTime::of_server(running.0.id());
    let burst = run_burst(address, &targets, &plan, &time).expect("every answer is right");
    assert!(burst.requests > 0 && burst.server_ns > 0);
}

#[test]
fn the_reactor_on_epoll_answers_truly() {
    a_server_answers_truly("reactor-epoll");
}

#[test]
fn the_reactor_on_io_uring_answers_truly_where_it_is_allowed() {
    let options = nilas_shards::RingOptions::default();
    match nilas_shards::open_ring(nilas_shards::RingBody::IoUring, options) {
        Ok(_) => a_server_answers_truly("reactor"),
        Err(error) => println!("skipped: io_uring is not to be had here ({error})"),
    }
}

fn record_with_ratio(folder: &Path, name: &str, cpu_ratio: f64) -> String {
    let row = Row {
        suite: "warm-get".to_owned(),
        server: "nilas".to_owned(),
        version: "0".to_owned(),
        size_bytes: 4096,
        connections: 16,
        rounds: 1,
        requests: 1,
        requests_per_second: 1.0,
        p50_us: 1.0,
        p99_us: 1.0,
        cpu_us_min: 1.0,
        cpu_us_median: 1.0,
        cpu_ratio,
        client_busy: 0.5,
    };
    let path = folder.join(name);
    let record = Record { facts: Vec::new(), rows: vec![row] };
    std::fs::write(&path, record.to_csv()).expect("a writable folder");
    path.to_string_lossy().into_owned()
}

fn compare(before: &str, after: &str) -> Output {
    // The first `--` is what an alias may leave there.
    Command::new(PROGRAM).args(["--", "regression", before, after]).output().expect("it runs")
}

#[test]
fn a_regression_is_an_exit_code_and_a_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let before = record_with_ratio(folder.path(), "before.csv", 0.8);
    let after = record_with_ratio(folder.path(), "after.csv", 0.95);
    assert!(compare(&before, &before).status.success());
    let worse = compare(&before, &after);
    assert!(!worse.status.success());
    let said = String::from_utf8_lossy(&worse.stderr);
    assert!(said.contains("warm-get nilas, 4096 bytes, 16 connections"), "{said}");
}
