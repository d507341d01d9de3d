//! The head that goes to the origin: the client's, byte for byte, but for what ends at this hop, and
//! signed anew.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use nilas_base::UnixMillis;
use nilas_net::sigv4::{self, ChunkChain, PayloadHash as Payload, SigningIdentity, ToSign};
use nilas_net::{hop, percent, query};
use tokio::sync::Notify;

use super::endpoint::Endpoint;
use crate::origin::{
    Addressing, BodyFraming, OriginError, OriginForm, OriginRequest, PayloadHash, RequestBody,
    SigningKey,
};

/// Where and how a request is sent on.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) endpoint: Endpoint,
    pub(super) method: Method,
    pub(super) target: Uri,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Told when the origin asks for the body, where the client waits for that.
    pub(super) awaited: Option<Arc<Notify>>,
}

/// How the body is sent on.
#[derive(Debug)]
pub(super) enum Framing {
    /// No body.
    None,
    /// As it is.
    Plain,
    /// In S3's own chunks: signed by a chain, or ended by a trailer alone.
    AwsChunked { chain: Option<Box<ChunkChain>>, payload: Payload },
    /// As the file of a form.
    Form(Box<FormEnds>),
}

/// What goes before and after a form's file.
#[derive(Debug)]
pub(super) struct FormEnds {
    pub(super) head: Bytes,
    pub(super) end: String,
    /// Bytes of the file and what follows it, where they are known.
    pub(super) rest_bytes: Option<u64>,
}

/// What signs.
#[derive(Debug)]
pub(super) struct Signing<'a> {
    pub(super) key: Option<&'a SigningKey>,
    pub(super) region: &'a str,
    pub(super) now: UnixMillis,
}

impl<'a> Signing<'a> {
    fn identity(&self, key: &'a SigningKey) -> SigningIdentity<'a> {
        SigningIdentity {
            access_key: &key.access_key,
            secret: &key.secret_key,
            session_token: key.session_token.as_deref(),
            region: self.region,
        }
    }
}

impl Head {
    /// The head for `request`; its body is left where it is.
    pub(super) fn new(
        endpoint: &Endpoint,
        addressing: Addressing,
        request: &OriginRequest,
        signing: &Signing<'_>,
    ) -> Result<Head, OriginError> {
        let (endpoint, path_raw) = endpoint.place(addressing, request);
        let path = legal(path_raw.as_bytes());
        let query = query(request);
        let mut headers = passed_on(&request.headers, request.signer.keeps_proof());
        let form = form_of(request);
        // A form is proved by its fields, and a proof in the head beside them is one too many.
        let key = signing.key.filter(|_| form.is_none());
        let payload = frame(request, key.is_some(), &mut headers)?;
        headers.insert(HOST, header(&endpoint.host_header())?);

        let chain = match key {
            Some(key) => {
                let to_sign =
                    Unsigned { method: &request.method, path: &path, query: &query, payload };
                Some(sign(key, signing, &to_sign, &mut headers)?)
            }
            None => None,
        };
        if key.is_none() && payload.is_streaming() {
            headers.insert("x-amz-content-sha256", header(&payload.header_value())?);
        }
        let framing = match (&request.body, form) {
            (RequestBody::Empty, _) => Framing::None,
            (RequestBody::Stream(_), Some(form)) => {
                Framing::Form(Box::new(form_ends(form, signing)))
            }
            (RequestBody::Stream(_), None) if !payload.is_streaming() => Framing::Plain,
            (RequestBody::Stream(_), None) => Framing::AwsChunked {
                chain: chain.filter(|_| matches!(payload, Payload::StreamingSigned { .. })),
                payload,
            },
        };
        let awaited = match &request.body {
            RequestBody::Stream(body) => body.awaited.clone(),
            RequestBody::Empty => None,
        };
        if awaited.is_some() {
            headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        let target = target(&path, &query)?;
        Ok(Head { endpoint, method: request.method.clone(), target, headers, framing, awaited })
    }
}

fn form_of(request: &OriginRequest) -> Option<&OriginForm> {
    match &request.body {
        RequestBody::Stream(body) => body.form(),
        RequestBody::Empty => None,
    }
}

fn form_ends(around: &OriginForm, signing: &Signing<'_>) -> FormEnds {
    let identity = signing.key.map(|key| signing.identity(key));
    let OriginForm { form, rest_bytes } = around;
    let head = form.head(identity.as_ref(), signing.now);
    FormEnds { head: Bytes::from(head), end: form.end(), rest_bytes: *rest_bytes }
}

/// The query as it was sent, without a proof that ends here.
fn query(request: &OriginRequest) -> String {
    if request.signer.keeps_proof() {
        return legal(request.query_raw.as_bytes());
    }
    let mut query = Vec::new();
    query::without_presign(&request.query_raw, &mut query);
    legal(&query)
}

/// The headers that travel on.
fn passed_on(headers: &HeaderMap, keeps_proof: bool) -> HeaderMap {
    let named_by_connection: Vec<&[u8]> = headers
        .get_all("connection")
        .iter()
        .flat_map(|value| hop::tokens(value.as_bytes()))
        .collect();
    let ends_here = |name: &HeaderName| {
        let name = name.as_str();
        hop::is_hop_by_hop(name)
            || (!keeps_proof && hop::is_client_auth(name))
            || hop::is_body_framing(name)
            || name == HOST.as_str()
            || name == CONTENT_LENGTH.as_str()
            || named_by_connection.iter().any(|token| token.eq_ignore_ascii_case(name.as_bytes()))
    };
    let kept = headers.iter().filter(|(name, _)| !ends_here(name));
    let mut passed = HeaderMap::with_capacity(headers.len() + 4);
    kept.for_each(|(name, value)| {
        passed.append(name.clone(), value.clone());
    });
    passed
}

/// Writes the headers that describe the body, all but its length as it is sent, and gives what is to
/// be signed for it.
fn frame(
    request: &OriginRequest,
    is_signed: bool,
    headers: &mut HeaderMap,
) -> Result<Payload, OriginError> {
    let RequestBody::Stream(body) = &request.body else {
        if matches!(request.method, Method::PUT | Method::POST) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        }
        return Ok(Payload::empty());
    };
    let payload = match &body.framing {
        BodyFraming::Plain { payload_sha256: PayloadHash::Sha256(digest) } => {
            Payload::Sha256(*digest)
        }
        BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned } => Payload::Unsigned,
        BodyFraming::AwsChunked { signed: true, trailer_names } if is_signed => {
            Payload::StreamingSigned { trailer: !trailer_names.is_empty() }
        }
        BodyFraming::AwsChunked { trailer_names, .. } if !trailer_names.is_empty() => {
            Payload::StreamingUnsignedTrailer
        }
        BodyFraming::Form(around) => {
            headers.insert(CONTENT_TYPE, header(&around.form.content_type())?);
            // Of the client's form, and held against it.
            headers.remove("content-md5");
            Payload::Unsigned
        }
        // Neither signatures nor a trailer: nothing is left for the chunks to carry.
        BodyFraming::AwsChunked { .. } => Payload::Unsigned,
    };
    if let (true, BodyFraming::AwsChunked { trailer_names, .. }) =
        (payload.is_streaming(), &body.framing)
    {
        frame_aws_chunked(body.length, trailer_names, headers)?;
    } else {
        frame_plain(headers)?;
    }
    Ok(payload)
}

