//! The part of the minimal server that is the same on every runtime: objects in memory, the
//! parse of a request, the head of an answer.

use std::path::Path;

use bytes::Bytes;
use nilas_base::HashMap;

use crate::error::Result;
use crate::object::read_objects;

/// A longer request is refused.
pub(super) const REQUEST_BYTES_MAX: usize = 8 << 10;
/// A written head is shorter.
pub(super) const HEAD_BYTES_MAX: usize = 256;
const HEADERS_MAX: usize = 32;

/// Bodies by path.
#[derive(Clone, Debug)]
pub(super) struct Memory(HashMap<String, Bytes>);

/// What received bytes ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The request is not whole.
    More,
    /// A request of that many bytes for this body; without a body, for nothing we hold.
    Whole(usize, Option<Bytes>),
    /// No request at all.
    Nonsense,
}

impl Memory {
    /// Loads every object under `root`.
    pub(super) fn load(root: &Path) -> Result<Memory> {
        let objects = read_objects(root)?;
        let bodies =
            objects.into_iter().map(|object| (object.path(), Bytes::from_owner(object.bytes)));
        Ok(Memory(bodies.collect()))
    }

    /// The body at `path`.
    pub(super) fn body(&self, path: &str) -> Option<Bytes> {
        self.0.get(path).cloned()
    }

    /// The same objects with every body put through `change`.
    #[cfg(feature = "glommio")]
    pub(super) fn map_bodies(self, change: impl Fn(&Bytes) -> Bytes) -> Memory {
        Memory(self.0.into_iter().map(|(path, body)| (path, change(&body))).collect())
    }

    /// Parses the request at the start of `received`.
    pub(super) fn asked(&self, received: &[u8]) -> Asked {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(received) {
            Ok(httparse::Status::Complete(bytes)) => {
                Asked::Whole(bytes, request.path.and_then(|path| self.body(path)))
            }
            Ok(httparse::Status::Partial) if received.len() < REQUEST_BYTES_MAX => Asked::More,
            _ => Asked::Nonsense,
        }
    }
}

/// Writes the head that goes before `body`; `None` says that there is nothing.
pub(super) fn write_head(head: &mut arrayvec::ArrayVec<u8, HEAD_BYTES_MAX>, body: Option<&Bytes>) {
    use std::io::Write;
    let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
    let length = body.map_or(0, Bytes::len);
    head.clear();
    write!(
        head,
        "HTTP/1.1 {status}\r\nServer: nilas-perf\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {length}\r\n\r\n"
    )
    .expect("the longest head is shorter than its buffer");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::parse_answer_head;

    fn memory() -> Memory {
        Memory([("/perf/a".to_owned(), Bytes::from_static(b"body"))].into_iter().collect())
    }

    #[test]
    fn a_request_finds_its_body() {
        let request = b"GET /perf/a HTTP/1.1\r\nHost: x\r\n\r\n";
        let whole = Asked::Whole(request.len(), Some(Bytes::from_static(b"body")));
        assert_eq!(memory().asked(request), whole);
        assert_eq!(memory().asked(&request[..20]), Asked::More);
        assert_eq!(memory().asked(b"\0\r\n\r\n"), Asked::Nonsense);
        let other = b"GET /perf/b HTTP/1.1\r\n\r\n";
        assert_eq!(memory().asked(other), Asked::Whole(other.len(), None));
    }

    #[test]
    fn the_head_is_one_that_the_load_understands() {
        let mut head = arrayvec::ArrayVec::new();
        write_head(&mut head, Some(&Bytes::from_static(b"body")));
        let parsed = parse_answer_head(&head).expect("well formed").expect("whole");
        assert_eq!((parsed.status, parsed.body_bytes), (200, 4));
    }
}
