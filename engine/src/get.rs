//! The story of a read that is served: find the current version, decide what of it is wanted, send
//! its head and first bytes at once, then slice by slice while the next one is looked up.
//! HEAD is the same story without its bytes. What cannot be proven here is relayed.

mod head;
mod stream;

use std::rc::Rc;

use nilas_net::conditional::{Conditions, Validators, Verdict};
use nilas_net::operation::Kind;
use nilas_net::range::{RangeForm, Resolved};
use nilas_net::{Code, S3Error};

use crate::answer;
use crate::call::{Call, Found, NameCall, OpenAnswer, OpenCall, OpenWant};
use crate::client::Client;
use crate::identity::NameRef;
use crate::mapping::{Part, PartAsked};
use crate::metrics::{Failure, Tier};
use crate::naming::table_root_of_metadata;
use crate::open;
use crate::origin::{OriginAnswer, OriginError, Signer};
use crate::relay;
use crate::request::{Next, Request};
use crate::shard::Shard;
use head::Shape;
use stream::Stream;

pub use stream::BLOCKS_AHEAD_MAX;

/// How often a read begins anew because its version has gone from the origin; after that the
/// origin answers it.
const RESTARTS_MAX: usize = 3;

/// What a try at serving came to.
enum Served {
    /// It was answered, or the connection is lost.
    Done(Next),
    /// The version has gone; nothing was sent.
    VersionGone,
    /// The origin must answer; nothing was sent.
    Relay,
    /// The origin gave no answer; nothing was sent.
    Unavailable(OriginError),
    /// There is too much to do; nothing was sent.
    Busy,
}

/// Answers a GetObject or HeadObject.
pub async fn serve(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    name: NameRef<'_>,
) -> Next {
    let (body, range) = (request.classified.kind == Kind::ServedGet, RangeForm::of(request.head));
    let is_ranged = range != RangeForm::Absent;
    // Origins differ in what they make of a range on a HEAD; and who only they know, they answer.
    if request.sender.grant.signer.identity().is_none()
        || range == RangeForm::Other
        || (is_ranged && !body)
    {
        return relay::relay(shard, client, request).await;
    }
    let part = match request.part() {
        None => None,
        // Only the origin knows where a part lies, until it has told; and what a range of it is.
        Some(asked) => match known_part(shard, name, asked).filter(|_| !is_ranged) {
            Some(part) => Some(part),
            None => return relay::relay(shard, client, request).await,
        },
    };
    let part = part.as_deref();
    let want = want_of(request, (body, range), part);
    for _ in 0..RESTARTS_MAX {
        let served = match open(shard, name, want, &request.sender.grant.signer).await {
            OpenAnswer::Found(found) => {
                answer_found(shard, client, request, (want, part), found).await
            }
            // That was about a range, and the client asked for a part.
            OpenAnswer::PassOn(_) if part.is_some() => Served::Relay,
            // The question was the node's own: it left the client's conditions out, by which
            // origins may refuse before they look for the object.
            OpenAnswer::PassOn(answer) if leaves_conditions(&answer, request) => Served::Relay,
            OpenAnswer::PassOn(answer) => {
                Served::Done(relay::pass_on(shard, client, request, answer).await)
            }
            OpenAnswer::Failed(error) => Served::Unavailable(error),
            OpenAnswer::Relay | OpenAnswer::Pending => Served::Relay,
        };
        match served {
            Served::Done(next) => return next,
            Served::VersionGone => {}
            Served::Relay => break,
            Served::Unavailable(error) => {
                let (error, failure) = answer::origin_failure(&error);
                shard.counters.failure(failure);
                return answer::fail(shard, client, request, &error, request.next(shard)).await;
            }
            Served::Busy => {
                shard.counters.failure(Failure::Overloaded);
                let error = S3Error::new(Code::SlowDown);
                return answer::fail(shard, client, request, &error, request.next(shard)).await;
            }
        }
    }
    relay::relay(shard, client, request).await
}

/// What a client wants of an object, or of a part of it.
fn want_of(
    request: &Request<'_>,
    (body, range): (bool, RangeForm),
    part: Option<&Part>,
) -> OpenWant {
    let (range, checksums) = match part {
        // A checksum belongs to the whole object; a range of it is answered without one.
        None => (range, request.classified.checksum_mode && range == RangeForm::Absent),
        Some(part) if body => (part.range_form(), false),
        Some(_) => (range, false),
    };
    OpenWant { body, range, checksums, tail_start: None, is_own: false }
}

