//! The home's story: which version of an object is current, and what of it is at hand?
//! From the mapping while it is authoritative, else from the origin, one question however many ask.
//! How the question is put is `plan`; whether a folder is a table's, `table`; where the bytes of the
//! answer go, `spread`; which of an object's end is planning metadata, `tail`.

mod ahead;
mod plan;
mod spread;
pub mod table;
mod tail;

pub use ahead::{Arrival, SequentialReads};
pub use plan::{CHECKSUM_MODE, FIRST_BODY_BYTES_MAX, class_of, first_question, object_request};

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use nilas_base::{ByteRange, Monotonic};
use nilas_net::range::{RangeForm, Resolved};
use nilas_shards::Delivered;
use nilas_shards::store::Leases;

use crate::call::{Call, Found, OpenAnswer, OpenWant};
use crate::epoch::Moment;
use crate::fill;
use crate::identity::{HomeHash, NameRef, ObjectName};
use crate::invalidate;
use crate::mapping::{Entry, Freshness, Mapping, Subject};
use crate::metrics::Tier;
use crate::mutation::{self, Mutation};
use crate::origin::{AnswerBody, OriginAnswer, OriginError, Signer};
use crate::persist;
use crate::relay::is_refusal;
use crate::shard::Shard;
use crate::source::{Proven, Reply, is_failure};
use crate::written::{self, Written};
use plan::Plan;
use tail::Tails;

/// One question to the origin, and who waits for its answer. Its task answers them all, also after
/// a write has taken it out of the table, so that later readers ask anew.
pub struct Flight {
    /// As whom the origin is asked: what it shows to one it need not show to another.
    signer: Signer,
    waiters: RefCell<Vec<Delivered<Call>>>,
    /// Whether nobody has asked for it yet: who joins it asks again where it gives no answer.
    is_beforehand: bool,
}

