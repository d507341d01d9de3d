//! One request, its query decoded, on its way through an operation. An operation names the
//! parameters and headers that it understands: what it does not is refused, never passed over.

use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, Method};
use nilas_base::Clock;
use nilas_net::{Code, query};

use super::bucket::Bucket;
use super::failure::{Outcome, not_implemented, refused, refused_because};

/// S3's limit on keys.
const KEY_BYTES_MAX: usize = 1024;

/// Parameters that change nothing: of presigned URLs, and the operation's name that some SDKs add.
const QUERY_IGNORED: [&str; 1] = ["x-id"];

/// `x-amz-` headers that change nothing here: signatures, body framing, and hints.
const HEADERS_IGNORED: [&str; 9] = [
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-amz-checksum-mode",
];

/// A request without its body.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) root: Arc<Path>,
    pub(super) clock: Clock,
    pub(super) method: Method,
    pub(super) bucket_name: String,
    pub(super) key: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
}

/// Decodes a query.
pub(super) fn parse_query(query_raw: &str) -> Outcome<Vec<(String, String)>> {
    let bad = |_| refused_because(Code::InvalidURI, "the query is not well percent-encoded");
    query::pairs(query_raw)
        .filter(|pair| !query::is_presign(pair.name))
        .map(|pair| {
            let name = query::decode(pair.name).map_err(bad)?.into_owned();
            Ok((name, pair.decoded().map_err(bad)?.into_owned()))
        })
        .collect()
}

impl Call {
    /// The bucket, which must be there.
    pub(super) fn bucket(&self) -> Outcome<Bucket> {
        self.bucket_named(&self.bucket_name)
    }

    /// A bucket, which must be there.
    pub(super) fn bucket_named(&self, name: &str) -> Outcome<Bucket> {
        Bucket::open(&self.root, name)?.ok_or_else(|| refused(Code::NoSuchBucket))
    }

    /// The value of a query parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a number.
    pub(super) fn number(&self, name: &'static str, default: u32) -> Outcome<u32> {
        match self.parameter(name) {
            None | Some("") => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                refused_because(Code::InvalidArgument, format!("{name} is not a number: {text:?}"))
            }),
        }
    }

    /// Refuses a query that has other parameters than these.
    pub(super) fn allow_parameters(&self, allowed: &[&str]) -> Outcome<()> {
        let known = |name: &str| allowed.contains(&name) || QUERY_IGNORED.contains(&name);
        match self.query.iter().find(|(name, _)| !known(name)) {
            Some((name, _)) => Err(not_implemented(&format!("the query parameter {name:?}"))),
            None => Ok(()),
        }
    }

    /// Refuses `x-amz-` headers other than these; a name that ends in `-` stands for all that
    /// begin so.
    pub(super) fn allow_headers(&self, allowed: &[&str]) -> Outcome<()> {
        let fits = |name: &str, known: &str| {
            name == known || (known.ends_with('-') && name.starts_with(known))
        };
        let unknown = self.headers.keys().map(|name| name.as_str()).find(|name| {
            name.starts_with("x-amz-")
                && !HEADERS_IGNORED.contains(name)
                && !allowed.iter().any(|known| fits(name, known))
        });
        match unknown {
            Some(name) => Err(not_implemented(&format!("the header {name}"))),
            None => Ok(()),
        }
    }

    /// A header's value as text; bytes that are no UTF-8 are refused.
    pub(super) fn header(&self, name: &str) -> Outcome<Option<&str>> {
        self.headers.get(name).map(|value| text_of(name, value.as_bytes())).transpose()
    }
}

/// A header's value as text.
pub(super) fn text_of<'a>(name: &str, value: &'a [u8]) -> Outcome<&'a str> {
    std::str::from_utf8(value).map_err(|_| {
        refused_because(Code::InvalidArgument, format!("the header {name} is not UTF-8"))
    })
}

/// Refuses a key that S3 would not take.
pub(super) fn check_key(key: &str) -> Outcome<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(refused(Code::KeyTooLongError));
    }
    Ok(())
}
