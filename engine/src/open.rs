//! The home's story: which version of an object is current, and what of it is at hand?
//! From the mapping while it is authoritative, else from the origin, one question however many ask.
//! How the question is put is `plan`; whether a folder is a table's, `table`; where the bytes of the
//! answer go, `spread`.

mod plan;
mod spread;
pub mod table;

pub use plan::{CHECKSUM_MODE, object_request};

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use nilas_base::ByteRange;
use nilas_net::range::Resolved;
use nilas_shards::Delivered;
use nilas_shards::store::Leases;

use crate::call::{Call, Found, OpenAnswer, OpenWant};
use crate::epoch::Moment;
use crate::fill;
use crate::identity::{HomeHash, NameRef, ObjectName};
use crate::mapping::{Entry, Freshness, Mapping, Subject, learn};
use crate::metrics::Tier;
use crate::mutation::{self, Mutation};
use crate::origin::{OriginAnswer, OriginError};
use crate::shard::Shard;
use plan::Plan;

/// Who waits for one question to the origin. Its task answers them all, also after a write has
/// taken it out of the table, so that later readers ask anew.
pub type Flight = Rc<RefCell<Vec<Delivered<Call>>>>;

/// Answers [`Call::Open`].
pub fn serve(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Open(call) = &mut *delivered else { return };
    let name = NameRef { bucket: &call.name.bucket, key: &call.name.key };
    match find(shard, name, &call.want) {
        Some(found) => {
            shard.counters.hit(Tier::Mapping, 0);
            call.answer = OpenAnswer::Found(found);
            delivered.reply();
        }
        None => {
            shard.counters.miss(Tier::Mapping);
            board(shard, delivered);
        }
    }
}

/// The current version by what is at hand, if that is authoritative and enough.
pub fn find(shard: &Shard, name: NameRef<'_>, want: &OpenWant) -> Option<Found> {
    let mapping = authoritative(shard, name)?;
    if lacks_checksums(&mapping, want) {
        return None;
    }
    let leases = first_bytes(shard, &mapping, want);
    Some(Found { mapping, leases, waited: false })
}

fn authoritative(shard: &Shard, name: NameRef<'_>) -> Option<Arc<Mapping>> {
    let mut mappings = shard.mappings.borrow_mut();
    let entry = mappings.get(name)?;
    if entry.bucket_generation != shard.epochs.borrow().bucket_generation(name.bucket) {
        return None;
    }
    if let Freshness::Until(until) = entry.freshness
        && until <= shard.reactor.clock().now()
    {
        if shard.judge.borrow().mutability(name) != crate::freshness::Mutability::Immutable {
            return None;
        }
        // Its table was seen in the meantime.
        entry.freshness = Freshness::Immutable;
    }
    Some(Arc::clone(&entry.mapping))
}

fn lacks_checksums(mapping: &Mapping, want: &OpenWant) -> bool {
    want.checksums && !mapping.is_complete()
}

fn first_bytes(shard: &Shard, mapping: &Arc<Mapping>, want: &OpenWant) -> Leases {
    if !want.body {
        return Leases::new();
    }
    let slice = match want.range.resolve(mapping.length) {
        Resolved::Whole => ByteRange::new(0, mapping.length),
        Resolved::Slice(slice) => slice,
        Resolved::Unsatisfiable | Resolved::Relay => return Leases::new(),
    };
    match fill::block_want(shard, mapping, slice) {
        Some(want) if shard.geometry.owner(mapping.home_hash, want.index) == shard.id => {
            fill::read_now(shard, &want).unwrap_or_default()
        }
        _ => Leases::new(),
    }
}

/// Joins the question that is under way for this name, or asks one.
fn board(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::Open(call) = &*delivered else { return };
    let name = NameRef { bucket: &call.name.bucket, key: &call.name.key };
    if let Some(flight) = shard.flights.borrow().get(&name)
        && !Mutation::SingleflightDropped.is_planted()
    {
        flight.borrow_mut().push(delivered);
        return;
    }
    let (want, name) = (call.want, name.to_name());
    let flight: Flight = Rc::new(RefCell::new(vec![delivered]));
    if shard.judge.borrow().may_share(name.as_ref().as_ref()) {
        shard.flights.borrow_mut().insert(Arc::clone(&name), Rc::clone(&flight));
    }
    shard.spawn(fly(Rc::clone(shard), flight, name, want));
}

async fn fly(shard: Rc<Shard>, flight: Flight, name: Arc<ObjectName>, want: OpenWant) {
    let outcome = ask(&shard, &name, want).await;
    let is_listed =
        shard.flights.borrow().get(&name).is_some_and(|listed| Rc::ptr_eq(listed, &flight));
    if is_listed {
        shard.flights.borrow_mut().remove(&name);
    }
    land(&shard, flight.take(), outcome);
}

