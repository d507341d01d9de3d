//! Listings at the origin: one page, enough for the few keys of a run.

use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use nilas_engine::origin::{AnswerBody, OriginAnswer, OriginRequest, Replier};
use nilas_net::percent::{Plus, decode};

use super::SimulatedOrigin;
use crate::key::KeyId;

impl SimulatedOrigin {
    pub(super) async fn list(self: &Rc<Self>, request: &OriginRequest, replier: Replier) {
        self.delay().await;
        if let Some(failure) = self.failure() {
            return replier.reply(failure);
        }
        let page = self.page(&prefix(&request.query_raw));
        self.delay().await;
        let length = page.len() as u64;
        let mut headers = HeaderMap::new();
        headers.insert("content-length", HeaderValue::from(length));
        let body = AnswerBody::whole(Bytes::from(page));
        replier.reply(Ok(OriginAnswer { status: 200, headers, body, length: Some(length) }));
    }

    fn page(&self, prefix: &str) -> String {
        let history = self.history.borrow();
        let keys = history.keys.iter().enumerate();
        let present = keys.filter(|(number, key)| {
            key.name.starts_with(prefix) && history.current(KeyId(*number)).is_some()
        });
        let entries: String = present
            .map(|(_, key)| format!("<Contents><Key>{}</Key></Contents>", escaped(&key.name)))
            .collect();
        format!("<?xml version=\"1.0\"?><ListBucketResult>{entries}</ListBucketResult>")
    }
}

fn prefix(query: &str) -> String {
    let raw = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or("");
    let mut decoded = Vec::new();
    decode(raw.as_bytes(), Plus::Literal, &mut decoded).expect("the node encodes its queries");
    String::from_utf8(decoded).expect("keys are UTF-8")
}

fn escaped(name: &str) -> String {
    name.replace('&', "&amp;").replace('<', "&lt;")
}
