//! What a request claims, before anything is proved: the Authorization header or the presigned query,
//! taken apart and checked for form. `verifier` holds it against a secret.

use std::borrow::Cow;

use super::key::Scope;
use super::{ALGORITHM, PRESIGN_SECONDS_MAX, SERVICE, SIGNED_HEADERS_MAX, TERMINATOR, refusal};
use crate::date::{UnixSeconds, amz_date, parse_amz_date, parse_http_date};
use crate::head::RequestHead;
use crate::query::{self, Pair};
use crate::{Code, S3Error};

/// A request's claim.
pub(super) enum Claim<'a> {
    Anonymous,
    SigV2,
    V4(SignedClaim<'a>),
}

/// A well-formed claim of Signature Version 4.
pub(super) struct SignedClaim<'a> {
    /// Access key and scope, as one text.
    pub(super) credential: Cow<'a, str>,
    pub(super) signed_headers: Cow<'a, str>,
    pub(super) signature: Cow<'a, str>,
    pub(super) time: UnixSeconds,
    pub(super) amz_date: [u8; 16],
    /// Seconds that a presigned URL lives; `None` for the header form.
    pub(super) expires_seconds: Option<u64>,
}

impl SignedClaim<'_> {
    /// The credential's parts.
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope::parse(&self.credential).expect("checked when the claim was read")
    }
}

/// Reads the claim of a request.
pub(super) fn read<'a>(head: &RequestHead<'a>) -> Result<Claim<'a>, S3Error> {
    let presign = Presign::gather(head.query_raw());
    let mut authorizations = head.headers_named("authorization");
    let Some(authorization) = authorizations.next() else {
        return match presign {
            Presign { is_v4: true, .. } => presign.claim().map(Claim::V4),
            Presign { is_v2: true, .. } => Ok(Claim::SigV2),
            _ => Ok(Claim::Anonymous),
        };
    };
    if presign.is_v4 || presign.is_v2 || authorizations.next().is_some() {
        return Err(refusal::two_mechanisms());
    }
    if authorization.starts_with(b"AWS ") {
        return Ok(Claim::SigV2);
    }
    let text =
        std::str::from_utf8(authorization).map_err(|_| refusal::unsupported_authorization())?;
    from_header(head, text).map(Claim::V4)
}

/// The access key that a request claims, proved or not; `None` where none can be told from what
/// follows it, which may be a secret. Looked for in the order in which a claim is read.
pub fn claimed_access_key(head: &RequestHead<'_>) -> Option<String> {
    if let Some(authorization) = head.header("authorization") {
        let text = std::str::from_utf8(authorization).ok()?;
        let access_key = match text.strip_prefix("AWS ") {
            Some(second_version) => second_version.rsplit_once(':')?.0.trim(),
            None => of_credential(text.split_once("Credential=")?.1.split([',', ' ']).next()?)?,
        };
        return Some(access_key.to_owned());
    }
    if let Some(credential) = query::find(head.query_raw(), "X-Amz-Credential") {
        return of_credential(&credential.decoded().ok()?).map(str::to_owned);
    }
    let access_key = query::find(head.query_raw(), "AWSAccessKeyId")?;
    access_key.decoded().ok().map(Cow::into_owned)
}

fn of_credential(credential: &str) -> Option<&str> {
    credential.split_once('/').map(|(access_key, _)| access_key)
}

/// Whether a request is presigned, with a lifetime that S3 does not allow.
pub fn has_odd_lifetime(head: &RequestHead<'_>) -> bool {
    let lifetime = Presign::gather(head.query_raw()).expires.map(|pair| pair.decoded());
    head.header("authorization").is_none()
        && matches!(lifetime, Some(Ok(lifetime)) if expires(&lifetime).is_err())
}

fn from_header<'a>(head: &RequestHead<'a>, text: &'a str) -> Result<SignedClaim<'a>, S3Error> {
    let (algorithm, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    if algorithm != ALGORITHM {
        return Err(refusal::algorithm(algorithm));
    }
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for part in rest.split(',').map(str::trim) {
        let (name, value) =
            part.split_once('=').ok_or_else(|| refusal::malformed("a part is not name=value"))?;
        let slot = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed_headers,
            "Signature" => &mut signature,
            _ => return Err(refusal::malformed("it has an unknown part")),
        };
        if slot.replace(value).is_some() {
            return Err(refusal::malformed("a part is there twice"));
        }
    }
    let credential = credential.ok_or_else(|| refusal::malformed("it has no Credential"))?;
    let signed_headers =
        signed_headers.ok_or_else(|| refusal::malformed("it has no SignedHeaders"))?;
    let signature = signature.ok_or_else(|| refusal::malformed("it has no Signature"))?;
    let time = header_time(head)?;
    let claim = SignedClaim {
        credential: credential.into(),
        signed_headers: signed_headers.into(),
        signature: signature.into(),
        time,
        amz_date: amz_date(time),
        expires_seconds: None,
    };
    check_form(&claim, &|detail| refusal::malformed(detail))?;
    Ok(claim)
}

/// `x-amz-date`, or else `Date` in either form.
fn header_time(head: &RequestHead<'_>) -> Result<UnixSeconds, S3Error> {
    let time = match (head.header("x-amz-date"), head.header("date")) {
        (Some(text), _) => parse_amz_date(text),
        (None, Some(text)) => parse_http_date(text).or_else(|| parse_amz_date(text)),
        (None, None) => None,
    };
    time.ok_or_else(refusal::no_date)
}

