//! The probe on this machine, whole and confined: each in a process of its own, since a confinement
//! is for good.

use nilas_shards::confinement::{Denial, deny_io_uring, lower_locked_memory};
use nilas_shards::{RingBody, RingChoice, RingOptions, open_ring, probe};
use std::process::Command;

/// Tells the child what to be.
const CONFINEMENT: &str = "NILAS_TEST_CONFINEMENT";

/// What a child has printed. It runs the ignored test below.
fn confined(how: &str) -> String {
    let output = Command::new(std::env::current_exe().expect("this test has a file"))
        .args(["--exact", "a_confined_child", "--ignored", "--nocapture"])
        .env(CONFINEMENT, how)
        .output()
        .expect("a test can start itself");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
#[ignore = "played in a child by the tests below"]
fn a_confined_child() {
    let how = std::env::var(CONFINEMENT).expect("started by another test");
    match how.as_str() {
        "seccomp" => deny_io_uring(Denial::NotPermitted).expect("a filter can be installed"),
        "sandbox" => deny_io_uring(Denial::NotImplemented).expect("a filter can be installed"),
        "memlock" => lower_locked_memory(0).expect("a limit can be lowered"),
        other => panic!("unknown confinement {other}"),
    }
    for choice in [RingChoice::Auto, RingChoice::IoUring, RingChoice::Epoll] {
        match probe(choice, 1) {
            Ok(report) => {
                println!("{choice}: runs {}", report.ring);
                report.findings.iter().for_each(|finding| println!("{choice}: {finding}"));
                open_ring(report.ring, RingOptions::default()).expect("what was probed works");
            }
            Err(error) => println!("{choice}: refused: {error}"),
        }
    }
}

#[test]
fn io_uring_runs_here_and_the_probe_says_so() {
    let report = probe(RingChoice::IoUring, 1).expect("these machines allow io_uring");
    assert_eq!(report.ring, RingBody::IoUring);
    let report = probe(RingChoice::Auto, 1).expect("auto always runs");
    assert_eq!(report.ring, RingBody::IoUring);
}

#[test]
fn a_seccomp_filter_is_named_and_epoll_serves() {
    let printed = confined("seccomp");
    assert!(printed.contains("auto: runs epoll"), "{printed}");
    assert!(printed.contains("auto: A seccomp profile"), "{printed}");
    assert!(printed.contains("io_uring: refused: A seccomp profile"), "{printed}");
    assert!(printed.contains("profile of the container"), "{printed}");
    assert!(printed.contains("epoll: runs epoll"), "{printed}");
    assert!(!printed.contains("epoll: A seccomp"), "epoll was wanted: {printed}");
}

#[test]
fn a_kernel_without_io_uring_is_named_and_epoll_serves() {
    let printed = confined("sandbox");
    assert!(printed.contains("auto: runs epoll"), "{printed}");
    assert!(printed.contains("has no io_uring (ENOSYS)"), "{printed}");
    assert!(printed.contains("io_uring: refused: This kernel"), "{printed}");
}

#[test]
fn a_small_limit_of_locked_memory_panics_nothing() {
    let printed = confined("memlock");
    // Whether it binds is the kernel's: newer ones charge a ring's memory elsewhere.
    let runs = printed.contains("auto: runs io_uring");
    let falls_back =
        printed.contains("auto: runs epoll") && printed.contains("0 bytes may be locked");
    assert!(runs || falls_back, "{printed}");
}

#[test]
fn more_shards_than_cores_are_warned_about() {
    let report = probe(RingChoice::Auto, 100_000).expect("a warning stops nothing");
    let found = report.findings.iter().any(|finding| finding.cause.starts_with("100000 shards"));
    assert!(found, "{report:?}");
}
