//! Answers on their way back: the head without what ends at this hop, the body in bounded parts.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use nilas_net::hop;

use super::pool::{Connection, Pool};
use crate::origin::{AnswerBody, AnswerSender, OriginAnswer, OriginError};

/// The answer, its body read from here on while it is wanted. A dropped body closes the connection.
pub(super) fn answer(
    response: Response<Incoming>,
    connection: Connection,
    pool: &Arc<Pool>,
    idle_time_max: Duration,
) -> OriginAnswer {
    let (parts, incoming) = response.into_parts();
    let headers = passed_back(&parts.headers);
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse().ok());
    let pool = Arc::clone(pool);
    let body = if incoming.is_end_stream() {
        tokio::spawn(async move { pool.give_back(connection).await });
        AnswerBody::empty()
    } else {
        let (sender, body) = AnswerBody::channel();
        let download = Download { incoming, connection, pool, idle_time_max };
        tokio::spawn(download.run(sender));
        body
    };
    OriginAnswer { status: parts.status.as_u16(), headers, body, length }
}

struct Download {
    incoming: Incoming,
    connection: Connection,
    pool: Arc<Pool>,
    idle_time_max: Duration,
}

impl Download {
    async fn run(mut self, sender: AnswerSender) {
        // A reader that knows the length leaves at the last byte: the connection is not to be closed for that.
        while !self.incoming.is_end_stream() {
            let frame = tokio::select! {
                () = sender.closed() => return,
                frame = tokio::time::timeout(self.idle_time_max, self.incoming.frame()) => frame,
            };
            match frame {
                Ok(Some(Ok(frame))) => {
                    // A trailer of the origin's has no place in an S3 answer.
                    let Ok(bytes) = frame.into_data() else { continue };
                    if sender.send(bytes).await.is_err() && !self.incoming.is_end_stream() {
                        return;
                    }
                }
                Ok(Some(Err(error))) => return sender.fail(self.broken(&error)).await,
                Err(_) => return sender.fail(self.silent()).await,
                Ok(None) => break,
            }
        }
        sender.end().await;
        self.pool.give_back(self.connection).await;
    }

    fn broken(&self, error: &hyper::Error) -> OriginError {
        let origin = &self.connection.endpoint;
        OriginError::broken(format!("{origin} broke off its answer: {error}"))
    }

    fn silent(&self) -> OriginError {
        OriginError::TimedOut {
            origin: self.connection.endpoint.to_string(),
            step: "sending its answer's body",
            waited: self.idle_time_max,
        }
    }
}

/// The headers that travel back.
fn passed_back(headers: &HeaderMap) -> HeaderMap {
    let connection: Vec<&[u8]> =
        headers.get_all("connection").iter().map(|value| value.as_bytes()).collect();
    let ends_here = |name: &str| {
        hop::is_hop_by_hop(name)
            || connection.iter().any(|value| hop::connection_names(value, name))
    };
    let mut passed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| !ends_here(name.as_str())) {
        passed.append(name.clone(), value.clone());
    }
    passed
}
