//! The ways in which clients write an object: in one request whose body is not signed, signed as a
//! whole, or sent in chunks; and in parts over several connections. All that a client would compute
//! beforehand is in the requests before the clock starts.

use std::net::SocketAddr;
use std::sync::Arc;

use nilas_base::{Clock, Rng, UnixMillis};
use nilas_net::aws_chunked::{AwsChunkedEncoder, encoded_length};
use nilas_net::checksum::{Algorithm, checksum};
use nilas_net::sigv4::{ChunkChain, PayloadHash, ToSign};

use super::origin::UPLOAD_ID;
use crate::error::Result;
use crate::object::BUCKET;
use crate::request::{Credential, sign_as};

/// Parts of an upload in parts, and the connections that carry them.
const PARTS: usize = 8;
const PART_CONNECTIONS: usize = 4;
const SEED: u64 = 0x6e69_6c61_7302;
const WORD_BYTES: usize = 8;

/// A way to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// The body's SHA-256 is in the head.
    Signed,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER` with CRC32.
    Trailer,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`.
    Chunks,
    /// Eight parts over four connections, unsigned.
    Parts,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Request line and headers.
    pub head: Vec<u8>,
    /// The body as it is sent.
    pub body: Body,
    /// What the answer's ETag must hold between its quotes; `None` where it says nothing of the body.
    pub etag: Option<String>,
}

/// A piece of a buffer that requests share.
#[derive(Clone, Debug)]
pub struct Body {
    bytes: Arc<[u8]>,
    from: usize,
    to: usize,
}

impl Body {
    /// All of `bytes`.
    pub fn whole(bytes: Vec<u8>) -> Body {
        Body { from: 0, to: bytes.len(), bytes: bytes.into() }
    }

