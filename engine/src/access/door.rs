//! The roster of the moment, as shards see it: each holds its own reference and looks at one number
//! a request to learn whether it was replaced. No lock is taken while it was not.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::Roster;

/// Where a roster is hung up.
#[derive(Clone, Debug)]
pub struct AccessDoor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// How often it was replaced; written after the roster.
    edition: AtomicU64,
    roster: RwLock<Arc<Roster>>,
}

/// One shard's sight of it.
#[derive(Debug)]
pub struct AccessView {
    door: AccessDoor,
    edition: Cell<u64>,
    seen: RefCell<Arc<Roster>>,
}

impl AccessDoor {
    /// A door with its first roster.
    pub fn new(roster: Roster) -> AccessDoor {
        let roster = RwLock::new(Arc::new(roster));
        AccessDoor(Arc::new(Shared { edition: AtomicU64::new(0), roster }))
    }

    /// Replaces the roster: requests that begin from now on are held against the new one.
    pub fn replace(&self, roster: Roster) {
        *self.0.roster.write().expect("no holder panics") = Arc::new(roster);
        self.0.edition.fetch_add(1, Ordering::Release);
    }

    /// The roster of the moment.
    pub fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.0.roster.read().expect("no holder panics"))
    }

    /// A shard's view.
    pub fn view(&self) -> Rc<AccessView> {
        let edition = Cell::new(self.0.edition.load(Ordering::Acquire));
        let seen = RefCell::new(self.roster());
        Rc::new(AccessView { door: self.clone(), edition, seen })
    }
}

impl AccessView {
    /// The roster of the moment, not to be kept over a wait.
    pub fn current(&self) -> Ref<'_, Roster> {
        let edition = self.door.0.edition.load(Ordering::Acquire);
        if edition != self.edition.get() {
            self.edition.set(edition);
            self.seen.replace(self.door.roster());
        }
        Ref::map(self.seen.borrow(), |seen| &**seen)
    }

    /// See [`Roster::has_one_identity`].
    pub fn has_one_identity(&self) -> bool {
        self.current().has_one_identity()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unproven;
    use super::*;

    #[test]
    fn every_view_sees_a_new_roster_at_its_next_look() {
        let door = AccessDoor::new(Roster::default());
        let views = [door.view(), door.view()];
        assert!(views.iter().all(|view| view.current().anonymous == Unproven::Deny));
        door.replace(Roster::new(Vec::new(), Unproven::Relay, Unproven::Deny));
        assert!(views.iter().all(|view| view.current().anonymous == Unproven::Relay));
    }
}
