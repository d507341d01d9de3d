//! Whether a write has happened, as far as the origin's answer says. An answer may begin before the
//! write is done (a completed upload, a copy, a list of deletes): only its end settles it, so its
//! last piece waits here until the homes have been told.

use std::rc::Rc;

use bytes::Bytes;

use super::Outcome;
use crate::epoch::Moment;
use crate::invalidate::{self, Stage, Touched, Write};
use crate::metrics::{Failure, WriteAllocation};
use crate::mutation::Mutation;
use crate::origin::{AnswerBody, OriginAnswer, OriginError, OriginResult, Signer};
use crate::put::Aside;
use crate::shard::Shard;
use crate::written;

impl Outcome {
    /// The same, with another answer where there is one.
    pub(super) async fn map_answer<F: Future<Output = OriginResult>>(
        self,
        map: impl FnOnce(OriginAnswer) -> F,
    ) -> Outcome {
        match self {
            Outcome::Answered(Ok(answer)) => Outcome::Answered(map(answer).await),
            other => other,
        }
    }

    /// What is known of the write.
    pub(super) fn stage(&self, write: &Write<'_>) -> Stage {
        match self {
            Outcome::Answered(Ok(answer)) | Outcome::AnsweredEarly(Ok(answer), _)
                if is_settled_at_its_end(answer, write) =>
            {
                Stage::GoesOn
            }
            Outcome::Answered(Ok(answer)) | Outcome::AnsweredEarly(Ok(answer), _) => {
                stage_of_status(answer.status)
            }
            Outcome::Answered(Err(error)) | Outcome::AnsweredEarly(Err(error), _) => {
                stage_of_error(error)
            }
            // Its last bytes were never sent.
            Outcome::Refused(_) => Stage::Settled,
        }
    }
}

/// Whoever answers 5xx may stand between, or may have failed after the deed.
fn stage_of_status(status: u16) -> Stage {
    match status {
        501 => Stage::Settled,
        500.. => Stage::Unknown,
        _ => Stage::Settled,
    }
}

/// Errors that say that nothing was asked, or that what was asked was taken back.
fn stage_of_error(error: &OriginError) -> Stage {
    match error {
        OriginError::Unreachable { .. }
        | OriginError::Credentials { .. }
        | OriginError::Resting { .. }
        | OriginError::BodyAborted
        | OriginError::Busy => Stage::Settled,
        _ => Stage::Unknown,
    }
}

/// Whether only the end of an answer tells what became of the write.
fn is_settled_at_its_end(answer: &OriginAnswer, write: &Write<'_>) -> bool {
    !write.is_none() && matches!(answer.status, 200..=299) && answer.length != Some(0)
}

/// Tells the homes what has become of a write.
pub(super) async fn announce(shard: &Rc<Shard>, write: &Write<'_>, stage: Stage) {
    if stage == Stage::Unknown && !write.is_none() {
        shard.counters.failure(Failure::WriteUnknown);
    }
    if Mutation::NoBumpAfterRelay.is_planted() {
        return;
    }
    invalidate::announce(shard, write, stage).await;
}

/// Tells what has become of a write, and hands what it has brought to its key's home, where that is
/// still to be believed: `aside` was kept since the home's moment that comes with it.
pub(super) async fn settle(
    shard: &Rc<Shard>,
    write: &Write<'_>,
    outcome: &Outcome,
    (aside, signer): (Option<(Aside, Moment)>, &Signer),
) {
    let Some((aside, began)) = aside else {
        return announce(shard, write, outcome.stage(write)).await;
    };
    let brought = match outcome {
        Outcome::Answered(Ok(answer)) => aside.brought(answer),
        _ => None,
    };
    match (&write.touched, brought) {
        (Touched::Key(name), Some(brought)) if !Mutation::NoBumpAfterRelay.is_planted() => {
            let told = (write.id, outcome.stage(write));
            written::settle(shard, *name, told, (brought, began), signer).await;
        }
        _ => {
            shard.counters.write_allocation(WriteAllocation::Refused);
            announce(shard, write, outcome.stage(write)).await;
        }
    }
}

/// An answer's body on its way to the client.
pub(super) struct Passing<'a> {
    shard: &'a Rc<Shard>,
    body: AnswerBody,
    /// The write that the body's end settles.
    unsettled: Option<&'a Write<'a>>,
    held: Option<Bytes>,
    codes: CodeScan,
}

