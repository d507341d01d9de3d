//! What a write does to the cache: the key's home forgets the mapping and bumps the write epoch,
//! before the write is relayed and again before it is answered. Blocks need nothing: they are found
//! under their version only.

use std::rc::Rc;

use crate::call::{Call, NameCall};
use crate::identity::NameRef;
use crate::mapping::Mapping;
use crate::shard::Shard;

/// What a relayed request may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched<'a> {
    /// Nothing.
    Nothing,
    /// One object.
    Key(NameRef<'a>),
    /// Any object of a bucket.
    Bucket(&'a str),
}

/// Tells whoever must know, and waits until they do.
pub async fn announce(shard: &Rc<Shard>, touched: Touched<'_>) {
    match touched {
        Touched::Nothing => {}
        Touched::Key(name) => {
            let home = shard.geometry.home(shard.geometry.home_hash(name));
            let name = NameCall { bucket: name.bucket.to_owned(), key: name.key.to_owned() };
            shard.call(home, Box::new(Call::InvalidateKey(name))).await;
        }
        Touched::Bucket(bucket) => {
            shard
                .call_all(|| {
                    Call::InvalidateBucket(NameCall {
                        bucket: bucket.to_owned(),
                        key: String::new(),
                    })
                })
                .await;
        }
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

/// Every shard's part for a bucket.
pub fn bucket_here(shard: &Shard, bucket: &str) {
    shard.epochs.borrow_mut().bump_bucket(bucket);
    shard.flights.borrow_mut().retain(|name, _| &*name.bucket != bucket);
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

fn forget(shard: &Shard, name: NameRef<'_>) {
    if shard.mappings.borrow_mut().forget(name) {
        shard.counters.mappings_invalidated(1);
    }
}
