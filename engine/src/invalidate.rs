//! What a write does to the cache: the key's home forgets the mapping and bumps the write epoch,
//! before the write is relayed and again before it is answered. Blocks need nothing: they are found
//! under their version only. A write of unknown outcome is held as well; see `hold`. Where mappings
//! outlive the node, the home has it on the disk that a write begins before it is; see `persist`.

use std::rc::Rc;

use nilas_shards::Delivered;

use crate::both::all;
use crate::call::{BucketCall, Call, KeysCall, NameCall};
use crate::epoch::Moment;
use crate::hold::Held;
use crate::identity::{HomeHash, NameRef};
use crate::origin::IdentityId;
use crate::persist::{End, NotDurable, Persist, WriteId, Written};
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

/// A relayed request, as far as it may change anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// Which: its request's id.
    pub id: WriteId,
    /// What it may have changed.
    pub touched: Touched<'a>,
}

impl Write<'_> {
    /// One that changes nothing.
    pub const NONE: Write<'static> = Write { id: WriteId(0), touched: Touched::Nothing };

    /// Whether it changes nothing.
    pub fn is_none(&self) -> bool {
        self.touched == Touched::Nothing
    }
}

/// What is known of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is about to be relayed.
    Begins,
    /// Its answer has begun and will tell at its end what has become of it.
    GoesOn,
    /// It has happened, or never will.
    Settled,
    /// It may have happened, and may still happen.
    Unknown,
}

/// Tells whoever must know that a write is about to be relayed, and waits until they do. Gives the
/// moment after that of a single key.
///
/// # Errors
/// Where a home cannot have it on its disk: the write must not be relayed.
pub async fn begin(shard: &Rc<Shard>, write: &Write<'_>) -> Result<Option<Moment>, NotDurable> {
    let (moment, is_refused) = tell(shard, write, Stage::Begins).await;
    if !is_refused {
        return Ok(moment);
    }
    // Those who know of it are not to wait for its end.
    announce(shard, write, Stage::Settled).await;
    Err(NotDurable)
}

/// Tells whoever must know what is known of a write now, and waits until they do.
pub async fn announce(shard: &Rc<Shard>, write: &Write<'_>, stage: Stage) {
    tell(shard, write, stage).await;
}

async fn tell(shard: &Rc<Shard>, write: &Write<'_>, stage: Stage) -> (Option<Moment>, bool) {
    let id = write.id;
    match &write.touched {
        Touched::Nothing => (None, false),
        Touched::Key(name) => {
            let home = shard.geometry.home(shard.geometry.home_hash(*name));
            let keys = KeysCall::new(name.bucket, vec![name.key.to_owned()], id);
            match *shard.call(home, Box::new(Call::InvalidateKeys(keys, stage))).await {
                Call::InvalidateKeys(keys, _) => (keys.moment, keys.is_refused),
                _ => (None, false),
            }
        }
        Touched::Keys(bucket, keys) => (None, tell_homes(shard, (bucket, keys), id, stage).await),
        Touched::Bucket(bucket) => {
            let call = || Call::InvalidateBucket(BucketCall::new(bucket, id), stage);
            let mut is_refused = false;
            let note = |told: &Call| {
                is_refused |= matches!(told, Call::InvalidateBucket(it, _) if it.is_refused);
            };
            shard.call_all_then(call, note).await;
            (None, is_refused)
        }
    }
}

/// Tells the home that the origin has refused an object to an identity.
pub async fn refuse(shard: &Rc<Shard>, name: NameRef<'_>, identity: IdentityId) {
    let home = shard.geometry.home(shard.geometry.home_hash(name));
    let name = NameCall { bucket: name.bucket.to_owned(), key: name.key.to_owned() };
    shard.call(home, Box::new(Call::Refuse(name, identity))).await;
}

/// One call for all the keys of one home, and to all homes at once: each may have to wait for its disk.
/// Says whether one refuses the write.
async fn tell_homes(
    shard: &Rc<Shard>,
    (bucket, keys): (&str, &[String]),
    write: WriteId,
    stage: Stage,
) -> bool {
    let mut by_home = vec![Vec::new(); usize::from(shard.geometry.shards)];
    for key in keys {
        let home = shard.geometry.home(shard.geometry.home_hash(NameRef { bucket, key }));
        by_home[home.index()].push(key.clone());
    }
    let by_home = (0..).map(nilas_base::ShardId).zip(by_home);
    let calls = by_home.filter(|(_, keys)| !keys.is_empty()).map(|(home, keys)| {
        let keys = KeysCall::new(bucket, keys, write);
        shard.call(home, Box::new(Call::InvalidateKeys(keys, stage)))
    });
    let told = all(calls).await;
    told.iter().any(|call| matches!(&**call, Call::InvalidateKeys(keys, _) if keys.is_refused))
}

/// Answers [`Call::InvalidateKeys`]: at once, or when it is on the disk what must be.
pub fn serve_keys(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::InvalidateKeys(keys, stage) = &mut *delivered else { return };
    let (stage, write) = (*stage, keys.write);
    keys_here(shard, keys, stage);
    let Some(persist) = &shard.persist else { return delivered.reply() };
    let hash = |key: &String| shard.geometry.home_hash(NameRef { bucket: &keys.bucket, key });
    let hashes: Box<[HomeHash]> = keys.keys.iter().map(hash).collect();
    if stage == Stage::Begins {
        return begin_here(shard, write, Written::Keys(hashes), delivered);
    }
    // One that did not begin as a write has shown that the keys are not to be had.
    if !end_here(persist, write, stage) && persist.must_know_gone(&hashes) {
        let (shard, told) = (Rc::clone(shard), delivered);
        return Rc::clone(&shard).spawn(async move {
            if let Some(persist) = &shard.persist {
                persist.gone(&hashes).await;
            }
            told.reply();
        });
    }
    delivered.reply();
}

