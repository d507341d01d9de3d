//! The access key that a request claims, proved or not: of the proof nothing else is taken.

use nilas_net::head::RequestHead;
use nilas_net::query;

/// The access key in a request's header or query; empty where none can be told from what follows it.
pub(super) fn claimed_access_key(head: &RequestHead<'_>) -> String {
    let authorization = head.header("authorization").and_then(|it| std::str::from_utf8(it).ok());
    match authorization {
        Some(text) => of_header(text).unwrap_or_default().to_owned(),
        None => of_query(head.query_raw()).unwrap_or_default(),
    }
}

/// Only what ends where an access key ends: the rest may be a secret.
fn of_header(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix("AWS ") {
        return rest.split_once(':').map(|(access_key, _)| access_key.trim());
    }
    let (_, credential) = text.split_once("Credential=")?;
    access_key_of_scope(credential.split([',', ' ']).next()?)
}

fn of_query(query_raw: &str) -> Option<String> {
    if let Some(pair) = query::find(query_raw, "X-Amz-Credential") {
        let scope = pair.decoded().ok()?;
        return access_key_of_scope(&scope).map(str::to_owned);
    }
    let pair = query::find(query_raw, "AWSAccessKeyId")?;
    pair.decoded().ok().map(std::borrow::Cow::into_owned)
}

fn access_key_of_scope(scope: &str) -> Option<&str> {
    scope.split_once('/').map(|(access_key, _)| access_key)
}

#[cfg(test)]
mod tests {
    use nilas_net::head::{Parsed, parse_head};

    use super::*;

    fn claimed(target: &str, authorization: &str) -> String {
        let header = match authorization {
            "" => String::new(),
            text => format!("Authorization: {text}\r\n"),
        };
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{header}\r\n");
        let Ok(Parsed::Whole(head, _)) = parse_head(text.as_bytes()) else { panic!("{text}") };
        claimed_access_key(&head)
    }

    #[test]
    fn the_access_key_is_found_wherever_it_stands() {
        let v4 = "AWS4-HMAC-SHA256 Credential=AK/20240101/r/s3/aws4_request, SignedHeaders=host, \
                  Signature=5ec4e7";
        assert_eq!(claimed("/b/k", v4), "AK");
        assert_eq!(claimed("/b/k", "AWS AK:c2VjcmV0"), "AK");
        assert_eq!(claimed("/b/k?X-Amz-Credential=AK%2F20240101%2Fr&X-Amz-Signature=5e", ""), "AK");
        assert_eq!(claimed("/b/k?AWSAccessKeyId=AK&Signature=5e", ""), "AK");
    }

    #[test]
    fn what_may_be_a_secret_is_not_taken() {
        for authorization in
            ["Bearer secret", "AWS secret", "AWS4-HMAC-SHA256 Credential=secret", "secret"]
        {
            assert_eq!(claimed("/b/k", authorization), "", "{authorization}");
        }
        assert_eq!(claimed("/b/k?X-Amz-Credential=secret", ""), "");
        assert_eq!(claimed("/b/k", ""), "");
    }
}
