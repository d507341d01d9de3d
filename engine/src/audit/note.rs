//! Which requests leave a record: those that were refused, by the node or by the origin, and those
//! that look at or change what is not an object, whatever became of them. Nothing is built for any
//! other.

use std::cell::{Cell, RefCell};

use http::HeaderValue;
use nilas_net::S3Error;
use nilas_net::head::RequestHead;
use nilas_net::operation::classify;
use nilas_net::sigv4::claimed_access_key;
use nilas_net::target::Target;

use super::{Outcome, Record};
use crate::access::is_administrative;
use crate::client::Client;
use crate::origin::OriginAnswer;
use crate::request::{Request, RequestId};
use crate::shard::Shard;

/// What a story notes of its request on the way.
#[derive(Debug, Default)]
pub struct Notes {
    /// The status of the answer; zero while there is none.
    status: Cell<u16>,
    /// The code of an error of the node's own.
    code: Cell<&'static str>,
    /// The access key in a request's body.
    access_key: RefCell<String>,
    /// The id that the origin gave.
    origin_id: RefCell<Option<HeaderValue>>,
}

impl Notes {
    /// An answer has this status.
    pub fn status(&self, status: u16) {
        self.status.set(status);
    }

    /// An answer of the node's own has this code.
    pub fn code(&self, error: &S3Error) {
        self.code.set(error.code.name());
    }

    /// A form claims this access key.
    pub fn access_key(&self, access_key: &str) {
        access_key.clone_into(&mut self.access_key.borrow_mut());
    }

    /// The origin's answer is passed on, with its id.
    pub fn origin_answer(&self, answer: &OriginAnswer) {
        if let Some(id) = answer.headers.get("x-amz-request-id") {
            self.origin_id.replace(Some(id.clone()));
        }
    }
}

/// Records a request that was refused on its head alone.
pub fn note_refused(
    shard: &Shard,
    client: &Client,
    (head, target): (&RequestHead<'_>, Option<&Target<'_>>),
    error: &S3Error,
    id: RequestId,
) {
    if !shard.audit.is_on() {
        return;
    }
    let (bucket, key) = target.map_or((None, None), |target| (target.bucket, target.key));
    let operation = classify(head, bucket.is_some(), key.is_some()).operation;
    let record = Record::new(operation.name(), head.method().name(), Outcome::Refused)
        .ids(&id.text(), "")
        .from(client.peer_text(), &claimed_access_key(head).unwrap_or_default())
        .about(bucket, key)
        .answered(error.status(), error.code.name());
    shard.audit.write(record);
}

/// Records a request that was admitted, if it is of the kind, once it is over.
pub fn note_answered(shard: &Shard, client: &Client, request: &Request<'_>) {
    if !shard.audit.is_on() {
        return;
    }
    let Request { head, classified, target, notes, .. } = request;
    let (status, operation) = (notes.status.get(), classified.operation);
    let outcome = Outcome::of(status);
    if outcome != Outcome::Refused && !is_administrative(head, operation) {
        return;
    }
    let origin_id = notes.origin_id.borrow();
    let origin_id = origin_id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    let record = Record::new(operation.name(), head.method().name(), outcome)
        .ids(&request.id.text(), origin_id)
        .from(client.peer_text(), &access_key(request))
        .about(target.bucket, target.key)
        .answered(status, notes.code.get());
    shard.audit.write(record);
}

fn access_key(request: &Request<'_>) -> String {
    let in_body = request.notes.access_key.borrow();
    match (request.sender.grant.access_key.as_str(), in_body.as_str()) {
        ("", "") => claimed_access_key(request.head).unwrap_or_default(),
        ("", in_body) => in_body.to_owned(),
        (proved, _) => proved.to_owned(),
    }
}