/// Answers [`Call::InvalidateBucket`], in the same way.
pub fn serve_bucket(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::InvalidateBucket(call, stage) = &*delivered else { return };
    let (stage, write) = (*stage, call.write);
    bucket_here(shard, &call.bucket, stage);
    let Some(persist) = &shard.persist else { return delivered.reply() };
    if stage == Stage::Begins {
        let written = Written::Bucket((*call.bucket).into());
        return begin_here(shard, write, written, delivered);
    }
    end_here(persist, write, stage);
    delivered.reply();
}

fn begin_here(shard: &Rc<Shard>, id: WriteId, written: Written, mut delivered: Delivered<Call>) {
    let Some(persist) = &shard.persist else { return };
    if persist.begin(id, written) {
        return delivered.reply();
    }
    let waiting = Rc::clone(shard);
    shard.spawn(async move {
        let Some(persist) = &waiting.persist else { return };
        let is_refused = persist.have_begun(id).await.is_err();
        // Once more: the write is relayed from now on, and what was asked during the wait was asked before it.
        match &mut *delivered {
            Call::InvalidateKeys(keys, stage) => {
                keys_here(&waiting, keys, *stage);
                keys.is_refused = is_refused;
            }
            Call::InvalidateBucket(call, stage) => {
                bucket_here(&waiting, &call.bucket, *stage);
                call.is_refused = is_refused;
            }
            _ => {}
        }
        delivered.reply();
    });
}

/// Says whether the write was under way, or still is.
fn end_here(persist: &Persist, write: WriteId, stage: Stage) -> bool {
    match stage {
        Stage::Begins | Stage::GoesOn => true,
        Stage::Settled => persist.end(write, End::Settled),
        Stage::Unknown => persist.end(write, End::Unknown),
    }
}

/// The home's part for keys.
fn keys_here(shard: &Shard, keys: &mut KeysCall, stage: Stage) {
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
fn bucket_here(shard: &Shard, bucket: &str, stage: Stage) {
    shard.epochs.borrow_mut().bump_bucket(bucket);
    shard.flights.borrow_mut().retain(|name, _| &*name.bucket != bucket);
    if stage == Stage::Unknown {
        let now = shard.reactor.clock().now();
        let until = now.after(shard.settings.ambiguous_write_hold);
        shard.holds.borrow_mut().hold_bucket(bucket, now, until);
    }
}

/// Answers [`Call::Forget`], at the home: a version has gone, and its mapping is void, unless a newer
/// one took its place.
pub fn serve_forget(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::Forget(gone) = &*delivered else { return };
    let name = gone.name.as_ref().as_ref();
    let current = shard.mappings.borrow_mut().get(name).map(|entry| entry.mapping.version);
    let is_newer_known = current.is_some_and(|version| version != gone.version);
    if !is_newer_known {
        forget(shard, name);
    }
    reply_when_gone(shard, (!is_newer_known).then_some(gone.home_hash), delivered);
}

/// Answers [`Call::Refuse`], at the home: others may still be shown the object.
pub fn serve_refuse(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::Refuse(name, identity) = &*delivered else { return };
    let name = NameRef { bucket: &name.bucket, key: &name.key };
    let is_forgotten = refuse_here(shard, name, *identity);
    let gone = is_forgotten.then(|| shard.geometry.home_hash(name));
    reply_when_gone(shard, gone, delivered);
}

fn reply_when_gone(shard: &Rc<Shard>, gone: Option<HomeHash>, delivered: Delivered<Call>) {
    let is_known =
        |hash: &HomeHash| shard.persist.as_ref().is_some_and(|it| it.must_know_gone(&[*hash]));
    let Some(hash) = gone.filter(is_known) else { return delivered.reply() };
    let telling = Rc::clone(shard);
    shard.spawn(async move {
        gone_here(&telling, hash).await;
        delivered.reply();
    });
}

/// The home's part when an object that was forgotten is not to be believed at the next start either.
pub async fn gone_here(shard: &Shard, hash: HomeHash) {
    if let Some(persist) = shard.persist.as_ref().filter(|it| it.must_know_gone(&[hash])) {
        persist.gone(&[hash]).await;
    }
}

/// The home's part when the origin refuses an object to an identity: others may still be shown it.
/// Says whether nobody is any more.
pub fn refuse_here(shard: &Shard, name: NameRef<'_>, identity: IdentityId) -> bool {
    let is_left =
        !shard.access.has_one_identity() && shard.mappings.borrow_mut().refuse(name, identity);
    if !is_left {
        forget(shard, name);
    }
    !is_left
}

/// The home's part when the origin refuses to show an object, or has it no more: nothing that was
/// known of it is to be served.
pub fn forget(shard: &Shard, name: NameRef<'_>) {
    if shard.mappings.borrow_mut().forget(name) {
        shard.counters.mappings_invalidated(1);
    }
}
