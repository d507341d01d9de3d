//! The story of a request that the origin answers: told on as it came, but for the client's proof of
//! identity; its answer passed back as it came. What it may have changed is forgotten here before it
//! is sent and again before its answer is passed on, and held where nobody knows what became of it.
//! Bodies on their way up are checked by `put`.

mod bucket_list;
mod form;
mod forward;
mod location;
mod pass;
mod settle;
mod touched;

pub use pass::pass_on;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use nilas_net::head::{BodyLength, Method};
use nilas_net::operation::{Operation, overrides};
use tokio::sync::Notify;

use crate::answer;
use crate::buffers::{self, BODY_WINDOW_BYTES, NoBuffers, Reserved};
use crate::client::Client;
use crate::epoch::Moment;
use crate::invalidate::{self, Stage, Touched, Write};
use crate::mapping::Part;
use crate::mutation::Mutation;
use crate::origin::{BodySender, OriginError, OriginRequest, OriginResult, RequestBody, Signer};
use crate::persist::{NotDurable, WriteId};
use crate::put::{self, Aside, Upload, UploadError};
use crate::request::{Next, Request};
use crate::shard::Shard;
use pass::pass_on_then;

/// Tells a request on, and its answer back.
pub async fn relay(shard: &Rc<Shard>, client: &mut Client, request: &Request<'_>) -> Next {
    let (body, mut upload) = match put::prepare(request) {
        Ok(prepared) => prepared,
        Err(error) => return answer::fail(shard, client, request, &error, Next::Linger).await,
    };
    let admitted = match admit(shard, client, request, &mut upload).await {
        Ok(admitted) => admitted,
        Err(error) => return refused(shard, client, request, error).await,
    };
    let Admitted { touched, rewrite, _room, _buffers } = admitted;
    if let Err(error) = request.sender.grant.scope.admits_touched(&touched) {
        return refused(shard, client, request, UploadError::Check(error)).await;
    }
    let mut aside = match touched {
        Touched::Key(name) => Aside::of(shard, request, name, upload.as_ref()),
        _ => None,
    };
    let write = Write { id: WriteId(request.id.0), touched };
    let began = match begin(shard, &write).await {
        Ok(began) => began,
        Err(error) => return refused(shard, client, request, error.into()).await,
    };
    let mut asked = forward::origin_request(request, body);
    let awaited = await_origin(request, &mut asked);
    let file = rewrite.and_then(|rewrite| rewrite.take_place(&mut asked));
    let sending = upload.map(|upload| Sending { upload, file, aside: aside.as_mut() });
    let outcome = exchange(shard, client, (asked, awaited), sending).await;
    if Mutation::TombstoneAfterRelay.is_planted() {
        let _ = invalidate::begin(shard, &write).await;
    }
    let kept = (aside.zip(began), &request.sender.grant.signer);
    settle::settle(shard, &write, &outcome, kept).await;
    forget_refused(shard, request, &outcome).await;
    learn_part(shard, request, &outcome);
    let mut list_room = bucket_list::ListRoom::default();
    let outcome = outcome
        .map_answer(|answer| bucket_list::shorten(shard, request, answer, &mut list_room))
        .await;
    match outcome {
        Outcome::Answered(Ok(answer)) => {
            pass_on_then(shard, client, request, (answer, &write), request.next(shard)).await
        }
        Outcome::AnsweredEarly(Ok(answer), _kept_open) => {
            pass_on_then(shard, client, request, (answer, &write), Next::Linger).await
        }
        Outcome::Answered(Err(error)) => {
            unanswered(shard, client, request, &error, request.next(shard)).await
        }
        Outcome::AnsweredEarly(Err(error), _) => {
            unanswered(shard, client, request, &error, Next::Linger).await
        }
        Outcome::Refused(error) => refused(shard, client, request, error).await,
    }
}

/// A request that may be told on.
struct Admitted<'a> {
    touched: Touched<'a>,
    /// Where another form goes on in its place.
    rewrite: Option<form::Rewrite>,
    /// What was read of its body ahead, until it is sent.
    _room: Option<Reserved>,
    /// Memory for its body and its answer's.
    _buffers: Reserved,
}

