//! The reference model: each version of each key, each write with its times, each of the origin's
//! answers with what it named. Facts alone; `judge` draws the conclusions.

use std::collections::BTreeSet;
use std::time::Duration;

use nilas_base::{ByteRange, Clock, Monotonic};
use nilas_engine::purge::Purge;

use crate::key::{Key, KeyId, Nature};

/// How long a question that failed may be repeated.
const REPEATING: Duration = Duration::from_secs(300);

/// How long it may take until a device knows that a write is over: nobody waits for that, and it stalls.
const CLOSING: Duration = Duration::from_secs(30);

/// A version's number, unlike any other's in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionId(pub u64);

impl VersionId {
    /// Its ETag.
    pub fn etag(self) -> String {
        format!("\"{:016x}\"", self.0)
    }

    /// The version that an ETag names; what follows a dash is an alias's mark.
    pub fn of_etag(etag: &str) -> Option<VersionId> {
        let inner = etag.strip_prefix('"')?.strip_suffix('"')?;
        let number = inner.split('-').next()?;
        u64::from_str_radix(number, 16).ok().map(VersionId)
    }
}

/// A time, and a place in the order of everything that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Events before it.
    pub order: u64,
    /// When.
    pub at: Monotonic,
}

/// One version of one key.
#[derive(Clone, Debug)]
pub struct Version {
    /// Whose.
    pub key: KeyId,
    /// How many bytes.
    pub length: u64,
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// A client of the node.
    Client,
    /// Somebody behind the node's back.
    Stranger,
}

/// One write, and when its steps were.
#[derive(Clone, Debug)]
pub struct Write {
    /// To which key.
    pub key: KeyId,
    /// By whom.
    pub author: Author,
    /// What it makes of the key; `None` deletes it.
    pub version: Option<VersionId>,
    /// When its author began.
    pub begun: Moment,
    /// When the origin received its head.
    pub arrived: Option<Moment>,
    /// When it took effect.
    pub committed: Option<Moment>,
    /// When the origin answered the node, or fell silent.
    pub replied: Option<Moment>,
    /// When its author had been told of its success.
    pub acknowledged: Option<Moment>,
    /// When its author heard of its end or gave it up.
    pub over: Option<Moment>,
    /// Whether the node could not know if it has happened.
    pub is_unknown: bool,
    /// Whether the node that relayed it has ended: it has taken effect already, or never will.
    pub is_orphan: bool,
}

impl Write {
    /// Whether it goes through the node.
    fn may_be_relayed(&self) -> bool {
        self.author == Author::Client || self.arrived.is_some()
    }
}

/// A write's place in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId(pub usize);

/// What an answer of the origin says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// This version is current.
    Version(VersionId),
    /// There is none.
    Absent,
    /// Nothing.
    Nothing,
}

/// Who asked the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The node, for the current version.
    Open,
    /// The node, for bytes of a version that it knows.
    Fill,
    /// A client, whose request was relayed.
    Client,
}

/// One of the origin's answers to a read.
#[derive(Clone, Debug)]
pub struct Told {
    /// About which key.
    pub key: KeyId,
    /// To whom.
    pub asker: Asker,
    /// When the question arrived.
    pub asked: Moment,
    /// When the head of the answer left.
    pub replied: Moment,
    /// What it says.
    pub named: Named,
    /// Its status.
    pub status: u16,
    /// Which bytes follow; none after a HEAD.
    pub body: ByteRange,
    /// Whether its head contradicts itself, or its body.
    pub is_lie: bool,
    /// Clients that were given its head.
    pub given: u32,
}

/// One purge, as acknowledged.
#[derive(Clone, Debug)]
pub struct Purged {
    /// What was purged.
    pub purge: Purge,
    /// When it was asked for.
    pub begun: Moment,
    /// When the node had said that it is done.
    pub acknowledged: Moment,
}

