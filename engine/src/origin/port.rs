//! The door between shards and origins: a bounded queue of questions, each with its reply place.
//! [`OriginPort::ask`] works on any executor. Who serves the queue is free: tokio tasks
//! ([`OriginPort::start`]), or whoever holds the [`OriginQueue`] (the simulator).

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::{Origin, OriginError, OriginRequest, OriginResult};

/// Requests that wait for a place among those in flight; one more is answered [`OriginError::Busy`].
pub const ORIGIN_QUEUE_MAX: usize = 4096;
/// Requests in flight at the origin, their answers' bodies included.
pub const ORIGIN_IN_FLIGHT_MAX: usize = 512;

/// The numbers of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortLimits {
    /// Requests that wait.
    pub queue_max: usize,
    /// Requests in flight.
    pub in_flight_max: usize,
}

impl Default for PortLimits {
    fn default() -> PortLimits {
        PortLimits { queue_max: ORIGIN_QUEUE_MAX, in_flight_max: ORIGIN_IN_FLIGHT_MAX }
    }
}

/// Asks an origin; clones ask the same one.
#[derive(Clone, Debug)]
pub struct OriginPort {
    queue: mpsc::Sender<(OriginRequest, Replier)>,
}

impl OriginPort {
    /// A port that `origin` answers, on `runtime`. It ends when its last clone is dropped.
    pub fn start(runtime: &Handle, origin: Arc<dyn Origin>, limits: PortLimits) -> OriginPort {
        let (port, queue) = OriginPort::pair(limits.queue_max);
        runtime.spawn(serve(queue, origin, limits.in_flight_max));
        port
    }

    /// A port and the queue behind it, for whoever serves it.
    pub fn pair(queue_max: usize) -> (OriginPort, OriginQueue) {
        let (sender, receiver) = mpsc::channel(queue_max);
        (OriginPort { queue: sender }, OriginQueue { questions: receiver })
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

async fn serve(mut queue: OriginQueue, origin: Arc<dyn Origin>, in_flight_max: usize) {
    let places = Arc::new(Semaphore::new(in_flight_max));
    while let Some((request, replier)) = queue.next().await {
        let place =
            Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
        if !replier.is_gone() {
            tokio::spawn(answer_one(Arc::clone(&origin), request, replier, place));
        }
    }
}

async fn answer_one(
    origin: Arc<dyn Origin>,
    request: OriginRequest,
    mut replier: Replier,
    place: OwnedSemaphorePermit,
) {
    tokio::select! {
        answer = origin.handle(request) => replier.reply(answer.map(|mut answer| {
            answer.body.hold(place);
            answer
        })),
        () = replier.gone() => {}
    }
}
