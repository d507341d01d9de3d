//! Why a request was not done: an S3 error, which is an answer, or an exchange that broke.

use std::io;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use nilas_net::{Code, S3Error};

use crate::origin::{AnswerBody, OriginAnswer, OriginError, OriginResult};

/// Why not.
#[derive(Debug)]
pub(super) enum Failure {
    /// The answer is this error.
    Refused(S3Error),
    /// There is no answer.
    Broken(OriginError),
}

/// What an operation comes to.
pub(super) type Outcome<T> = Result<T, Failure>;

impl From<S3Error> for Failure {
    fn from(error: S3Error) -> Failure {
        Failure::Refused(error)
    }
}

impl From<OriginError> for Failure {
    fn from(error: OriginError) -> Failure {
        Failure::Broken(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => Code::AccessDenied,
            _ => Code::InternalError,
        };
        Failure::Refused(S3Error::because(code, format!("the origin's directory: {error}")))
    }
}

/// What this origin does not do; said, never passed over.
pub(super) fn not_implemented(what: &str) -> Failure {
    let message = format!("a local-directory origin does not implement {what}");
    Failure::Refused(S3Error::because(Code::NotImplemented, message))
}

/// An error with its default message.
pub(super) fn refused(code: Code) -> Failure {
    Failure::Refused(S3Error::new(code))
}

/// An error that says what to change.
pub(super) fn refused_because(code: Code, message: impl Into<String>) -> Failure {
    Failure::Refused(S3Error::because(code, message.into()))
}

/// Turns a refusal into the answer that carries it.
pub(super) fn settle(
    outcome: Outcome<OriginAnswer>,
    resource: &str,
    is_head: bool,
) -> OriginResult {
    match outcome {
        Ok(answer) => Ok(answer),
        Err(Failure::Broken(error)) => Err(error),
        Err(Failure::Refused(error)) => Ok(error_answer(&error, resource, is_head)),
    }
}

fn error_answer(error: &S3Error, resource: &str, is_head: bool) -> OriginAnswer {
    if error.status() == 304 {
        return OriginAnswer::empty(304, HeaderMap::new());
    }
    let mut xml = Vec::new();
    error.write_xml(resource, "local", &mut xml);
    let mut answer = xml_answer(error.status(), xml.into());
    if is_head {
        answer.body = AnswerBody::empty();
    }
    answer
}

/// An answer with an XML body.
pub(super) fn xml_answer(status: u16, xml: Bytes) -> OriginAnswer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(xml.len()));
    let length = Some(xml.len() as u64);
    OriginAnswer { status, headers, body: AnswerBody::whole(xml), length }
}
