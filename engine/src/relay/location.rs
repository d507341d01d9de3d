//! Where an answer tells a client where an object is: the origin's own address is told as the node's,
//! in the `Location` header and in the element of that name, however the body's pieces part it.

use bytes::Bytes;
use memchr::memmem;
use nilas_net::operation::Operation;

use crate::request::Request;
use crate::shard::Shard;

const OPENING: &[u8] = b"<Location>";
const CLOSING: &[u8] = b"</Location>";
/// Bytes of an address that are held back until its end is seen: a key of 1,024 bytes, escaped.
const ADDRESS_BYTES_MAX: usize = 4096;

/// How the client reached the node, and how the node reaches the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses<'a> {
    /// The origin's host and port.
    origin: &'a str,
    /// The Host header that the client sent.
    host: &'a str,
    bucket: &'a str,
    /// Whether that host names the bucket.
    is_virtual_host: bool,
}

impl<'a> Addresses<'a> {
    /// Those of a request; `None` where the origin has no address that could be told.
    pub(super) fn of(shard: &'a Shard, request: &'a Request<'_>) -> Option<Addresses<'a>> {
        Some(Addresses {
            origin: shard.settings.origin_authority.as_deref()?,
            host: request.head.host(),
            bucket: request.target.bucket?,
            is_virtual_host: request.target.is_virtual_host,
        })
    }

    /// The node's address for one of the origin's; `None` of any other.
    pub(super) fn retold(&self, address: &str) -> Option<String> {
        let (_, rest) = address.split_once("://")?;
        let (authority, path) = rest.split_once('/')?;
        let key = match authority.strip_suffix(self.origin)? {
            "" => path.strip_prefix(self.bucket)?.strip_prefix('/')?,
            bucket if bucket.strip_suffix('.') == Some(self.bucket) => path,
            _ => return None,
        };
        let host = self.host;
        Some(match self.is_virtual_host {
            true => format!("http://{host}/{key}"),
            false => format!("http://{host}/{}/{key}", self.bucket),
        })
    }
}

/// Whether an operation's answer tells an address in its body.
pub(super) fn is_told_in_body(operation: Operation) -> bool {
    matches!(operation, Operation::CompleteMultipartUpload | Operation::PostObject)
}

/// A body on its way whose first address is told anew.
#[derive(Debug)]
pub(super) struct Retelling<'a> {
    addresses: Addresses<'a>,
    /// Seen, and held back: it may be part of the element.
    held: Vec<u8>,
    is_done: bool,
}

impl<'a> Retelling<'a> {
    pub(super) fn new(addresses: Addresses<'a>) -> Retelling<'a> {
        Retelling { addresses, held: Vec::new(), is_done: false }
    }

    /// What can be passed on now that these bytes have come.
    pub(super) fn pass(&mut self, piece: Bytes) -> Bytes {
        if self.is_done {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        let Some(start) = memmem::find(&self.held, OPENING).map(|at| at + OPENING.len()) else {
            let keep = suffix_that_begins(&self.held, OPENING);
            return self.release(self.held.len() - keep);
        };
        match memmem::find(&self.held[start..], CLOSING) {
            Some(length) => {
                self.is_done = true;
                let told = std::str::from_utf8(&self.held[start..start + length]).ok();
                if let Some(anew) = told.and_then(|told| self.addresses.retold(told)) {
                    self.held.splice(start..start + length, anew.into_bytes());
                }
                self.release(self.held.len())
            }
            None if self.held.len() - start > ADDRESS_BYTES_MAX => {
                self.is_done = true;
                self.release(self.held.len())
            }
            None => self.release(start - OPENING.len()),
        }
    }

    /// What was still held back, at the end.
    pub(super) fn end(&mut self) -> Bytes {
        self.release(self.held.len())
    }

    fn release(&mut self, count: usize) -> Bytes {
        self.held.drain(..count).collect::<Vec<u8>>().into()
    }
}

/// How many of the last bytes may be the beginning of `word`.
fn suffix_that_begins(bytes: &[u8], word: &[u8]) -> usize {
    (1..word.len()).rev().find(|&length| bytes.ends_with(&word[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATH_STYLE: Addresses<'static> = Addresses {
        origin: "origin:8333",
        host: "node:9000",
        bucket: "lake",
        is_virtual_host: false,
    };

    #[test]
    fn the_origins_address_becomes_the_nodes() {
        let virtual_host = Addresses { host: "lake.node", is_virtual_host: true, ..PATH_STYLE };
        for (addresses, told, anew) in [
            (PATH_STYLE, "http://origin:8333/lake/a%20b", Some("http://node:9000/lake/a%20b")),
            (PATH_STYLE, "https://lake.origin:8333/a", Some("http://node:9000/lake/a")),
            (virtual_host, "http://origin:8333/lake/a/b", Some("http://lake.node/a/b")),
            (PATH_STYLE, "http://elsewhere/lake/a", None),
            (PATH_STYLE, "http://evilorigin:8333/lake/a", None),
            (PATH_STYLE, "http://origin:8333/lakes/a", None),
            (PATH_STYLE, "/lake", None),
            (PATH_STYLE, "", None),
        ] {
            assert_eq!(addresses.retold(told).as_deref(), anew, "{told}");
        }
    }

    fn retold(pieces: &[&[u8]]) -> String {
        let mut retelling = Retelling::new(PATH_STYLE);
        let mut told = Vec::new();
        for piece in pieces {
            told.extend_from_slice(&retelling.pass(Bytes::copy_from_slice(piece)));
        }
        told.extend_from_slice(&retelling.end());
        String::from_utf8(told).expect("text")
    }

    #[test]
    fn blanks_that_keep_a_client_waiting_pass_at_once() {
        let mut retelling = Retelling::new(PATH_STYLE);
        assert_eq!(retelling.pass(Bytes::from_static(b"<?xml?>\n ")), "<?xml?>\n ");
        assert_eq!(retelling.pass(Bytes::from_static(b" <Lo")), " ");
        assert_eq!(retelling.pass(Bytes::from_static(b"g>")), "<Log>");
    }

    #[test]
    fn an_address_without_an_end_is_not_held_for_ever() {
        let long = [OPENING, &[b'x'; 3 * ADDRESS_BYTES_MAX]].concat();
        let pieces: Vec<&[u8]> = long.chunks(100).collect();
        assert_eq!(retold(&pieces).as_bytes(), long);
    }

    proptest! {
        #[test]
        fn however_it_is_parted_the_answer_is_the_same(cuts in proptest::collection::vec(0..130_usize, 0..6)) {
            let whole = "  <R><Location>http://origin:8333/lake/k</Location><Location>x</Location><ETag>e</ETag></R>";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> =
                cuts.windows(2).map(|pair| &whole.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(retold(&pieces), whole.replace("origin:8333", "node:9000"));
        }
    }
}
