//! Purges: an operator has a key, a prefix or a bucket forgotten, with every byte of it. One number
//! is written on each shard, whatever the size of what it names; `log` is why that is enough.
//! `port` is the door for whoever is not a shard.

mod log;
mod port;

pub use log::{Era, Heard, PurgeLog, Purged};
pub use port::{PURGES_WAITING_MAX, PurgeError, PurgePort, PurgeQueue, serve};

use std::rc::Rc;

use crate::call::Call;
use crate::identity::NameRef;
use crate::invalidate;
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
pub async fn purge(shard: &Rc<Shard>, what: &Purge) {
    shard.counters.purged(what.scope.kind());
    shard.call_all(|| Call::Purge(what.clone())).await;
}

/// One shard's part.
pub fn purge_here(shard: &Shard, what: &Purge) {
    let Purge { bucket, scope } = what;
    let at_home = match scope {
        PurgeScope::Key(key) => {
            let hash = shard.geometry.home_hash(NameRef { bucket, key });
            (shard.geometry.home(hash) == shard.id).then_some(hash)
        }
        PurgeScope::Prefix(_) | PurgeScope::Bucket => None,
    };
    shard.purges.borrow_mut().note(bucket, scope, at_home);
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
