//! GetObject and HeadObject: conditions, ranges, response overrides, checksums on request.
//! A malformed or a multiple range is no range, as on S3: 200 and the whole object.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nilas_base::{ByteRange, UnixMillis};
use nilas_net::date::{UnixSeconds, http_date};
use nilas_net::range::{RangeForm, Resolved, SingleRange, parse_range};
use nilas_net::{Code, S3Error};

use super::call::{Call, check_key};
use super::condition::{Conditions, Verdict, names};
use super::failure::{Failure, Outcome, not_implemented, refused};
use super::file_body::{blocking, read_exactly, stream};
use super::object::StoredObject;
use crate::origin::{AnswerBody, BODY_PART_BYTES_MAX, OriginAnswer};

/// Query parameters of reads and the headers that they stand in for.
const OVERRIDES: [(&str, &str); 6] = [
    ("response-cache-control", "cache-control"),
    ("response-content-disposition", "content-disposition"),
    ("response-content-encoding", "content-encoding"),
    ("response-content-language", "content-language"),
    ("response-content-type", "content-type"),
    ("response-expires", "expires"),
];

/// What a read without a content type in its sidecar gets, as on S3.
const CONTENT_TYPE_DEFAULT: &str = "binary/octet-stream";

/// Answers a GET or a HEAD of an object.
pub(super) async fn read(call: Call) -> Outcome<OriginAnswer> {
    if call.parameter("partNumber").is_some() {
        return Err(not_implemented("reads by partNumber"));
    }
    let mut allowed = OVERRIDES.map(|(parameter, _)| parameter).to_vec();
    allowed.push("partNumber");
    call.allow_parameters(&allowed)?;
    call.allow_headers(&[])?;
    let planned = blocking(move || plan(&call)).await?;
    Ok(match planned {
        Planned::Answer(answer) => answer,
        Planned::Stream { head, object, range } => {
            let body = stream(Arc::new(object.file), range);
            OriginAnswer { status: head.status, headers: head.headers, body, length: head.length }
        }
    })
}

enum Planned {
    Answer(OriginAnswer),
    Stream { head: OriginAnswer, object: Box<StoredObject>, range: ByteRange },
}

fn plan(call: &Call) -> Outcome<Planned> {
    let bucket = call.bucket()?;
    check_key(&call.key)?;
    let object = StoredObject::open(&bucket, &call.key)?.ok_or_else(|| {
        Failure::Refused(S3Error::new(Code::NoSuchKey).with("Key", call.key.clone()))
    })?;
    match Conditions::of(&call.headers, "").verdict(&object.sidecar.etag, object.modified) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            let headers = validators(&object)?;
            return Ok(Planned::Answer(OriginAnswer::empty(304, headers)));
        }
        Verdict::Failed(condition) => {
            let error = S3Error::new(Code::PreconditionFailed).with("Condition", condition);
            return Err(Failure::Refused(error));
        }
    }
    match wanted(call, &object) {
        Resolved::Slice(range) => answer(call, object, Some(range)),
        Resolved::Whole | Resolved::Relay => answer(call, object, None),
        Resolved::Unsatisfiable => unsatisfiable(call, &object).map(Planned::Answer),
    }
}

/// The range of a read, with S3's answer where net's cache would have to ask.
fn wanted(call: &Call, object: &StoredObject) -> Resolved {
    let Some(range) = call.headers.get(RANGE) else { return Resolved::Whole };
    if let Some(tag) = call.headers.get("if-range")
        && !names(&String::from_utf8_lossy(tag.as_bytes()), &object.sidecar.etag)
    {
        return Resolved::Whole;
    }
    match parse_range(range.as_bytes()) {
        RangeForm::Single(SingleRange::Last { length: 0 }) => Resolved::Unsatisfiable,
        RangeForm::Single(_) if object.bytes == 0 => Resolved::Unsatisfiable,
        form => form.resolve(object.bytes),
    }
}

