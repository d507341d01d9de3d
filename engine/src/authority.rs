//! What the watched catalogs vouch for, brought to the shards: an index that each takes in the place of
//! the one before, and the files that no snapshot lists any more. Those are forgotten where they are at
//! home: the next reader has the origin asked. Their bytes stay until others need the room, so that a
//! reader of a file that is still there loses nothing.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nilas_base::ShardId;
use nilas_shards::Delivered;
use tokio::sync::{mpsc, oneshot};

use crate::call::{Call, RetireCall};
use crate::freshness::Vouchers;
use crate::identity::NameRef;
use crate::invalidate;
use crate::mapping::{Freshness, Walk};
use crate::shard::Shard;

/// Announcements that wait.
const ANNOUNCEMENTS_WAITING_MAX: usize = 4;
/// Mappings that are looked at in one turn.
const MAPPINGS_A_STEP: usize = 1024;
/// How long a look rests between two turns.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// Retired keys that are looked at in one turn: about as long as one read takes.
const KEYS_A_STEP: usize = 256;

/// Buckets and keys.
pub type Retired = Vec<(Box<str>, Box<str>)>;

/// What is new of the catalogs.
#[derive(Debug, Default)]
pub struct Announcement {
    /// What is vouched for from now on.
    pub vouchers: Vouchers,
    /// Files that were, and are not.
    pub gone: Retired,
    /// Files of a table whose name another has taken: they are forgotten even where that one lists them.
    pub replaced: Retired,
    /// Whether all mappings are to be looked at: said once everything was read anew.
    pub must_sweep: bool,
}

/// The folders of tables: a bucket, and what the keys in it begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRoots(BTreeMap<Box<str>, Vec<Box<str>>>);

impl TableRoots {
    /// Of buckets and prefixes, which end with a slash.
    pub fn new(roots: impl IntoIterator<Item = (Box<str>, Box<str>)>) -> TableRoots {
        let mut of: BTreeMap<Box<str>, Vec<Box<str>>> = BTreeMap::new();
        roots.into_iter().for_each(|(bucket, root)| of.entry(bucket).or_default().push(root));
        for roots in of.values_mut() {
            roots.sort_unstable();
            // What lies in another lies in that one.
            roots.dedup_by(|inner, outer| inner.starts_with(&**outer));
        }
        TableRoots(of)
    }

    /// Whether an object lies under one of them.
    pub fn contains(&self, name: NameRef<'_>) -> bool {
        let Some(roots) = self.0.get(name.bucket) else { return false };
        let after = roots.partition_point(|root| &**root <= name.key);
        after > 0 && name.key.starts_with(&*roots[after - 1])
    }
}

type Order = (Announcement, oneshot::Sender<()>);

/// Tells the shards; clones reach the same node.
#[derive(Clone, Debug)]
pub struct AuthorityPort {
    orders: mpsc::Sender<Order>,
}

/// The shards' side of an [`AuthorityPort`].
#[derive(Debug)]
pub struct AuthorityQueue {
    orders: mpsc::Receiver<Order>,
}

#[cfg(test)]
impl AuthorityQueue {
    /// The next announcement, and whom to tell that all have heard.
    pub async fn next(&mut self) -> Option<(Announcement, oneshot::Sender<()>)> {
        self.orders.recv().await
    }
}

impl AuthorityPort {
    /// A port and the queue behind it.
    pub fn pair() -> (AuthorityPort, AuthorityQueue) {
        let (orders, queue) = mpsc::channel(ANNOUNCEMENTS_WAITING_MAX);
        (AuthorityPort { orders }, AuthorityQueue { orders: queue })
    }

    /// Tells every shard, and waits until each has heard; false where the node is stopping.
    pub async fn announce(&self, announcement: Announcement) -> bool {
        let (heard, all_have) = oneshot::channel();
        self.orders.send((announcement, heard)).await.is_ok() && all_have.await.is_ok()
    }
}

