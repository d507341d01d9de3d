//! The door between shards and origins: a bounded queue of questions, each with its reply place.
//! [`OriginPort::ask`] works on any executor. Who serves the queue is free: tokio tasks
//! ([`OriginPort::start`]), or whoever holds the [`OriginQueue`] (the simulator).

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::place::{Place, Places, body_bytes};
use super::{Origin, OriginError, OriginRequest, OriginResult};

/// Requests that wait for a place among those in flight; one more is answered [`OriginError::Busy`].
pub const ORIGIN_QUEUE_MAX: usize = 4096;
/// Requests in flight at the origin, their answers' bodies included.
pub const ORIGIN_IN_FLIGHT_MAX: usize = 512;

/// Memory for the bodies of answers in flight, where nothing else is said.
pub const ORIGIN_BYTES_MAX: u64 = 64 << 20;

/// How long the first of those who wait may wait: if no place comes free in this time, the origin
/// stands still, and was not asked.
const QUEUE_TIME_MAX: Duration = Duration::from_secs(5);

/// The numbers of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortLimits {
    /// Requests that wait.
    pub queue_max: usize,
    /// Requests in flight.
    pub in_flight_max: usize,
    /// Memory for the bodies of their answers.
    pub bytes_max: u64,
}

impl Default for PortLimits {
    fn default() -> PortLimits {
        PortLimits {
            queue_max: ORIGIN_QUEUE_MAX,
            in_flight_max: ORIGIN_IN_FLIGHT_MAX,
            bytes_max: ORIGIN_BYTES_MAX,
        }
    }
}

/// Asks an origin; clones ask the same one.
#[derive(Clone, Debug)]
pub struct OriginPort {
    queue: mpsc::Sender<(OriginRequest, Replier)>,
    places: Places,
}

impl OriginPort {
    /// A port that `origin` answers, on `runtime`. It ends when its last clone is dropped.
    pub fn start(runtime: &Handle, origin: Arc<dyn Origin>, limits: PortLimits) -> OriginPort {
        let (mut port, queue) = OriginPort::pair(limits.queue_max);
        port.places = Places::new(limits);
        runtime.spawn(serve(queue, origin, port.places.clone()));
        port
    }

    /// A port and the queue behind it, for whoever serves it.
    pub fn pair(queue_max: usize) -> (OriginPort, OriginQueue) {
        let (sender, receiver) = mpsc::channel(queue_max);
        let places = Places::new(PortLimits { queue_max, ..PortLimits::default() });
        (OriginPort { queue: sender, places }, OriginQueue { questions: receiver })
    }

    /// Memory reserved for the bodies of answers in flight, and the most that may be.
    pub fn reserved_bytes(&self) -> (u64, u64) {
        self.places.reserved_bytes()
    }

    /// Asks, and waits for the answer's head. Dropping the call cancels the request, as a closed
    /// connection would: a write may or may not have happened.
    pub async fn ask(&self, request: OriginRequest) -> OriginResult {
        let (reply, answer) = oneshot::channel();
        self.queue.try_send((request, Replier { reply })).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => OriginError::Busy,
            mpsc::error::TrySendError::Closed(_) => OriginError::Closed,
        })?;
        answer.await.unwrap_or(Err(OriginError::Closed))
    }
}

/// The questions asked of a port.
#[derive(Debug)]
pub struct OriginQueue {
    questions: mpsc::Receiver<(OriginRequest, Replier)>,
}

impl OriginQueue {
    /// The next question; `None` when nobody can ask any more. Works on any executor.
    pub async fn next(&mut self) -> Option<(OriginRequest, Replier)> {
        self.questions.recv().await
    }
}

/// Where one answer goes.
#[derive(Debug)]
pub struct Replier {
    reply: oneshot::Sender<OriginResult>,
}

impl Replier {
    /// Answers. An answer that nobody waits for is dropped, and its body with it.
    pub fn reply(self, answer: OriginResult) {
        let _ = self.reply.send(answer);
    }

    /// Whether the asker has gone.
    pub fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Completes when the asker has gone.
    pub async fn gone(&mut self) {
        self.reply.closed().await;
    }
}

async fn serve(mut queue: OriginQueue, origin: Arc<dyn Origin>, places: Places) {
    while let Some((request, replier)) = queue.next().await {
        let mut replier = replier;
        tokio::select! {
            place = places.take(body_bytes(&request)) => {
                if !replier.is_gone() {
                    tokio::spawn(answer_one(Arc::clone(&origin), request, replier, place));
                }
            }
            () = replier.gone() => {}
            () = tokio::time::sleep(QUEUE_TIME_MAX) => replier.reply(Err(OriginError::Busy)),
        }
    }
}

