//! Who signed a form's policy. Where the origin holds the same key, the policy itself is its to
//! judge; else `policy` reads it and `verdict` does.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use subtle::ConstantTimeEq;

use super::FormHead;
use crate::sigv4::{ALGORITHM, form_signature, is_form_credential};
use crate::{Code, S3Error};

/// What a form proves itself by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormProof<'a> {
    /// Nothing.
    None,
    /// A policy signed with Signature Version 2.
    V2 {
        /// Whose.
        access_key: &'a str,
        /// Over this policy, in base64.
        policy: &'a str,
        /// In base64.
        signature: &'a str,
    },
    /// A policy signed with Signature Version 4.
    V4 {
        /// Access key and scope.
        credential: &'a str,
        /// Over this policy, in base64.
        policy: &'a str,
        /// In hexadecimal.
        signature: &'a str,
    },
}

impl<'a> FormProof<'a> {
    /// The form's own.
    pub fn of(form: &'a FormHead) -> FormProof<'a> {
        let Some(policy) = form.field("policy") else { return FormProof::None };
        if let Some(credential) = form.field("x-amz-credential") {
            let signature = form.field("x-amz-signature").unwrap_or_default();
            return FormProof::V4 { credential, policy, signature };
        }
        match form.field("awsaccesskeyid") {
            Some(access_key) => {
                let signature = form.field("signature").unwrap_or_default();
                FormProof::V2 { access_key, policy, signature }
            }
            None => FormProof::None,
        }
    }

    /// Whose it is said to be.
    pub fn access_key(&self) -> Option<&'a str> {
        match self {
            FormProof::None => None,
            FormProof::V2 { access_key, .. } => Some(access_key),
            FormProof::V4 { credential, .. } => credential.split('/').next(),
        }
    }

    /// Whether there is no signature: nobody can take it for a proof, and the origin has words for it.
    pub fn is_unsigned(&self) -> bool {
        match self {
            FormProof::None => true,
            FormProof::V2 { signature, .. } | FormProof::V4 { signature, .. } => {
                signature.is_empty()
            }
        }
    }

    /// Refuses a form whose proof of version 4 is not whole.
    pub fn check_whole(form: &FormHead) -> Result<(), S3Error> {
        let invalid = |message: String| Err(S3Error::because(Code::InvalidArgument, message));
        for name in ["x-amz-signature", "x-amz-algorithm", "x-amz-credential", "x-amz-date"] {
            if form.field(name).is_none_or(str::is_empty) {
                return invalid(format!(
                    "Bucket POST must contain a field named '{name}'. If it is specified, please \
                     check the order of the fields."
                ));
            }
        }
        let field = |name: &str| form.field(name).unwrap_or_default();
        if field("x-amz-algorithm") != ALGORITHM {
            return invalid(format!("x-amz-algorithm must be {ALGORITHM}."));
        }
        match is_form_credential(field("x-amz-credential"), field("x-amz-date")) {
            true => Ok(()),
            false => invalid(BAD_CREDENTIAL.to_owned()),
        }
    }

    /// Whether it was made with this secret; compared in constant time.
    pub fn holds(&self, secret: &str) -> bool {
        match self {
            FormProof::None => false,
            FormProof::V2 { policy, signature, .. } => {
                let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes())
                    .expect("HMAC takes a key of any length");
                mac.update(policy.as_bytes());
                let expected = BASE64_STANDARD.encode(mac.finalize().into_bytes());
                bool::from(expected.as_bytes().ct_eq(signature.as_bytes()))
            }
            FormProof::V4 { credential, policy, signature } => {
                form_signature(secret, credential, policy).is_some_and(|expected| {
                    bool::from(expected.as_bytes().ct_eq(signature.as_bytes()))
                })
            }
        }
    }
}

const BAD_CREDENTIAL: &str = "x-amz-credential must be <access key>/<date>/<region>/s3/aws4_request, \
    and its date that of x-amz-date, which is written as 20300131T120000Z.";
