//! Where an S3 origin is: its address, and how a bucket is named to it. Nothing is connected here,
//! see `connector`.

use std::fmt;

use crate::origin::{Addressing, OriginRequest};

/// An endpoint, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(in crate::origin) is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(in crate::origin) host: String,
    pub(in crate::origin) port: u16,
}

impl Endpoint {
    /// Reads `http://host`, `https://host:port`. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Endpoint, String> {
        let wrong =
            |what: &str| format!("the endpoint {text:?} {what}; write http(s)://host[:port]");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("has no scheme"))?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("is neither http nor https")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(wrong("has a path or a query"));
        }
        if authority.contains('@') {
            return Err(
                "the endpoint holds a user or a password; give credentials apart".to_owned()
            );
        }
        let (host, port) =
            split_port(authority).ok_or_else(|| wrong("has no valid host and port"))?;
        let port = port.unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Endpoint { is_tls, host: host.to_ascii_lowercase(), port })
    }

    /// The `Host` header of requests to `host`; the usual port is not written.
    pub(crate) fn host_header(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Where this request goes, and the path that it asks for there.
    pub(super) fn place(
        &self,
        addressing: Addressing,
        request: &OriginRequest,
    ) -> (Endpoint, String) {
        if addressing == Addressing::Path || request.bucket.is_empty() {
            return (self.clone(), request.path_raw.clone());
        }
        let key_at = request.path_raw[1..].find('/').map(|at| at + 1);
        let path = key_at.map_or("/", |at| &request.path_raw[at..]).to_owned();
        let host = format!("{}.{}", request.bucket, self.host);
        (Endpoint { host, ..self.clone() }, path)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", if self.is_tls { "https" } else { "http" }, self.host_header())
    }
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = match rest {
            "" => None,
            rest => Some(rest.strip_prefix(':')?.parse().ok()?),
        };
        return host.parse::<std::net::Ipv6Addr>().ok().map(|_| (host, port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (authority, None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (!host.is_empty() && host.bytes().all(plain)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::RequestBody;
    use http::{HeaderMap, Method};

    #[test]
    fn endpoints_are_read_and_written() {
        for (text, written) in [
            ("http://127.0.0.1:8333", "http://127.0.0.1:8333"),
            ("https://s3.eu-west-1.amazonaws.com/", "https://s3.eu-west-1.amazonaws.com"),
            ("HTTPS://Host:443", "https://host"),
            ("http://[::1]:9000", "http://[::1]:9000"),
            ("http://minio", "http://minio"),
        ] {
            assert_eq!(
                Endpoint::parse(text).map(|endpoint| endpoint.to_string()).as_deref(),
                Ok(written)
            );
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_the_reason() {
        for (text, reason) in [
            ("127.0.0.1:8333", "no scheme"),
            ("s3://bucket", "neither http nor https"),
            ("http://host/bucket", "a path"),
            ("http://host?x", "a query"),
            ("http://", "no valid host"),
            ("http://host:99999", "no valid host and port"),
            ("http://[::1", "no valid host"),
        ] {
            let error = Endpoint::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        let error = Endpoint::parse("http://me:secret@host").expect_err("a password");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_virtual_host_takes_the_bucket_from_the_path() {
        let endpoint = Endpoint::parse("http://store:9000").expect("well formed");
        let request = |bucket: &str, path_raw: &str| OriginRequest {
            method: Method::GET,
            bucket: bucket.to_owned(),
            key: None,
            path_raw: path_raw.to_owned(),
            query_raw: String::new(),
            signer: crate::origin::Signer::Node,
            headers: HeaderMap::new(),
            body: RequestBody::Empty,
        };
        for (bucket, path_raw, host, path) in [
            ("lake", "/lake/a%2Fb//c", "lake.store:9000", "/a%2Fb//c"),
            ("lake", "/lake", "lake.store:9000", "/"),
            ("lake", "/lake/", "lake.store:9000", "/"),
            ("lake", "/lake//", "lake.store:9000", "//"),
            ("", "/", "store:9000", "/"),
        ] {
            let (place, found) =
                endpoint.place(Addressing::VirtualHost, &request(bucket, path_raw));
            assert_eq!((place.host_header().as_str(), found.as_str()), (host, path));
        }
    }
}
