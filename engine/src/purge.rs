//! Purges: an operator has a key, a prefix or a bucket forgotten, with every byte of it. One number
//! is written on each shard, whatever the size of what it names; `log` is why that is enough.
//! `port` is the door for whoever is not a shard.

mod log;
mod port;

pub use log::{Era, Heard, PurgeLog, Purged};
pub use port::{PURGES_WAITING_MAX, PurgeError, PurgePort, PurgeQueue, serve};

use std::rc::Rc;

use nilas_shards::Delivered;

use crate::call::{Call, PurgeCall};
use crate::identity::{HomeHash, NameRef};
use crate::invalidate;
use crate::persist::NotDurable;
use crate::shard::Shard;

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// In which bucket.
    pub bucket: String,
    /// What of it.
    pub scope: PurgeScope,
}

/// How much of a bucket a purge names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeScope {
    /// One object.
    Key(String),
    /// Every object whose key begins so.
    Prefix(String),
    /// All of it.
    Bucket,
}

/// Purges on every shard; what is asked for afterwards sees nothing that was known before.
///
/// # Errors
/// Where a shard cannot have it on its disk: it holds until the node ends.
pub async fn purge(shard: &Rc<Shard>, what: &Purge) -> Result<(), NotDurable> {
    shard.counters.purged(what.scope.kind());
    let mut is_passing = false;
    let call = || Call::Purge(PurgeCall { what: what.clone(), is_passing: false });
    let note = |told: &Call| is_passing |= matches!(told, Call::Purge(it) if it.is_passing);
    shard.call_all_then(call, note).await;
    if is_passing { Err(NotDurable) } else { Ok(()) }
}

/// Answers [`Call::Purge`]: at once, or when it is on the disk.
pub fn serve_here(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Purge(call) = &*delivered else { return };
    if shard.persist.is_none() {
        purge_here(shard, &call.what);
        return delivered.reply();
    }
    let purging = Rc::clone(shard);
    shard.spawn(async move {
        if let (Call::Purge(call), Some(persist)) = (&mut *delivered, &purging.persist) {
            // Its number follows those of the purges before the start.
            persist.known().await;
            let PurgeCall { what, is_passing } = call;
            let (era, at_home) = purge_here(&purging, what);
            let purged = Purged::of(&what.bucket, &what.scope, at_home);
            *is_passing = match purged {
                Some(purged) => persist.purge(era, purged).await.is_err(),
                None => false,
            };
        }
        delivered.reply();
    });
}

/// One shard's part; gives the purge's number, and the hash of a single key that is at home here.
fn purge_here(shard: &Shard, what: &Purge) -> (Era, Option<HomeHash>) {
    let Purge { bucket, scope } = what;
    let at_home = match scope {
        PurgeScope::Key(key) => {
            let hash = shard.geometry.home_hash(NameRef { bucket, key });
            (shard.geometry.home(hash) == shard.id).then_some(hash)
        }
        PurgeScope::Prefix(_) | PurgeScope::Bucket => None,
    };
    let era = shard.purges.borrow_mut().note(bucket, scope, at_home);
    shard.judge.borrow_mut().forget_roots(bucket, scope);
    match (scope, at_home) {
        (PurgeScope::Key(key), Some(_)) => invalidate::key_here(shard, bucket, key),
        (PurgeScope::Key(_), None) => {}
        // Who asks from now on must not join a question that was sent before the purge.
        (PurgeScope::Prefix(_) | PurgeScope::Bucket, _) => shard
            .flights
            .borrow_mut()
            .retain(|name, _| !(*name.bucket == **bucket && scope.contains(&name.key))),
    }
    (era, at_home)
}

impl PurgeScope {
    /// Whether it names a key.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            PurgeScope::Key(purged) => purged == key,
            PurgeScope::Prefix(prefix) => key.starts_with(prefix),
            PurgeScope::Bucket => true,
        }
    }

    /// How it is counted.
    pub fn kind(&self) -> crate::metrics::PurgeKind {
        use crate::metrics::PurgeKind;
        match self {
            PurgeScope::Key(_) => PurgeKind::Key,
            PurgeScope::Prefix(_) => PurgeKind::Prefix,
            PurgeScope::Bucket => PurgeKind::Bucket,
        }
    }
}