/// The checks that both forms share; `malformed` words the refusal for the form at hand.
fn check_form(claim: &SignedClaim<'_>, malformed: &dyn Fn(&str) -> S3Error) -> Result<(), S3Error> {
    let scope = Scope::parse(&claim.credential).ok_or_else(|| {
        malformed("the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"")
    })?;
    if scope.terminator != TERMINATOR {
        return Err(malformed("the Credential must end in \"aws4_request\""));
    }
    if scope.service != SERVICE {
        return Err(malformed("incorrect service. This endpoint belongs to \"s3\""));
    }
    if scope.region.is_empty() || scope.access_key.is_empty() {
        return Err(malformed("the Credential has no access key or no region"));
    }
    if scope.date.as_bytes() != &claim.amz_date[..8] {
        return Err(malformed("the Credential's date is not the date of the request's time"));
    }
    let mut names = claim.signed_headers.split(';');
    if claim.signed_headers.split(';').count() > SIGNED_HEADERS_MAX {
        return Err(malformed("SignedHeaders has too many names"));
    }
    if !names.any(|name| name.eq_ignore_ascii_case("host")) {
        return Err(malformed("SignedHeaders does not name \"host\". Sign it"));
    }
    Ok(())
}

/// The parameters of a presigned query, as found.
#[derive(Default)]
struct Presign<'a> {
    is_v4: bool,
    is_v2: bool,
    is_repeated: bool,
    algorithm: Option<Pair<'a>>,
    credential: Option<Pair<'a>>,
    date: Option<Pair<'a>>,
    expires: Option<Pair<'a>>,
    signed_headers: Option<Pair<'a>>,
    signature: Option<Pair<'a>>,
}

impl<'a> Presign<'a> {
    fn gather(query_raw: &'a str) -> Presign<'a> {
        let mut found = Presign::default();
        for pair in query::pairs(query_raw) {
            found.is_v2 |= pair.is("AWSAccessKeyId");
            let slots = [
                ("X-Amz-Algorithm", &mut found.algorithm),
                ("X-Amz-Credential", &mut found.credential),
                ("X-Amz-Date", &mut found.date),
                ("X-Amz-Expires", &mut found.expires),
                ("X-Amz-SignedHeaders", &mut found.signed_headers),
                ("X-Amz-Signature", &mut found.signature),
            ];
            for (name, slot) in slots {
                if pair.is(name) {
                    found.is_repeated |= slot.replace(pair).is_some();
                }
            }
        }
        found.is_v4 =
            found.algorithm.is_some() || found.credential.is_some() || found.signature.is_some();
        found
    }

    fn claim(self) -> Result<SignedClaim<'a>, S3Error> {
        if self.is_repeated {
            return Err(refusal::bad_presign("A parameter is there twice. Send each once."));
        }
        let algorithm = text(self.algorithm)?;
        if algorithm != ALGORITHM {
            return Err(refusal::bad_presign("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
        }
        let expires_seconds = expires(&text(self.expires)?)?;
        let time = parse_amz_date(text(self.date)?.as_bytes()).ok_or_else(|| {
            refusal::bad_presign(
                "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"",
            )
        })?;
        let claim = SignedClaim {
            credential: text(self.credential)?,
            signed_headers: text(self.signed_headers)?,
            signature: text(self.signature)?,
            time,
            amz_date: amz_date(time),
            expires_seconds: Some(expires_seconds),
        };
        check_form(&claim, &|detail| {
            refusal::bad_presign(&format!(
                "Error parsing the X-Amz-Credential or X-Amz-SignedHeaders parameter; {detail}."
            ))
        })?;
        Ok(claim)
    }
}

fn text(pair: Option<Pair<'_>>) -> Result<Cow<'_, str>, S3Error> {
    let pair = pair.ok_or_else(|| {
        refusal::bad_presign(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, \
             X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
        )
    })?;
    pair.decoded()
        .map_err(|bad| S3Error::because(Code::InvalidURI, format!("In a query parameter, {bad}.")))
}

fn expires(text: &str) -> Result<u64, S3Error> {
    if text.starts_with('-') {
        return Err(refusal::bad_presign("X-Amz-Expires must be non-negative"));
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(refusal::bad_presign("X-Amz-Expires should be a number"));
    }
    text.parse().ok().filter(|seconds| *seconds <= PRESIGN_SECONDS_MAX).ok_or_else(|| {
        refusal::bad_presign(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Parsed, parse_head};

    fn claimed(target: &str, authorization: &str) -> String {
        let header = match authorization {
            "" => String::new(),
            text => format!("Authorization: {text}\r\n"),
        };
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{header}\r\n");
        let Ok(Parsed::Whole(head, _)) = parse_head(text.as_bytes()) else { panic!("{text}") };
        claimed_access_key(&head).unwrap_or_default()
    }

    #[test]
    fn the_access_key_is_found_wherever_it_stands() {
        let v4 = "AWS4-HMAC-SHA256 Credential=AK/20240101/r/s3/aws4_request, SignedHeaders=host, \
                  Signature=5ec4e7";
        assert_eq!(claimed("/b/k", v4), "AK");
        assert_eq!(claimed("/b/k", "AWS AK:c2VjcmV0"), "AK");
        assert_eq!(claimed("/b/k?X-Amz-Credential=AK%2F20240101%2Fr&X-Amz-Signature=5e", ""), "AK");
        assert_eq!(claimed("/b/k?AWSAccessKeyId=AK&Signature=5e", ""), "AK");
        assert_eq!(
            claimed("/b/k?AWSAccessKeyId=other&X-Amz-Credential=AK%2F20240101%2Fr", ""),
            "AK"
        );
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
