//! Which versions a read may see. A version is seen because the origin named it, in answer to one
//! question; that question must have come after every write that the node knew of when the read began,
//! and its answer must be fresh enough for a key that others may overwrite.

use std::time::Duration;

use nilas_base::{ByteRange, Monotonic};

use crate::history::{Asker, Author, History, Named, Told, VersionId, Write};
use crate::key::{KeyId, Nature};

use super::Read;

/// How long the node may take, after the origin's answer to a write, to forget what was before it;
/// counts only where the writer has not been told yet.
const ANSWERING: Duration = Duration::from_millis(50);

/// Whether a read may see a version, and if not why.
pub fn may_see(history: &History, read: &Read, version: VersionId) -> Result<(), String> {
    later_write_was_acknowledged(history, read, version)?;
    let demands: Vec<Demand> = demands(history, read);
    let mut proofs = history.told.iter().filter(|told| proves(told, read.key, version)).peekable();
    if proofs.peek().is_none() {
        return Err(format!("the origin never named {version:?}"));
    }
    let mut missed = None;
    for proof in proofs {
        match demands.iter().find(|demand| !demand.is_met_by(proof)) {
            None => return Ok(()),
            Some(demand) => missed = Some((demand, proof)),
        }
    }
    let (demand, proof) = missed.expect("every proof missed one");
    let asked_ms = proof.asked.at.0 as f64 / 1e6;
    Err(format!("{version:?} was last asked for at {asked_ms:.3} ms, but {}", demand.reason))
}

/// Whether every byte of a slice was asked for, or brought by a write, since the key was purged, if it
/// was.
pub fn bytes_are_new(
    history: &History,
    read: &Read,
    version: VersionId,
    slice: ByteRange,
) -> Result<(), String> {
    let Some(purge) = history.last_purge(read.key, read.began) else { return Ok(()) };
    let mut parts: Vec<ByteRange> = history
        .told
        .iter()
        .filter(|told| told.key == read.key && told.named == Named::Version(version))
        .filter(|told| told.asked.at >= purge.at && matches!(told.status, 200 | 206))
        .map(|told| told.body)
        .collect();
    parts.extend(brought_since(history, read.key, version, purge.at));
    parts.sort_by_key(|part| part.start);
    let mut at = slice.start;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if part.start <= at {
            at = at.max(part.end);
        }
    }
    match at >= slice.end {
        true => Ok(()),
        false => Err(format!(
            "byte {at} was not asked for since {} ms, when it was purged",
            purge.at.0 / 1_000_000
        )),
    }
}

/// A version that a client sent to the origin after a purge began was in no cache before.
fn brought_since(
    history: &History,
    key: KeyId,
    version: VersionId,
    purged: Monotonic,
) -> Option<ByteRange> {
    let mut writes = history.client_writes(key).filter(|write| write.version == Some(version));
    let is_later = writes.any(|write| write.arrived.is_some_and(|arrived| arrived.at >= purged));
    let length = history.version(version)?.length;
    is_later.then(|| ByteRange::new(0, length))
}

/// Fills do not make a version current: they name one that the node believes to be.
fn proves(told: &Told, key: KeyId, version: VersionId) -> bool {
    told.key == key && told.named == Named::Version(version) && told.asker != Asker::Fill
}

fn later_write_was_acknowledged(
    history: &History,
    read: &Read,
    version: VersionId,
) -> Result<(), String> {
    let of_key = || history.writes.iter().filter(|write| write.key == read.key);
    let Some(committed) =
        of_key().filter(|write| write.version == Some(version)).find_map(|write| write.committed)
    else {
        return Err(format!("{version:?} never took effect"));
    };
    let unseen = of_key().find(|write| {
        write.committed.is_some_and(|later| later > committed)
            && write.acknowledged.is_some_and(|told| told < read.began)
    });
    unseen.map_or(Ok(()), |write| {
        Err(format!("{version:?} is older than {:?}, which was acknowledged before", write.version))
    })
}

/// What is asked of the question that named a version.
struct Demand {
    reason: String,
    /// It came no earlier than this, in nanoseconds.
    asked_ns_min: u64,
    /// It was answered no earlier than this.
    replied_ns_min: u64,
}

impl Demand {
    fn asked(reason: String, at_ns: u64) -> Demand {
        Demand { reason, asked_ns_min: at_ns, replied_ns_min: 0 }
    }

    fn is_met_by(&self, proof: &Told) -> bool {
        proof.asked.at.0 >= self.asked_ns_min && proof.replied.at.0 >= self.replied_ns_min
    }
}

fn demands(history: &History, read: &Read) -> Vec<Demand> {
    let mut demands: Vec<Demand> = history
        .client_writes(read.key)
        .flat_map(|write| demands_of(history, read, write))
        .collect();
    if history.keys[read.key.0].nature == Nature::Mutable {
        demands.push(freshness(history.mutable_ttl, read));
    }
    if let Some(purge) = history.last_purge(read.key, read.began) {
        let reason = format!("it was purged at {} ms", purge.at.0 / 1_000_000);
        demands.push(Demand::asked(reason, purge.at.0));
    }
    demands
}

fn freshness(ttl: Duration, read: &Read) -> Demand {
    let began_ns = read.began.at.0;
    if ttl.is_zero() {
        let reason = format!("each read asks: this one began at {} ms", began_ns / 1_000_000);
        return Demand::asked(reason, began_ns);
    }
    Demand {
        reason: format!("it was believed for longer than {ttl:?}"),
        asked_ns_min: 0,
        replied_ns_min: began_ns.saturating_sub(ttl.as_nanos() as u64),
    }
}

/// A write that the origin had before the read began voids what was known before it; again when it
/// was answered; and for as long as its outcome is unknown, nothing is known for any time.
fn demands_of(history: &History, read: &Read, write: &Write) -> Vec<Demand> {
    debug_assert_eq!(write.author, Author::Client, "the node does not see others' writes");
    let mut demands = Vec::new();
    let name = format!("a write of {:?}", write.version);
    if let Some(arrived) = write.arrived.filter(|arrived| *arrived < read.began) {
        let reason = format!("{name} arrived at {} ms", arrived.at.0 / 1_000_000);
        demands.push(Demand::asked(reason, arrived.at.0));
    }
    let Some(replied) = write.replied else { return demands };
    let is_over = write.acknowledged.is_some_and(|told| told < read.began)
        || replied.at.after(ANSWERING) < read.began.at;
    if is_over {
        let reason = format!("{name} was answered at {} ms", replied.at.0 / 1_000_000);
        demands.push(Demand::asked(reason, replied.at.0));
        if write.is_unknown && read.began.at < replied.at.after(history.hold) {
            let reason = format!("the outcome of {name} is unknown, so each read asks");
            demands.push(Demand::asked(reason, read.began.at.0));
        }
    }
    demands
}