/// Answers [`Call::Open`].
pub fn serve(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Open(call) = &mut *delivered else { return };
    let name = NameRef { bucket: &call.name.bucket, key: &call.name.key };
    match find(shard, name, &call.want, &call.signer) {
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
pub fn find(
    shard: &Rc<Shard>,
    name: NameRef<'_>,
    want: &OpenWant,
    signer: &Signer,
) -> Option<Found> {
    let mapping = authoritative(shard, name, signer)?;
    let is_passing = want.is_own && !shard.mappings.borrow().is_immutable(name);
    if is_passing || lacks_checksums(&mapping, want) {
        return None;
    }
    let mapping = tail::note(shard, mapping, want.tail_start);
    let leases = first_bytes(shard, &mapping, want, signer);
    let is_missing = ahead::is_missing_here(shard, &mapping, want, signer, &leases);
    ahead::note(shard, &mapping, want, signer, is_missing);
    Some(Found { mapping, leases, waited: false })
}

fn authoritative(shard: &Shard, name: NameRef<'_>, signer: &Signer) -> Option<Arc<Mapping>> {
    let mut mappings = shard.mappings.borrow_mut();
    let entry = mappings.get(name)?;
    let now = shard.reactor.clock().now();
    if is_void(shard, entry)
        || shard.is_held(name, entry.mapping.home_hash)
        || !is_allowed(shard, entry, signer, now)
    {
        return None;
    }
    let is_believed = match entry.freshness {
        Freshness::Immutable => true,
        Freshness::Until(until) => until > now || is_seen_immutable(shard, entry),
        Freshness::Never => false,
    };
    is_believed.then(|| Arc::clone(&entry.mapping))
}

/// Believes from now on what was learnt of an object before its table was seen, whether or not it is ever read
/// again: it may be asked for after a restart only.
fn believe(shard: &Shard, name: NameRef<'_>) {
    let mut mappings = shard.mappings.borrow_mut();
    if let Some(entry) = mappings.peek(name)
        && matches!(entry.freshness, Freshness::Until(_))
        && !is_void(shard, entry)
        && !shard.is_held(name, entry.mapping.home_hash)
    {
        is_seen_immutable(shard, entry);
    }
}

/// Whether an object that might have changed is known by now never to: then it is kept as such. Not on a
/// catalog's word, which may be of another version than was learnt before it: there the origin is asked once.
fn is_seen_immutable(shard: &Shard, entry: &mut Entry) -> bool {
    let name = entry.mapping.name.as_ref().as_ref();
    let is_immutable = shard.judge.borrow().is_immutable_by_rule(name);
    if is_immutable {
        entry.freshness = Freshness::Immutable;
        persist::keep(shard, entry);
    }
    is_immutable
}

/// Whether the origin has shown an object to an identity, and would still do so at `now`.
fn is_allowed(shard: &Shard, entry: &Entry, signer: &Signer, now: Monotonic) -> bool {
    shard.access.has_one_identity()
        || signer
            .identity()
            .and_then(|identity| entry.allows_until(identity))
            .is_some_and(|until| until > now)
}

/// Whether something has happened to an entry's bucket, or to all that it is part of, since it was
/// learnt. Nothing of it is to be used then, not even its ETag.
pub fn is_void(shard: &Shard, entry: &Entry) -> bool {
    let name = entry.mapping.name.as_ref().as_ref();
    let generation = shard.epochs.borrow().bucket_generation(name.bucket);
    entry.bucket_generation != generation
        || shard.purges.borrow().is_purged(name, entry.mapping.era)
}

fn lacks_checksums(mapping: &Mapping, want: &OpenWant) -> bool {
    want.checksums && !mapping.is_complete()
}

fn first_bytes(shard: &Shard, mapping: &Arc<Mapping>, want: &OpenWant, signer: &Signer) -> Leases {
    if !want.body {
        return Leases::new();
    }
    let slice = match want.range.resolve(mapping.length) {
        Resolved::Whole => ByteRange::new(0, mapping.length),
        Resolved::Slice(slice) => slice,
        Resolved::Unsatisfiable | Resolved::Relay => return Leases::new(),
    };
    match fill::block_want(shard, mapping, signer, slice) {
        Some(want) if shard.geometry.owner(mapping.home_hash, want.index) == shard.id => {
            fill::read_now(shard, &want, fill::read_kind(slice)).unwrap_or_default()
        }
        _ => Leases::new(),
    }
}

/// Joins the question that is under way for this name, or asks one.
fn board(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::Open(call) = &*delivered else { return };
    let name = NameRef { bucket: &call.name.bucket, key: &call.name.key };
    let shares = may_share(shard, name);
    if let Some(flight) = shard.flights.borrow().get(&name)
        && shares
        && flight.signer == call.signer
        && !Mutation::SingleflightDropped.is_planted()
    {
        flight.waiters.borrow_mut().push(delivered);
        return;
    }
    let (want, signer, name) = (call.want, call.signer.clone(), name.to_name());
    let waiters = RefCell::new(vec![delivered]);
    let flight = Rc::new(Flight { signer, waiters, is_beforehand: false });
    if shares {
        shard.flights.borrow_mut().insert(Arc::clone(&name), Rc::clone(&flight));
    }
    shard.spawn(fly(Rc::clone(shard), flight, name, want));
}

/// A question that nobody waits for yet: what a reader is to be told of an object that was just
/// written. Whoever wants to know before it is answered joins it.
pub fn ask_beforehand(
    shard: &Rc<Shard>,
    name: &Arc<ObjectName>,
    signer: Signer,
) -> (Beforehand, impl Future<Output = ()> + 'static) {
    let flight = Rc::new(Flight { signer, waiters: RefCell::default(), is_beforehand: true });
    if may_share(shard, name.as_ref().as_ref()) {
        shard.flights.borrow_mut().insert(Arc::clone(name), Rc::clone(&flight));
    }
    let want = OpenWant {
        body: false,
        range: RangeForm::Absent,
        checksums: true,
        tail_start: None,
        is_own: false,
    };
    let asked = Beforehand(Rc::clone(&flight));
    (asked, fly(Rc::clone(shard), flight, Arc::clone(name), want))
}

/// A question that was asked beforehand.
pub struct Beforehand(Rc<Flight>);

/// Lets those go who wait for this question: each asks for itself, or waits for what a later write has had asked.
pub fn let_go(shard: &Rc<Shard>, name: &ObjectName, asked: &Beforehand) {
    let Beforehand(flight) = asked;
    unlist(shard, name, flight);
    flight.waiters.take().into_iter().for_each(|waiter| board(shard, waiter));
}

/// Nobody joins this question any more; another of the same name stays.
fn unlist(shard: &Shard, name: &ObjectName, flight: &Rc<Flight>) {
    let mut flights = shard.flights.borrow_mut();
    if flights.get(&name.as_ref()).is_some_and(|listed| Rc::ptr_eq(listed, flight)) {
        flights.remove(&name.as_ref());
    }
}

/// Whether readers may share one question. Not while a write of unknown outcome may happen at any
/// time: each is told what is so after it asked.
fn may_share(shard: &Shard, name: NameRef<'_>) -> bool {
    shard.judge.borrow().may_share(name) && !shard.is_held(name, shard.geometry.home_hash(name))
}

async fn fly(shard: Rc<Shard>, flight: Rc<Flight>, name: Arc<ObjectName>, want: OpenWant) {
    let outcome = ask(&shard, &name, want, &flight.signer).await;
    unlist(&shard, &name, &flight);
    match outcome {
        // A question that was not theirs is not to be their failure.
        Outcome::Failed(_) if flight.is_beforehand => {
            flight.waiters.take().into_iter().for_each(|waiter| board(&shard, waiter));
        }
        outcome => land(&shard, flight.waiters.take(), outcome),
    }
}

enum Outcome {
    /// The version, and whether bytes of it came along.
    Current(Arc<Mapping>, bool),
    /// The version at hand, for want of a word of the origin's; as it is, without what it lacks.
    AtHand(Arc<Mapping>),
    PassOn(OriginAnswer),
    Relay,
    Failed(OriginError),
}

/// Answers all who waited. Only the first may be given the origin's own answer; what it says was
/// said to that request, so the others relay theirs.
fn land(shard: &Rc<Shard>, waiters: Vec<Delivered<Call>>, outcome: Outcome) {
    let is_at_hand = matches!(outcome, Outcome::AtHand(_));
    let mut outcome = Some(outcome);
    let mut mapping = None;
    for mut delivered in waiters {
        let Call::Open(call) = &mut *delivered else { continue };
        match &outcome {
            Some(Outcome::Current(current, with_bytes)) => {
                mapping = Some((Arc::clone(current), *with_bytes));
            }
            Some(Outcome::AtHand(current)) => mapping = Some((Arc::clone(current), false)),
            _ => {}
        }
        match &mapping {
            Some((mapping, _)) if lacks_checksums(mapping, &call.want) && !is_at_hand => {
                board(shard, delivered);
                continue;
            }
            Some((mapping, waited)) => {
                let mapping = &tail::note(shard, Arc::clone(mapping), call.want.tail_start);
                let leases = first_bytes(shard, mapping, &call.want, &call.signer);
                let (want, signer) = (&call.want, &call.signer);
                let is_missing =
                    *waited || ahead::is_missing_here(shard, mapping, want, signer, &leases);
                ahead::note(shard, mapping, want, signer, is_missing);
                let (mapping, waited) = (Arc::clone(mapping), *waited);
                call.answer = OpenAnswer::Found(Found { mapping, leases, waited });
            }
            None => call.answer = first_or_relay(&mut outcome),
        }
        delivered.reply();
    }
}

/// An answer is passed on to the first who waited; that there was none holds for all.
fn first_or_relay(outcome: &mut Option<Outcome>) -> OpenAnswer {
    if let Some(Outcome::Failed(error)) = outcome {
        return OpenAnswer::Failed(error.clone());
    }
    match outcome.take() {
        Some(Outcome::PassOn(answer)) => OpenAnswer::PassOn(answer),
        _ => OpenAnswer::Relay,
    }
}

/// Asks the origin, and installs what it proves.
async fn ask(
    shard: &Rc<Shard>,
    name: &Arc<ObjectName>,
    want: OpenWant,
    signer: &Signer,
) -> Outcome {
    let hash = shard.geometry.home_hash(name.as_ref().as_ref());
    let known = known(shard, name);
    if let Some(mapping) = &known
        && !lacks_checksums(mapping, &want)
        && table::decide(shard, name).await
        && let Some(mapping) = authoritative(shard, name.as_ref().as_ref(), signer)
        && (!want.is_own || shard.mappings.borrow().is_immutable(name.as_ref().as_ref()))
    {
        return Outcome::Current(mapping, false);
    }
    // Looked up anew: a write may have passed while that was settled.
    let known = self::known(shard, name);
    let moment = shard.moment(name.as_ref().as_ref(), hash);
    let written = written::find(shard, name, moment);
    let plan = match written.is_some() {
        true => Plan::of_facts(name),
        false => Plan::new(shard, name, want, known.as_deref()),
    };
    let tails = Tails::of(shard, want.tail_start, known.as_deref());
    let (written, is_own) = (written.as_deref(), want.is_own);
    let asking = Asking { name, hash, moment, signer, tails, is_own, written };
    put_question(shard, asking, plan, known).await
}

/// Whom a question is about, when it was sent, and as whom the origin is asked.
#[derive(Clone, Copy)]
struct Asking<'a> {
    name: &'a Arc<ObjectName>,
    hash: HomeHash,
    moment: Moment,
    signer: &'a Signer,
    tails: Tails,
    /// Whether it is the node's own read.
    is_own: bool,
    /// What a write has just brought, of which only the facts are asked for.
    written: Option<&'a Written>,
}

async fn put_question(
    shard: &Rc<Shard>,
    asking: Asking<'_>,
    plan: Plan,
    known: Option<Arc<Mapping>>,
) -> Outcome {
    let Asking { name, hash, moment, signer, .. } = asking;
    let subject = Subject { name, home_hash: hash, class: plan.class, era: moment.era() };
    let reply = shard.sources.ask(&plan.question(subject, signer, asking.is_own)).await;
    let is_silent = match &reply {
        Ok(Reply::Other(answer)) => is_failure(answer.status),
        Ok(_) => false,
        Err(error) => error.is_the_origins(),
    };
    if is_silent && let Some(mapping) = at_hand(shard, name.as_ref().as_ref(), signer) {
        return Outcome::AtHand(mapping);
    }
    match (reply, known) {
        (Err(error), _) => Outcome::Failed(error),
        (Ok(Reply::Proven(proven)), _) => take_in(shard, asking, proven).await,
        (Ok(Reply::Unchanged), Some(mapping)) => {
            let mapping = asking.tails.tailed(mapping);
            learn(shard, &mapping, asking);
            Outcome::Current(mapping, false)
        }
        (Ok(Reply::Unchanged), None) => Outcome::Relay,
        (Ok(Reply::Other(answer)), known) => {
            note_refusal(shard, asking, answer.status).await;
            // An error that does not depend on how the question was put is the client's answer too.
            if plan.is_as_asked && matches!(answer.status, 403 | 404 | 500..) {
                return Outcome::PassOn(answer);
            }
            match plan.without_range(answer.status) {
                Some(plan) => Box::pin(put_question(shard, asking, plan, known)).await,
                None => Outcome::Relay,
            }
        }
    }
}

async fn take_in(shard: &Rc<Shard>, asking: Asking<'_>, proven: Proven) -> Outcome {
    let Proven { mapping, range, body } = proven;
    let mapping = asking.tails.tailed(mapping);
    let at_hand = asking.written.and_then(|written| written.bytes_of(shard, &mapping));
    let bytes = match at_hand {
        Some(bytes) => (ByteRange::new(0, bytes.len() as u64), AnswerBody::whole(bytes)),
        None => (range, body),
    };
    // Offered before anybody finds the version: who did would fetch what is on its way.
    spread::spread(shard, &mapping, asking.signer, bytes).await;
    learn(shard, &mapping, asking);
    Outcome::Current(mapping, !range.is_empty())
}

/// The version to serve while the origin gives no answer: what is authoritative, and what was not
/// long ago, as far as the operator allows.
fn at_hand(shard: &Shard, name: NameRef<'_>, signer: &Signer) -> Option<Arc<Mapping>> {
    if let Some(mapping) = authoritative(shard, name, signer) {
        return Some(mapping);
    }
    let mut mappings = shard.mappings.borrow_mut();
    let entry = mappings.get(name)?;
    if is_void(shard, entry) || shard.is_held(name, entry.mapping.home_hash) {
        return None;
    }
    let until = match (entry.freshness, signer.identity()) {
        (Freshness::Until(until), _) if shard.access.has_one_identity() => until,
        (Freshness::Until(until), Some(identity)) => until.min(entry.allows_until(identity)?),
        (Freshness::Immutable, Some(identity)) => entry.allows_until(identity)?,
        _ => return None,
    };
    let stale_until = until.after(shard.settings.freshness.stale_if_error);
    let is_kept = shard.reactor.clock().now() < stale_until;
    is_kept.then(|| Arc::clone(&entry.mapping))
}

fn known(shard: &Shard, name: &ObjectName) -> Option<Arc<Mapping>> {
    let mut mappings = shard.mappings.borrow_mut();
    let entry = mappings.get(name.as_ref())?;
    (!is_void(shard, entry)).then(|| Arc::clone(&entry.mapping))
}

/// Installs what an answer proved, and notes to whom it was shown.
fn learn(shard: &Rc<Shard>, mapping: &Arc<Mapping>, asking: Asking<'_>) {
    let Asking { hash, moment, signer, .. } = asking;
    let Some(freshness) = install(shard, mapping, hash, moment) else { return };
    if shard.access.has_one_identity() {
        return;
    }
    let until = match freshness {
        Freshness::Immutable => shard.reactor.clock().now().after(shard.settings.authorisation_ttl),
        Freshness::Until(until) => until,
        Freshness::Never => return,
    };
    if let Some(identity) = signer.identity() {
        shard.mappings.borrow_mut().allow(mapping, identity, until);
    }
}

/// What the origin refuses to one is not served to it from here; what it has no more, to nobody.
async fn note_refusal(shard: &Shard, asking: Asking<'_>, status: u16) {
    let name = asking.name.as_ref().as_ref();
    let is_gone = match (status, asking.signer.identity()) {
        (401 | 403, Some(identity)) => invalidate::refuse_here(shard, name, identity),
        _ if is_refusal(status) => {
            invalidate::forget(shard, name);
            true
        }
        _ => false,
    };
    if is_gone {
        invalidate::gone_here(shard, asking.hash).await;
    }
}

/// Installs a mapping, unless a write began or ended since its question was sent.
/// Says how long it is believed; `None` where it was not installed.
pub(crate) fn install(
    shard: &Rc<Shard>,
    mapping: &Arc<Mapping>,
    hash: HomeHash,
    moment: Moment,
) -> Option<Freshness> {
    let name = mapping.name.as_ref().as_ref();
    if shard.moment(name, hash) != moment && !Mutation::EpochUnchecked.is_planted() {
        return None;
    }
    let now = shard.reactor.clock().now();
    let freshness = match shard.is_held(name, hash) {
        true => Freshness::Never,
        false => shard.judge.borrow().freshness(name, now),
    };
    let generation = shard.epochs.borrow().bucket_generation(name.bucket);
    let installed = mutation::whole_or_torn(shard, mapping, hash, moment);
    let mut mappings = shard.mappings.borrow_mut();
    let evicted = mappings.evicted();
    mappings.install(Entry::new(installed, freshness, generation));
    shard.counters.mapping_installed();
    if let Some(entry) = mappings.peek(name) {
        persist::keep(shard, entry);
    }
    if freshness != Freshness::Immutable {
        table::decide_soon(shard, &mapping.name);
    }
    shard.counters.evicted(Tier::Mapping, mappings.evicted() - evicted);
    Some(freshness)
}