/// An answer's place in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldId(pub usize);

/// What a run has seen so far.
pub struct History {
    clock: Clock,
    order: u64,
    /// The keys.
    pub keys: Vec<Key>,
    versions: Vec<Version>,
    /// Every write, as begun.
    pub writes: Vec<Write>,
    current: Vec<Option<VersionId>>,
    /// Every answer of the origin to a read, as told.
    pub told: Vec<Told>,
    /// Every purge that was acknowledged.
    pub purges: Vec<Purged>,
    purge_began: Vec<bool>,
    /// Whether the node has ended, with all that it knew of purges.
    pub has_restarted: bool,
    /// Whether a node looks at what its device holds.
    pub is_settling: bool,
    /// How long a mutable key is believed.
    pub mutable_ttl: Duration,
    /// How long a key is asked for anew after a write of unknown outcome.
    pub hold: Duration,
    /// Until when the readers of each key may not share an answer.
    unshared: Vec<Monotonic>,
    /// Keys that a node held, or was writing, when it ended: the next one holds them anew once it knows.
    held: BTreeSet<usize>,
    /// What was wrong, in words.
    pub violations: Vec<String>,
    /// What has happened, in words, where somebody wants to read it.
    pub journal: Option<Vec<String>>,
}

impl History {
    /// Of keys that have no version yet.
    pub fn new(clock: Clock, keys: Vec<Key>, mutable_ttl: Duration, hold: Duration) -> History {
        History {
            clock,
            order: 0,
            current: vec![None; keys.len()],
            unshared: vec![Monotonic(0); keys.len()],
            held: BTreeSet::new(),
            purge_began: vec![false; keys.len()],
            has_restarted: false,
            is_settling: false,
            keys,
            versions: Vec::new(),
            writes: Vec::new(),
            told: Vec::new(),
            purges: Vec::new(),
            mutable_ttl,
            hold,
            violations: Vec::new(),
            journal: None,
        }
    }

    /// This moment, after all that was before.
    pub fn now(&mut self) -> Moment {
        self.order += 1;
        Moment { order: self.order, at: self.clock.now() }
    }

    /// Notes that something was wrong.
    pub fn violation(&mut self, what: impl Into<String>) {
        let at_ms = self.clock.now().0 / 1_000_000;
        self.violations.push(format!("at {at_ms} ms: {}", what.into()));
    }

    /// Writes into the journal, if one is kept.
    pub fn note(&mut self, what: impl FnOnce() -> String) {
        let at_us = self.clock.now().0 / 1000;
        if let Some(journal) = &mut self.journal {
            journal.push(format!("{:>12} us  {}", at_us, what()));
        }
    }

    /// A version that nobody has seen yet.
    pub fn draw_version(&mut self, key: KeyId, length: u64) -> VersionId {
        self.versions.push(Version { key, length });
        VersionId(self.versions.len() as u64)
    }

    /// What is known of a version.
    pub fn version(&self, version: VersionId) -> Option<&Version> {
        self.versions.get((version.0 as usize).checked_sub(1)?)
    }

    /// A write begins.
    pub fn begin_write(
        &mut self,
        key: KeyId,
        author: Author,
        version: Option<VersionId>,
    ) -> WriteId {
        let begun = self.now();
        self.writes.push(Write {
            key,
            author,
            version,
            begun,
            arrived: None,
            committed: None,
            replied: None,
            acknowledged: None,
            over: None,
            is_unknown: false,
            is_orphan: false,
        });
        WriteId(self.writes.len() - 1)
    }

    /// A write takes effect.
    pub fn commit(&mut self, write: WriteId) {
        let now = self.now();
        self.note(|| format!("write {} takes effect", write.0));
        let write = &mut self.writes[write.0];
        write.committed = Some(now);
        self.current[write.key.0] = write.version;
    }

