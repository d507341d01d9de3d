//! How the home puts its question: the client's own range, rounded so that whole sectors come and
//! at most one block; the first part of a whole object; a HEAD where only facts are missing;
//! `If-None-Match` where a version is known.

use http::header::HeaderName;
use http::{HeaderMap, Method};
use nilas_base::ByteRange;
use nilas_net::range::{RangeForm, SingleRange};

use crate::call::OpenWant;
use crate::identity::ObjectName;
use crate::mapping::{Mapping, StoreClass, Subject};
use crate::naming::{NameClass, name_class};
use crate::origin::{OriginRequest, RequestBody, Signer};
use crate::shard::Shard;
use crate::source::{Condition, Question};

/// The most that the answer to a question may bring along into the cache; of a longer body the
/// first block is kept and the rest is fetched by those who want it.
pub const FIRST_BODY_BYTES_MAX: u64 = 8 << 20;

/// One question to the sources.
#[derive(Debug)]
pub struct Plan {
    /// Whether only the head is asked for.
    head: bool,
    range: Option<SingleRange>,
    /// Whether the range is the node's own idea: an empty object has none.
    range_is_ours: bool,
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
        let range_is_ours = !facts_only && asks_for_first_part(want, class, known);
        let range = if range_is_ours {
            Some(Some(SingleRange::FromTo { first: 0, last: FIRST_BODY_BYTES_MAX - 1 }))
        } else if facts_only {
            Some(None)
        } else {
            let class = if want.tail_start.is_some() { StoreClass::Metadata } else { class };
            asked_range(want.range, shard.geometry.block_bytes, shard.settings.sector_bytes(class))
        };
        // A partial mapping is completed by a full answer, which a 304 would not be.
        let if_none_match = known
            .filter(|known| !want.checksums || known.is_complete())
            .map(|known| known.etag.clone());
        let head = facts_only || range.is_none();
        Plan {
            head,
            range: range.flatten(),
            range_is_ours,
            if_none_match,
            class,
            is_as_asked: head != want.body,
        }
    }

    /// The question for the facts of an object whose bytes are at hand; no answer to any reader.
    pub fn of_facts(name: &ObjectName) -> Plan {
        Plan {
            head: true,
            range: None,
            range_is_ours: false,
            if_none_match: None,
            class: class_of(&name.key),
            is_as_asked: false,
        }
    }

    /// The question that it asks.
    pub fn question<'a>(
        &'a self,
        subject: Subject<'a>,
        signer: &'a Signer,
        is_own: bool,
    ) -> Question<'a> {
        let condition = match &self.if_none_match {
            Some(etag) => Condition::IfChanged(etag),
            None => Condition::None,
        };
        let (facts_only, range) = (self.head, self.range);
        Question { subject, signer, facts_only, is_own, range, condition }
    }

    /// The plan without a range that was the node's own idea, where that is why it came to nothing.
    pub fn without_range(mut self, status: u16) -> Option<Plan> {
        if !self.range_is_ours || status != 416 {
            return None;
        }
        (self.range, self.range_is_ours) = (None, false);
        Some(self)
    }
}

/// Whether a whole object is first asked for its first part: of a large one the rest is fetched side
/// by side, and no answer is broken off. Where checksums are wanted too, one answer brings all.
fn asks_for_first_part(want: OpenWant, class: StoreClass, known: Option<&Mapping>) -> bool {
    want.range == RangeForm::Absent
        && !want.checksums
        && class == StoreClass::Data
        && known.is_none_or(|known| known.length > FIRST_BODY_BYTES_MAX)
}

/// Asks for the origin's checksums.
pub const CHECKSUM_MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");

/// A request of the node's own for an object.
pub fn object_request(
    method: Method,
    name: &ObjectName,
    signer: Signer,
    headers: HeaderMap,
) -> OriginRequest {
    OriginRequest {
        method,
        bucket: name.bucket.to_string(),
        key: Some(name.key.to_string()),
        path_raw: path_of(name),
        query_raw: String::new(),
        signer,
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
fn asked_range(
    form: RangeForm,
    block_bytes: u64,
    sector_bytes: u64,
) -> Option<Option<SingleRange>> {
    let single = match form {
        RangeForm::Absent => return Some(None),
        RangeForm::Single(single) => single,
        RangeForm::Other => return None,
    };
    let (start, end) = match single {
        SingleRange::Last { length } if length <= FIRST_BODY_BYTES_MAX => {
            // So much more that a sector's border lies at or before the first wanted byte.
            return Some(Some(SingleRange::Last { length: length + sector_bytes - 1 }));
        }
        SingleRange::Last { .. } => return None,
        SingleRange::From { first } => (first, u64::MAX),
        SingleRange::FromTo { first, last } => (first, last.saturating_add(1)),
    };
    let asked = first_question((start, end), block_bytes, sector_bytes);
    Some(Some(SingleRange::FromTo { first: asked.start, last: asked.end - 1 }))
}

/// What is asked for of an object of which nothing is known, of the bytes from the first until the second: whole
/// sectors of one block.
pub fn first_question((start, end): (u64, u64), block_bytes: u64, sector_bytes: u64) -> ByteRange {
    let block_end = (start / block_bytes).saturating_add(1).saturating_mul(block_bytes);
    ByteRange::new(start, end.min(block_end).max(start)).rounded_out(sector_bytes)
}
