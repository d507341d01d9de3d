//! For tests: requests written as a client would write them, and answers read to their end.
//! Any origin can be asked; nothing here knows which.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nilas_net::percent::{Plus, decode};

use super::{
    BodyFraming, BodyPart, BodySender, BodyStream, Origin, OriginError, OriginRequest, PayloadHash,
    RequestBody,
};

/// A request in the making.
pub(super) struct Question {
    request: OriginRequest,
    parts: Option<(BodySender, Vec<BodyPart>)>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) length: Option<u64>,
    pub(super) body: Vec<u8>,
}

/// Starts a question: a method and a target, `/bucket/key?query`, percent-encoded.
pub(super) fn ask(method: &str, target: &str) -> Question {
    let (path_raw, query_raw) = target.split_once('?').unwrap_or((target, ""));
    let (bucket, key_raw) = path_raw[1..].split_once('/').unwrap_or((&path_raw[1..], ""));
    let mut key = Vec::new();
    decode(key_raw.as_bytes(), Plus::Literal, &mut key).expect("a test's target is well formed");
    let key = String::from_utf8(key).expect("a test's key is UTF-8");
    let request = OriginRequest {
        method: Method::from_bytes(method.as_bytes()).expect("a test's method is one"),
        bucket: bucket.to_owned(),
        key: (!key.is_empty()).then_some(key),
        path_raw: path_raw.to_owned(),
        query_raw: query_raw.to_owned(),
        signer: super::Signer::Node,
        headers: HeaderMap::new(),
        body: RequestBody::Empty,
    };
    Question { request, parts: None }
}

/// A GET.
pub(super) fn get(target: &str) -> Question {
    ask("GET", target)
}

/// A PUT with this body.
pub(super) fn put(target: &str, body: impl Into<Vec<u8>>) -> Question {
    ask("PUT", target).body(body)
}

impl Question {
    pub(super) fn header(mut self, name: &str, value: &str) -> Question {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a test's header has a name");
        let value = HeaderValue::from_str(value).expect("a test's header has a value");
        self.request.headers.append(name, value);
        self
    }

    /// A plain body of known length.
    pub(super) fn body(self, body: impl Into<Vec<u8>>) -> Question {
        let body = body.into();
        let length = Some(body.len() as u64);
        let framing = BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned };
        self.parts(length, framing, vec![BodyPart::Data(Bytes::from(body)), BodyPart::End])
    }

    /// A body step by step.
    pub(super) fn parts(
        mut self,
        length: Option<u64>,
        framing: BodyFraming,
        parts: Vec<BodyPart>,
    ) -> Question {
        let (sender, stream) = BodyStream::channel(length, framing);
        self.request.body = RequestBody::Stream(stream);
        self.parts = Some((sender, parts));
        self
    }

    /// The request itself.
    pub(super) fn into_request(self) -> OriginRequest {
        self.request
    }

    /// A body that the test feeds itself.
    pub(super) fn stream(&mut self, stream: BodyStream) {
        self.request.body = RequestBody::Stream(stream);
    }

    /// Asks and reads the head; the body is left.
    pub(super) async fn begin(self, origin: &Arc<dyn Origin>) -> super::OriginResult {
        if let Some((sender, parts)) = self.parts {
            tokio::spawn(async move {
                for part in parts {
                    // The origin may have answered already.
                    let _ = sender.send(part).await;
                }
            });
        }
        Arc::clone(origin).handle(self.request).await
    }

    /// Asks and reads all.
    pub(super) async fn tell(self, origin: &Arc<dyn Origin>) -> Result<Told, OriginError> {
        let answer = self.begin(origin).await?;
        let body = answer.body.collect(usize::MAX).await?;
        let (status, headers, length) = (answer.status, answer.headers, answer.length);
        Ok(Told { status, headers, length, body })
    }

    /// Asks, and expects this status.
    #[track_caller]
    pub(super) fn expect(
        self,
        origin: &Arc<dyn Origin>,
        status: u16,
    ) -> impl Future<Output = Told> + use<> {
        let what = format!("{} {}", self.request.method, self.request.path_raw);
        let place = std::panic::Location::caller();
        let origin = Arc::clone(origin);
        async move {
            let told = self.tell(&origin).await.expect("an answer");
            assert_eq!(told.status, status, "{what} at {place}: {}", told.text());
            told
        }
    }
}

impl Told {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("plain ASCII"))
    }

    /// The text of every element of this name.
    pub(super) fn elements(&self, name: &str) -> Vec<String> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let text = self.text();
        text.split(&open)
            .skip(1)
            .filter_map(|rest| rest.split_once(&close))
            .map(|(value, _)| value.to_owned())
            .collect()
    }

    /// The text of the one element of this name.
    pub(super) fn element(&self, name: &str) -> String {
        self.elements(name).into_iter().next().unwrap_or_default()
    }
}