fn unsatisfiable(call: &Call, object: &StoredObject) -> Outcome<OriginAnswer> {
    let resource = format!("/{}/{}", call.bucket_name, call.key);
    let is_head = call.method == Method::HEAD;
    let refusal = super::failure::settle(Err(refused(Code::InvalidRange)), &resource, is_head);
    let mut answer = refusal?;
    let range = format!("bytes */{}", object.bytes);
    answer.headers.insert(CONTENT_RANGE, value_of(&range)?);
    Ok(answer)
}

fn answer(call: &Call, object: StoredObject, part: Option<ByteRange>) -> Outcome<Planned> {
    let mut headers = describe(call, &object, part.is_none())?;
    let range = part.unwrap_or(ByteRange::new(0, object.bytes));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.len()));
    if part.is_some() {
        let text = format!("bytes {}-{}/{}", range.start, range.end - 1, object.bytes);
        headers.insert(CONTENT_RANGE, value_of(&text)?);
    }
    let status = if part.is_some() { 206 } else { 200 };
    let mut head = OriginAnswer::empty(status, headers);
    head.length = Some(range.len());
    if call.method == Method::HEAD {
        return Ok(Planned::Answer(head));
    }
    if range.len() > BODY_PART_BYTES_MAX as u64 {
        return Ok(Planned::Stream { head, object: Box::new(object), range });
    }
    head.body = AnswerBody::whole(Bytes::from(read_exactly(&object.file, range)?));
    Ok(Planned::Answer(head))
}

fn describe(call: &Call, object: &StoredObject, is_whole: bool) -> Outcome<HeaderMap> {
    let mut headers = validators(object)?;
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE_DEFAULT));
    for (name, value) in &object.sidecar.headers {
        headers.insert(name_of(name)?, value_of(value)?);
    }
    for (name, value) in &object.sidecar.metadata {
        headers.insert(name_of(&format!("x-amz-meta-{name}"))?, value_of(value)?);
    }
    for (parameter, name) in OVERRIDES {
        if let Some(value) = call.parameter(parameter) {
            headers.insert(name_of(name)?, value_of(value)?);
        }
    }
    if is_whole && asks_for_checksums(call) {
        insert_checksums(object, &mut headers)?;
    }
    Ok(headers)
}

fn asks_for_checksums(call: &Call) -> bool {
    let mode = call.headers.get("x-amz-checksum-mode");
    mode.is_some_and(|mode| mode.as_bytes().eq_ignore_ascii_case(b"enabled"))
}

fn insert_checksums(object: &StoredObject, headers: &mut HeaderMap) -> Outcome<()> {
    for (name, value) in &object.sidecar.checksums {
        headers.insert(name_of(name)?, value_of(value)?);
    }
    if let Some(kind) = &object.sidecar.checksum_type {
        headers.insert("x-amz-checksum-type", value_of(kind)?);
    }
    Ok(())
}

fn validators(object: &StoredObject) -> Outcome<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(ETAG, quoted(&object.sidecar.etag)?);
    headers.insert(LAST_MODIFIED, date_value(object.modified));
    Ok(headers)
}

/// An ETag as its header's value.
pub(super) fn quoted(etag: &str) -> Outcome<HeaderValue> {
    value_of(&format!("\"{etag}\""))
}

fn date_value(time: UnixMillis) -> HeaderValue {
    let date = http_date(UnixSeconds::from(time));
    HeaderValue::from_bytes(&date).expect("a date is plain ASCII")
}

/// A header's value; only what a header can hold was stored, so that others mean a damaged sidecar.
pub(super) fn value_of(text: &str) -> Outcome<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| damaged(text))
}

fn name_of(text: &str) -> Outcome<HeaderName> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| damaged(text))
}

fn damaged(text: &str) -> Failure {
    let message = format!("no header can hold {text:?}");
    super::failure::refused_because(Code::InvalidArgument, message)
}