/// Reserves memory for a request's body, and reads of it what must be known before it is told on.
async fn admit<'a>(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'a>,
    upload: &mut Option<Upload>,
) -> Result<Admitted<'a>, UploadError> {
    if request.sender.is_form {
        // Of a form nobody knows who sends it until it was read as far as its file.
        let unproved = shard.buffers.try_reserve_unproved(form::UNPROVED_BYTES).ok_or(NoBuffers)?;
        let (touched, rewrite) = form::admit(shard, client, request, upload).await?;
        let _buffers = buffers::reserve(shard, body_bytes(request)).await?;
        drop(unproved);
        return Ok(Admitted { touched, rewrite, _room: None, _buffers });
    }
    let _buffers = buffers::reserve(shard, body_bytes(request)).await?;
    let (touched, _room) = touched::touched(shard, client, request, upload).await?;
    Ok(Admitted { touched, rewrite: None, _room, _buffers })
}

/// What the request's and its answer's bodies may hold on their way, one after the other.
fn body_bytes(request: &Request<'_>) -> u64 {
    let up = match request.head.body() {
        BodyLength::None => 0,
        BodyLength::Bytes(length) => length.min(BODY_WINDOW_BYTES),
        BodyLength::Chunked => BODY_WINDOW_BYTES,
    };
    let down = match (request.head.method(), request.target.key) {
        (Method::Get, Some(_)) => BODY_WINDOW_BYTES,
        (Method::Get | Method::Post, _) => LISTING_BYTES,
        _ => SMALL_ANSWER_BYTES,
    };
    let copies = if request.sender.is_form { form::COPIES } else { 1 };
    (copies * up).max(down).min(copies * BODY_WINDOW_BYTES)
}

/// What an answer is counted with that lists a thousand keys.
const LISTING_BYTES: u64 = 256 << 10;
/// What an answer is counted with that tells of no object and lists nothing.
const SMALL_ANSWER_BYTES: u64 = 16 << 10;

/// A read that the origin refuses, or whose object it has no more, ends what was known of it: no
/// other read may find it still.
async fn forget_refused(shard: &Rc<Shard>, request: &Request<'_>, outcome: &Outcome) {
    let is_read =
        matches!(request.classified.operation, Operation::GetObject | Operation::HeadObject);
    let (true, Some(name), Outcome::Answered(Ok(answer))) = (is_read, request.name(), outcome)
    else {
        return;
    };
    if !is_refusal(answer.status) || names_a_part(request.head.query_raw()) {
        return;
    }
    match (answer.status, request.sender.grant.signer.identity()) {
        (401 | 403, identity) if !shard.access.has_one_identity() => {
            if let Some(identity) = identity {
                invalidate::refuse(shard, name, identity).await;
            }
        }
        _ => {
            let read = Write { id: WriteId(request.id.0), touched: Touched::Key(name) };
            invalidate::announce(shard, &read, Stage::Settled).await;
        }
    }
}

/// Has known what must be before a write is relayed.
async fn begin(shard: &Rc<Shard>, write: &Write<'_>) -> Result<Option<Moment>, NotDurable> {
    if Mutation::NoBumpBeforeRelay.is_planted() {
        return Ok(None);
    }
    if Mutation::TombstoneAfterRelay.is_planted() {
        invalidate::announce(shard, write, Stage::GoesOn).await;
        return Ok(None);
    }
    invalidate::begin(shard, write).await
}

/// What the origin tells of a part is known from then on, as far as it proves it.
fn learn_part(shard: &Shard, request: &Request<'_>, outcome: &Outcome) {
    let (Some(name), Some(asked), Outcome::Answered(Ok(answer))) =
        (request.name(), request.part(), outcome)
    else {
        return;
    };
    // Neither a range of a part nor headers that the client chose say what the part itself is.
    let is_plain = request.head.header("range").is_none()
        && overrides(request.head.query_raw()).next().is_none();
    if let Some(part) = Part::told(answer.status, &answer.headers).filter(|_| is_plain) {
        let hash = shard.geometry.home_hash(name);
        shard.parts.borrow_mut().keep(name, hash, asked, part);
    }
}

