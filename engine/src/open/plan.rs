//! How the home puts its question: the client's own range, rounded so that whole sectors come and
//! at most one block; a HEAD where only facts are missing; `If-None-Match` where a version is known.
//! The checksum mode is always asked for, so that the answer's mapping can serve every later reader.

use http::header::{HeaderName, HeaderValue, IF_NONE_MATCH, RANGE};
use http::{HeaderMap, Method};
use nilas_base::ByteRange;
use nilas_net::range::{RangeForm, SingleRange};

use crate::call::OpenWant;
use crate::identity::ObjectName;
use crate::mapping::{Asked, Mapping, StoreClass};
use crate::naming::{NameClass, name_class};
use crate::origin::{OriginRequest, RequestBody};
use crate::shard::Shard;

/// The most that the answer to a question may bring along into the cache; of a longer body the
/// first block is kept and the rest is fetched by those who want it.
pub const FIRST_BODY_BYTES_MAX: u64 = 8 << 20;

/// One question to the origin.
#[derive(Debug)]
pub struct Plan {
    /// Whether it is a HEAD.
    head: bool,
    /// The value of its Range header.
    range: Option<String>,
    if_none_match: Option<Box<str>>,
    /// The store of the object's class.
    pub class: StoreClass,
    /// Whether an error answer to it is one to the client's own request.
    pub is_as_asked: bool,
}

impl Plan {
    /// The question for a client's want. `known` is the mapping at hand, stale or partial.
    pub fn new(shard: &Shard, name: &ObjectName, want: OpenWant, known: Option<&Mapping>) -> Plan {
        let class = class_of(&name.key);
        let facts_only = !want.body || known.is_some_and(|known| is_facts_only(known, &want));
        let range = if facts_only {
            Some(None)
        } else {
            asked_range(want.range, shard.geometry.block_bytes, shard.settings.sector_bytes(class))
        };
        // A partial mapping is completed by a full answer, which a 304 would not be.
        let if_none_match = known
            .filter(|known| !want.checksums || known.is_complete())
            .map(|known| known.etag.clone());
        let head = facts_only || range.is_none();
        Plan { head, range: range.flatten(), if_none_match, class, is_as_asked: head != want.body }
    }

    /// How its answer is to be read.
    pub fn asked(&self) -> Asked {
        Asked { range: self.range.is_some(), head: self.head }
    }

    /// The request that asks it.
    pub fn request(&self, name: &ObjectName) -> OriginRequest {
        let mut headers = HeaderMap::new();
        headers.insert(CHECKSUM_MODE, HeaderValue::from_static("ENABLED"));
        for (header, value) in
            [(RANGE, self.range.as_deref()), (IF_NONE_MATCH, self.if_none_match.as_deref())]
        {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(header, value);
            }
        }
        let method = if self.head { Method::HEAD } else { Method::GET };
        object_request(method, name, headers)
    }
}

/// Asks for the origin's checksums.
pub const CHECKSUM_MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");

/// A request of the node's own for an object.
pub fn object_request(method: Method, name: &ObjectName, headers: HeaderMap) -> OriginRequest {
    OriginRequest {
        method,
        bucket: name.bucket.to_string(),
        key: Some(name.key.to_string()),
        path_raw: path_of(name),
        query_raw: String::new(),
        headers,
        body: RequestBody::Empty,
    }
}

fn path_of(name: &ObjectName) -> String {
    let mut path = b"/".to_vec();
    nilas_net::percent::encode_path(name.bucket.as_bytes(), &mut path);
    path.push(b'/');
    nilas_net::percent::encode_path(name.key.as_bytes(), &mut path);
    String::from_utf8(path).expect("what is percent-encoded is ASCII")
}

/// The store of a key's class.
pub fn class_of(key: &str) -> StoreClass {
    match name_class(key) {
        NameClass::Metadata => StoreClass::Metadata,
        NameClass::DataFile | NameClass::Plain => StoreClass::Data,
    }
}

/// Whether the bytes are likely at hand and only the whole object's checksums are missing.
fn is_facts_only(known: &Mapping, want: &OpenWant) -> bool {
    want.checksums && !known.is_complete()
}

/// The range to ask for: `Some(None)` for the whole object, `None` where only a HEAD can tell.
fn asked_range(form: RangeForm, block_bytes: u64, sector_bytes: u64) -> Option<Option<String>> {
    let single = match form {
        RangeForm::Absent => return Some(None),
        RangeForm::Single(single) => single,
        RangeForm::Other => return None,
    };
    let (start, end) = match single {
        SingleRange::Last { length } if length <= FIRST_BODY_BYTES_MAX => {
            // So much more that a sector's border lies at or before the first wanted byte.
            return Some(Some(format!("bytes=-{}", length + sector_bytes - 1)));
        }
        SingleRange::Last { .. } => return None,
        SingleRange::From { first } => (first, u64::MAX),
        SingleRange::FromTo { first, last } => (first, last.saturating_add(1)),
    };
    let block_end = (start / block_bytes).saturating_add(1).saturating_mul(block_bytes);
    let asked = ByteRange::new(start, end.min(block_end).max(start)).rounded_out(sector_bytes);
    Some(Some(format!("bytes={}-{}", asked.start, asked.end - 1)))
}
