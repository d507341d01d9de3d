//! What a write does to the cache: the key's home forgets the mapping and bumps the write epoch,
//! before the write is relayed and again before it is answered. Blocks need nothing: they are found
//! under their version only. A write of unknown outcome is held as well; see `hold`.

use std::rc::Rc;

use crate::call::{Call, KeysCall, NameCall};
use crate::epoch::Moment;
use crate::hold::Held;
use crate::identity::NameRef;
use crate::mapping::Mapping;
use crate::origin::IdentityId;
use crate::shard::Shard;

/// What a relayed request may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched<'a> {
    /// Nothing.
    Nothing,
    /// One object.
    Key(NameRef<'a>),
    /// The objects of a bucket with these keys.
    Keys(&'a str, Vec<String>),
    /// Any object of a bucket.
    Bucket(&'a str),
}

/// What is known of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is about to be relayed.
    Begins,
    /// It has happened, or never will.
    Settled,
    /// It may have happened, and may still happen.
    Unknown,
}

/// Tells whoever must know, and waits until they do. Gives the moment after that of a single key.
pub async fn announce(shard: &Rc<Shard>, touched: &Touched<'_>, stage: Stage) -> Option<Moment> {
    match touched {
        Touched::Nothing => {}
        Touched::Key(name) => {
            let home = shard.geometry.home(shard.geometry.home_hash(*name));
            let keys = KeysCall::new(name.bucket, vec![name.key.to_owned()]);
            let told = shard.call(home, Box::new(Call::InvalidateKeys(keys, stage))).await;
            let Call::InvalidateKeys(keys, _) = *told else { return None };
            return keys.moment;
        }
        Touched::Keys(bucket, keys) => announce_keys(shard, bucket, keys, stage).await,
        Touched::Bucket(bucket) => {
            shard.call_all(|| Call::InvalidateBucket((*bucket).to_owned(), stage)).await;
        }
    }
    None
}

/// Tells the home that the origin has refused an object to an identity.
pub async fn refuse(shard: &Rc<Shard>, name: NameRef<'_>, identity: IdentityId) {
    let home = shard.geometry.home(shard.geometry.home_hash(name));
    let name = NameCall { bucket: name.bucket.to_owned(), key: name.key.to_owned() };
    shard.call(home, Box::new(Call::Refuse(name, identity))).await;
}

/// One call for all the keys of one home.
async fn announce_keys(shard: &Rc<Shard>, bucket: &str, keys: &[String], stage: Stage) {
    let mut by_home = vec![Vec::new(); usize::from(shard.geometry.shards)];
    for key in keys {
        let home = shard.geometry.home(shard.geometry.home_hash(NameRef { bucket, key }));
        by_home[home.index()].push(key.clone());
    }
    for (home, keys) in (0..).map(nilas_base::ShardId).zip(by_home) {
        if !keys.is_empty() {
            let keys = KeysCall::new(bucket, keys);
            shard.call(home, Box::new(Call::InvalidateKeys(keys, stage))).await;
        }
    }
}

/// The home's part for keys.
pub fn keys_here(shard: &Shard, keys: &mut KeysCall, stage: Stage) {
    for key in &keys.keys {
        let name = NameRef { bucket: &keys.bucket, key };
        key_here(shard, &keys.bucket, key);
        if stage == Stage::Unknown {
            hold_key(shard, name);
        }
        keys.moment = Some(shard.moment(name, shard.geometry.home_hash(name)));
    }
}

/// The home's part for a key.
pub fn key_here(shard: &Shard, bucket: &str, key: &str) {
    let name = NameRef { bucket, key };
    shard.epochs.borrow_mut().bump_key(shard.geometry.home_hash(name));
    forget(shard, name);
    // Who asks from now on must not join a question that was sent before the write.
    shard.flights.borrow_mut().remove(&name);
}

fn hold_key(shard: &Shard, name: NameRef<'_>) {
    let hash = shard.geometry.home_hash(name);
    let now = shard.reactor.clock().now();
    let until = now.after(shard.settings.ambiguous_write_hold);
    if shard.holds.borrow_mut().hold_key(hash, name.bucket, now, until) == Held::Wider {
        tracing::warn!(
            bucket = name.bucket,
            "more writes of unknown outcome than are held one by one: every read of the bucket \
             asks the origin until cache.ambiguous_write_hold has passed"
        );
    }
}

/// Every shard's part for a bucket.
pub fn bucket_here(shard: &Shard, bucket: &str, stage: Stage) {
    shard.epochs.borrow_mut().bump_bucket(bucket);
    shard.flights.borrow_mut().retain(|name, _| &*name.bucket != bucket);
    if stage == Stage::Unknown {
        let now = shard.reactor.clock().now();
        let until = now.after(shard.settings.ambiguous_write_hold);
        shard.holds.borrow_mut().hold_bucket(bucket, now, until);
    }
}

/// The home's part when a version has gone: its mapping is void, unless a newer one took its place.
pub fn forget_here(shard: &Shard, gone: &Mapping) {
    let name = gone.name.as_ref().as_ref();
    let is_current = shard
        .mappings
        .borrow_mut()
        .get(name)
        .is_some_and(|entry| entry.mapping.version == gone.version);
    if is_current {
        forget(shard, name);
    }
}

/// The home's part when the origin refuses an object to an identity: others may still be shown it.
pub fn refuse_here(shard: &Shard, name: NameRef<'_>, identity: IdentityId) {
    let is_left =
        !shard.access.has_one_identity() && shard.mappings.borrow_mut().refuse(name, identity);
    if !is_left {
        forget(shard, name);
    }
}

/// The home's part when the origin refuses to show an object, or has it no more: nothing that was
/// known of it is to be served.
pub fn forget(shard: &Shard, name: NameRef<'_>) {
    if shard.mappings.borrow_mut().forget(name) {
        shard.counters.mappings_invalidated(1);
    }
}
