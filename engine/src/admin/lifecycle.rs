//! The node's phase: starting, ready, draining. It only moves forward.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It does not serve yet.
    Starting,
    /// It serves.
    Ready,
    /// It answers what is under way, and takes nothing new.
    Draining,
}

impl Phase {
    /// Its name on the pages.
    pub fn label(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Draining => "draining",
        }
    }
}

/// A node's phase; clones see the same one.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle(Arc<AtomicU8>);

impl Lifecycle {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::SeqCst) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Moves on to `phase`; does nothing when the node is already past it.
    pub fn advance(&self, phase: Phase) {
        self.0.fetch_max(phase as u8, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draining_node_is_never_ready_again() {
        let lifecycle = Lifecycle::default();
        assert_eq!(lifecycle.phase(), Phase::Starting);
        lifecycle.advance(Phase::Ready);
        lifecycle.clone().advance(Phase::Draining);
        lifecycle.advance(Phase::Ready);
        assert_eq!(lifecycle.phase(), Phase::Draining);
    }
}
