//! What is right. Each answer to a read is held against the history: its bytes are of exactly the
//! version that its ETag names, its head agrees with itself and with what was asked, and that version
//! may be seen by a read that began then (`sight`). What a range means is `range`, written anew here
//! so that the node's own reading of it is judged too.

pub mod range;
pub mod sight;

use nilas_base::ByteRange;

use crate::client::Ask;
use crate::client::answer::Answer;
use crate::content::first_difference;
use crate::history::{History, Moment, Named, VersionId};
use crate::key::KeyId;
use range::{Wanted, wanted};

/// A read, and when it was.
#[derive(Clone, Debug)]
pub struct Read {
    /// Of which key.
    pub key: KeyId,
    /// What was asked.
    pub ask: Ask,
    /// Before its first byte was sent.
    pub began: Moment,
}

/// Which failures are nobody's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leniency {
    /// A 5xx: the origin fails now and then.
    pub errors: bool,
    /// A connection that ends early: the network breaks, versions go, clocks leap.
    pub cuts: bool,
}

impl Leniency {
    /// Everything must be answered, and whole.
    pub const NONE: Leniency = Leniency { errors: false, cuts: false };
}

/// Judges an answer to a read.
pub fn judge(history: &mut History, read: &Read, answer: &Answer, leniency: Leniency) {
    history.note(|| {
        let (ask, head) = (&read.ask, &answer.head);
        let began_us = read.began.at.0 / 1000;
        format!(
            "client > {} {} {:?} (begun at {began_us}): {} {:?} {:?} {:?}",
            ask.method,
            ask.path,
            ask.headers,
            head.status,
            head.header("etag"),
            head.header("content-length"),
            head.header("x-sim-answer")
        )
    });
    let verdict = verdict(history, read, answer, leniency);
    if let Some(told) = answer.head.told()
        && let Some(told) = history.told.get_mut(told.0)
    {
        told.given += 1;
    }
    if let Err(wrong) = verdict {
        let ask = &read.ask;
        let asked = format!("{} {} {:?}", ask.method, ask.path, ask.headers);
        let began_ms = read.began.at.0 / 1_000_000;
        let status = answer.head.status;
        history
            .violation(format!("{asked}, begun at {began_ms} ms, was answered {status}: {wrong}"));
    }
}

type Verdict = Result<(), String>;

fn verdict(history: &History, read: &Read, answer: &Answer, leniency: Leniency) -> Verdict {
    no_lie_was_kept(history, read, answer)?;
    match answer.head.status {
        200 | 206 => served(history, read, answer, leniency),
        304 => not_modified(history, read, answer),
        404 => told_so(history, read, answer, |named| named == Named::Absent),
        // An origin that calls a version by another name makes it one of two.
        412 if leniency.errors => Ok(()),
        412 => precondition_failed(history, read),
        416 => unsatisfiable(history, read, answer),
        500..=599 if leniency.errors => Ok(()),
        _ => Err("nobody asked for that".to_owned()),
    }
}

/// A head that contradicts itself goes to the client that asked for it, if to anybody.
fn no_lie_was_kept(history: &History, read: &Read, answer: &Answer) -> Verdict {
    let Some(told) = answer.head.told() else { return Ok(()) };
    let told = history.told.get(told.0).ok_or("the origin never gave that answer")?;
    if told.key != read.key {
        return Err("the head is of another key".to_owned());
    }
    match told.is_lie {
        true => Err("a head that contradicts itself was believed".to_owned()),
        false => Ok(()),
    }
}

fn served(history: &History, read: &Read, answer: &Answer, leniency: Leniency) -> Verdict {
    let head = &answer.head;
    let id = named_version(history, read, answer)?;
    let version = history.version(id).ok_or("its ETag names no version")?;
    if version.key != read.key {
        return Err(format!("it is of {:?}", version.key));
    }
    let range = asked(read, "range");
    let (status, slice) = match wanted(range, version.length) {
        Wanted::Whole => (200, ByteRange::new(0, version.length)),
        Wanted::Slice(slice) => (206, slice),
        Wanted::Nothing => return Err(format!("{range:?} of {} bytes is empty", version.length)),
    };
    if head.status != status {
        return Err(format!("{status} was due for {range:?} of {} bytes", version.length));
    }
    if status == 206 && head.content_range() != Some((slice, version.length)) {
        let (found, length) = (head.header("content-range"), version.length);
        return Err(format!("{found:?} is not {slice:?} of {length}"));
    }
    if head.content_length() != Some(slice.len()) {
        let found = head.header("content-length");
        return Err(format!("its length {found:?} is not that of {slice:?}"));
    }
    if let Some(at) = first_difference(id, slice.start, &answer.body) {
        return Err(format!("byte {at} is not of version {id:?}"));
    }
    sight::may_see(history, read, id)?;
    let seen = ByteRange::new(slice.start, slice.start + answer.body.len() as u64);
    sight::bytes_are_new(history, read, id, seen)?;
    match answer.is_whole || leniency.cuts {
        true => Ok(()),
        false => Err(format!("{} of {} bytes came", answer.body.len(), slice.len())),
    }
}

/// By its ETag, or where the origin gave none, by which of its answers was passed on.
fn named_version(history: &History, read: &Read, answer: &Answer) -> Result<VersionId, String> {
    if let Some(version) = answer.head.version() {
        return Ok(version);
    }
    let told = answer.head.told().ok_or("no ETag says which version it is")?;
    let told = &history.told[told.0];
    match told.named {
        Named::Version(version) if told.asked >= read.began => Ok(version),
        _ => Err("an answer without an ETag was kept".to_owned()),
    }
}

fn not_modified(history: &History, read: &Read, answer: &Answer) -> Verdict {
    let known = asked(read, "if-none-match").ok_or("nothing was known")?;
    let version = answer.head.version().ok_or("no ETag says what was not modified")?;
    if VersionId::of_etag(known) != Some(version) {
        return Err(format!("{version:?} is not {known}"));
    }
    sight::may_see(history, read, version)
}

/// An answer that nobody may keep: the origin's own, to a question that came after this read began.
fn told_so(
    history: &History,
    read: &Read,
    answer: &Answer,
    says: impl Fn(Named) -> bool,
) -> Verdict {
    let told = answer.head.told().ok_or("the origin never said so")?;
    let told = history.told.get(told.0).ok_or("the origin never gave that answer")?;
    if !says(told.named) {
        return Err(format!("the origin said {:?}", told.named));
    }
    match told.asked >= read.began {
        true => Ok(()),
        false => Err("the origin said so to an earlier question".to_owned()),
    }
}

fn unsatisfiable(history: &History, read: &Read, answer: &Answer) -> Verdict {
    let range = asked(read, "range");
    told_so(history, read, answer, |named| match named {
        Named::Version(version) => {
            let length = history.version(version).map_or(0, |version| version.length);
            wanted(range, length) == Wanted::Nothing
        }
        Named::Absent | Named::Nothing => false,
    })
}

/// A key that never had another version than the one asked for meets the condition.
fn precondition_failed(history: &History, read: &Read) -> Verdict {
    let asked = asked(read, "if-match").ok_or("nothing was demanded")?;
    let mut versions = history.writes.iter().filter(|write| write.key == read.key);
    let always = versions
        .all(|write| write.committed.is_none() || write.version == VersionId::of_etag(asked));
    match always {
        true => Err(format!("{asked} is the only version there ever was")),
        false => Ok(()),
    }
}

fn asked<'a>(read: &'a Read, name: &str) -> Option<&'a str> {
    let mut headers = read.ask.headers.iter();
    headers.find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
}
