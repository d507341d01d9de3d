//! What the origin is asked: the client's request as it came, without its proof of identity and what
//! ends at this hop.

use http::{HeaderMap, HeaderName, HeaderValue};
use nilas_net::hop::{connection_names, is_body_framing, is_client_auth, is_hop_by_hop};

use crate::origin::{OriginRequest, RequestBody};
use crate::request::Request;

/// The request to the origin.
pub(super) fn origin_request(request: &Request<'_>, body: RequestBody) -> OriginRequest {
    let mut path = Vec::new();
    request.target.path_style(&mut path);
    let keeps_proof = request.sender.grant.signer.keeps_proof();
    let mut query = Vec::new();
    match keeps_proof {
        true => query.extend_from_slice(request.head.query_raw().as_bytes()),
        false => nilas_net::query::without_presign(request.head.query_raw(), &mut query),
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a request line is UTF-8");
    OriginRequest {
        method: http::Method::from_bytes(request.head.method().name().as_bytes())
            .expect("the head's parser takes tokens only"),
        bucket: request.target.bucket.unwrap_or_default().to_owned(),
        key: request.target.key.map(str::to_owned),
        path_raw: text(path),
        query_raw: text(query),
        signer: request.sender.grant.signer.clone(),
        headers: end_to_end_headers(request, keeps_proof),
        body,
    }
}

/// The headers that travel on.
fn end_to_end_headers(request: &Request<'_>, keeps_proof: bool) -> HeaderMap {
    let connection = request.head.header("connection").unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in request.head.headers() {
        let ends_here = is_hop_by_hop(name)
            || (!keeps_proof && is_client_auth(name))
            || is_body_framing(name)
            || connection_names(connection, name)
            || name.eq_ignore_ascii_case("host")
            || (name.eq_ignore_ascii_case("expect") && !request.head.expects_otherwise())
            || name.eq_ignore_ascii_case("content-length");
        if ends_here {
            continue;
        }
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    headers
}
