//! A request as a test words it: whose key, which time, which payload, which framing. Signed as a
//! client would sign it, so that one thing at a time can be wrong.

use nilas_base::{Clock, UnixMillis};
use nilas_net::sigv4::{ChunkChain, PayloadHash, SigningIdentity, ToSign, sign};

use super::node::{ACCESS_KEY, SECRET_KEY};

/// What is signed and sent.
#[derive(Clone)]
pub struct Wording {
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The version as it is written.
    pub version: &'static str,
    /// The Host header.
    pub host: String,
    /// Signed where S3 wants it.
    pub headers: Vec<(String, String)>,
    /// Sent beside the others, and never signed.
    pub unsigned_headers: Vec<(String, String)>,
    /// What is said of the body.
    pub payload: PayloadHash,
    /// Whose.
    pub access_key: String,
    /// Its secret.
    pub secret: String,
    /// Its session's token.
    pub session_token: Option<String>,
    /// When.
    pub time: UnixMillis,
}

impl Wording {
    /// A right one, with an unsigned payload.
    pub fn new(method: &str, target: &str, host: &str) -> Wording {
        Wording {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1",
            host: host.to_owned(),
            headers: Vec::new(),
            unsigned_headers: Vec::new(),
            payload: PayloadHash::Unsigned,
            access_key: ACCESS_KEY.to_owned(),
            secret: SECRET_KEY.to_owned(),
            session_token: None,
            time: Clock::system().wall(),
        }
    }

    /// With a header more.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Wording {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With these headers more.
    #[must_use]
    pub fn headers(self, headers: &[(&str, &str)]) -> Wording {
        headers.iter().fold(self, |wording, (name, value)| wording.header(name, value))
    }

    /// With this payload.
    #[must_use]
    pub fn payload(mut self, payload: PayloadHash) -> Wording {
        self.payload = payload;
        self
    }

    /// With this version.
    #[must_use]
    pub fn version(mut self, version: &'static str) -> Wording {
        self.version = version;
        self
    }

    /// The head as it is sent.
    pub fn head(&self) -> Vec<u8> {
        self.head_and_chain().0
    }

    /// The head, and what signs the chunks of its body.
    pub fn head_and_chain(&self) -> (Vec<u8>, ChunkChain) {
        let (path_raw, query_raw) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let identity = SigningIdentity {
            access_key: &self.access_key,
            secret: &self.secret,
            session_token: self.session_token.as_deref(),
            region: "us-east-1",
        };
        let plain: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let request = ToSign {
            method: &self.method,
            host: &self.host,
            path_raw,
            query_raw,
            headers: &plain,
            payload: self.payload,
        };
        let signed = sign(&identity, &request, self.time).expect("a valid path");
        let mut head =
            format!("{} {} {}\r\nHost: {}\r\n", self.method, self.target, self.version, self.host);
        let added = signed.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let own = self.headers.iter().chain(&self.unsigned_headers);
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(added) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        (head.into_bytes(), signed.chain)
    }
}
