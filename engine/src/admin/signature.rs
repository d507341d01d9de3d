//! The signature of a hint: `X-Nilas-Signature: t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of
//! `SECONDS.BODY` under a catalog's `hint_secret`. SECONDS, since 1970-01-01 UTC, keep an old hint from being sent
//! again much later. Several `v1` may stand there, of which one must be right, so that a secret can be changed.

use hmac::{Hmac, Mac};
use nilas_base::UnixMillis;
use sha2::Sha256;

use crate::config::Secret;

/// The header's name.
pub(super) const HEADER: &str = "x-nilas-signature";
/// How far the time in a signature may be from ours.
pub(super) const SKEW_SECONDS_MAX: u64 = 300;
/// Signatures of one header that are looked at.
const SIGNATURES_MAX: usize = 8;

/// A header, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature<'a> {
    seconds: &'a str,
    macs: Vec<[u8; 32]>,
}

impl<'a> Signature<'a> {
    /// Reads the header's value, and holds its time against ours. The error says what to send instead.
    pub(super) fn read(value: &'a str, now: UnixMillis) -> Result<Signature<'a>, String> {
        let fields = value.split(',').filter_map(|field| field.trim().split_once('='));
        let mut seconds = None;
        let mut macs = Vec::new();
        for (name, value) in fields {
            match name {
                "t" => seconds = Some(value),
                "v1" if macs.len() < SIGNATURES_MAX => {
                    let mut mac = [0; 32];
                    if hex::decode_to_slice(value, &mut mac).is_ok() {
                        macs.push(mac);
                    }
                }
                _ => {}
            }
        }
        let (Some(seconds), false) = (seconds, macs.is_empty()) else {
            return Err(format!(
                "the signature is not understood; send {HEADER}: t=SECONDS,v1=HEX"
            ));
        };
        let time: u64 = seconds.parse().map_err(|_| {
            "t of the signature is no whole number of seconds since 1970-01-01 UTC".to_owned()
        })?;
        let apart = time.abs_diff(now.0 / 1000);
        if apart > SKEW_SECONDS_MAX {
            return Err(format!(
                "the signature's time is {apart} s from the node's, {SKEW_SECONDS_MAX} at most; \
                 sign anew, and set both clocks"
            ));
        }
        Ok(Signature { seconds, macs })
    }

    /// Whether it is this body's under this secret.
    pub(super) fn fits(&self, secret: &Secret, body: &[u8]) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
            .expect("a key may have any length");
        mac.update(self.seconds.as_bytes());
        mac.update(b".");
        mac.update(body);
        // In constant time.
        self.macs.iter().any(|own| mac.clone().verify_slice(own).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_999);
    // printf '1700000000.{}' | openssl dgst -sha256 -hmac secret
    const MAC: &str = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";

    #[test]
    fn the_mac_is_of_time_and_body() {
        let value = format!("t=1700000000,v1={MAC}");
        let signature = Signature::read(&value, NOW).expect("well formed");
        assert!(signature.fits(&Secret::new("secret"), b"{}"));
        assert!(!signature.fits(&Secret::new("secret"), b"{ }"));
        assert!(!signature.fits(&Secret::new("Secret"), b"{}"));
        let value = format!("t=1700000001,v1={MAC}");
        let signature = Signature::read(&value, NOW).expect("well formed");
        assert!(!signature.fits(&Secret::new("secret"), b"{}"), "another time is another proof");
        let value = format!("t=1700000000, v1={}, v1={MAC}", "00".repeat(32));
        let signature = Signature::read(&value, NOW).expect("well formed");
        assert!(signature.fits(&Secret::new("secret"), b"{}"), "one of two is right");
    }

    #[test]
    fn what_is_old_or_malformed_is_refused_with_what_to_send() {
        for (value, told) in [
            (String::new(), "t=SECONDS,v1=HEX"),
            ("t=1700000000".to_owned(), "t=SECONDS,v1=HEX"),
            ("t=1700000000,v1=zz".to_owned(), "t=SECONDS,v1=HEX"),
            (format!("v1={MAC}"), "t=SECONDS,v1=HEX"),
            (format!("t=now,v1={MAC}"), "no whole number"),
            (format!("t=1699999699,v1={MAC}"), "301 s from the node's"),
            (format!("t=1700000301,v1={MAC}"), "301 s from the node's"),
        ] {
            let error = Signature::read(&value, NOW).expect_err(&value);
            assert!(error.contains(told), "{value}: {error}");
        }
        assert!(Signature::read(&format!("t=1700000300,v1={MAC}"), NOW).is_ok());
    }
}
