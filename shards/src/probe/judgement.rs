//! What follows from the facts: pure, so that every machine can be judged on any machine.
//! It asks the machine nothing itself; see `facts` for what was found out.

use super::facts::{Denial, Facts, Step};
use super::{Finding, ProbeError, ProbeReport, RingChoice, Severity};
use crate::ring::RingBody;
use crate::sys::limit::Limit;
use crate::sys::uring::Stage;
use std::io;

/// Open files below which a node is warned about: eight thousand clients, and room for the origin's
/// connections and the disks.
const OPEN_FILES_MIN: u64 = 16_384;
/// The first kernel with repeating receives into a ring of buffers.
const KERNEL_MIN: &str = "6.0";

pub(super) fn judge(
    choice: RingChoice,
    wanted_shards: usize,
    facts: &Facts,
) -> Result<ProbeReport, ProbeError> {
    let mut findings = Vec::new();
    let mut ring = RingBody::IoUring;
    match (choice, facts.io_uring) {
        (RingChoice::Epoll, _) => ring = RingBody::Epoll,
        (RingChoice::Auto | RingChoice::IoUring, Ok(())) => {}
        (RingChoice::Auto, Err(denial)) => {
            ring = RingBody::Epoll;
            findings.push(denied(denial, facts, Severity::Warning));
        }
        (RingChoice::IoUring, Err(denial)) => {
            return Err(ProbeError(denied(denial, facts, Severity::Fatal)));
        }
    }
    findings.extend(facts.open_files.and_then(few_files));
    findings.extend(facts.cores.and_then(|cores| few_cores(cores, wanted_shards)));
    Ok(ProbeReport { ring, findings })
}

fn denied(denial: Denial, facts: &Facts, severity: Severity) -> Finding {
    let (cause, cure) = cause_and_cure(denial, facts);
    let consequence = match severity {
        Severity::Warning => {
            "The shards serve through epoll instead, which costs more processor time a request."
        }
        Severity::Fatal => "The node does not start, since the ring io_uring was demanded.",
    };
    let otherwise = match severity {
        Severity::Warning => "or set the ring to epoll to accept this without a warning.",
        Severity::Fatal => "or set the ring to auto to serve through epoll meanwhile.",
    };
    let (consequence, cure) = (consequence.to_owned(), format!("{cure}, {otherwise}"));
    Finding { cause, consequence, cure, severity }
}

/// A sentence, and the beginning of another.
fn cause_and_cure(Denial { step, errno }: Denial, facts: &Facts) -> (String, String) {
    let error = io::Error::from_raw_os_error(errno);
    match (errno, facts.io_uring_disabled) {
        (libc::ENOSYS, _) => (
            format!("This kernel ({}) or its sandbox has no io_uring (ENOSYS).", facts.kernel),
            format!("Run on Linux {KERNEL_MIN} or newer, outside of a sandbox such as gVisor"),
        ),
        (libc::EPERM, Some(2)) => (
            "io_uring is switched off for everyone: kernel.io_uring_disabled is 2.".to_owned(),
            "Run `sysctl kernel.io_uring_disabled=0`".to_owned(),
        ),
        (libc::EPERM, Some(1)) => (
            "io_uring is switched off for this user: kernel.io_uring_disabled is 1.".to_owned(),
            "Run `sysctl kernel.io_uring_disabled=0`, or put the user into the group of \
             kernel.io_uring_group"
                .to_owned(),
        ),
        (libc::EPERM | libc::EACCES, _) => (
            format!(
                "A seccomp profile or a security module denies io_uring to this process ({error})."
            ),
            "Allow io_uring_setup, io_uring_enter and io_uring_register in the profile of the \
             container (Docker: `--security-opt seccomp=<profile>`)"
                .to_owned(),
        ),
        (libc::ENOMEM, _) => (
            format!("The kernel gives io_uring no memory: {} may be locked.", locked(facts)),
            "Raise the limit of locked memory (`ulimit -l`, LimitMEMLOCK= in systemd, \
             `--ulimit memlock=-1` in Docker)"
                .to_owned(),
        ),
        (libc::EMFILE | libc::ENFILE, _) => (
            format!("There are too many open files to make a ring ({error})."),
            "Raise the limit of open files (`ulimit -n`, LimitNOFILE= in systemd)".to_owned(),
        ),
        (libc::EINVAL | libc::EOPNOTSUPP, _) => (
            format!("The io_uring of this kernel ({}) lacks {}.", facts.kernel, what_lacks(step)),
            format!("Run on Linux {KERNEL_MIN} or newer"),
        ),
        _ => (
            format!("io_uring does not work here: {error} while {}.", doing(step)),
            format!("Look into the kernel's log, run on Linux {KERNEL_MIN} or newer"),
        ),
    }
}

fn what_lacks(step: Step) -> &'static str {
    match step {
        Step::Make(Stage::Setup | Stage::Doorbell) => "what a ring is set up with",
        Step::Make(Stage::Buffers) => "rings of provided buffers",
        Step::Receive => "repeating receives",
    }
}

fn doing(step: Step) -> &'static str {
    match step {
        Step::Make(Stage::Setup) => "setting up a ring",
        Step::Make(Stage::Buffers) => "registering its buffers",
        Step::Make(Stage::Doorbell) => "making its doorbell",
        Step::Receive => "receiving a byte",
    }
}

