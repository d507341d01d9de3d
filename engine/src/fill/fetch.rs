//! One fill's questions: these bytes, of this version or none, asked again from where the answer broke
//! off. What an answer's head does not prove is not kept.

use std::rc::Rc;

use nilas_base::{ByteRange, KIB};
use nilas_net::range::SingleRange;
use nilas_shards::store::FillPermit;

use super::{FillError, append};
use crate::call::BlockWant;
use crate::mapping::Subject;
use crate::metrics::OriginEvent;
use crate::mutation::Mutation;
use crate::origin::{AnswerBody, OriginError};
use crate::shard::Shard;
use crate::source::{Condition, Proven, Question, Reply};

/// An answer that brought less before it broke off has brought nothing: one that always breaks off
/// at once is not asked for for ever.
const PROGRESS_BYTES_MIN: u64 = 4 * KIB;

/// Fetches what the permit still lacks, however often its answers break off, as long as they bring
/// something. `barren_tries` tries that brought nothing came before.
pub(super) async fn fetch(
    shard: &Rc<Shard>,
    want: &BlockWant,
    permit: &mut FillPermit,
    mut barren_tries: u32,
) -> Result<(), FillError> {
    loop {
        let before = permit.remaining().start;
        let error = match fetch_once(shard, want, permit).await {
            Err(FillError::BrokeOff(error)) => error,
            ended => return ended,
        };
        let has_progressed = permit.remaining().start - before >= PROGRESS_BYTES_MIN;
        barren_tries = if has_progressed { 0 } else { barren_tries + 1 };
        tracing::debug!(%error, "an origin's body broke off; the rest is asked for");
        if !shard.origin.pause_before_resuming(barren_tries).await {
            return Err(FillError::BrokeOff(error));
        }
        shard.counters.origin_event(OriginEvent::Resume);
    }
}

async fn fetch_once(
    shard: &Rc<Shard>,
    want: &BlockWant,
    permit: &mut FillPermit,
) -> Result<(), FillError> {
    let block_start = u64::from(want.index) * shard.geometry.block_bytes;
    let rest = permit.remaining();
    let range = ByteRange::new(block_start + rest.start, block_start + rest.end);
    let mapping = &want.mapping;
    let question = Question {
        subject: Subject {
            name: &mapping.name,
            home_hash: mapping.home_hash,
            class: mapping.class,
            era: mapping.era,
        },
        signer: &want.signer,
        facts_only: false,
        is_own: want.is_own,
        range: Some(SingleRange::FromTo { first: range.start, last: range.end - 1 }),
        condition: Condition::IfSame(&mapping.etag),
    };
    let reply = shard.sources.ask(&question).await.map_err(FillError::Origin)?;
    let (body, skipped_bytes) = proven_body(want, range, reply)?;
    pump(shard, want, permit, body, skipped_bytes).await
}

/// The body, and how many of its bytes come before the range, if the reply proves both.
fn proven_body(
    want: &BlockWant,
    range: ByteRange,
    reply: Reply,
) -> Result<(AnswerBody, u64), FillError> {
    let Proven { mapping, range: brought, body } = match reply {
        Reply::Proven(proven) => proven,
        Reply::Unchanged => return Err(FillError::Unproven),
        Reply::Other(answer) => {
            return Err(match answer.status {
                200 | 206 => FillError::Unproven,
                404 | 412 => FillError::VersionGone,
                _ => FillError::Refused,
            });
        }
    };
    if mapping.version != want.mapping.version && !Mutation::ResumeUnmatched.is_planted() {
        return Err(FillError::VersionGone);
    }
    if !brought.contains(range) {
        return Err(FillError::Unproven);
    }
    Ok((body, range.start - brought.start))
}

async fn pump(
    shard: &Rc<Shard>,
    want: &BlockWant,
    permit: &mut FillPermit,
    mut body: AnswerBody,
    mut skipped_bytes: u64,
) -> Result<(), FillError> {
    while !permit.remaining().is_empty() {
        let chunk = match shard.origin.next(&mut body).await {
            Some(chunk) => chunk.map_err(FillError::BrokeOff)?,
            None => {
                return Err(FillError::BrokeOff(OriginError::broken(
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
    if let Some(Ok(_)) = shard.origin.next(&mut body).await {
        tracing::debug!("the origin sent more than was asked for");
    }
    Ok(())
}