impl<'a> Passing<'a> {
    /// The body of `answer`, whose end settles what became of the write.
    pub(super) fn new(
        shard: &'a Rc<Shard>,
        answer: &mut OriginAnswer,
        write: &'a Write<'a>,
    ) -> Passing<'a> {
        let body = std::mem::replace(&mut answer.body, AnswerBody::empty());
        let unsettled = is_settled_at_its_end(answer, write).then_some(write);
        Passing { shard, body, unsettled, held: None, codes: CodeScan::default() }
    }

    /// The next piece; the last one when the write is settled.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, OriginError>> {
        while let Some(write) = self.unsettled {
            match self.body.next().await {
                Some(Ok(piece)) => {
                    self.codes.pass(&piece);
                    if let Some(earlier) = self.held.replace(piece) {
                        return Some(Ok(earlier));
                    }
                }
                Some(Err(error)) => {
                    self.unsettled = None;
                    announce(self.shard, write, Stage::Unknown).await;
                    return Some(Err(error));
                }
                None => {
                    self.unsettled = None;
                    announce(self.shard, write, self.codes.stage()).await;
                    return self.held.take().map(Ok);
                }
            }
        }
        self.shard.origin.next(&mut self.body).await
    }

    /// Reads on without a client, so that the homes hear the end.
    pub(super) async fn settle(mut self) {
        while self.unsettled.is_some() {
            self.next().await;
        }
    }
}

/// Looks in an answer for codes that say that the origin does not know either.
#[derive(Default)]
struct CodeScan {
    tail: Vec<u8>,
    is_unknown: bool,
}

/// Within an answer that began with 200.
const UNKNOWN_CODES: [&[u8]; 3] =
    [b"<Code>InternalError<", b"<Code>ServiceUnavailable<", b"<Code>SlowDown<"];
/// One byte less than the longest of them.
const TAIL_BYTES: usize = 24;

impl CodeScan {
    fn pass(&mut self, piece: &[u8]) {
        self.tail.extend_from_slice(&piece[..piece.len().min(TAIL_BYTES)]);
        self.is_unknown |= holds_code(&self.tail) || holds_code(piece);
        if piece.len() >= TAIL_BYTES {
            self.tail.clear();
            self.tail.extend_from_slice(&piece[piece.len() - TAIL_BYTES..]);
        } else {
            let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
            self.tail.drain(..surplus);
        }
    }

    fn stage(&self) -> Stage {
        if self.is_unknown { Stage::Unknown } else { Stage::Settled }
    }
}

fn holds_code(bytes: &[u8]) -> bool {
    UNKNOWN_CODES.iter().any(|code| bytes.windows(code.len()).any(|window| window == *code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage_of(text: &str, piece_bytes: usize) -> Stage {
        let mut scan = CodeScan::default();
        text.as_bytes().chunks(piece_bytes).for_each(|piece| scan.pass(piece));
        scan.stage()
    }

    #[test]
    fn a_code_is_found_however_the_answer_is_cut() {
        let padding = "x".repeat(100);
        for code in ["InternalError", "ServiceUnavailable", "SlowDown"] {
            let text = format!("{padding}<Error><Code>{code}</Code>{padding}</Error>");
            for piece_bytes in 1..text.len() {
                assert_eq!(stage_of(&text, piece_bytes), Stage::Unknown, "{code} {piece_bytes}");
            }
        }
        for piece_bytes in 1..50 {
            let refused = "<Error><Code>AccessDenied</Code><Message>InternalError</Message>";
            assert_eq!(stage_of(refused, piece_bytes), Stage::Settled);
        }
    }

    #[test]
    fn only_an_answer_settles_what_was_asked() {
        let broken = OriginError::broken("cut");
        let silent = OriginError::TimedOut {
            origin: String::new(),
            step: "",
            waited: std::time::Duration::ZERO,
        };
        for error in [broken, silent, OriginError::Closed] {
            assert_eq!(stage_of_error(&error), Stage::Unknown, "{error}");
        }
        let unreachable = OriginError::Unreachable { origin: String::new(), cause: String::new() };
        for error in [unreachable, OriginError::Busy, OriginError::BodyAborted] {
            assert_eq!(stage_of_error(&error), Stage::Settled, "{error}");
        }
        for status in [200, 204, 304, 403, 404, 409, 412, 501] {
            assert_eq!(stage_of_status(status), Stage::Settled, "{status}");
        }
        for status in [500, 502, 503, 504] {
            assert_eq!(stage_of_status(status), Stage::Unknown, "{status}");
        }
    }
}
