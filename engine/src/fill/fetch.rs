//! One fill's question to the origin: these bytes, of this version or none. What the answer's
//! headers do not prove is not kept.

use http::header::{HeaderValue, IF_MATCH, RANGE};
use http::{HeaderMap, Method};
use nilas_base::ByteRange;
use nilas_shards::store::FillPermit;
use std::rc::Rc;

use super::{FillError, append};
use crate::call::BlockWant;
use crate::mapping::{Asked, Subject, learn};
use crate::mutation::Mutation;
use crate::open::{CHECKSUM_MODE, object_request};
use crate::origin::{AnswerBody, OriginAnswer};
use crate::shard::Shard;

/// Fetches what the permit is for.
pub(super) async fn fetch(
    shard: &Rc<Shard>,
    want: &BlockWant,
    permit: &mut FillPermit,
) -> Result<(), FillError> {
    let block_start = u64::from(want.index) * shard.geometry.block_bytes;
    let run = permit.run();
    let range = ByteRange::new(block_start + run.start, block_start + run.end);
    let answer = shard.origin.ask(request(want, range)).await.map_err(FillError::Origin)?;
    let (body, skipped_bytes) = proven_body(shard, want, range, answer)?;
    pump(shard, want, permit, body, skipped_bytes).await
}

fn request(want: &BlockWant, range: ByteRange) -> crate::origin::OriginRequest {
    let mut headers = HeaderMap::new();
    headers.insert(CHECKSUM_MODE, HeaderValue::from_static("ENABLED"));
    let range = format!("bytes={}-{}", range.start, range.end - 1);
    headers.insert(RANGE, HeaderValue::from_str(&range).expect("digits are a header value"));
    if let Ok(etag) = HeaderValue::from_str(&want.mapping.etag)
        && !Mutation::ResumeUnmatched.is_planted()
    {
        headers.insert(IF_MATCH, etag);
    }
    object_request(Method::GET, &want.mapping.name, headers)
}

/// The body, and how many of its bytes come before the range, if the head proves both.
fn proven_body(
    shard: &Shard,
    want: &BlockWant,
    range: ByteRange,
    answer: OriginAnswer,
) -> Result<(AnswerBody, u64), FillError> {
    match answer.status {
        200 | 206 => {}
        404 | 412 => return Err(FillError::VersionGone),
        status => return Err(FillError::Status(status)),
    }
    let mapping = &want.mapping;
    let subject =
        Subject { name: &mapping.name, home_hash: mapping.home_hash, class: mapping.class };
    let asked = Asked { range: true, head: false };
    let learned = learn(&shard.geometry, &subject, asked, answer.status, &answer.headers)
        .map_err(|_| FillError::Unproven)?;
    if learned.mapping.version != mapping.version && !Mutation::ResumeUnmatched.is_planted() {
        return Err(FillError::VersionGone);
    }
    if !learned.body.contains(range) {
        return Err(FillError::Unproven);
    }
    Ok((answer.body, range.start - learned.body.start))
}

async fn pump(
    shard: &Rc<Shard>,
    want: &BlockWant,
    permit: &mut FillPermit,
    mut body: AnswerBody,
    mut skipped_bytes: u64,
) -> Result<(), FillError> {
    while !permit.remaining().is_empty() {
        let chunk = match body.next().await {
            Some(chunk) => chunk.map_err(FillError::Origin)?,
            None => {
                return Err(FillError::Origin(crate::origin::OriginError::broken(
                    "the origin's body ended before the length it had announced",
                )));
            }
        };
        let skip = skipped_bytes.min(chunk.len() as u64);
        skipped_bytes -= skip;
        let bytes = &chunk[skip as usize..];
        let wanted = (bytes.len() as u64).min(permit.remaining().len());
        if wanted > 0 {
            append(shard, want, permit, &bytes[..wanted as usize]);
        }
    }
    // The end is read too, so that the connection can be used again.
    if let Some(Ok(_)) = body.next().await {
        tracing::debug!("the origin sent more than was asked for");
    }
    Ok(())
}