    /// The node has ended, and all that it sent has arrived. What it had sent to the origin and not
    /// heard of ends too, and with the node the holds on keys whose writes were of unknown outcome; a
    /// device remembers those, and where it may lose them the next node holds every key.
    pub fn node_ends(&mut self, device_may_lose: bool) {
        let now = self.now();
        if device_may_lose {
            self.held.extend(0..self.keys.len());
        }
        // One that the origin never heard of may have come as far as the device.
        let is_closed = |write: &Write| {
            let end = if write.arrived.is_some() { write.replied } else { write.over };
            end.is_some_and(|it| it.at.after(CLOSING) < now.at)
        };
        let open = self.writes.iter().filter(|it| it.may_be_relayed() && !is_closed(it));
        self.held.extend(open.map(|write| write.key.0));
        let unshared = self.unshared.iter().enumerate();
        self.held.extend(unshared.filter(|(_, until)| **until > now.at).map(|(key, _)| key));
        for write in self.writes.iter_mut().filter(|write| write.arrived.is_some()) {
            write.is_orphan = true;
            write.is_unknown = false;
            write.replied.get_or_insert(now);
        }
    }

    /// The current version of a key.
    pub fn current(&self, key: KeyId) -> Option<VersionId> {
        self.current[key.0]
    }

    /// The origin answers a read.
    pub fn tell(&mut self, told: Told) -> ToldId {
        self.told.push(told);
        ToldId(self.told.len() - 1)
    }

    /// What becomes of a write may be unknown, or a question of before it be repeated: for that time
    /// each reader asks for itself.
    pub fn keep_readers_apart(&mut self, key: KeyId) {
        self.unshared[key.0] = self.clock.now().after(self.hold + REPEATING);
    }

    /// Whether a node still looks at what its device holds: what is asked then may be asked again when
    /// it knows. From when it knows, it holds what the node before it held.
    pub fn settle(&mut self, is_settling: bool) {
        if self.is_settling && !is_settling {
            for key in std::mem::take(&mut self.held) {
                self.keep_readers_apart(KeyId(key));
            }
        }
        self.is_settling = is_settling;
    }

    /// Whether the readers of a key must share one answer. Not while the origin works on a write: the
    /// node may have given it up already, so that who asks from then on asks anew. Nor while the node
    /// has one and the origin does not yet: readers ask anew from before it is relayed on.
    pub fn readers_share(&self, key: KeyId) -> bool {
        let is_under_way = |write: &Write| match write.arrived {
            Some(_) => write.replied.is_none(),
            None => write.may_be_relayed() && write.over.is_none(),
        };
        let is_written = |write: &Write| write.key == key && is_under_way(write);
        if self.writes.iter().any(is_written) {
            return false;
        }
        let is_believed =
            !self.mutable_ttl.is_zero() || self.keys[key.0].nature == Nature::Immutable;
        is_believed && self.unshared[key.0] <= self.clock.now()
    }

    /// The key of a name.
    pub fn key_named(&self, name: &str) -> Option<KeyId> {
        self.keys.iter().position(|key| key.name == name).map(KeyId)
    }

    /// When the last purge of a key was begun that was acknowledged before a moment.
    pub fn last_purge(&self, key: KeyId, before: Moment) -> Option<Moment> {
        let name = &self.keys[key.0].name;
        let known = self.purges.iter().filter(|purged| purged.acknowledged < before);
        known.filter(|it| it.purge.scope.contains(name)).map(|it| it.begun).max()
    }

    /// Whether a key was ever purged, or is being purged.
    pub fn was_purged(&self, key: KeyId) -> bool {
        self.purge_began[key.0]
    }

    /// A purge of a key begins.
    pub fn begin_purge(&mut self, key: KeyId) {
        self.purge_began[key.0] = true;
    }

    /// The writes to a key by clients of the node, as begun.
    pub fn client_writes(&self, key: KeyId) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(move |write| write.key == key && write.author == Author::Client)
    }
}
