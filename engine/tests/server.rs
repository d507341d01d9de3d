//! The program `nilas-server` itself: what it prints, how it ends, what it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use nilas_base::Clock;
use nilas_net::sigv4::{PayloadHash, SigningIdentity, ToSign, sign};

/// How long a local answer may take before the test gives up.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// Small enough for any machine that runs tests.
const SMALL: [&str; 8] = [
    "--shards",
    "2",
    "--cache.data_bytes",
    "16MiB",
    "--cache.metadata_bytes",
    "16MiB",
    "--cache.mapping_bytes",
    "1MiB",
];

fn server(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilas-server"));
    // Nothing of the tester's own environment reaches the server.
    command.env_clear().current_dir(directory).args(SMALL).args(arguments);
    command
}

fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        server(directory, arguments).output().expect("the program can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
    (status.code().expect("no signal ends it"), text(stdout), text(stderr))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// A server that has said where it listens.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    welcome: String,
}

impl Running {
    /// Starts on free ports and reads until the admin port is told.
    fn start(directory: &Path, arguments: &[&str]) -> Running {
        let ports = ["--listen", "127.0.0.1:0", "--server.admin", "127.0.0.1:0"];
        let mut command = server(directory, &ports);
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be run");
        let stdout = child.stdout.take().expect("it is piped");
        let mut running = Running { child, stdout: BufReader::new(stdout), welcome: String::new() };
        running.read_until("admin: ");
        running
    }

    fn read_until(&mut self, part: &str) {
        while !self.welcome.contains(part) {
            let read = self.stdout.read_line(&mut self.welcome).expect("it prints UTF-8");
            if read == 0 {
                let errors = self.errors();
                panic!("it ended after: {}{errors}", self.welcome);
            }
        }
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut text).expect("it prints UTF-8");
        text
    }

    /// The address after `label` in the welcome.
    fn address(&self, label: &str) -> SocketAddr {
        let rest = self.welcome.split(label).nth(1).expect("it is told");
        let rest = rest.trim_start().trim_start_matches("http://");
        let end = rest.find(char::is_whitespace).expect("a line ends");
        rest[..end].parse().expect("an address")
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("kill can be run").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the port is open");
    stream.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a time-out can be set");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

#[test]
fn without_arguments_it_serves_a_local_directory_and_says_how_to_connect() {
    let directory = scratch();
    let mut running = Running::start(directory.path(), &[]);
    running.read_until("AWS CLI:");
    for part in ["access key: ", "secret key: ", "DuckDB:", "Polars:", "PyIceberg:", "Spark:"] {
        assert!(running.welcome.contains(part), "{part} is not in {}", running.welcome);
    }
    assert!(directory.path().join("nilas-data").is_dir(), "the default directory is created");
    let ready = get(running.address("admin:"), "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("\"phase\":\"ready\""), "{ready}");
    let metrics = get(running.address("admin:"), "/metrics");
    assert!(metrics.contains("\nnilas_ready 1\n"), "{metrics}");
    let refused = get(running.address("serves S3 on"), "/bucket/key");
    assert!(refused.starts_with("HTTP/1.1 403"), "an unsigned request is refused: {refused}");
    let secret = running.welcome.split("secret key: ").nth(1).expect("it is told");
    let secret = secret.lines().next().expect("a line").to_owned();
    running.signal("TERM");
    assert!(running.child.wait().expect("it ends").success(), "a signal ends it well");
    let errors = running.errors();
    assert!(!errors.contains(&secret), "the log tells the secret: {errors}");
}

#[test]
fn configured_credentials_are_not_printed() {
    let directory = scratch();
    let file = directory.path().join("nilas.toml");
    std::fs::write(&file, "[[credentials]]\naccess_key = \"AK\"\nsecret_key = \"hunter2\"\n")
        .expect("it can be written");
    let path = file.display().to_string();
    let mut running = Running::start(directory.path(), &["--config", &path]);
    running.signal("INT");
    assert!(running.child.wait().expect("it ends").success());
    let mut rest = String::new();
    running.stdout.read_to_string(&mut rest).expect("it prints UTF-8");
    let errors = running.errors();
    let told = format!("{}{rest}{errors}", running.welcome);
    assert!(!told.contains("hunter2"), "{told}");
}

/// Looks at something at most this often, this far apart.
const LOOKS_MAX: usize = 2000;
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        // Nothing is ever sent: this only waits.
        let _ = never.recv_timeout(LOOK_INTERVAL);
    }
    panic!("it never comes true");
}

