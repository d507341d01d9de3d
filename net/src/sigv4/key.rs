//! Signing keys: derived from a secret for one day, region and service, and kept, since deriving costs
//! more than verifying. A kept key is bound to the secret it came from, so a rotated secret never lingers.

use hmac::{Hmac, Mac};
use nilas_base::HashMap;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{ALGORITHM, SERVICE, SIGNING_KEYS_MAX, TERMINATOR};
use crate::date::parse_amz_date;

/// The parts of `access-key/20130524/us-east-1/s3/aws4_request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope<'a> {
    pub(super) access_key: &'a str,
    pub(super) date: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) terminator: &'a str,
    /// All but the access key.
    pub(super) text: &'a str,
}

impl<'a> Scope<'a> {
    /// `None` when parts are missing. The access key may hold slashes.
    pub(super) fn parse(credential: &'a str) -> Option<Scope<'a>> {
        let mut parts = credential.rsplitn(5, '/');
        let (terminator, service) = (parts.next()?, parts.next()?);
        let (region, date) = (parts.next()?, parts.next()?);
        let access_key = parts.next()?;
        let text = &credential[access_key.len() + 1..];
        Some(Scope { access_key, date, region, service, terminator, text })
    }
}

/// An HMAC-SHA256 keyed with a signing key, ready to be copied and fed.
#[derive(Clone)]
pub(super) struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    pub(super) fn derive(secret: &str, date: &str, region: &str) -> SigningKey {
        let mut first = Vec::with_capacity(4 + secret.len());
        first.extend_from_slice(b"AWS4");
        first.extend_from_slice(secret.as_bytes());
        let date_key = keyed(&first).chain_update(date).finalize().into_bytes();
        let region_key = keyed(&date_key).chain_update(region).finalize().into_bytes();
        let service_key = keyed(&region_key).chain_update(SERVICE).finalize().into_bytes();
        let key = keyed(&service_key).chain_update(TERMINATOR).finalize().into_bytes();
        SigningKey(keyed(&key))
    }

    /// Signs the text whose pieces these are.
    pub(super) fn sign(&self, pieces: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        for piece in pieces {
            mac.update(piece);
        }
        mac.finalize().into_bytes().into()
    }

    /// Signs a request: `digest` is the canonical request's SHA-256.
    pub(super) fn sign_request(
        &self,
        amz_date: &[u8; 16],
        scope: &str,
        digest: [u8; 32],
    ) -> [u8; 32] {
        self.sign(&[
            ALGORITHM.as_bytes(),
            b"\n",
            amz_date,
            b"\n",
            scope.as_bytes(),
            b"\n",
            &hex32(&digest),
        ])
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SigningKey(hidden)")
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// The signature of a form's policy, in hexadecimal; `None` of a malformed credential.
pub fn form_signature(secret: &str, credential: &str, policy: &str) -> Option<String> {
    let scope = Scope::parse(credential)?;
    let key = SigningKey::derive(secret, scope.date, scope.region);
    Some(hex::encode(key.sign(&[policy.as_bytes()])))
}

/// The credential of a form that is signed at this time.
pub fn form_credential(access_key: &str, amz_date: &str, region: &str) -> String {
    let date = amz_date.get(..8).unwrap_or_default();
    format!("{access_key}/{date}/{region}/{SERVICE}/{TERMINATOR}")
}

/// Whether a form's credential is one for S3, of the day of its time.
pub fn is_form_credential(credential: &str, amz_date: &str) -> bool {
    parse_amz_date(amz_date.as_bytes()).is_some()
        && Scope::parse(credential).is_some_and(|scope| {
            scope.terminator == TERMINATOR
                && scope.service == SERVICE
                && !scope.region.is_empty()
                && scope.date.len() == 8
                && amz_date.starts_with(scope.date)
        })
}

/// Lower-case hexadecimal.
pub(super) fn hex32(bytes: &[u8; 32]) -> [u8; 64] {
    let mut text = [0; 64];
    hex::encode_to_slice(bytes, &mut text).expect("two digits a byte");
    text
}

/// Signing keys by credential text (access key and scope).
#[derive(Default)]
pub(super) struct KeyCache {
    keys: HashMap<Box<str>, Kept>,
}

struct Kept {
    secret: Box<[u8]>,
    key: SigningKey,
}

impl KeyCache {
    /// The key kept for this credential text, if it came from this very secret.
    pub(super) fn find(&self, credential: &str, secret: &str) -> Option<&SigningKey> {
        let kept = self.keys.get(credential)?;
        bool::from(kept.secret.ct_eq(secret.as_bytes())).then_some(&kept.key)
    }

    /// Keeps a key. Only for keys that verified a request: a stranger cannot fill the cache.
    pub(super) fn keep(&mut self, credential: &str, secret: &str, key: SigningKey) {
        // Yesterday's keys are the bulk of a full cache; today's come back at one derivation each.
        if self.keys.len() >= SIGNING_KEYS_MAX {
            self.keys.clear();
        }
        self.keys.insert(credential.into(), Kept { secret: secret.as_bytes().into(), key });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_from_its_end() {
        let scope = Scope::parse("a/b/20130524/us-east-1/s3/aws4_request").expect("whole");
        assert_eq!((scope.access_key, scope.date, scope.region), ("a/b", "20130524", "us-east-1"));
        assert_eq!(scope.text, "20130524/us-east-1/s3/aws4_request");
        assert_eq!(Scope::parse("20130524/us-east-1/s3/aws4_request"), None);
    }

    #[test]
    fn a_forms_credential_is_of_its_day_and_of_s3() {
        for (credential, amz_date, is_one) in [
            ("a/b/20130524/us-east-1/s3/aws4_request", "20130524T000000Z", true),
            ("a/20130524/us-east-1/s3/aws4_request", "20130525T000000Z", false),
            ("a/20130524/us-east-1/s3/aws4_request", "20130524", false),
            ("a/20130524/us-east-1/ec2/aws4_request", "20130524T000000Z", false),
            ("a/20130524/us-east-1/s3/aws5_request", "20130524T000000Z", false),
            ("a/20130524//s3/aws4_request", "20130524T000000Z", false),
            ("a//us-east-1/s3/aws4_request", "20130524T000000Z", false),
            ("20130524/us-east-1/s3/aws4_request", "20130524T000000Z", false),
        ] {
            assert_eq!(is_form_credential(credential, amz_date), is_one, "{credential} {amz_date}");
        }
        let own = form_credential("a/b", "20130524T000000Z", "us-east-1");
        assert!(is_form_credential(&own, "20130524T000000Z"), "{own}");
    }

    #[test]
    fn a_kept_key_is_not_found_under_another_secret() {
        let mut cache = KeyCache::default();
        cache.keep("c", "old", SigningKey::derive("old", "d", "r"));
        assert!(cache.find("c", "old").is_some());
        assert!(cache.find("c", "new").is_none());
        cache.keep("c", "new", SigningKey::derive("new", "d", "r"));
        assert!(cache.find("c", "old").is_none());
    }

    #[test]
    fn the_cache_has_a_ceiling() {
        let mut cache = KeyCache::default();
        let key = SigningKey::derive("s", "d", "r");
        for number in 0..3 * SIGNING_KEYS_MAX {
            cache.keep(&number.to_string(), "s", key.clone());
            assert!(cache.keys.len() <= SIGNING_KEYS_MAX);
        }
    }
}
