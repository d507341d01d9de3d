//! What nobody may ask twice at once: a byte of a version while it is being fetched, and a key's
//! current version while that is being asked. Holds as long as nobody gives a question up, no write
//! comes between, and none of unknown outcome keeps readers from sharing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use nilas_base::{ByteRange, Monotonic};
use nilas_engine::origin::{AnswerSender, OriginRequest, OriginResult, Replier};
use nilas_engine::purge::Purge;

use super::{SimulatedOrigin, asker, header};
use crate::history::{Asker, History};
use crate::judge::range::single;
use crate::key::KeyId;

/// A second, after which readers ask for themselves: the engine's `written` says why.
const BEFOREHAND_TIME_MAX: Duration = Duration::from_secs(1);

/// Questions under way.
#[derive(Default)]
pub(super) struct Overlap {
    under_way: Vec<UnderWay>,
    /// Keys of which something was asked before the node knew what its device takes back: as after a
    /// purge, who read before that reads on beside those who ask anew.
    of_settling: BTreeSet<KeyId>,
}

/// One question among them, as the one who answers it holds it.
#[derive(Clone)]
pub(super) struct Line(Rc<RefCell<Stage>>, Option<Rc<RefCell<History>>>);

/// How far a question has come.
enum Stage {
    Asked(Replier),
    Sending(Rc<AnswerSender>),
    Over,
}

struct UnderWay {
    line: Line,
    key: KeyId,
    asker: Asker,
    is_head: bool,
    asked_at: Monotonic,
    etag: Option<String>,
    range: Option<ByteRange>,
    /// Whether a write has come between, or the node did not know yet what its device takes back, so that it
    /// may be asked again.
    is_disturbed: bool,
}

impl Line {
    /// Whether whoever asked has gone.
    pub(super) fn is_given_up(&self) -> bool {
        match &*self.0.borrow() {
            Stage::Asked(replier) => replier.is_gone(),
            Stage::Sending(sender) => {
                let closed = pin!(sender.closed());
                closed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
            }
            Stage::Over => true,
        }
    }

    /// The answer leaves, and its body after it where there is one.
    pub(super) fn reply(&self, answer: OriginResult, body: Option<Rc<AnswerSender>>) {
        if let (Err(error), Some(history)) = (&answer, &self.1) {
            history.borrow_mut().note(|| format!("  origin > {error}"));
        }
        if let (Ok(answer), Some(history)) = (&answer, &self.1) {
            history.borrow_mut().note(|| {
                format!(
                    "  origin > {} {:?} {:?}",
                    answer.status,
                    answer.headers.get("etag"),
                    answer.headers.get("content-range")
                )
            });
        }
        let next = body.map_or(Stage::Over, Stage::Sending);
        if let Stage::Asked(replier) = self.0.replace(next) {
            replier.reply(answer);
        }
    }

    /// The body has ended.
    pub(super) fn end(&self) {
        self.0.replace(Stage::Over);
    }
}

impl SimulatedOrigin {
    /// A question arrives.
    pub(super) fn enter(&self, key: KeyId, request: &OriginRequest, replier: Replier) -> Line {
        let mut overlap = self.overlap.borrow_mut();
        overlap.under_way.retain(|old| !old.line.is_given_up());
        let is_disturbed = self.history.borrow().is_settling;
        let new = UnderWay {
            line: Line(
                Rc::new(RefCell::new(Stage::Asked(replier))),
                Some(Rc::clone(&self.history)),
            ),
            key,
            asker: asker(request),
            is_head: request.method == http::Method::HEAD,
            asked_at: self.history.borrow_mut().now().at,
            etag: header(request, "if-match").map(str::to_owned),
            range: header(request, "range").and_then(single),
            is_disturbed,
        };
        if is_disturbed {
            overlap.of_settling.insert(key);
        }
        let (is_shared, is_anew) = {
            let history = self.history.borrow();
            let is_anew = history.was_purged(key) || overlap.of_settling.contains(&key);
            (history.readers_share(key), is_anew)
        };
        if overlap.under_way.iter().any(|old| old.is_repeated_by(&new, is_shared, is_anew)) {
            let what = format!("{:?} of {key:?} {:?} {:?}", new.asker, new.etag, new.range);
            self.history.borrow_mut().violation(format!("asked twice at once: {what}"));
        }
        let line = new.line.clone();
        overlap.under_way.push(new);
        line
    }
}

impl SimulatedOrigin {
    /// A write to a key begins or ends, or the key is gone: what was asked before may be asked again,
    /// and where questions fail, what failed before may be repeated beside what is asked from now on.
    pub(super) fn disturb(&self, key: KeyId) {
        self.overlap.borrow_mut().disturb(key);
        if self.questions_fail {
            self.history.borrow_mut().keep_readers_apart(key);
        }
    }
}

impl SimulatedOrigin {
    /// The node has ended: nobody waits for what it asked.
    pub fn node_ends(&self) {
        *self.overlap.borrow_mut() = Overlap::default();
    }
}

impl SimulatedOrigin {
    /// What is purged is asked for anew, whatever is under way.
    pub fn disturb_purged(&self, purge: &Purge) {
        let keys: Vec<KeyId> = {
            let history = self.history.borrow();
            let keys = history.keys.iter().enumerate();
            let purged = keys.filter(|(_, key)| purge.scope.contains(&key.name));
            purged.map(|(number, _)| KeyId(number)).collect()
        };
        for key in keys {
            self.disturb(key);
            self.history.borrow_mut().begin_purge(key);
        }
    }
}

impl UnderWay {
    fn is_repeated_by(&self, new: &UnderWay, is_shared: bool, is_anew: bool) -> bool {
        if self.key != new.key || self.asker != new.asker || self.is_disturbed {
            return false;
        }
        match self.asker {
            Asker::Client => false,
            // Who asked before a purge may have waited for a listing, and asks beside those after it.
            Asker::Open => {
                is_shared
                    && !is_anew
                    && !self.is_waited_for_no_more(new)
                    && matches!(&*self.line.0.borrow(), Stage::Asked(_))
            }
            Asker::Fill => {
                let common = self.range.zip(new.range).and_then(|(a, b)| a.intersection(b));
                // Who read before a purge reads on beside those who ask anew.
                self.etag == new.etag && common.is_some() && !is_anew
            }
        }
    }

    /// What the node asks of its own accord after a write, a HEAD, readers await for so long at most.
    fn is_waited_for_no_more(&self, new: &UnderWay) -> bool {
        self.is_head && new.asked_at.since(self.asked_at) >= BEFOREHAND_TIME_MAX
    }
}

impl Overlap {
    fn disturb(&mut self, key: KeyId) {
        self.under_way.iter_mut().filter(|it| it.key == key).for_each(|it| it.is_disturbed = true);
    }
}
