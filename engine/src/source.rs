//! Where a miss is answered from: an ordered list of sources, now the origin alone. A source is asked
//! for an object's bytes or facts and answers with a version, a range and the bytes, all proven by
//! what it said, or with the words of the last one asked. How the origin is asked patiently, but not
//! too often, is `origin`; what it is judged by, `health`.

mod backoff;
mod breaker;
mod budget;
mod health;
mod origin;
mod percentile;

pub use backoff::doubled;
pub use health::OriginHealth;
pub use origin::{OriginPatience, OriginSource, is_failure};

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use nilas_base::ByteRange;
use nilas_net::range::SingleRange;

use crate::identity::ObjectName;
use crate::mapping::{Mapping, Subject};
use crate::origin::{AnswerBody, OriginAnswer, OriginError, Signer};

/// What a source is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// About whom.
    pub subject: Subject<'a>,
    /// As whom the origin is asked.
    pub signer: &'a Signer,
    /// Whether only the head is wanted.
    pub facts_only: bool,
    /// Whether it is the node's own: that it fails is no reason to leave the origin alone.
    pub is_own: bool,
    /// Which bytes; all of them where there is none.
    pub range: Option<SingleRange>,
    /// Under which condition.
    pub condition: Condition<'a>,
}

/// When a source is to answer with bytes.
#[derive(Clone, Copy, Debug)]
pub enum Condition<'a> {
    /// Always.
    None,
    /// Unless the version still has this ETag.
    IfChanged(&'a str),
    /// Only if the version has this ETag.
    IfSame(&'a str),
}

/// What a source answers.
#[derive(Debug)]
pub enum Reply {
    /// A version and bytes of it.
    Proven(Proven),
    /// The version is the one that the question named.
    Unchanged,
    /// Anything else: an error, or a head that does not prove what follows it.
    Other(OriginAnswer),
}

/// Bytes of a version, with what proves both.
#[derive(Debug)]
pub struct Proven {
    /// The version.
    pub mapping: Arc<Mapping>,
    /// The bytes that follow; empty where only facts were asked for.
    pub range: ByteRange,
    /// Where they come from.
    pub body: AnswerBody,
}

/// What asking a source comes to.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Reply, OriginError>> + 'a>>;

/// A place that may hold what a miss misses.
pub trait Source {
    /// Asks it; an error where it gave no answer.
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> Asking<'a>;
}

/// The sources, in the order in which they are asked.
pub struct Sources {
    first: Vec<Rc<dyn Source>>,
    /// The system of record: its word is final.
    last: Rc<dyn Source>,
}

impl Sources {
    /// The origin alone.
    pub fn of_origin(origin: Rc<OriginSource>) -> Sources {
        Sources { first: Vec::new(), last: origin }
    }

    /// Asks one after the other until one has proof.
    pub async fn ask(&self, question: &Question<'_>) -> Result<Reply, OriginError> {
        for source in &self.first {
            if let Ok(proven @ Reply::Proven(_)) = source.ask(question).await {
                return Ok(proven);
            }
        }
        self.last.ask(question).await
    }
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ObjectName { bucket, key } = &**self.name;
        write!(formatter, "{bucket}/{key}")
    }
}
