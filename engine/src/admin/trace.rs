//! `GET /admin/trace?recorder=NUMBER`: what clients have read since that recorder asked last, as CSV. The first question
//! begins a recording, and one that is not asked for any more ends; `nilas trace record` is who asks.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::AdminState;
use crate::trace::{COLUMNS, UNFETCHED_TIME_MAX};

/// How many reads were lost since the last answer.
const LOST_HEADER: &str = "x-nilas-lost";

/// Answers with the reads.
pub(super) async fn answer(State(state): State<Arc<AdminState>>, uri: Uri) -> Response {
    let Some(node) = state.node.get() else { return super::route::starting() };
    let Some(recorder) = recorder(uri.query().unwrap_or_default()) else {
        let usage = "send /admin/trace?recorder=NUMBER, the same number each time\n";
        return (StatusCode::BAD_REQUEST, usage).into_response();
    };
    match node.tracer.fetch(recorder, &state.clock) {
        Ok(fetched) => {
            let (tracer, clock) = (node.tracer.clone(), state.clock.clone());
            tokio::spawn(async move {
                tokio::time::sleep(UNFETCHED_TIME_MAX).await;
                tracer.look(&clock);
            });
            let lost = fetched.lost.to_string();
            let headers = [(header::CONTENT_TYPE.as_str(), "text/csv"), (LOST_HEADER, &lost)];
            (headers, format!("{COLUMNS}\n{}", fetched.lines)).into_response()
        }
        Err(error) => (StatusCode::CONFLICT, format!("{error}\n")).into_response(),
    }
}

fn recorder(query: &str) -> Option<u64> {
    query.split('&').find_map(|part| part.strip_prefix("recorder="))?.parse().ok()
}
