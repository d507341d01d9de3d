//! What a write has brought, at its key's home: the bytes of an upload, from the origin's answer to it
//! until the origin has also told what a reader is to be told of the object. That is asked at once,
//! beside the writer; who reads in the meantime waits for the same answer. The bytes then go where
//! a fill's go, under the version that the origin names, if it is the one that it named to the writer
//! and no other write to the key has begun since before this one was sent.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nilas_base::HashMap;
use nilas_shards::Delivered;

use crate::call::{Call, NameCall, WrittenCall};
use crate::epoch::Moment;
use crate::identity::{NameRef, ObjectName};
use crate::invalidate::{self, Stage};
use crate::mapping::Mapping;
use crate::metrics::WriteAllocation;
use crate::mutation::Mutation;
use crate::open;
use crate::origin::Signer;
use crate::persist::{End, WriteId};
use crate::put::Brought;
use crate::shard::Shard;

/// Writes of which one home asks at a time; what others bring is not kept.
pub const WRITTEN_MAX: usize = 64;

/// How long readers wait for the origin's answer about a write before they ask for themselves.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// What one write has brought.
pub struct Written {
    brought: Brought,
    /// When it was told; in another moment another write has begun.
    moment: Moment,
    /// What has become of it so far.
    end: Cell<WriteAllocation>,
}

/// What the writes to the keys of one home have brought.
#[derive(Default)]
pub struct WrittenTable {
    by_name: HashMap<Arc<ObjectName>, Rc<Written>>,
    /// Questions under way, those about writes that another has overtaken included.
    asking: usize,
}

/// Tells the key's home that a write has happened and what it has brought; the writer's answer may be
/// sent when this returns. `began` is the home's moment after it was told that the write begins.
pub async fn settle(
    shard: &Rc<Shard>,
    name: NameRef<'_>,
    (write, stage): (WriteId, Stage),
    (brought, began): (Brought, Moment),
    signer: &Signer,
) {
    let home = shard.geometry.home(shard.geometry.home_hash(name));
    let call = WrittenCall {
        name: NameCall { bucket: name.bucket.to_owned(), key: name.key.to_owned() },
        write,
        stage,
        began,
        brought: Some(brought),
        signer: signer.clone(),
    };
    shard.call(home, Box::new(Call::Written(call))).await;
}

/// Answers [`Call::Written`].
pub fn serve(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Written(call) = &mut *delivered else { return };
    let name = NameRef { bucket: &call.name.bucket, key: &call.name.key };
    let hash = shard.geometry.home_hash(name);
    let is_alone = shard.moment(name, hash) == call.began && !shard.is_held(name, hash);
    invalidate::key_here(shard, name.bucket, name.key);
    if let Some(persist) = shard.persist.as_ref().filter(|_| call.stage == Stage::Settled) {
        persist.end(call.write, End::Settled);
    }
    if let Some(brought) = call.brought.take() {
        match why_not(shard, is_alone) {
            Some(reason) => shard.counters.write_allocation(reason),
            None => keep(shard, name, brought, call.signer.clone()),
        }
    }
    delivered.reply();
}

fn why_not(shard: &Shard, is_alone: bool) -> Option<WriteAllocation> {
    if !is_alone {
        return Some(WriteAllocation::Overtaken);
    }
    let is_crowded = shard.written.borrow().asking >= WRITTEN_MAX;
    (is_crowded || !shard.origin.is_at_ease()).then_some(WriteAllocation::NoRoom)
}

fn keep(shard: &Rc<Shard>, name: NameRef<'_>, brought: Brought, signer: Signer) {
    let moment = shard.moment(name, shard.geometry.home_hash(name));
    let end = Cell::new(WriteAllocation::Unproven);
    let (name, written) = (name.to_name(), Rc::new(Written { brought, moment, end }));
    let mut table = shard.written.borrow_mut();
    table.by_name.insert(Arc::clone(&name), Rc::clone(&written));
    table.asking += 1;
    drop(table);
    let (asked, asking) = open::ask_beforehand(shard, &name, signer);
    let keeping = Rc::clone(shard);
    shard.spawn(async move {
        let mut asking = pin!(asking);
        if keeping.reactor.timeout(ANSWER_TIME_MAX, asking.as_mut()).await.is_err() {
            // Nobody is to wait for what nobody asked for.
            forget(&keeping, &name, &written);
            open::let_go(&keeping, &name, &asked);
            asking.await;
        }
        forget(&keeping, &name, &written);
        keeping.written.borrow_mut().asking -= 1;
        keeping.counters.write_allocation(written.end.get());
    });
}

/// A later write may have brought something else in the meantime.
fn forget(shard: &Shard, name: &ObjectName, written: &Rc<Written>) {
    let mut table = shard.written.borrow_mut();
    if table.by_name.get(&name.as_ref()).is_some_and(|kept| Rc::ptr_eq(kept, written)) {
        table.by_name.remove(&name.as_ref());
    }
}

/// What the last write to a key has brought, if that is still what a question asked at `moment` may be
/// answered with.
pub fn find(shard: &Shard, name: &ObjectName, moment: Moment) -> Option<Rc<Written>> {
    let table = shard.written.borrow();
    table.by_name.get(&name.as_ref()).filter(|written| written.moment == moment).map(Rc::clone)
}

impl Written {
    /// The bytes of a version that the origin names now, if they are that version's.
    pub fn bytes_of(&self, shard: &Shard, mapping: &Mapping) -> Option<Bytes> {
        let is_late =
            shard.moment(mapping.name.as_ref().as_ref(), mapping.home_hash) != self.moment;
        let Brought { etag, bytes } = &self.brought;
        let is_same = *etag == mapping.etag && bytes.len() as u64 == mapping.length;
        let is_believed = Mutation::WrittenUnmatched.is_planted()
            && bytes.len() as u64 >= mapping.length
            && mapping.length > 0;
        let how = match (is_late, is_same || is_believed) {
            (true, _) => WriteAllocation::Overtaken,
            (false, false) => WriteAllocation::Unproven,
            (false, true) => WriteAllocation::Kept,
        };
        self.end.set(how);
        (how == WriteAllocation::Kept).then(|| bytes.slice(..mapping.length as usize))
    }
}