/// A signed GET, as a client of credential `AK` would send it.
fn signed_get(address: SocketAddr, path: &str) -> String {
    let host = address.to_string();
    let identity = SigningIdentity {
        access_key: "AK",
        secret: "hunter2",
        session_token: None,
        region: "us-east-1",
    };
    let request = ToSign {
        method: "GET",
        host: &host,
        path_raw: path,
        query_raw: "",
        headers: &[],
        payload: PayloadHash::Unsigned,
    };
    let signed = sign(&identity, &request, Clock::system().wall()).expect("a valid path");
    let headers = signed.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{}\r\n", headers.collect::<String>())
}

#[test]
fn a_second_signal_ends_a_draining_node_at_once() {
    let directory = scratch();
    let arguments = [
        "--server.drain_timeout=1h",
        "--origin.first_byte_latency=60s",
        "--credentials.access_key=AK",
        "--credentials.secret_key=hunter2",
    ];
    let mut running = Running::start(directory.path(), &arguments);
    let (endpoint, admin) = (running.address("serves S3 on"), running.address("admin:"));
    let mut slow = TcpStream::connect(endpoint).expect("it is open");
    slow.write_all(signed_get(endpoint, "/lake/key").as_bytes()).expect("it is read");
    wait_until(|| !get(admin, "/metrics").contains("\nnilas_origin_in_flight 0\n"));
    running.signal("TERM");
    wait_until(|| get(admin, "/readyz").contains("draining"));
    // Signals that come too close are one; a patient second one ends it.
    wait_until(|| {
        running.signal("TERM");
        running.child.try_wait().expect("it can be waited for").is_some()
    });
    let status = running.child.wait().expect("it has ended");
    assert_eq!(status.code(), Some(1), "it says that it did not drain");
    assert!(running.errors().contains("second signal"));
}

/// What a signed GET is answered with.
fn signed_read(address: SocketAddr, path: &str) -> String {
    let request = signed_get(address, path).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    exchange(address, &request)
}

fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the port is open");
    stream.set_read_timeout(Some(ANSWER_TIME_MAX)).expect("a time-out can be set");
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

#[test]
fn a_purge_through_the_admin_port_is_seen_by_the_next_read() {
    let directory = scratch();
    let folder = directory.path().join("nilas-data/lake/t/metadata");
    std::fs::create_dir_all(&folder).expect("folders");
    let write = |text: &str| std::fs::write(folder.join("a.avro"), text).expect("a file");
    write("old");
    let credentials = ["--credentials.access_key=AK", "--credentials.secret_key=hunter2"];
    let origin = ["--origin.path=nilas-data", "--server.admin_token=t0ken"];
    let running = Running::start(directory.path(), &[credentials, origin].concat());
    let (endpoint, admin) = (running.address("serves S3 on"), running.address("admin:"));
    let read = || signed_read(endpoint, "/lake/t/metadata/a.avro");
    assert!(read().ends_with("\r\n\r\nold"));
    write("newer");
    assert!(read().ends_with("\r\n\r\nold"), "its name says that it never changes");
    let order = r#"{"bucket":"lake","key":"t/metadata/a.avro"}"#;
    let purge = |authorization: &str| {
        let length = order.len();
        let request = format!(
            "POST /admin/purge HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{authorization}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{order}"
        );
        exchange(admin, &request)
    };
    assert!(purge("").starts_with("HTTP/1.1 401"));
    let purged = purge("authorization: Bearer t0ken\r\n");
    assert!(purged.starts_with("HTTP/1.1 200") && purged.contains("\"purged\""), "{purged}");
    assert!(read().ends_with("\r\n\r\nnewer"));
}

