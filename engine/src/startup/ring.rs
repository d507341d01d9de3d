//! The ring body: a trial ring is opened as a shard would open it, and dropped.

use nilas_shards::{
    ProbeError, ProbeReport, RingBody, RingChoice, RingOptions, Severity, open_ring,
};

use super::warning;

/// The consequence and the cure where io_uring is denied, whatever denied it.
const CURE: &str = "Allow io_uring (the container's seccomp profile, or sysctl \
                    kernel.io_uring_disabled=0; ulimit -l for locked memory), or keep epoll with \
                    --ring epoll.";

/// The body that `choice` comes to on this machine.
pub(super) fn probe(choice: RingChoice) -> Result<ProbeReport, ProbeError> {
    if choice == RingChoice::Epoll {
        return Ok(ProbeReport { ring: RingBody::Epoll, findings: Vec::new() });
    }
    let error = match open_ring(RingBody::IoUring, RingOptions::default()) {
        Ok(_) => return Ok(ProbeReport { ring: RingBody::IoUring, findings: Vec::new() }),
        Err(error) => error,
    };
    let cause = format!("The kernel denies io_uring: {error}.");
    let consequence = "Shards run on epoll, at more processor time a request.";
    let mut finding = warning(cause, consequence, CURE.to_owned());
    if choice == RingChoice::IoUring {
        finding.severity = Severity::Fatal;
        finding.consequence = "The node does not start, as --ring io_uring demands it.".to_owned();
        return Err(ProbeError(finding));
    }
    Ok(ProbeReport { ring: RingBody::Epoll, findings: vec![finding] })
}