fn locked(facts: &Facts) -> String {
    match facts.locked_memory {
        Some(Limit { soft: u64::MAX, .. }) | None => "any amount".to_owned(),
        Some(Limit { soft, .. }) => format!("{soft} bytes"),
    }
}

fn few_files(limit: Limit) -> Option<Finding> {
    (limit.soft < OPEN_FILES_MIN).then(|| Finding {
        cause: format!(
            "This process may open {} files, and may not raise that beyond {}.",
            limit.soft, limit.hard
        ),
        consequence: format!(
            "Clients beyond about {} at a time wait, or are refused.",
            limit.soft / 2
        ),
        cure: format!(
            "Raise the hard limit of open files to {OPEN_FILES_MIN} or more (`ulimit -Hn`, \
             LimitNOFILE= in systemd, `--ulimit nofile=` in Docker)."
        ),
        severity: Severity::Warning,
    })
}

fn few_cores(cores: usize, wanted_shards: usize) -> Option<Finding> {
    (cores < wanted_shards).then(|| Finding {
        cause: format!(
            "{wanted_shards} shards are configured, and this process may use {cores} cores."
        ),
        consequence: "Shards share cores, and each waits while another runs.".to_owned(),
        cure: format!(
            "Configure {cores} shards or fewer, or give the process more cores (taskset, \
             `--cpuset-cpus` in Docker)."
        ),
        severity: Severity::Warning,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Facts {
        Facts {
            io_uring: Ok(()),
            io_uring_disabled: Some(0),
            kernel: "6.18.0".to_owned(),
            locked_memory: Some(Limit { soft: 65_536, hard: 65_536 }),
            open_files: Some(Limit { soft: 524_288, hard: 524_288 }),
            cores: Some(4),
        }
    }

    fn refused(step: Step, errno: i32, io_uring_disabled: Option<u32>) -> Facts {
        Facts { io_uring: Err(Denial { step, errno }), io_uring_disabled, ..healthy() }
    }

    #[test]
    fn a_healthy_machine_runs_io_uring_and_nothing_is_found() {
        for choice in [RingChoice::Auto, RingChoice::IoUring] {
            let report = judge(choice, 4, &healthy()).expect("nothing is denied");
            assert_eq!(report, ProbeReport { ring: RingBody::IoUring, findings: Vec::new() });
        }
    }

    #[test]
    fn epoll_runs_where_it_is_wanted_and_nothing_is_said_about_io_uring() {
        let facts = refused(Step::Make(Stage::Setup), libc::EPERM, Some(2));
        let report = judge(RingChoice::Epoll, 4, &facts).expect("epoll is not denied");
        assert_eq!(report, ProbeReport { ring: RingBody::Epoll, findings: Vec::new() });
    }

    #[test]
    fn each_denial_names_its_cause_and_its_cure() {
        let setup = Step::Make(Stage::Setup);
        let table = [
            (setup, libc::ENOSYS, None, "no io_uring (ENOSYS)", "Linux 6.0"),
            (setup, libc::EPERM, Some(1), "io_uring_disabled is 1", "kernel.io_uring_group"),
            (setup, libc::EPERM, Some(2), "io_uring_disabled is 2", "sysctl"),
            (setup, libc::EPERM, Some(0), "seccomp", "profile of the container"),
            (setup, libc::EPERM, None, "seccomp", "profile of the container"),
            (setup, libc::ENOMEM, Some(0), "65536 bytes may be locked", "ulimit -l"),
            (Step::Make(Stage::Buffers), libc::ENOMEM, Some(0), "may be locked", "memlock"),
            (Step::Make(Stage::Buffers), libc::EINVAL, None, "provided buffers", "Linux 6.0"),
            (Step::Receive, libc::EINVAL, None, "repeating receives", "Linux 6.0"),
            (Step::Make(Stage::Doorbell), libc::EMFILE, Some(0), "open files", "ulimit -n"),
            (Step::Receive, libc::EIO, Some(0), "receiving a byte", "kernel's log"),
        ];
        for (step, errno, disabled, cause, cure) in table {
            let facts = refused(step, errno, disabled);
            let report = judge(RingChoice::Auto, 4, &facts).expect("epoll is the fallback");
            assert_eq!(report.ring, RingBody::Epoll);
            let [finding] = &report.findings[..] else { panic!("one finding: {report:?}") };
            assert!(finding.cause.contains(cause), "{finding}");
            assert!(finding.consequence.contains("epoll"), "{finding}");
            assert!(finding.cure.contains(cure), "{finding}");
            let error = judge(RingChoice::IoUring, 4, &facts).expect_err("io_uring was demanded");
            assert_eq!(error.0.cause, finding.cause);
            assert_eq!(error.0.severity, Severity::Fatal);
        }
    }

    #[test]
    fn few_files_and_few_cores_are_warnings() {
        let facts = Facts {
            open_files: Some(Limit { soft: 1024, hard: 1024 }),
            cores: Some(2),
            ..healthy()
        };
        let report = judge(RingChoice::Auto, 3, &facts).expect("warnings stop nothing");
        assert_eq!(report.ring, RingBody::IoUring);
        let causes: Vec<_> = report.findings.iter().map(|finding| &finding.cause[..]).collect();
        assert!(causes[0].contains("1024 files"), "{causes:?}");
        assert!(causes[1].contains("3 shards are configured"), "{causes:?}");
        assert!(report.findings.iter().all(|finding| finding.severity == Severity::Warning));
    }
}