    /// Seeded bytes to write.
    pub fn seeded(length: usize) -> Body {
        let mut rng = Rng::from_seed(SEED);
        let words = (0..length.div_ceil(WORD_BYTES)).flat_map(|_| rng.next_u64().to_le_bytes());
        Body::whole(words.take(length).collect())
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    fn part(&self, number: usize) -> Body {
        let part_bytes = self.bytes.len().div_ceil(PARTS);
        let end = |number: usize| (number * part_bytes).min(self.bytes.len());
        Body { bytes: Arc::clone(&self.bytes), from: end(number), to: end(number + 1) }
    }

    fn etag(&self) -> Option<String> {
        Some(checksum(Algorithm::Md5, self.as_slice()).hex())
    }

    fn sha256(&self) -> PayloadHash {
        let digest = checksum(Algorithm::Sha256, self.as_slice());
        PayloadHash::Sha256(digest.bytes().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl Form {
    /// Its name in tables and records.
    pub fn name(self) -> &'static str {
        match self {
            Form::Unsigned => "unsigned",
            Form::Signed => "signed",
            Form::Trailer => "trailer",
            Form::Chunks => "signed chunks",
            Form::Parts => "parts",
        }
    }

    /// Connections that it takes.
    pub fn connections(self) -> usize {
        if self == Form::Parts { PART_CONNECTIONS } else { 1 }
    }

    /// The requests that write `content` to `key` at the server at `address`, signed; a stage begins
    /// when the one before it is answered.
    pub fn prepare(
        self,
        address: SocketAddr,
        key: &str,
        content: &Body,
    ) -> Result<Vec<Vec<Prepared>>> {
        let writing = Writing::new(address, key);
        let one = |prepared| vec![vec![prepared]];
        match self {
            Form::Unsigned => writing.plain("PUT", "", content, PayloadHash::Unsigned).map(one),
            Form::Signed => writing.plain("PUT", "", content, content.sha256()).map(one),
            Form::Trailer => {
                let crc = checksum(Algorithm::Crc32, content.as_slice()).base64();
                let trailer = [("x-amz-checksum-crc32".to_owned(), crc)];
                writing.framed(content, PayloadHash::StreamingUnsignedTrailer, &trailer).map(one)
            }
            Form::Chunks => {
                let payload = PayloadHash::StreamingSigned { trailer: false };
                writing.framed(content, payload, &[]).map(one)
            }
            Form::Parts => writing.parts(content),
        }
    }
}

/// The head of a request that writes `length` bytes, unsigned, to `key`.
pub fn unsigned_head(address: SocketAddr, key: &str, length: u64) -> Result<Vec<u8>> {
    Ok(Writing::new(address, key).head(("PUT", ""), &[], length, PayloadHash::Unsigned)?.0)
}

struct Writing {
    host: String,
    path: String,
    wall: UnixMillis,
}

impl Writing {
    fn new(address: SocketAddr, key: &str) -> Writing {
        Writing {
            host: address.to_string(),
            path: format!("/{BUCKET}/{key}"),
            wall: Clock::system().wall(),
        }
    }

    fn plain(
        &self,
        method: &str,
        query: &str,
        body: &Body,
        payload: PayloadHash,
    ) -> Result<Prepared> {
        let length = body.as_slice().len() as u64;
        let (head, _) = self.head((method, query), &[], length, payload)?;
        let etag = if method == "PUT" { body.etag() } else { None };
        Ok(Prepared { head, body: body.clone(), etag })
    }

    fn framed(
        &self,
        content: &Body,
        payload: PayloadHash,
        trailer: &[(String, String)],
    ) -> Result<Prepared> {
        let bytes = content.as_slice();
        let widths: Vec<(&str, usize)> =
            trailer.iter().map(|(name, value)| (name.as_str(), value.len())).collect();
        let length = encoded_length(bytes.len() as u64, payload, &widths);
        let decoded_length = bytes.len().to_string();
        let mut headers = vec![
            ("content-encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", decoded_length.as_str()),
        ];
        headers.extend(trailer.iter().map(|(name, _)| ("x-amz-trailer", name.as_str())));
        let (head, chain) = self.head(("PUT", ""), &headers, length, payload)?;
        let is_signed = matches!(payload, PayloadHash::StreamingSigned { .. });
        let encoder = AwsChunkedEncoder::new(payload, is_signed.then_some(chain));
        let body = encoder.encode(bytes, trailer);
        Ok(Prepared { head, body: Body::whole(body), etag: None })
    }

    fn parts(&self, content: &Body) -> Result<Vec<Vec<Prepared>>> {
        let nothing = Body::whole(Vec::new());
        let create = self.plain("POST", "uploads=", &nothing, PayloadHash::empty())?;
        let mut parts = Vec::new();
        let mut list = String::from("<CompleteMultipartUpload>");
        for index in 0..PARTS {
            let number = index + 1;
            let query = format!("partNumber={number}&uploadId={UPLOAD_ID}");
            let body = content.part(index);
            let part = self.plain("PUT", &query, &body, PayloadHash::Unsigned)?;
            let etag = part.etag.as_deref().unwrap_or_default();
            let etag = format!("<ETag>\"{etag}\"</ETag>");
            list += &format!("<Part><PartNumber>{number}</PartNumber>{etag}</Part>");
            parts.push(part);
        }
        let list = Body::whole((list + "</CompleteMultipartUpload>").into_bytes());
        let query = format!("uploadId={UPLOAD_ID}");
        let complete = self.plain("POST", &query, &list, list.sha256())?;
        Ok(vec![vec![create], parts, vec![complete]])
    }

    fn head(
        &self,
        (method, query): (&str, &str),
        headers: &[(&str, &str)],
        length: u64,
        payload: PayloadHash,
    ) -> Result<(Vec<u8>, ChunkChain)> {
        let Writing { host, path, wall } = self;
        let raw: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let request =
            ToSign { method, host, path_raw: path, query_raw: query, headers: &raw, payload };
        let signed = sign_as(&Credential::for_measurement(), &request, *wall)?;
        let mark = if query.is_empty() { "" } else { "?" };
        let mut head = format!("{method} {path}{mark}{query} HTTP/1.1\r\nhost: {host}\r\n");
        head += &format!("content-length: {length}\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        for (name, value) in &signed.headers {
            head += &format!("{name}: {value}\r\n");
        }
        Ok(((head + "\r\n").into_bytes(), signed.chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_content_and_each_has_its_etag() {
        let content = Body::seeded(1003);
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let stages = Form::Parts.prepare(address, "key", &content).expect("can be signed");
        let sent: Vec<u8> =
            stages[1].iter().flat_map(|part| part.body.as_slice().to_vec()).collect();
        assert_eq!(sent, content.as_slice());
        let list = String::from_utf8(stages[2][0].body.as_slice().to_vec()).expect("XML");
        for part in &stages[1] {
            assert!(list.contains(part.etag.as_deref().expect("a part has one")));
        }
    }

    #[test]
    fn frames_are_as_long_as_the_head_says() {
        let content = Body::seeded(200_001);
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        for form in [Form::Trailer, Form::Chunks] {
            let prepared = &form.prepare(address, "key", &content).expect("can be signed")[0][0];
            let head = String::from_utf8(prepared.head.clone()).expect("ASCII");
            let line = format!("content-length: {}\r\n", prepared.body.as_slice().len());
            assert!(head.contains(&line), "{head}");
        }
    }
}