/// Whether a status says that the object is not to be had, for this identity at least.
pub fn is_refusal(status: u16) -> bool {
    matches!(status, 401 | 403 | 404 | 410)
}

/// Whether a query asks for something other than the current version as a whole.
fn names_a_part(query_raw: &str) -> bool {
    ["versionId", "partNumber"].iter().any(|name| nilas_net::query::find(query_raw, name).is_some())
}

async fn unanswered(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    error: &OriginError,
    next: Next,
) -> Next {
    let (error, failure) = answer::origin_failure(error);
    shard.counters.failure(failure);
    answer::fail(shard, client, request, &error, next).await
}

async fn refused(
    shard: &Rc<Shard>,
    client: &Client,
    request: &Request<'_>,
    error: UploadError,
) -> Next {
    shard.counters.failure(error.failure());
    match error.answer() {
        Some(error) => answer::fail(shard, client, request, &error, Next::Linger).await,
        None => Next::Close,
    }
}

enum Outcome {
    Answered(OriginResult),
    /// Answered before the client's body was read to its end.
    /// Until the answer has been read, the body is not given up: its connection would go with it.
    AnsweredEarly(OriginResult, Option<BodySender>),
    /// The body broke off or failed a check; the origin was told to throw it away.
    Refused(UploadError),
}

/// How long a client that expects `100 Continue` waits for the origin's.
const CONTINUE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Where the origin alone knows whether it takes a request, and the client asks before it sends: has
/// the origin asked too. What the node has proved is sent without that round trip.
fn await_origin(request: &Request<'_>, asked: &mut OriginRequest) -> Option<Arc<Notify>> {
    let is_left_to_origin = matches!(request.sender.grant.signer, Signer::Nobody | Signer::AsSent);
    let RequestBody::Stream(body) = &mut asked.body else { return None };
    if !is_left_to_origin || request.sender.is_form || !request.head.expect_continue() {
        return None;
    }
    let awaited = Arc::new(Notify::new());
    body.awaited = Some(Arc::clone(&awaited));
    Some(awaited)
}

/// A body on its way, of a form that is made anew what its file passes through, and what the cache is
/// to have of it.
struct Sending<'a> {
    upload: Upload,
    file: Option<form::FilePipe>,
    aside: Option<&'a mut Aside>,
}

impl Sending<'_> {
    fn keep_open(&self) -> BodySender {
        self.file.as_ref().map_or_else(|| self.upload.keep_open(), form::FilePipe::keep_open)
    }

    async fn send(self, shard: &Rc<Shard>, client: &mut Client) -> Result<(), UploadError> {
        match self.file {
            Some(file) => file.cut(self.upload.send(shard, client, self.aside)).await,
            None => self.upload.send(shard, client, self.aside).await,
        }
    }
}

/// Sends the body and waits for the answer, whichever ends first.
async fn exchange(
    shard: &Rc<Shard>,
    client: &mut Client,
    (asked, awaited): (OriginRequest, Option<Arc<Notify>>),
    sending: Option<Sending<'_>>,
) -> Outcome {
    let Some(sending) = sending else {
        return Outcome::Answered(shard.origin.ask(asked).await);
    };
    let mut kept_open = Some(sending.keep_open());
    let mut ask = pin!(shard.origin.ask(asked));
    let mut send = pin!(async {
        if let Some(awaited) = awaited {
            // Not every origin speaks up before it has a body.
            let _ = shard.reactor.timeout(CONTINUE_WAIT_MAX, awaited.notified()).await;
        }
        sending.send(shard, client).await
    });
    let mut sent = None;
    poll_fn(move |context| {
        if sent.is_none()
            && let Poll::Ready(result) = send.as_mut().poll(context)
        {
            match result {
                Ok(()) => sent = Some(true),
                Err(UploadError::OriginStopped) => sent = Some(false),
                Err(error) => return Poll::Ready(Outcome::Refused(error)),
            }
        }
        ask.as_mut().poll(context).map(|answer| match sent {
            Some(true) => Outcome::Answered(answer),
            Some(false) | None => Outcome::AnsweredEarly(answer, kept_open.take()),
        })
    })
    .await
}
