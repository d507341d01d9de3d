//! The origin as a source: asked through a circuit breaker, with a time-out on each phase; reads are
//! asked again after a failure, within a budget, and a second time beside the first where its first
//! byte is among the slowest. What is not a read is asked once.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, RANGE};
use http::{HeaderMap, Method};
use nilas_base::{Monotonic, Rng};
use nilas_net::range::{RangeForm, Resolved, SingleRange};
use nilas_shards::Reactor;

use super::backoff::{RETRY_AFTER_WAIT_MAX, backoff, retry_after};
use super::breaker::{Change, Pass, Verdict};
use super::health::OriginHealth;
use super::{Asking, Condition, Proven, Question, Reply, Source};
use crate::identity::Geometry;
use crate::mapping::{Asked, Learned, learn};
use crate::metrics::{OriginEvent, ShardCounters};
use crate::mutation::Mutation;
use crate::open::{CHECKSUM_MODE, object_request};
use crate::origin::{
    AnswerBody, OriginAnswer, OriginError, OriginPort, OriginRequest, OriginResult, RequestBody,
};

/// How often a read is asked before its failure is passed on.
const READ_TRIES_MAX: u32 = 3;
/// The first byte of a listing, which is real work for an origin.
const LISTING_FIRST_BYTE_TIME_MAX: Duration = Duration::from_secs(60);
/// A second question beside the first waits at least for this: below it, an origin is near, and its
/// slowest answers are slow because it has much to do.
const HEDGE_DELAY_MIN: Duration = Duration::from_millis(25);
/// How long an origin that says `SlowDown` and no time gets no second questions and no read-ahead.
const SLOW_DOWN_TIME: Duration = Duration::from_secs(1);

/// How long the origin may be silent, and whether it is asked twice.
#[derive(Clone, Copy, Debug)]
pub struct OriginPatience {
    /// Before the head of the answer to a read, the wait for a place in the queue included.
    pub first_byte: Duration,
    /// Between two pieces of an answer's body.
    pub body_idle: Duration,
    /// Whether reads whose first byte is among the slowest are asked a second time.
    pub hedges: bool,
}

/// The origin, as one shard asks it.
pub struct OriginSource {
    port: OriginPort,
    reactor: Reactor,
    geometry: Geometry,
    counters: Rc<ShardCounters>,
    health: OriginHealth,
    patience: OriginPatience,
    rng: RefCell<Rng>,
}

/// A request that was let through; its end is told, also where it is given up.
struct UnderWay<'a> {
    source: &'a OriginSource,
    pass: Option<Pass>,
    asked_at: Monotonic,
    is_timed: bool,
    is_own: bool,
}

impl OriginSource {
    /// The origin behind a port.
    pub fn new(
        port: OriginPort,
        (reactor, geometry): (Reactor, Geometry),
        counters: Rc<ShardCounters>,
        (health, patience): (OriginHealth, OriginPatience),
        rng: Rng,
    ) -> OriginSource {
        let rng = RefCell::new(rng);
        OriginSource { port, reactor, geometry, counters, health, patience, rng }
    }

    /// Memory reserved for answers' bodies on their way, over all shards.
    pub fn reserved_bytes(&self) -> u64 {
        self.port.reserved_bytes().0
    }

    /// Asks as the client did, and waits for the answer's head.
    pub async fn ask(&self, request: OriginRequest) -> OriginResult {
        self.ask_for(request, false).await
    }

    /// The same, for a client or for the node itself: see [`Question::is_own`].
    async fn ask_for(&self, request: OriginRequest, is_own: bool) -> OriginResult {
        if !is_read(&request) {
            return self.once(request, is_own).await;
        }
        self.health.deposit();
        let mut tries = 0;
        loop {
            let outcome = self.hedged(&request, is_own).await;
            tries += 1;
            let Some(pause) = self.pause_before_repeating(&outcome, tries) else { return outcome };
            drop(outcome);
            self.counters.origin_event(OriginEvent::Retry);
            self.reactor.sleep(pause).await;
        }
    }

    /// The next piece of a body, which an origin may not owe for longer than its patience.
    pub async fn next(&self, body: &mut AnswerBody) -> Option<Result<Bytes, OriginError>> {
        let limit = self.patience.body_idle;
        match self.reactor.timeout(limit, body.next()).await {
            Ok(piece) => piece,
            Err(_) => Some(Err(silence("sending its answer's body", limit))),
        }
    }

    /// Waits before what a body still owes is asked for after `tries` tries that brought nothing;
    /// false where it is not to be asked for any more.
    pub async fn pause_before_resuming(&self, tries: u32) -> bool {
        if tries == 0 {
            return true;
        }
        if tries >= READ_TRIES_MAX || !self.health.may_repeat() {
            return false;
        }
        let pause = backoff(&mut self.rng.borrow_mut(), tries, false);
        self.reactor.sleep(pause).await;
        true
    }

