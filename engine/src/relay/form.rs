//! A POST form: whose it is stands in its body, before its file. It is read as far as that and held
//! against the roster; then it goes to the origin as it came, which holds the policy against it once
//! more. So its key must be one that the origin knows.

use std::rc::Rc;

use nilas_net::form::{FORM_HEAD_BYTES_MAX, FormHead, FormParsed, FormProof, boundary, parse_form};
use nilas_net::sigv4::Credentials;
use nilas_net::{Code, S3Error};

use crate::access::{Roster, Unproven};
use crate::client::Client;
use crate::invalidate::Touched;
use crate::put::{Upload, UploadError};
use crate::request::Request;
use crate::shard::Shard;

/// Admits a form, or says why not; gives what it writes.
pub(super) async fn admit<'a>(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'a>,
    upload: &mut Option<Upload>,
) -> Result<Touched<'a>, UploadError> {
    let refused = |error: S3Error| UploadError::Check(error);
    let bucket = request.target.bucket.expect("a form is posted to a bucket");
    let upload =
        upload.as_mut().ok_or_else(|| refused(S3Error::new(Code::MalformedPOSTRequest)))?;
    let form = read(shard, client, request, upload).await?;
    let proof = FormProof::of(&form);
    request.notes.access_key(proof.access_key().unwrap_or_default());
    prove(&shard.access.current(), proof, bucket, form.key().as_deref()).map_err(refused)?;
    Ok(match form.key() {
        Some(key) => Touched::Keys(bucket, vec![key]),
        None => Touched::Bucket(bucket),
    })
}

/// Reads the form as far as its file; all of it is still to be sent.
async fn read(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'_>,
    upload: &mut Upload,
) -> Result<FormHead, UploadError> {
    let content_type = request.head.headers_named("content-type").next().unwrap_or_default();
    let boundary = boundary(content_type).map_err(|error| UploadError::Check(error.into()))?;
    let mut form = None;
    upload
        .peek(shard, client, FORM_HEAD_BYTES_MAX, |bytes| match parse_form(bytes, boundary)? {
            FormParsed::Partial => Ok(false),
            FormParsed::Whole(whole) => {
                form = Some(whole);
                Ok(true)
            }
        })
        .await?;
    form.ok_or_else(|| UploadError::Check(S3Error::new(Code::MalformedPOSTRequest)))
}

fn prove(
    roster: &Roster,
    proof: FormProof<'_>,
    bucket: &str,
    key: Option<&str>,
) -> Result<(), S3Error> {
    let Some(access_key) = proof.access_key() else {
        return match roster.anonymous {
            Unproven::Relay => Ok(()),
            Unproven::Deny => Err(S3Error::because(Code::AccessDenied, UNSIGNED)),
        };
    };
    let Some(found) = roster.find(access_key) else {
        return match (proof, roster.sigv2) {
            (FormProof::V2 { .. }, Unproven::Relay) => Ok(()),
            _ => Err(S3Error::new(Code::InvalidAccessKeyId)),
        };
    };
    let grant = roster.grant(found.index);
    let is_the_origins_to_refuse = proof.is_unsigned() && grant.is_known_to_origin;
    if !is_the_origins_to_refuse && !proof.holds(found.secret) {
        return Err(S3Error::new(Code::SignatureDoesNotMatch));
    }
    grant.scope.admits_form(bucket, key)?;
    match grant.is_known_to_origin {
        true => Ok(()),
        false => Err(S3Error::because(Code::NotImplemented, UNKNOWN_TO_ORIGIN)),
    }
}

const UNSIGNED: &str = "Forms without a signed policy are not served.";
const UNKNOWN_TO_ORIGIN: &str = "This access key is the node's own, and the policy of a form is signed \
    with it: the origin could not check it. Sign the policy with an access key that the node and its \
    origin share.";
