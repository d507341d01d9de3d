//! The script: the rules that stand now, and which of them meets a request. The first that fits and
//! is drawn meets it; what a rule has met before is counted here.

use std::sync::{Mutex, MutexGuard};

use hyper::Request;
use nilas_base::Rng;
use serde::Serialize;
use tokio::sync::watch;

use super::rule::{Fault, Rule};

/// The rules that stand.
pub(super) struct Script {
    standing: Mutex<Vec<Standing>>,
    /// Whether nobody is to listen.
    refuses: watch::Sender<bool>,
    /// Whether somebody listens.
    listens: watch::Sender<bool>,
}

struct Standing {
    rule: Rule,
    fitted: u64,
    met: u64,
    rng: Rng,
}

/// What has become of one rule.
#[derive(Debug, Serialize)]
pub(super) struct Played {
    fault: &'static str,
    /// Requests that fitted.
    fitted: u64,
    /// Requests that were met.
    met: u64,
}

impl Script {
    /// A script of these rules.
    pub(super) fn new(rules: Vec<Rule>) -> Script {
        let script = Script {
            standing: Mutex::default(),
            refuses: watch::Sender::new(false),
            listens: watch::Sender::new(true),
        };
        script.stand(rules);
        script
    }

    fn standing(&self) -> MutexGuard<'_, Vec<Standing>> {
        self.standing.lock().expect("no holder panics")
    }

    fn stand(&self, rules: Vec<Rule>) {
        let refuses = rules.iter().any(|rule| rule.fault == Fault::Refuse);
        let standing = |rule: Rule| {
            let rng = Rng::from_seed(rule.draw.seed);
            Standing { rule, fitted: 0, met: 0, rng }
        };
        *self.standing() = rules.into_iter().map(standing).collect();
        self.refuses.send_replace(refuses);
    }

    /// Puts these rules in the place of those that stand; returns when it is so for connections too.
    pub(super) async fn replace(&self, rules: Vec<Rule>) {
        self.stand(rules);
        let refuses = *self.refuses.borrow();
        // The sender is ours: it is not dropped while we wait.
        let _ = self.listens.subscribe().wait_for(|listens| *listens != refuses).await;
    }

    /// The fault that meets a request.
    pub(super) fn meet<B>(&self, request: &Request<B>) -> Option<Fault> {
        let mut standing = self.standing();
        standing.iter_mut().find_map(|each| {
            if each.rule.fault == Fault::Refuse || !each.rule.pattern.fits(request) {
                return None;
            }
            let is_met = each.rule.draw.meets(each.fitted, each.met, &mut each.rng);
            each.fitted += 1;
            each.met += u64::from(is_met);
            is_met.then(|| each.rule.fault.clone())
        })
    }

    /// What has become of each rule.
    pub(super) fn played(&self) -> Vec<Played> {
        let told = |each: &Standing| Played {
            fault: each.rule.fault.name(),
            fitted: each.fitted,
            met: each.met,
        };
        self.standing().iter().map(told).collect()
    }

    /// Returns when nobody is to listen, or when somebody is.
    pub(super) async fn until(&self, refuses: bool) {
        let _ = self.refuses.subscribe().wait_for(|now| *now == refuses).await;
    }

    /// Says whether somebody listens.
    pub(super) fn note_listening(&self, listens: bool) {
        self.listens.send_replace(listens);
    }
}
