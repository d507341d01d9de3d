//! Signs requests for the origin. What is signed: the host, content headers that S3 acts on and every
//! `x-amz-*`; what a client library may add or change on the way out is left unsigned.

use nilas_base::UnixMillis;

use super::canonical::{Canonical, Parts};
use super::chain::ChunkChain;
use super::key::SigningKey;
use super::{ALGORITHM, PayloadHash, SERVICE, TERMINATOR};
use crate::date::{UnixSeconds, amz_date};
use crate::percent::{self, BadEscape};

/// Whose signature.
#[derive(Clone, Copy)]
pub struct SigningIdentity<'a> {
    /// Access key.
    pub access_key: &'a str,
    /// Secret key.
    pub secret: &'a str,
    /// Session token of temporary credentials.
    pub session_token: Option<&'a str>,
    /// The origin's region.
    pub region: &'a str,
}

impl std::fmt::Debug for SigningIdentity<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SigningIdentity({}, secrets hidden)", self.access_key)
    }
}

/// A request to sign, without any header of authentication.
#[derive(Clone, Copy, Debug)]
pub struct ToSign<'a> {
    /// Method.
    pub method: &'a str,
    /// The Host header that will be sent.
    pub host: &'a str,
    /// The path as it will be sent.
    pub path_raw: &'a str,
    /// The query as it will be sent, without `?`.
    pub query_raw: &'a str,
    /// The headers that will be sent; only those that are signed matter.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// What is said of the body.
    pub payload: PayloadHash,
}

/// The proof of a request.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Headers to add, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The chain to sign a streamed body's chunks with.
    pub chain: ChunkChain,
}

/// Signs by headers.
pub fn sign(
    identity: &SigningIdentity<'_>,
    request: &ToSign<'_>,
    now: UnixMillis,
) -> Result<Signed, BadEscape> {
    let time = amz_date(UnixSeconds::from(now));
    let time_text = ascii(&time);
    let payload_hash = request.payload.header_value();
    let mut headers: Vec<(&str, &[u8])> =
        request.headers.iter().copied().filter(|(name, _)| is_signed(name)).collect();
    headers.push(("host", request.host.as_bytes()));
    headers.push(("x-amz-content-sha256", payload_hash.as_bytes()));
    headers.push(("x-amz-date", time_text.as_bytes()));
    if let Some(token) = identity.session_token {
        headers.push(("x-amz-security-token", token.as_bytes()));
    }
    let signed_headers = signed_names(&headers);
    let digest = Canonical::default().digest(&Parts {
        method: request.method,
        path_raw: request.path_raw,
        query_raw: request.query_raw,
        headers: headers.iter().map(|(name, value)| (name.as_bytes(), *value)),
        signed_headers: &signed_headers,
        payload_hash: &payload_hash,
    })?;
    let scope = scope(&time_text, identity.region);
    let key = SigningKey::derive(identity.secret, &time_text[..8], identity.region);
    let signature = key.sign_request(&time, &scope, digest);
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={signed_headers}, Signature={}",
        identity.access_key,
        hex::encode(signature)
    );
    let mut proof = vec![
        ("authorization", authorization),
        ("x-amz-content-sha256", payload_hash.into_owned()),
        ("x-amz-date", time_text),
    ];
    proof.extend(identity.session_token.map(|token| ("x-amz-security-token", token.to_owned())));
    Ok(Signed { headers: proof, chain: ChunkChain::new(key, time, &scope, signature) })
}

/// Signs by query: gives the whole query of a URL that lives for `expires_seconds`. Only the host is signed.
pub fn presign(
    identity: &SigningIdentity<'_>,
    request: &ToSign<'_>,
    expires_seconds: u64,
    now: UnixMillis,
) -> Result<String, BadEscape> {
    let time = amz_date(UnixSeconds::from(now));
    let time_text = ascii(&time);
    let scope = scope(&time_text, identity.region);
    let mut query = String::from(request.query_raw);
    let expires = expires_seconds.to_string();
    let credential = format!("{}/{scope}", identity.access_key);
    let parameters = [
        ("X-Amz-Algorithm", Some(ALGORITHM)),
        ("X-Amz-Credential", Some(credential.as_str())),
        ("X-Amz-Date", Some(time_text.as_str())),
        ("X-Amz-Expires", Some(expires.as_str())),
        ("X-Amz-SignedHeaders", Some("host")),
        ("X-Amz-Security-Token", identity.session_token),
    ];
    for (name, value) in parameters {
        if let Some(value) = value {
            append_parameter(&mut query, name, value);
        }
    }
    let host: [(&[u8], &[u8]); 1] = [(b"host", request.host.as_bytes())];
    let digest = Canonical::default().digest(&Parts {
        method: request.method,
        path_raw: request.path_raw,
        query_raw: &query,
        headers: host.into_iter(),
        signed_headers: "host",
        payload_hash: "UNSIGNED-PAYLOAD",
    })?;
    let key = SigningKey::derive(identity.secret, &time_text[..8], identity.region);
    let signature = key.sign_request(&time, &scope, digest);
    append_parameter(&mut query, "X-Amz-Signature", &hex::encode(signature));
    Ok(query)
}

fn append_parameter(query: &mut String, name: &str, value: &str) {
    let mut encoded = Vec::new();
    percent::encode_query(value.as_bytes(), &mut encoded);
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    query.push_str(std::str::from_utf8(&encoded).expect("encoded text is ASCII"));
}

fn scope(time_text: &str, region: &str) -> String {
    format!("{}/{region}/{SERVICE}/{TERMINATOR}", &time_text[..8])
}

/// Replaced or added by this signer; a caller's own would be signed twice over.
const OWN: [&str; 4] = ["host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];

fn is_signed(name: &str) -> bool {
    let is_amz = name.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case("x-amz-"));
    let is_content =
        ["content-md5", "content-type"].iter().any(|known| known.eq_ignore_ascii_case(name));
    (is_amz || is_content) && !OWN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn signed_names(headers: &[(&str, &[u8])]) -> String {
    let mut names: Vec<String> =
        headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(";")
}

fn ascii(text: &[u8; 16]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