/// Passes announcements on, one after another, until nobody can make any more.
pub async fn serve(shard: Rc<Shard>, mut queue: AuthorityQueue) {
    while let Some((announcement, heard)) = queue.orders.recv().await {
        let Announcement { vouchers, gone, replaced, must_sweep } = announcement;
        shard.call_all(|| Call::Vouch(vouchers.clone())).await;
        retire(&shard, gone, false).await;
        retire(&shard, replaced, true).await;
        if must_sweep {
            shard.call_all(|| Call::Unlisted(Arc::clone(&vouchers.roots))).await;
        }
        // Who has stopped waiting has been served all the same.
        let _ = heard.send(());
    }
}

/// Sends the keys to their homes, some at a time, those of one bucket and home together.
async fn retire(shard: &Rc<Shard>, mut retired: Retired, even_listed: bool) {
    while !retired.is_empty() {
        let some = retired.split_off(retired.len().saturating_sub(KEYS_A_STEP));
        let mut homes: BTreeMap<(u16, Box<str>), Vec<Box<str>>> = BTreeMap::new();
        for (bucket, key) in some {
            let hash = shard.geometry.home_hash(NameRef { bucket: &bucket, key: &key });
            let home = (shard.geometry.home(hash).0, bucket);
            homes.entry(home).or_default().push(key);
        }
        for ((home, bucket), keys) in homes {
            let call = RetireCall { bucket, keys, even_listed };
            shard.call(ShardId(home), Box::new(Call::Retire(call))).await;
        }
    }
}

/// Answers [`Call::Retire`], at the home.
pub fn serve_retire(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Retire(call) = &mut *delivered else { return };
    let (bucket, keys) = (std::mem::take(&mut call.bucket), std::mem::take(&mut call.keys));
    let even_listed = call.even_listed;
    let retiring = Rc::clone(shard);
    shard.spawn(async move {
        let names = keys.iter().map(|key| NameRef { bucket: &bucket, key });
        match even_listed {
            true => forget(&retiring, names).await,
            false => forget_unvouched(&retiring, names).await,
        }
        delivered.reply();
    });
}

/// Forgets what is believed for good of objects that nobody vouches for.
async fn forget_unvouched<'a>(shard: &Shard, names: impl Iterator<Item = NameRef<'a>>) {
    let unvouched = names.filter(|name| !shard.judge.borrow().is_vouched(*name));
    forget(shard, unvouched).await;
}

/// Forgets what is believed for good of objects, here and on the disk.
async fn forget<'a>(shard: &Shard, names: impl Iterator<Item = NameRef<'a>>) {
    let mut gone = Vec::new();
    for name in names {
        let mut mappings = shard.mappings.borrow_mut();
        let known = mappings.peek(name).map(|entry| entry.freshness);
        drop(mappings);
        if known == Some(Freshness::Immutable) {
            invalidate::forget(shard, name);
        }
        // One that was evicted may still be on the disk.
        gone.push(shard.geometry.home_hash(name));
    }
    if let Some(persist) = shard.persist.as_ref().filter(|it| it.must_know_gone(&gone)) {
        persist.gone(&gone).await;
    }
}

/// Answers [`Call::Unlisted`]: all mappings are looked at, some at a time, once those are back that the
/// disk remembers.
pub fn serve_unlisted(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::Unlisted(roots) = &*delivered else { return };
    let (looking, roots) = (Rc::clone(shard), Arc::clone(roots));
    shard.spawn(async move {
        if let Some(persist) = &looking.persist {
            persist.taken_back().await;
        }
        looking.mappings.borrow_mut().begin_walk(Walk::Unlisted);
        while !look_on(&looking, &roots).await {
            looking.reactor.sleep(LOOK_PAUSE).await;
        }
        delivered.reply();
    });
}

/// Looks at some more; whether that were all.
async fn look_on(shard: &Shard, roots: &TableRoots) -> bool {
    let mut names = Vec::new();
    let is_over = shard.mappings.borrow_mut().walk(Walk::Unlisted, MAPPINGS_A_STEP, |entry| {
        let name = &entry.mapping.name;
        let is_theirs = entry.is_hearsay || roots.contains(name.as_ref().as_ref());
        if entry.freshness == Freshness::Immutable && is_theirs {
            names.push(Arc::clone(name));
        }
        true
    });
    forget_unvouched(shard, names.iter().map(|name| name.as_ref().as_ref())).await;
    is_over
}
