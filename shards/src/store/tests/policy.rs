//! A witness around a policy: what it was told and whom it let go.

use std::cell::RefCell;
use std::rc::Rc;

use crate::eviction::{Eviction, Place};
use crate::store::BlockId;

#[derive(Default)]
pub(super) struct Log {
    pub(super) touches: u64,
    pub(super) victims: Vec<BlockId>,
}

pub(super) struct Witness<P> {
    policy: P,
    log: Rc<RefCell<Log>>,
}

impl<P: Eviction> Witness<P> {
    pub(super) fn around(policy: P) -> (Witness<P>, Rc<RefCell<Log>>) {
        let log = Rc::<RefCell<Log>>::default();
        (Witness { policy, log: Rc::clone(&log) }, log)
    }
}

impl<P: Eviction> Eviction for Witness<P> {
    fn insert(&mut self, id: BlockId, weight_bytes: u64) -> Place {
        self.policy.insert(id, weight_bytes)
    }

    fn touch(&mut self, place: Place) {
        self.log.borrow_mut().touches += 1;
        self.policy.touch(place);
    }

    fn grow(&mut self, place: Place, weight_bytes: u64) {
        self.policy.grow(place, weight_bytes);
    }

    fn remove(&mut self, place: Place) {
        self.policy.remove(place);
    }

    fn evict(&mut self, may_leave: &dyn Fn(BlockId) -> bool) -> Option<BlockId> {
        let victim = self.policy.evict(may_leave);
        self.log.borrow_mut().victims.extend(victim);
        victim
    }

    fn weight_bytes(&self) -> u64 {
        self.policy.weight_bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.policy.memory_bytes()
    }
}
