//! Counts what passes to and from an origin: requests, answers, failures, bytes, time to the first
//! byte. Bodies are counted where they are read; nothing is buffered here.

use std::sync::Arc;

use nilas_base::Clock;

use super::meter::BodyMeter;
use super::{
    BoxFuture, Origin, OriginCounters, OriginOperation, OriginRequest, OriginResult, RequestBody,
};

/// An origin whose requests are counted.
pub struct Observed {
    origin: Arc<dyn Origin>,
    counters: Arc<OriginCounters>,
    clock: Clock,
}

impl Observed {
    /// `origin`, counted from zero.
    pub fn new(origin: Arc<dyn Origin>, clock: Clock) -> Observed {
        Observed { origin, counters: Arc::default(), clock }
    }
}

/// One request under way; its end, however it comes, is counted when this is dropped.
#[derive(Debug)]
struct AnswerMeter {
    counters: Arc<OriginCounters>,
    operation: OriginOperation,
}

impl AnswerMeter {
    fn begin(counters: &Arc<OriginCounters>, operation: OriginOperation) -> AnswerMeter {
        counters.begin(operation);
        AnswerMeter { counters: Arc::clone(counters), operation }
    }
}

impl BodyMeter for AnswerMeter {
    fn passed(&mut self, bytes: usize) {
        self.counters.received(self.operation, bytes);
    }

    fn failed(&mut self) {
        self.counters.failed(self.operation);
    }
}

impl Drop for AnswerMeter {
    fn drop(&mut self) {
        self.counters.finish();
    }
}

#[derive(Debug)]
struct RequestMeter {
    counters: Arc<OriginCounters>,
    operation: OriginOperation,
}

impl BodyMeter for RequestMeter {
    fn passed(&mut self, bytes: usize) {
        self.counters.sent(self.operation, bytes);
    }

    // What the client broke off is counted with the answer.
    fn failed(&mut self) {}
}

impl Origin for Observed {
    fn handle(self: Arc<Self>, mut request: OriginRequest) -> BoxFuture<'static, OriginResult> {
        let operation = OriginOperation::of(&request);
        let mut meter = AnswerMeter::begin(&self.counters, operation);
        if let RequestBody::Stream(body) = &mut request.body {
            body.meter(Box::new(RequestMeter { counters: Arc::clone(&self.counters), operation }));
        }
        Box::pin(async move {
            let asked = self.clock.now();
            let answer = Arc::clone(&self.origin).handle(request).await;
            let waited = self.clock.now().since(asked);
            match answer {
                Ok(mut answer) => {
                    self.counters.answered(operation, answer.status, waited);
                    answer.body.meter(Box::new(meter));
                    Ok(answer)
                }
                Err(error) => {
                    meter.failed();
                    Err(error)
                }
            }
        })
    }

    fn id(&self) -> [u8; 16] {
        self.origin.id()
    }

    fn describe(&self) -> String {
        self.origin.describe()
    }

    fn counters(&self) -> Option<Arc<OriginCounters>> {
        Some(Arc::clone(&self.counters))
    }

    fn probe(
        self: Arc<Self>,
        bucket: Option<String>,
    ) -> BoxFuture<'static, Result<String, String>> {
        Arc::clone(&self.origin).probe(bucket)
    }
}
