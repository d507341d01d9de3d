//! A stated, simulated wait before each answer's first byte, so that a directory on this machine
//! behaves like a store that is far away. It adds nothing between bytes.

use std::sync::Arc;
use std::time::Duration;

use super::{BoxFuture, Origin, OriginCounters, OriginRequest, OriginResult};

/// An origin that answers later.
#[derive(Debug)]
pub struct Latency<O> {
    origin: Arc<O>,
    first_byte: Duration,
}

impl<O: Origin> Latency<O> {
    /// `origin`, each of whose answers waits for `first_byte` first.
    pub fn new(origin: Arc<O>, first_byte: Duration) -> Latency<O> {
        Latency { origin, first_byte }
    }
}

impl<O: Origin> Origin for Latency<O> {
    fn handle(self: Arc<Self>, request: OriginRequest) -> BoxFuture<'static, OriginResult> {
        Box::pin(async move {
            tokio::time::sleep(self.first_byte).await;
            Arc::clone(&self.origin).handle(request).await
        })
    }

    fn id(&self) -> [u8; 16] {
        self.origin.id()
    }

    fn describe(&self) -> String {
        let wait = self.first_byte;
        format!("{} (with a simulated first-byte latency of {wait:?})", self.origin.describe())
    }

    fn counters(&self) -> Option<Arc<OriginCounters>> {
        self.origin.counters()
    }

    fn probe(
        self: Arc<Self>,
        bucket: Option<String>,
    ) -> BoxFuture<'static, Result<String, String>> {
        Arc::clone(&self.origin).probe(bucket)
    }
}