    /// Whether it takes requests that nobody waits for yet.
    pub fn is_at_ease(&self) -> bool {
        self.health.is_at_ease(self.reactor.clock().now())
    }

    /// Asks, and a second time where the first byte is among the slowest; the first good answer
    /// wins, the other request is given up.
    async fn hedged(&self, request: &OriginRequest, is_own: bool) -> OriginResult {
        let mut first = pin!(self.once(copy(request), is_own));
        let Some(delay) = self.hedge_delay(request) else { return first.await };
        let waited = self.reactor.timeout(delay, first.as_mut()).await;
        if let Ok(answer) = waited {
            return answer;
        }
        if !self.health.may_repeat() {
            return first.await;
        }
        self.counters.origin_event(OriginEvent::Hedge);
        let mut second = pin!(self.once(copy(request), is_own));
        // In a fixed order, so that a simulated run can be repeated.
        tokio::select! {
            biased;
            answer = first.as_mut() => if is_good(&answer) { answer } else { second.await },
            answer = second.as_mut() => {
                if !is_good(&answer) {
                    return first.await;
                }
                self.counters.origin_event(OriginEvent::HedgeWon);
                answer
            }
        }
    }

    fn hedge_delay(&self, request: &OriginRequest) -> Option<Duration> {
        if !self.patience.hedges || request.key.is_none() {
            return None;
        }
        let slow = self.health.slow_first_byte(self.reactor.clock().now())?;
        let delay = slow.max(HEDGE_DELAY_MIN);
        (delay < self.patience.first_byte).then_some(delay)
    }

    /// Asks once, if the breaker lets it through.
    async fn once(&self, request: OriginRequest, is_own: bool) -> OriginResult {
        let is_read = is_read(&request);
        let now = self.reactor.clock().now();
        let pass = self.health.admit(now).map_err(|retry_after| OriginError::Resting {
            retry_after_s: retry_after.as_secs() + 1,
        })?;
        let is_timed = is_read && request.key.is_some();
        let under_way =
            UnderWay { source: self, pass: Some(pass), asked_at: now, is_timed, is_own };
        let answer = if is_read {
            let limit = self.first_byte_limit(&request);
            let asked = self.reactor.timeout(limit, self.port.ask(request)).await;
            asked.unwrap_or_else(|_| Err(silence("its answer was waited for", limit)))
        } else {
            self.port.ask(request).await
        };
        under_way.end(&answer, is_read);
        answer
    }

    fn first_byte_limit(&self, request: &OriginRequest) -> Duration {
        match request.key {
            Some(_) => self.patience.first_byte,
            None => self.patience.first_byte.max(LISTING_FIRST_BYTE_TIME_MAX),
        }
    }

    /// How long to wait before a read is asked again; `None` where its outcome stands.
    fn pause_before_repeating(&self, outcome: &OriginResult, tries: u32) -> Option<Duration> {
        let now = self.reactor.clock().now();
        let (asked_wait, is_slow_down) = match outcome {
            Err(OriginError::Unreachable { .. } | OriginError::Broken { .. }) => (None, false),
            Err(_) => return None,
            Ok(answer) => match answer.status {
                500 | 502 | 504 => (None, false),
                429 | 503 => {
                    let asked_wait = retry_after(&answer.headers);
                    self.health.slow_down(now.after(asked_wait.unwrap_or(SLOW_DOWN_TIME)));
                    (asked_wait, true)
                }
                _ => return None,
            },
        };
        if tries >= READ_TRIES_MAX || asked_wait.is_some_and(|wait| wait > RETRY_AFTER_WAIT_MAX) {
            return None;
        }
        if !self.health.may_repeat() {
            self.counters.origin_event(OriginEvent::RetryRefused);
            return None;
        }
        let pause = backoff(&mut self.rng.borrow_mut(), tries, is_slow_down);
        Some(pause.max(asked_wait.unwrap_or_default()))
    }

    fn settle(&self, pass: Pass, verdict: Verdict, cause: &dyn std::fmt::Display) {
        let now = self.reactor.clock().now();
        let change = self.health.settle(pass, verdict, now, &mut self.rng.borrow_mut());
        match change {
            Some(Change::Opened) => {
                self.counters.origin_event(OriginEvent::BreakerOpened);
                tracing::warn!(
                    "the origin fails and is left alone for a while: {cause}; what is cached is \
                     served, everything else is answered 503 until it recovers"
                );
            }
            Some(Change::Closed) => {
                self.counters.origin_event(OriginEvent::BreakerClosed);
                tracing::warn!("the origin answers again");
            }
            None => {}
        }
    }
}

