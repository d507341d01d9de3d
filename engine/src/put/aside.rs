//! Bytes of an upload that are kept aside as they pass, for the cache to have once the origin has
//! told what it made of them. Nothing ever waits for this: an upload that finds no room, is too long
//! or is none to be kept passes all the same. What becomes of them at the key's home is `written`.

use bytes::Bytes;
use nilas_net::operation::Operation;

use super::Upload;
use crate::buffers::SetAside;
use crate::identity::NameRef;
use crate::mapping::{StoreClass, strong_etag};
use crate::metrics::WriteAllocation;
use crate::open::{FIRST_BODY_BYTES_MAX, class_of};
use crate::origin::OriginAnswer;
use crate::request::Request;
use crate::shard::Shard;

/// The longest upload that is kept: what the answer to one question may bring along at most.
const ASIDE_BYTES_MAX: u64 = FIRST_BODY_BYTES_MAX;

/// Which uploads populate the cache as they pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAllocate {
    /// None.
    Off,
    /// Those of what engines plan with.
    Metadata,
    /// All.
    All,
}

/// The bytes of one upload so far.
pub struct Aside {
    bytes: Vec<u8>,
    length: usize,
    room: SetAside,
}

/// The bytes of a write that the origin has confirmed, and what it calls the version that they are.
#[derive(Debug)]
pub struct Brought {
    /// The ETag that the origin's answer named.
    pub etag: Box<str>,
    /// The whole object; their room is free when nobody has any of them any more.
    pub bytes: Bytes,
}

/// Bytes in the room that was set aside for them.
struct InRoom(Vec<u8>, #[expect(dead_code, reason = "held until it is dropped")] SetAside);

impl AsRef<[u8]> for InRoom {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl WriteAllocate {
    /// The one of a word of the configuration.
    pub fn named(word: &str) -> WriteAllocate {
        match word {
            "off" => WriteAllocate::Off,
            "all" => WriteAllocate::All,
            _ => WriteAllocate::Metadata,
        }
    }

    fn takes(self, key: &str) -> bool {
        match self {
            WriteAllocate::Off => false,
            WriteAllocate::Metadata => class_of(key) == StoreClass::Metadata,
            WriteAllocate::All => true,
        }
    }
}

impl Aside {
    /// Room for the bytes of an upload to `name`, if it is one to keep and there is room at once.
    pub fn of(
        shard: &Shard,
        request: &Request<'_>,
        name: NameRef<'_>,
        upload: Option<&Upload>,
    ) -> Option<Aside> {
        if !shard.settings.write_allocate.takes(name.key) || !is_plain(request) {
            return None;
        }
        let length = upload?.length().filter(|length| *length > 0)?;
        let room = match length <= ASIDE_BYTES_MAX {
            true => shard.buffers.try_set_aside(length),
            false => None,
        };
        let Some(room) = room else {
            shard.counters.write_allocation(WriteAllocation::NoRoom);
            return None;
        };
        let length = length as usize;
        Some(Aside { bytes: Vec::with_capacity(length), length, room })
    }

    /// Keeps the next bytes. More than were announced are not kept: they make the upload fail.
    pub(super) fn keep(&mut self, piece: &[u8]) {
        let room = self.length - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// What the write has brought, if the origin's answer says that it has them all and what it calls
    /// them. An answer with a body may take a success back.
    pub fn brought(self, answer: &OriginAnswer) -> Option<Brought> {
        let is_done = answer.status == 200 && answer.length == Some(0);
        let etag = strong_etag(&answer.headers).filter(|_| is_done)?.into();
        let is_whole = self.bytes.len() == self.length;
        is_whole.then(|| Brought { etag, bytes: Bytes::from_owner(InRoom(self.bytes, self.room)) })
    }
}

/// Whether the origin keeps the body as it came, and shows it to whoever asks in plain words.
fn is_plain(request: &Request<'_>) -> bool {
    request.classified.operation == Operation::PutObject
        && !request.sender.is_form
        && request.sender.grant.signer.identity().is_some()
        && !request.head.headers().any(|(name, _)| needs_more(name))
        && request.head.headers_named("content-encoding").all(is_framing)
}

/// A key that every reader must send too; a body that is added to what is there.
fn needs_more(name: &str) -> bool {
    const OWN_KEY: &str = "x-amz-server-side-encryption-customer-";
    name.get(..OWN_KEY.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_KEY))
        || name.eq_ignore_ascii_case("x-amz-write-offset-bytes")
}

/// Some origins undo an encoding for readers who do not ask for it.
fn is_framing(encoding: &[u8]) -> bool {
    nilas_net::hop::tokens(encoding).all(|token| token.eq_ignore_ascii_case(b"aws-chunked"))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::buffers::Buffers;

    fn aside(length: usize) -> Aside {
        let room = Buffers::new(1 << 20).try_set_aside(length as u64).expect("there is room");
        Aside { bytes: Vec::new(), length, room }
    }

    fn answer(status: u16, etag: Option<&'static str>) -> OriginAnswer {
        let mut headers = HeaderMap::new();
        headers.extend(etag.map(|etag| (http::header::ETAG, http::HeaderValue::from_static(etag))));
        OriginAnswer::empty(status, headers)
    }

    #[test]
    fn a_write_has_brought_something_only_where_the_origin_names_a_whole_version() {
        let brought = |bytes: &[u8], answer: &OriginAnswer| {
            let mut aside = aside(5);
            aside.keep(bytes);
            aside.brought(answer).map(|brought| (brought.etag, brought.bytes))
        };
        let named = answer(200, Some("\"a\""));
        assert_eq!(brought(b"bytes", &named), Some(("\"a\"".into(), Bytes::from("bytes"))));
        assert_eq!(brought(b"byte", &named), None, "some are missing");
        for (status, etag) in [
            (200, None),
            (200, Some("W/\"a\"")),
            (200, Some("")),
            (201, Some("\"a\"")),
            (204, Some("\"a\"")),
            (412, Some("\"a\"")),
            (500, Some("\"a\"")),
        ] {
            assert_eq!(brought(b"bytes", &answer(status, etag)), None, "{status} {etag:?}");
        }
        for length in [None, Some(9)] {
            let says_more = OriginAnswer { length, ..answer(200, Some("\"a\"")) };
            assert_eq!(brought(b"bytes", &says_more), None, "{length:?}");
        }
    }

    #[test]
    fn no_more_is_kept_than_was_announced() {
        let mut aside = aside(5);
        aside.keep(b"many more");
        assert_eq!(aside.bytes, b"many ");
    }

    #[test]
    fn only_the_framing_of_a_body_may_be_encoded() {
        assert!(is_framing(b"aws-chunked") && is_framing(b"AWS-Chunked,") && is_framing(b""));
        assert!(!is_framing(b"gzip") && !is_framing(b"aws-chunked,gzip"));
    }

    #[test]
    fn a_setting_takes_what_its_name_says() {
        let (metadata, data) = ("db/t/metadata/v1.metadata.json", "db/t/data/a.parquet");
        for (word, takes) in [("off", [false; 2]), ("metadata", [true, false]), ("all", [true; 2])]
        {
            assert_eq!([metadata, data].map(|key| WriteAllocate::named(word).takes(key)), takes);
        }
    }
}