fn frame_plain(headers: &mut HeaderMap) -> Result<(), OriginError> {
    if let Some(encoding) = headers.remove(CONTENT_ENCODING)
        && let Ok(encoding) = encoding.to_str()
        && let Some(kept) = hop::content_encoding_at_rest(encoding)
    {
        headers.insert(CONTENT_ENCODING, header(&kept)?);
    }
    Ok(())
}

/// `Content-Encoding` stays what the client said: some origins keep an `aws-chunked` in it with the object.
fn frame_aws_chunked(
    length: Option<u64>,
    trailer_names: &[String],
    headers: &mut HeaderMap,
) -> Result<(), OriginError> {
    if let Some(length) = length {
        headers.insert("x-amz-decoded-content-length", HeaderValue::from(length));
    }
    if !trailer_names.is_empty() {
        headers.insert("x-amz-trailer", header(&trailer_names.join(","))?);
    }
    Ok(())
}

struct Unsigned<'a> {
    method: &'a Method,
    path: &'a str,
    query: &'a str,
    payload: Payload,
}

fn sign<'a>(
    key: &'a SigningKey,
    signing: &Signing<'a>,
    request: &Unsigned<'_>,
    headers: &mut HeaderMap,
) -> Result<Box<ChunkChain>, OriginError> {
    let identity = signing.identity(key);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let pairs: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let to_sign = ToSign {
        method: request.method.as_str(),
        host,
        path_raw: request.path,
        query_raw: request.query,
        headers: &pairs,
        payload: request.payload,
    };
    let signed = sigv4::sign(&identity, &to_sign, signing.now)
        .map_err(|error| OriginError::broken(format!("the request cannot be signed: {error}")))?;
    for (name, value) in signed.headers {
        let mut value = header(&value)?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(Box::new(signed.chain))
}

/// As it is, but for bytes that no HTTP client may send.
fn legal(raw: &[u8]) -> String {
    let mut legal = Vec::with_capacity(raw.len());
    percent::escape_illegal(raw, &mut legal);
    String::from_utf8(legal).expect("what is illegal has been escaped, the rest is ASCII")
}

fn target(path: &str, query: &str) -> Result<Uri, OriginError> {
    let text = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    text.parse()
        .map_err(|error| OriginError::broken(format!("{path:?} is no request target: {error}")))
}

fn header(text: &str) -> Result<HeaderValue, OriginError> {
    HeaderValue::from_str(text)
        .map_err(|_| OriginError::broken("a header to the origin would hold a control character"))
}