impl UnderWay<'_> {
    fn end(mut self, answer: &OriginResult, is_read: bool) {
        let Some(pass) = self.pass.take() else { return };
        let source = self.source;
        match answer {
            Ok(answer) if is_failure(answer.status) => {
                // A write that fails may be the write's own fault.
                let speaks = is_read && !self.is_own;
                let verdict = if speaks { Verdict::Ill } else { Verdict::Neutral };
                source.settle(pass, verdict, &format_args!("it answers {}", answer.status));
            }
            Ok(_) => {
                if self.is_timed {
                    let waited = source.reactor.clock().now().since(self.asked_at);
                    source.health.note_first_byte(waited);
                }
                source.settle(pass, Verdict::Well, &"");
            }
            Err(error) if self.is_own => source.settle(pass, Verdict::Neutral, error),
            Err(error) => source.settle(pass, verdict_on(error), error),
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            if self.is_timed {
                let waited = self.source.reactor.clock().now().since(self.asked_at);
                self.source.health.note_first_byte_given_up(waited);
            }
            self.source.settle(pass, Verdict::Neutral, &"");
        }
    }
}

impl Source for OriginSource {
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Asking<'a> {
        Box::pin(async move {
            let answer = self.ask_for(request_for(question), question.is_own).await?;
            if answer.status == 304 && matches!(question.condition, Condition::IfChanged(_)) {
                return Ok(Reply::Unchanged);
            }
            Ok(self.read(question, answer))
        })
    }
}

impl OriginSource {
    fn read(&self, question: &Question<'_>, answer: OriginAnswer) -> Reply {
        let asked = Asked { range: question.range.is_some(), head: question.facts_only };
        let subject = &question.subject;
        match learn(&self.geometry, subject, asked, answer.status, &answer.headers) {
            Ok(learned) if is_as_asked(question, &answer, &learned) => Reply::Proven(Proven {
                mapping: learned.mapping,
                range: learned.body,
                body: answer.body,
            }),
            Ok(_) | Err(_) => Reply::Other(answer),
        }
    }
}

/// Whether a part is the one that was asked for. One that is another says so without a mistake, or
/// names its own place wrongly; nobody can tell.
fn is_as_asked(question: &Question<'_>, answer: &OriginAnswer, learned: &Learned) -> bool {
    let Some(range) = question.range else { return true };
    answer.status != 206
        || RangeForm::Single(range).resolve(learned.mapping.length) == Resolved::Slice(learned.body)
}

/// The request that puts a question. The checksum mode is always asked for, so that the answer's
/// mapping can serve every later reader.
fn request_for(question: &Question<'_>) -> OriginRequest {
    let mut headers = HeaderMap::new();
    headers.insert(CHECKSUM_MODE, HeaderValue::from_static("ENABLED"));
    let range = question.range.map(range_value);
    let (condition, etag) = match question.condition {
        Condition::None => (IF_MATCH, None),
        Condition::IfChanged(etag) => (IF_NONE_MATCH, Some(etag)),
        Condition::IfSame(etag) => (IF_MATCH, Some(etag)),
    };
    let etag = etag.filter(|_| condition != IF_MATCH || !Mutation::ResumeUnmatched.is_planted());
    put(&mut headers, RANGE, range.as_deref());
    put(&mut headers, condition, etag);
    let method = if question.facts_only { Method::HEAD } else { Method::GET };
    object_request(method, question.subject.name, question.signer.clone(), headers)
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

fn range_value(range: SingleRange) -> String {
    match range {
        SingleRange::FromTo { first, last } => format!("bytes={first}-{last}"),
        SingleRange::From { first } => format!("bytes={first}-"),
        SingleRange::Last { length } => format!("bytes=-{length}"),
    }
}

fn is_read(request: &OriginRequest) -> bool {
    matches!(request.method, Method::GET | Method::HEAD)
        && matches!(request.body, RequestBody::Empty)
}

/// The same read again.
fn copy(request: &OriginRequest) -> OriginRequest {
    OriginRequest {
        method: request.method.clone(),
        bucket: request.bucket.clone(),
        key: request.key.clone(),
        path_raw: request.path_raw.clone(),
        query_raw: request.query_raw.clone(),
        signer: request.signer.clone(),
        headers: request.headers.clone(),
        body: RequestBody::Empty,
    }
}

fn is_good(answer: &OriginResult) -> bool {
    answer.as_ref().is_ok_and(|answer| !is_failure(answer.status))
}

/// Whether a status says that the origin does not do its work now.
pub fn is_failure(status: u16) -> bool {
    matches!(status, 500 | 502..=504)
}

fn verdict_on(error: &OriginError) -> Verdict {
    match error {
        OriginError::Unreachable { .. } | OriginError::Broken { .. } => Verdict::Ill,
        OriginError::TimedOut { .. } => Verdict::Silent,
        OriginError::BodyAborted
        | OriginError::Busy
        | OriginError::Credentials { .. }
        | OriginError::Resting { .. }
        | OriginError::Closed => Verdict::Neutral,
    }
}

fn silence(step: &'static str, waited: Duration) -> OriginError {
    OriginError::TimedOut { origin: "of this node".to_owned(), step, waited }
}
