//! A POST form: whose it is stands in its body, before its file. It is read as far as that and held
//! against the roster. Where the origin shares its key it goes on as it came, and the origin holds the
//! policy against it once more; else the policy is judged here, and a form of the node's own goes on
//! in its place, with the file as it comes (`file`).

mod file;
mod prove;

pub(super) use file::FilePipe;

use std::rc::Rc;

use http::HeaderMap;
use nilas_base::UnixMillis;
use nilas_net::form::{
    FORM_HEAD_BYTES_MAX, FormError, FormFile, FormHead, FormParsed, FormProof, FormRewrite, Policy,
    boundary, parse_form,
};
use nilas_net::{Code, S3Error};

use crate::access::Grant;
use crate::client::Client;
use crate::client::body::{BodyError, PIECE_BYTES_MAX};
use crate::invalidate::Touched;
use crate::origin::{BodyFraming, BodyStream, OriginForm, OriginRequest, RequestBody, Signer};
use crate::put::{Upload, UploadError};
use crate::request::Request;
use crate::shard::Shard;
use prove::Proved;

/// What of a form is on its way through a shard at once: itself, and its file as it goes on.
pub(super) const COPIES: u64 = 2;
/// What of a form is held until it has been read as far as its file: all that may come before that,
/// the piece in which it ends, and one that is being received.
pub(super) const UNPROVED_BYTES: u64 = FORM_HEAD_BYTES_MAX as u64 + 2 * PIECE_BYTES_MAX as u64;

/// The form that goes to the origin in place of the client's.
pub(super) struct Rewrite {
    /// As whom the origin is asked.
    signer: Signer,
    around: OriginForm,
    file: FormFile,
}

/// Admits a form, or says why not; gives what it writes, and what goes on in its place.
pub(super) async fn admit<'a>(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'a>,
    upload: &mut Option<Upload>,
) -> Result<(Touched<'a>, Option<Rewrite>), UploadError> {
    let bucket = request.target.bucket.expect("a form is posted to a bucket");
    let content_type = request.head.headers_named("content-type").next().unwrap_or_default();
    let boundary = boundary(content_type).map_err(|error| refused(error.into()))?;
    let upload =
        upload.as_mut().ok_or_else(|| refused(S3Error::new(Code::MalformedPOSTRequest)))?;
    // Nobody may keep memory for long who has not said who they are.
    let patience = shard.settings.client.header_timeout;
    let reading = read(shard, client, boundary, upload);
    let read = shard.reactor.timeout(patience, reading).await;
    let (form, read_bytes) = read.unwrap_or(Err(UploadError::Body(BodyError::Slow)))?;
    let proof = FormProof::of(&form);
    request.notes.access_key(proof.access_key().unwrap_or_default());
    let proved = prove::prove(&shard.access.current(), proof, &form).map_err(refused)?;
    let key = form.key();
    if let Some(grant) = proved.grant() {
        grant.scope.admits_form(bucket, key.as_deref()).map_err(refused)?;
        client.set_account(grant.enter(request.started).map_err(refused)?);
        client.pay(read_bytes);
    }
    match &proved {
        // Which key it writes is for the origin to say, which may read other fields than were seen here:
        // of those that are there twice another one, or what follows the file.
        Proved::LeftToOrigin(_) => Ok((Touched::Bucket(bucket), None)),
        Proved::JudgedHere(grant) => {
            let now = shard.reactor.clock().wall();
            let length = upload.length();
            let rewrite = judge((&form, bucket, boundary), grant, length, now).map_err(refused)?;
            Ok((Touched::Keys(bucket, key.into_iter().collect()), Some(rewrite)))
        }
    }
}

/// Holds a form against its policy; gives what goes on in its place.
fn judge(
    (form, bucket, boundary): (&FormHead, &str, &str),
    grant: &Grant,
    length: Option<u64>,
    now: UnixMillis,
) -> Result<Rewrite, S3Error> {
    let policy = form.field("policy").unwrap_or_default();
    let range = Policy::parse(policy).and_then(|policy| policy.admits(form, bucket, now))?;
    let around = FormRewrite::of(form, (bucket, boundary), range)?;
    let offset = form.file_offset().expect("a form without a file was refused");
    let file = FormFile::new(boundary, offset, range);
    let rest_bytes = length.map(|whole| whole.saturating_sub(offset as u64));
    if let Some(rest) = rest_bytes {
        file.check_rest(rest)?;
    }
    let around = OriginForm { form: around, rest_bytes };
    Ok(Rewrite { signer: grant.signer.clone(), around, file })
}

fn refused(error: S3Error) -> UploadError {
    UploadError::Check(error)
}

/// Reads the form as far as its file, and says how many bytes were read; all of them are still to be
/// sent.
async fn read(
    shard: &Rc<Shard>,
    client: &mut Client,
    boundary: &str,
    upload: &mut Upload,
) -> Result<(FormHead, u64), UploadError> {
    let mut form = None;
    let seen = upload
        .peek(shard, client, FORM_HEAD_BYTES_MAX, |bytes| match parse_form(bytes, boundary)? {
            FormParsed::Partial => Ok(false),
            FormParsed::Whole(whole) => {
                form = Some(whole);
                Ok(true)
            }
        })
        .await?;
    let form = form.ok_or_else(|| refused(S3Error::new(Code::MalformedPOSTRequest)))?;
    if form.file_offset().is_some_and(|offset| offset > FORM_HEAD_BYTES_MAX) {
        return Err(refused(FormError::TooLarge.into()));
    }
    Ok((form, seen.len() as u64))
}

impl Rewrite {
    /// Puts itself in the place of the client's form; gives what its file passes through.
    pub(super) fn take_place(self, asked: &mut OriginRequest) -> Option<FilePipe> {
        let Rewrite { signer, around, file } = self;
        let framing = BodyFraming::Form(Box::new(around));
        let (to, stream) = BodyStream::channel(None, framing);
        let clients = std::mem::replace(&mut asked.body, RequestBody::Stream(stream));
        let RequestBody::Stream(from) = clients else { return None };
        asked.signer = signer;
        remove_unproved(&mut asked.headers);
        Some(FilePipe::new(from, file, to))
    }
}

/// The fields say all that was proved; what else stands in the head is nobody's word.
fn remove_unproved(headers: &mut HeaderMap) {
    let names: Vec<_> =
        headers.keys().filter(|name| name.as_str().starts_with("x-amz-")).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}