async fn answer_one(
    origin: Arc<dyn Origin>,
    request: OriginRequest,
    mut replier: Replier,
    place: Place,
) {
    tokio::select! {
        answer = origin.handle(request) => replier.reply(answer.map(|mut answer| {
            answer.body.hold(place);
            answer
        })),
        () = replier.gone() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use nilas_base::Clock;

    use super::super::question::get;
    use super::super::{AnswerBody, BoxFuture, Latency, Observed, OriginAnswer, OriginOperation};
    use super::*;

    /// Answers each request with a body that ends when told to.
    #[derive(Debug)]
    struct Slow {
        bodies: mpsc::UnboundedSender<super::super::AnswerSender>,
    }

    impl Origin for Slow {
        fn handle(self: Arc<Self>, _: OriginRequest) -> BoxFuture<'static, OriginResult> {
            let (sender, body) = AnswerBody::channel();
            self.bodies.send(sender).expect("the test listens");
            let headers = http::HeaderMap::new();
            Box::pin(async move { Ok(OriginAnswer { status: 200, headers, body, length: None }) })
        }

        fn id(&self) -> [u8; 16] {
            [0; 16]
        }

        fn describe(&self) -> String {
            "a slow origin".to_owned()
        }

        fn probe(self: Arc<Self>, _: Option<String>) -> BoxFuture<'static, Result<String, String>> {
            Box::pin(async { Ok(String::new()) })
        }
    }

    fn slow() -> (Arc<Slow>, mpsc::UnboundedReceiver<super::super::AnswerSender>) {
        let (bodies, told) = mpsc::unbounded_channel();
        (Arc::new(Slow { bodies }), told)
    }

    fn request() -> OriginRequest {
        get("/lake/k").into_request()
    }

    /// Runs a future without any runtime, as the simulator does.
    fn poll_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_pair_is_served_without_a_runtime() {
        let (port, mut queue) = OriginPort::pair(1);
        let mut asked = pin!(port.ask(request()));
        assert!(poll_once(asked.as_mut()).is_pending());
        let Poll::Ready(Some((request, replier))) = poll_once(pin!(queue.next())) else {
            panic!("the question is there")
        };
        assert_eq!(request.path_raw, "/lake/k");
        replier.reply(Ok(OriginAnswer::empty(204, http::HeaderMap::new())));
        let Poll::Ready(Ok(answer)) = poll_once(asked.as_mut()) else { panic!("it was answered") };
        assert_eq!(answer.status, 204);
    }

    #[test]
    fn a_full_queue_is_busy_and_a_shut_one_is_closed() {
        let (port, queue) = OriginPort::pair(1);
        let mut first = pin!(port.ask(request()));
        assert!(poll_once(first.as_mut()).is_pending());
        let Poll::Ready(Err(error)) = poll_once(pin!(port.ask(request()))) else {
            panic!("there is no room")
        };
        assert_eq!(error, OriginError::Busy);
        drop(queue);
        assert!(matches!(poll_once(first.as_mut()), Poll::Ready(Err(OriginError::Closed))));
        let again = poll_once(pin!(port.ask(request())));
        assert!(matches!(again, Poll::Ready(Err(OriginError::Closed))));
    }

    #[tokio::test]
    async fn requests_in_flight_are_limited_until_their_bodies_end() {
        let (origin, mut bodies) = slow();
        let limits = PortLimits { queue_max: 8, in_flight_max: 1, ..PortLimits::default() };
        let port = OriginPort::start(&Handle::current(), origin, limits);
        let mut first = port.ask(request()).await.expect("an answer");
        let second = tokio::spawn({
            let port = port.clone();
            async move { port.ask(request()).await }
        });
        let body = bodies.recv().await.expect("the first is in flight");
        tokio::task::yield_now().await;
        assert!(bodies.try_recv().is_err(), "the second waits for the first one's body");
        body.send(Bytes::from_static(b"x")).await.expect("it is wanted");
        body.end().await;
        assert_eq!(first.body.next().await, Some(Ok(Bytes::from_static(b"x"))));
        assert_eq!(first.body.next().await, None);
        assert!(second.await.expect("it went through").is_ok());
    }

    #[tokio::test]
    async fn a_dropped_body_frees_its_place() {
        let (origin, mut bodies) = slow();
        let limits = PortLimits { queue_max: 8, in_flight_max: 1, ..PortLimits::default() };
        let port = OriginPort::start(&Handle::current(), origin, limits);
        for _ in 0..3 {
            drop(port.ask(request()).await.expect("an answer"));
            bodies.recv().await.expect("it was in flight").closed().await;
        }
    }

    #[tokio::test]
    async fn a_body_that_is_given_up_is_an_error() {
        let (sender, mut body) = AnswerBody::channel();
        sender.send(Bytes::from_static(b"half")).await.expect("it is wanted");
        drop(sender);
        assert_eq!(body.next().await, Some(Ok(Bytes::from_static(b"half"))));
        assert!(matches!(body.next().await, Some(Err(OriginError::Broken { .. }))));
        assert_eq!(body.next().await, None);
    }

    #[tokio::test]
    async fn the_wrappers_wait_and_count() {
        let (origin, mut bodies) = slow();
        let wait = std::time::Duration::from_millis(30);
        let slowed = Arc::new(Latency::new(origin, wait));
        let observed: Arc<dyn Origin> = Arc::new(Observed::new(slowed, Clock::system()));
        let before = tokio::time::Instant::now();
        let mut answer = Arc::clone(&observed).handle(request()).await.expect("an answer");
        assert!(before.elapsed() >= wait);
        let counters = observed.counters().expect("they are counted");
        assert_eq!(counters.snapshot().in_flight, 1);
        let body = bodies.recv().await.expect("it is in flight");
        body.send(Bytes::from_static(b"four")).await.expect("it is wanted");
        assert!(answer.body.next().await.is_some_and(|bytes| bytes.is_ok()));
        body.fail(OriginError::broken("on purpose")).await;
        assert!(answer.body.next().await.is_some_and(|bytes| bytes.is_err()));
        let snapshot = counters.snapshot();
        let reads = snapshot.of(OriginOperation::GetObject);
        assert_eq!((reads.requests, reads.bytes_received, reads.failures), (1, 4, 1));
        assert_eq!(reads.first_byte.iter().sum::<u64>(), 1);
        assert_eq!((snapshot.in_flight, snapshot.requests()), (0, 1));
        assert!(observed.describe().contains("30ms"), "{}", observed.describe());
    }
}