/// Whether an answer to the node's own question may be another than one to the client's conditions.
fn leaves_conditions(answer: &OriginAnswer, request: &Request<'_>) -> bool {
    answer.status < 500 && !Conditions::of(request.head).is_empty()
}

/// Asks the object's home, which may be this shard.
pub(crate) async fn open(
    shard: &Rc<Shard>,
    name: NameRef<'_>,
    want: OpenWant,
    signer: &Signer,
) -> OpenAnswer {
    let home = shard.geometry.home(shard.geometry.home_hash(name));
    if home == shard.id
        && let Some(found) = open::find(shard, name, &want, signer)
    {
        shard.counters.hit(Tier::Mapping, 0);
        return OpenAnswer::Found(found);
    }
    let pooled = shard.call_pool.borrow_mut().pop();
    let mut call = pooled.unwrap_or_else(|| Box::new(Call::Open(OpenCall::empty())));
    if let Call::Open(call) = &mut *call {
        call.begin(name, want, signer);
    }
    let mut call = shard.call(home, call).await;
    let Call::Open(open) = &mut *call else { return OpenAnswer::Relay };
    let answer = std::mem::replace(&mut open.answer, OpenAnswer::Pending);
    shard.recycle(call);
    answer
}

impl OpenCall {
    fn empty() -> OpenCall {
        OpenCall {
            name: NameCall::default(),
            want: OpenWant {
                body: false,
                range: RangeForm::Absent,
                checksums: false,
                tail_start: None,
                is_own: false,
            },
            signer: Signer::Node,
            answer: OpenAnswer::Pending,
        }
    }

    fn begin(&mut self, name: NameRef<'_>, want: OpenWant, signer: &Signer) {
        self.name.bucket.clear();
        self.name.bucket.push_str(name.bucket);
        self.name.key.clear();
        self.name.key.push_str(name.key);
        self.want = want;
        self.signer.clone_from(signer);
    }
}

async fn answer_found(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    (want, part): (OpenWant, Option<&Part>),
    found: Found,
) -> Served {
    let mapping = &found.mapping;
    if part.is_some_and(|part| !part.is_of(mapping)) {
        return Served::Relay;
    }
    let clock = shard.reactor.clock();
    let validators = Validators {
        etag: mapping.etag.as_bytes(),
        last_modified: mapping
            .last_modified
            .as_deref()
            .and_then(|date| nilas_net::date::parse_http_date(date.as_bytes())),
    };
    match Conditions::of(request.head).verdict(validators, clock.wall()) {
        Verdict::Proceed => {}
        Verdict::Relay => return Served::Relay,
        Verdict::NotModified => return head::not_modified(shard, client, request, mapping).await,
        Verdict::PreconditionFailed(condition) => {
            let error = S3Error::new(Code::PreconditionFailed).with("Condition", condition);
            return fail(shard, client, request, &error).await;
        }
    }
    let shape = match (part, want.range.resolve(mapping.length)) {
        (Some(part), _) => Shape::Part(part),
        (None, Resolved::Whole) => Shape::Whole,
        (None, Resolved::Slice(slice)) => Shape::Slice(slice),
        // Not every origin says 416 to a range past the end.
        (None, Resolved::Unsatisfiable | Resolved::Relay) => return Served::Relay,
    };
    if want.body {
        let bytes = shape.bytes(mapping.length);
        shard.tracer.note(mapping, bytes);
        Stream::new(shard, found, &request.sender.grant.signer, bytes)
            .send(client, request, shape)
            .await
    } else {
        head::alone(shard, client, request, mapping, shape).await
    }
}

fn known_part(shard: &Shard, name: NameRef<'_>, asked: PartAsked) -> Option<Rc<Part>> {
    shard.parts.borrow().find(name, shard.geometry.home_hash(name), asked)
}

async fn fail(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    error: &S3Error,
) -> Served {
    Served::Done(answer::fail(shard, client, request, error, request.next(shard)).await)
}

/// A table's metadata that was read shows its `data/` to be a table's.
fn note_table(shard: &Rc<Shard>, name: NameRef<'_>) {
    if let Some(root) = table_root_of_metadata(name.key) {
        let is_known = shard.judge.borrow().knows_table(name.bucket, root);
        if !is_known {
            let (shard, bucket, root) = (Rc::clone(shard), name.bucket.to_owned(), root.to_owned());
            let reactor = shard.reactor.clone();
            let since = shard.purges.borrow().heard();
            reactor.spawn(async move {
                let root = NameRef { bucket: &bucket, key: &root };
                open::table::tell(&shard, root, true, since).await;
            });
        }
    }
}
