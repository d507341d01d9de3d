//! Prebuilt requests: one an object, made before a burst and sent as they are, so that signing
//! costs the load nothing. A signature is valid for fifteen minutes, far longer than a burst.

use std::net::SocketAddr;
use std::sync::Arc;

use nilas_base::UnixMillis;
use nilas_net::sigv4::{PayloadHash, Signed, SigningIdentity, ToSign, sign};

use crate::error::{Error, Result};
use crate::object::Object;

/// The region that signatures name; the node takes any.
const REGION: &str = "us-east-1";

/// How a server is asked.
#[derive(Clone, Debug)]
pub enum Access {
    /// Without a signature.
    Open,
    /// Signed, Signature Version 4 in headers, as SDKs sign a GET.
    Signed(Credential),
}

/// A key pair that a server was told to accept.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its public half.
    pub access_key: String,
    /// Its secret half.
    pub secret_key: String,
}

impl Credential {
    /// The pair of every run: it guards nothing but a run's own objects, on loopback.
    pub fn for_measurement() -> Credential {
        Credential {
            access_key: "nilas-perf".to_owned(),
            secret_key: "guards-only-the-objects-of-a-measurement".to_owned(),
        }
    }
}

/// One object as it is asked for, and what must come back.
#[derive(Clone, Debug)]
pub struct Target {
    /// The path, for messages.
    pub path: String,
    /// The request's bytes.
    pub request: Vec<u8>,
    /// The body that must come.
    pub bytes: Arc<[u8]>,
}

/// Builds the request of each of `objects` to the server at `address`.
pub fn make_targets(
    access: &Access,
    address: SocketAddr,
    objects: &[Object],
    wall: UnixMillis,
) -> Result<Vec<Target>> {
    objects
        .iter()
        .map(|object| {
            let path = object.path();
            let request = range_request(access, (address, &path), None, wall)?;
            Ok(Target { path, request, bytes: object.bytes.clone() })
        })
        .collect()
}

/// A GET of `path` at `address`, of the `range` that its header names where there is one.
pub(crate) fn range_request(
    access: &Access,
    (address, path): (SocketAddr, &str),
    range: Option<&str>,
    wall: UnixMillis,
) -> Result<Vec<u8>> {
    let host = address.to_string();
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n");
    if let Some(range) = range {
        request.push_str(&format!("range: {range}\r\n"));
    }
    if let Access::Signed(credential) = access {
        let get = ToSign {
            method: "GET",
            host: &host,
            path_raw: path,
            query_raw: "",
            headers: &[],
            payload: PayloadHash::empty(),
        };
        for (name, value) in sign_as(credential, &get, wall)?.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    request.push_str("\r\n");
    Ok(request.into_bytes())
}

/// The proof of `request`.
pub(crate) fn sign_as(
    credential: &Credential,
    request: &ToSign<'_>,
    wall: UnixMillis,
) -> Result<Signed> {
    let identity = SigningIdentity {
        access_key: &credential.access_key,
        secret: &credential.secret_key,
        session_token: None,
        region: REGION,
    };
    sign(&identity, request, wall)
        .map_err(|error| Error::Failed(format!("{} cannot be signed: {error}", request.path_raw)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::make_objects;
    use nilas_base::HashMap;

    fn request_of(access: &Access) -> String {
        let address = "127.0.0.1:9000".parse().expect("an address");
        let wall = UnixMillis(1_700_000_000_000);
        let targets =
            make_targets(access, address, &make_objects(7, 1), wall).expect("can be made");
        String::from_utf8(targets[0].request.clone()).expect("ASCII")
    }

    #[test]
    fn an_open_request_is_bare() {
        let request = request_of(&Access::Open);
        assert_eq!(request, "GET /perf/7-000 HTTP/1.1\r\nhost: 127.0.0.1:9000\r\n\r\n");
    }

    #[test]
    fn a_signed_request_has_every_header_of_its_proof_once() {
        let request = request_of(&Access::Signed(Credential::for_measurement()));
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut parsed = httparse::Request::new(&mut headers);
        let status = parsed.parse(request.as_bytes()).expect("well formed");
        assert_eq!(status, httparse::Status::Complete(request.len()));
        let headers = parsed.headers.iter();
        let by_name: HashMap<&str, &[u8]> = headers.map(|h| (h.name, h.value)).collect();
        assert_eq!(by_name.len(), 4);
        assert_eq!(by_name["x-amz-date"], b"20231114T221320Z");
        let authorization = String::from_utf8_lossy(by_name["authorization"]);
        let scope = "AWS4-HMAC-SHA256 Credential=nilas-perf/20231114/us-east-1/s3/aws4_request, ";
        assert!(authorization.starts_with(scope), "{authorization}");
    }
}