enum Outcome {
    /// The version, and whether bytes of it came along.
    Current(Arc<Mapping>, bool),
    PassOn(OriginAnswer),
    Relay,
    Failed(OriginError),
}

/// Answers all who waited. Only the first may be given the origin's own answer; what it says was
/// said to that request, so the others relay theirs.
fn land(shard: &Rc<Shard>, waiters: Vec<Delivered<Call>>, outcome: Outcome) {
    let mut outcome = Some(outcome);
    let mut mapping = None;
    for mut delivered in waiters {
        let Call::Open(call) = &mut *delivered else { continue };
        if let Some(Outcome::Current(current, with_bytes)) = &outcome {
            mapping = Some((Arc::clone(current), *with_bytes));
        }
        match &mapping {
            Some((mapping, _)) if lacks_checksums(mapping, &call.want) => {
                board(shard, delivered);
                continue;
            }
            Some((mapping, waited)) => {
                let leases = first_bytes(shard, mapping, &call.want);
                let (mapping, waited) = (Arc::clone(mapping), *waited);
                call.answer = OpenAnswer::Found(Found { mapping, leases, waited });
            }
            None => call.answer = first_or_relay(outcome.take()),
        }
        delivered.reply();
    }
}

fn first_or_relay(outcome: Option<Outcome>) -> OpenAnswer {
    match outcome {
        Some(Outcome::PassOn(answer)) => OpenAnswer::PassOn(answer),
        Some(Outcome::Failed(error)) => OpenAnswer::Failed(error),
        Some(Outcome::Relay | Outcome::Current(..)) | None => OpenAnswer::Relay,
    }
}

/// Asks the origin, and installs what it proves.
async fn ask(shard: &Rc<Shard>, name: &Arc<ObjectName>, want: OpenWant) -> Outcome {
    let hash = shard.geometry.home_hash(name.as_ref().as_ref());
    let known = known(shard, name);
    if let Some(mapping) = &known
        && !lacks_checksums(mapping, &want)
        && table::decide(shard, name).await
        && let Some(mapping) = authoritative(shard, name.as_ref().as_ref())
    {
        return Outcome::Current(mapping, false);
    }
    let plan = Plan::new(shard, name, want, known.as_deref());
    let moment = shard.epochs.borrow().moment(hash, &name.bucket);
    let answer = match shard.origin.ask(plan.request(name)).await {
        Ok(answer) => answer,
        Err(error) => return Outcome::Failed(error),
    };
    if answer.status == 304
        && let Some(mapping) = known
    {
        install(shard, &mapping, hash, moment);
        return Outcome::Current(mapping, false);
    }
    read_answer(shard, name, &plan, (hash, moment), answer).await
}

async fn read_answer(
    shard: &Rc<Shard>,
    name: &Arc<ObjectName>,
    plan: &Plan,
    (hash, moment): (HomeHash, Moment),
    answer: OriginAnswer,
) -> Outcome {
    let subject = Subject { name, home_hash: hash, class: plan.class };
    let asked = plan.asked();
    match learn(&shard.geometry, &subject, asked, answer.status, &answer.headers) {
        Ok(learned) => {
            install(shard, &learned.mapping, hash, moment);
            spread::spread(shard, &learned.mapping, learned.body, answer.body).await;
            Outcome::Current(learned.mapping, !learned.body.is_empty())
        }
        // An error that does not depend on how the question was put is the client's answer too.
        Err(_) if plan.is_as_asked && matches!(answer.status, 403 | 404 | 500..) => {
            Outcome::PassOn(answer)
        }
        Err(_) => Outcome::Relay,
    }
}

fn known(shard: &Shard, name: &ObjectName) -> Option<Arc<Mapping>> {
    shard.mappings.borrow_mut().get(name.as_ref()).map(|entry| Arc::clone(&entry.mapping))
}

/// Installs a mapping, unless a write began or ended since its question was sent.
pub(crate) fn install(shard: &Rc<Shard>, mapping: &Arc<Mapping>, hash: HomeHash, moment: Moment) {
    let name = mapping.name.as_ref().as_ref();
    let epochs = shard.epochs.borrow();
    if epochs.moment(hash, name.bucket) != moment && !Mutation::EpochUnchecked.is_planted() {
        return;
    }
    let now = shard.reactor.clock().now();
    let freshness = shard.judge.borrow().freshness(name, now);
    let generation = epochs.bucket_generation(name.bucket);
    let installed = mutation::whole_or_torn(shard, mapping, hash, moment);
    let mut mappings = shard.mappings.borrow_mut();
    let evicted = mappings.evicted();
    mappings.install(Entry::new(installed, freshness, generation));
    shard.counters.mapping_installed();
    if freshness != Freshness::Immutable {
        table::decide_soon(shard, &mapping.name);
    }
    shard.counters.evicted(Tier::Mapping, mappings.evicted() - evicted);
}
