//! Signature Version 4 as services other than S3 have it: the path, which is percent-encoded already, is
//! encoded once more (AWS General Reference, "Create a signed AWS API request"). For a service named `s3` it is
//! not, as some catalogs beside an object store prove requests as the store does.

use std::fmt::Write;

use hmac::{Hmac, Mac};
use http::HeaderName;
use http::header::AUTHORIZATION;
use nilas_base::UnixMillis;
use nilas_net::date::{UnixSeconds, amz_date};
use nilas_net::percent;
use sha2::{Digest, Sha256};

use super::transport::Call;
use super::trouble::Trouble;
use crate::origin::SigningKey;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Signs a call: adds what proves it.
pub(super) fn sign(
    call: &mut Call,
    key: &SigningKey,
    (region, service): (&str, &str),
    now: UnixMillis,
) -> Result<(), Trouble> {
    let time = amz_date(UnixSeconds::from(now));
    let time = std::str::from_utf8(&time).expect("a date is ASCII");
    let day = &time[..8];
    let payload = hex::encode(Sha256::digest(&call.body));
    call.set(HeaderName::from_static("x-amz-date"), time)?;
    call.set(HeaderName::from_static("x-amz-content-sha256"), &payload)?;
    if let Some(token) = &key.session_token {
        call.set(HeaderName::from_static("x-amz-security-token"), token)?;
    }
    let (canonical, names) = canonical(call, service, &payload);
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let digest = hex::encode(Sha256::digest(canonical));
    let to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{digest}");
    let secret = format!("AWS4{}", key.secret_key);
    let parts = [day, region, service, "aws4_request", &to_sign];
    let signature = parts.iter().fold(secret.into_bytes(), |key, part| mac(&key, part.as_bytes()));
    let proof = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={}",
        key.access_key,
        hex::encode(signature)
    );
    call.set(AUTHORIZATION, &proof)
}

/// The canonical request, and the names of the headers in it.
fn canonical(call: &Call, service: &str, payload: &str) -> (String, String) {
    let (path, query) = call.target.split_once('?').unwrap_or((&call.target, ""));
    let mut headers: Vec<(String, String)> = call
        .headers
        .iter()
        .filter(|(name, _)| *name != AUTHORIZATION)
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    headers.push(("host".to_owned(), call.endpoint.host_header()));
    headers.sort_unstable();
    let mut path_encoded = Vec::new();
    if service != "s3" {
        percent::encode_path(path.as_bytes(), &mut path_encoded);
    }
    let path = if service == "s3" { path } else { ascii(&path_encoded) };
    let mut text = format!("{}\n{path}\n{}\n", call.method, canonical_query(query));
    for (name, value) in &headers {
        let _ = writeln!(text, "{name}:{value}");
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let _ = write!(text, "\n{names}\n{payload}");
    (text, names)
}

/// Sorted by name, then value. Names and values are encoded already, in the one way that a signature knows.
fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(&str, &str)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn ascii(encoded: &[u8]) -> &str {
    std::str::from_utf8(encoded).expect("encoded text is ASCII")
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use nilas_net::date::parse_amz_date;

    use super::*;
    use crate::origin::Endpoint;

    /// The signature of a GET of `path`, on AWS's own example day.
    fn signature(service: &str, session_token: Option<&str>, path: &str) -> String {
        let endpoint = Endpoint::parse("https://catalog.example.com").expect("an endpoint");
        let target = format!("{path}?snapshots=all&pageToken=&parent=a%1Fb");
        let (headers, body) = (HeaderMap::new(), bytes::Bytes::new());
        let mut call = Call { method: Method::GET, endpoint, target, headers, body };
        let key = SigningKey {
            access_key: "AKIDEXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: session_token.map(str::to_owned),
        };
        let time = parse_amz_date(b"20150830T123600Z").expect("a date");
        let now = UnixMillis(time.0 * 1000);
        sign(&mut call, &key, ("eu-central-1", service), now).expect("legal");
        let proof = call.headers[AUTHORIZATION].to_str().expect("ASCII").to_owned();
        proof.rsplit_once("Signature=").expect("it ends with it").1.to_owned()
    }

    #[test]
    fn signatures_are_those_of_botocore() {
        let path = "/iceberg/v1/catalogs/1/namespaces/a%1Fb%20c/tables/gr%C3%B6%C3%9Fe";
        assert_eq!(
            signature("glue", None, path),
            "3a60b89e49ebb0c5ae6ab1fc2d543ec086adfb32992a85ca2f3c93d14ce00056"
        );
        assert_eq!(
            signature("s3", None, path),
            "f1f0369b7eec022db3a7f6080a5ef031d2ad8ca2b2f32a5744c3e84fda1499cc"
        );
        let path = "/iceberg/v1/arn%3Aaws%3As3tables/namespaces";
        assert_eq!(
            signature("s3tables", Some("session/token=="), path),
            "ca631569796c09cd3506dd662862da09bc1b5d10cb08c344e5f1e60aeaa72f90"
        );
    }
}
