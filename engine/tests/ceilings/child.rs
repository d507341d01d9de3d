//! A node as a process of its own, so that its memory can be measured from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::node::{ACCESS_KEY, BUCKET, SECRET_KEY};

/// A running `nilas-server`.
pub struct ChildNode {
    child: Child,
    directory: TempDir,
    /// Where it serves.
    pub endpoint: SocketAddr,
    /// Where it is watched.
    pub admin: SocketAddr,
}

impl ChildNode {
    /// Starts one with two shards and these flags.
    pub fn start(flags: &[&str]) -> ChildNode {
        let directory = tempfile::tempdir().expect("a directory for the test");
        std::fs::create_dir(directory.path().join(BUCKET)).expect("a bucket");
        let access_key = format!("--credentials.access_key={ACCESS_KEY}");
        let secret_key = format!("--credentials.secret_key={SECRET_KEY}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_nilas-server"))
            // Nothing of the tester's own environment reaches the server.
            .env_clear()
            .current_dir(directory.path())
            .args(["--listen=127.0.0.1:0", "--server.admin=127.0.0.1:0", "--shards=2"])
            .args(["--origin.path=.", &access_key, &secret_key])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be run");
        let mut welcome = String::new();
        let mut told = BufReader::new(child.stdout.take().expect("it is piped"));
        while !welcome.contains("admin: ") {
            let read = told.read_line(&mut welcome).expect("it prints UTF-8");
            assert!(read > 0, "it ended after: {welcome}");
        }
        let endpoint = address(&welcome, "serves S3 on");
        let admin = address(&welcome, "admin:");
        ChildNode { child, directory, endpoint, admin }
    }

    /// Writes an object behind its back.
    pub fn place(&self, key: &str, bytes: &[u8]) {
        let path = self.directory.path().join(BUCKET).join(key);
        std::fs::create_dir_all(path.parent().expect("below the bucket")).expect("folders");
        std::fs::write(path, bytes).expect("a file");
    }

    /// What it has in memory, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
        kib << 10
    }

    /// The sum of a metric's samples whose series contains `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let page = self.metrics_page();
        let samples = page.lines().filter(|line| line.starts_with(name) && line.contains(label));
        let values = samples.filter_map(|line| line.rsplit_once(' '));
        let values: Vec<f64> = values.map(|(_, value)| value.parse().expect("a number")).collect();
        assert!(!values.is_empty(), "no {name} with {label}: nothing would be checked");
        values.into_iter().sum()
    }

    /// Each resource in bytes or number with what is used of it and its ceiling.
    pub fn metrics_page(&self) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("the port is open");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("it is read");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("it is text");
        page
    }
}

impl Drop for ChildNode {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(welcome: &str, label: &str) -> SocketAddr {
    let rest = welcome.split(label).nth(1).expect("it is told");
    let rest = rest.trim_start().trim_start_matches("http://");
    let end = rest.find(char::is_whitespace).expect("a line ends");
    rest[..end].parse().expect("an address")
}
