//! Whether the origin can be reached, as readiness tells it. Nobody waits for the origin here: a
//! page tells the last answer, and where that is old, a probe is started behind it. Where nobody
//! asks, nothing is sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nilas_base::{Clock, Monotonic};
use serde_json::{Value, json};

use crate::origin::Origin;

/// An answer older than this is asked for again.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(15);
/// How long a probe may take.
const PROBE_TIME_MAX: Duration = Duration::from_secs(5);

/// The last answer, and whether the next is on its way.
#[derive(Clone)]
pub(super) struct Reachability {
    clock: Clock,
    last: Arc<Mutex<Last>>,
}

#[derive(Default)]
struct Last {
    answer: Option<(Monotonic, Result<String, String>)>,
    is_asking: bool,
}

impl Reachability {
    pub(super) fn new(clock: Clock) -> Reachability {
        Reachability { clock, last: Arc::default() }
    }

    /// What is known now; starts a probe where that is old.
    pub(super) fn tell(&self, origin: &Arc<dyn Origin>) -> Value {
        let now = self.clock.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let age = last.answer.as_ref().map(|(when, _)| now.since(*when));
        if !last.is_asking && age.is_none_or(|age| age > ANSWER_AGE_MAX) {
            last.is_asking = true;
            tokio::spawn(self.clone().ask(Arc::clone(origin)));
        }
        let name = origin.describe();
        match (&last.answer, age) {
            (Some((_, answer)), Some(age)) => json!({
                "name": name,
                "reachable": answer.is_ok(),
                "detail": answer.as_ref().unwrap_or_else(|problem| problem),
                "age_seconds": age.as_secs(),
            }),
            _ => json!({"name": name, "reachable": null, "detail": "not asked yet"}),
        }
    }

    async fn ask(self, origin: Arc<dyn Origin>) {
        let answer = tokio::time::timeout(PROBE_TIME_MAX, origin.probe(None))
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", PROBE_TIME_MAX.as_secs())));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Last { answer: Some((self.clock.now(), answer)), is_asking: false };
    }
}