#[test]
fn check_tells_the_effective_configuration_and_hides_its_secrets() {
    let directory = scratch();
    let arguments = [
        "--check",
        "--listen=127.0.0.1:0",
        "--server.admin=127.0.0.1:0",
        "--server.admin_token=hunter2",
        "--credentials.access_key=AK",
        "--credentials.secret_key=hunter2",
        "--ring=epoll",
    ];
    let (code, told, errors) = run(directory.path(), &arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    for part in ["data_bytes = \"16MiB\"", "# --cache.data_bytes", "(hidden)", "# Origin", "epoll"]
    {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}

#[test]
fn check_fails_where_the_origin_cannot_be_reached() {
    let directory = scratch();
    let closed = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = closed.local_addr().expect("it is bound");
    drop(closed);
    let endpoint = format!("--origin.endpoint=http://{address}");
    let arguments = [
        "--check",
        "--listen=127.0.0.1:0",
        "--server.admin=127.0.0.1:0",
        "--origin.kind=s3",
        "--origin.access_key=AK",
        "--origin.secret_key=hunter2",
        &endpoint,
    ];
    let (code, told, _) = run(directory.path(), &arguments);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("error: ") && told.contains(&address.to_string()), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn what_cannot_work_is_refused_with_its_cure_before_anything_starts() {
    let directory = scratch();
    let holder = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let held = holder.local_addr().expect("it is bound").to_string();
    let free = ["--listen", "127.0.0.1:0", "--server.admin", "127.0.0.1:0"];
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--listen", &held], &[held.as_str(), "in use", "--listen"]),
        (&["--origin.path", "missing"], &["missing does not exist", "origin.path"]),
        (&["--listen", "0.0.0.0:0"], &["beyond loopback", "NILAS_CREDENTIALS_ACCESS_KEY"]),
        (&["--cache.data_bytes", "900TiB"], &["come to", "Lower cache.data_bytes"]),
        (
            &["--disk.path=missing", "--cache.data_bytes=32MiB", "--cache.metadata_bytes=32MiB"],
            &["cache device missing does not exist", "mkdir -p missing"],
        ),
        (&["--rong", "epoll"], &["no flag --rong", "did you mean --ring?"]),
    ];
    for (arguments, parts) in cases {
        let (code, told, errors) = run(directory.path(), &[&free, arguments].concat());
        assert_eq!((code, told.as_str()), (1, ""), "{errors}");
        for part in parts {
            assert!(errors.contains(part), "{part} is not in {errors}");
        }
    }
}

/// A cache device of 82 MiB for two shards.
const DEVICE: [&str; 8] = [
    "--disk.path=.",
    "--cache.data_bytes=32MiB",
    "--cache.metadata_bytes=32MiB",
    "--cache.block_bytes=1MiB",
    "--disk.data_bytes=34MiB",
    "--disk.metadata_bytes=32MiB",
    "--disk.mapping_bytes=16MiB",
    "--log.level=info",
];

#[test]
fn a_cache_device_is_laid_out_kept_and_used_by_one_node_alone() {
    let directory = scratch();
    let free = ["--listen=127.0.0.1:0", "--server.admin=127.0.0.1:0"];
    let check = || run(directory.path(), &[&free[..], &DEVICE, &["--check"]].concat());
    let (code, told, _) = check();
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("ok: it would lay out ./nilas.cache (82MiB: 32MiB for data"), "{told}");
    let file = directory.path().join("nilas.cache");
    assert!(!file.exists(), "a check makes nothing");

    let stop = |mut running: Running| {
        running.signal("TERM");
        assert!(running.child.wait().expect("it ends").success());
        running.errors()
    };
    let mut running = Running::start(directory.path(), &DEVICE);
    running.read_until("cache device: ./nilas.cache");
    assert_eq!(std::fs::metadata(&file).expect("it is made").len(), 82 << 20);
    let metrics = get(running.address("admin:"), "/metrics");
    for sample in [
        "nilas_ceiling_bytes{resource=\"disk_data\",shard=\"1\"} 16777216",
        "nilas_ceiling_bytes{resource=\"disk_mapping\",shard=\"0\"} 8388608",
    ] {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }
    let (code, _, errors) = run(directory.path(), &[&free[..], &DEVICE].concat());
    assert_eq!(code, 1);
    assert!(errors.contains("./nilas.cache is used by another process"), "{errors}");
    let log = stop(running);
    assert!(log.contains("the cache device ./nilas.cache is laid out (82MiB"), "{log}");

    let log = stop(Running::start(directory.path(), &DEVICE));
    assert!(log.contains("the cache device ./nilas.cache is kept"), "{log}");
    let more =
        Running::start(directory.path(), &[&DEVICE[..], &["--disk.data_bytes=38MiB"]].concat());
    let log = stop(more);
    assert!(log.contains("is laid out anew and empty (86MiB"), "{log}");
    assert!(log.contains("it was laid out for other budgets"), "{log}");
}

#[test]
fn help_reference_and_version_are_printed() {
    let directory = scratch();
    for (flag, part) in [
        ("--help", "--cache.data_bytes"),
        ("--reference", "# Configuration"),
        ("--version", "nilas-server 0."),
    ] {
        let (code, told, errors) = run(directory.path(), &[flag]);
        assert_eq!((code, errors.as_str()), (0, ""));
        assert!(told.contains(part), "{told}");
    }
}
