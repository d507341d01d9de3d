//! Reads that wait for memory: one line for each lack, in the order of arrival. A connection has one
//! read in line at most and stands at the end again for its next, so connections take turns. The
//! lines move when memory comes back, which rings the shard's doorbell; nothing here polls.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use nilas_base::Monotonic;
use nilas_shards::Delivered;
use nilas_shards::store::ReadKind;

use super::{Turn, attempt};
use crate::call::{Call, ReadAnswer};
use crate::mapping::StoreClass;
use crate::relief;
use crate::shard::Shard;

/// The largest answer that is a small one: its reads may use the leases' reserved share.
pub const SMALL_ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What a read lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Leases of its kind.
    Leases(ReadKind),
    /// Memory for the fill that it needs.
    Fill,
}

/// In the order in which they are served.
const LACKS: [Lack; 3] = [Lack::Leases(ReadKind::Small), Lack::Leases(ReadKind::Large), Lack::Fill];
const CLASSES: [StoreClass; 2] = [StoreClass::Metadata, StoreClass::Data];

/// A read in line.
pub struct Waiting {
    since: Monotonic,
    delivered: Delivered<Call>,
}

/// The lines of one shard.
#[derive(Default)]
pub struct Lines {
    lines: [[VecDeque<Waiting>; LACKS.len()]; CLASSES.len()],
    waiting: usize,
}

impl Lines {
    /// Reads in all lines.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether anybody waits for this.
    pub fn has(&self, class: StoreClass, lack: Lack) -> bool {
        self.waiting > 0 && !self.lines[index_of_class(class)][index_of(lack)].is_empty()
    }

    /// Whether anybody waits for leases on this store.
    pub fn wants_leases(&self, class: StoreClass) -> bool {
        let kinds = [ReadKind::Small, ReadKind::Large];
        kinds.into_iter().any(|kind| self.has(class, Lack::Leases(kind)))
    }

    fn line(&mut self, class: StoreClass, lack: Lack) -> &mut VecDeque<Waiting> {
        &mut self.lines[index_of_class(class)][index_of(lack)]
    }

    fn pop(&mut self, class: StoreClass, lack: Lack) -> Option<Waiting> {
        let first = self.line(class, lack).pop_front()?;
        self.waiting -= 1;
        Some(first)
    }
}

fn index_of(lack: Lack) -> usize {
    match lack {
        Lack::Leases(ReadKind::Small) => 0,
        Lack::Leases(ReadKind::Large) => 1,
        Lack::Fill => 2,
    }
}

fn index_of_class(class: StoreClass) -> usize {
    match class {
        StoreClass::Metadata => 0,
        StoreClass::Data => 1,
    }
}

/// Puts a read at the end of a line.
pub fn join(shard: &Rc<Shard>, class: StoreClass, lack: Lack, delivered: Delivered<Call>) {
    let since = shard.reactor.clock().now();
    let mut lines = shard.lines.borrow_mut();
    lines.line(class, lack).push_back(Waiting { since, delivered });
    lines.waiting += 1;
    drop(lines);
    relief::begin(shard);
}

/// Serves the lines as far as memory has come back; whether anybody was served.
pub fn serve_lines(shard: &Rc<Shard>) -> bool {
    if shard.lines.borrow().waiting == 0 {
        return false;
    }
    let mut served = false;
    for class in CLASSES {
        let gained = shard.stores.borrow_mut().of(class).reclaim();
        if gained {
            for lack in LACKS {
                served |= serve_line(shard, class, lack);
            }
        }
    }
    served
}

fn serve_line(shard: &Rc<Shard>, class: StoreClass, lack: Lack) -> bool {
    let mut served = false;
    let count = shard.lines.borrow_mut().line(class, lack).len();
    for _ in 0..count {
        if let Lack::Leases(kind) = lack
            && !may_lease(shard, class, kind)
        {
            break;
        }
        let Some(Waiting { since, delivered }) = shard.lines.borrow_mut().pop(class, lack) else {
            break;
        };
        let Some((delivered, lacking)) = attempt(shard, delivered, Turn::Reached) else {
            served = true;
            continue;
        };
        let mut lines = shard.lines.borrow_mut();
        lines.waiting += 1;
        let waiting = Waiting { since, delivered };
        if lacking == lack {
            lines.line(class, lack).push_front(waiting);
            break;
        }
        lines.line(class, lacking).push_back(waiting);
    }
    served
}

/// Whether a read of this kind could lease anything. Before that nothing is fetched for it: bytes that
/// come too early are evicted again, and two reads could fetch in turn what neither may have.
fn may_lease(shard: &Shard, class: StoreClass, kind: ReadKind) -> bool {
    let usage = shard.stores.borrow_mut().of(class).usage();
    let most = match kind {
        ReadKind::Small => usage.leased_bytes_max,
        ReadKind::Large => usage.leased_bytes_large_max,
    };
    usage.leased_bytes < most
}

/// Refuses those that have waited for `longest`.
pub fn refuse_overdue(shard: &Rc<Shard>, longest: Duration) {
    let now = shard.reactor.clock().now();
    for (class, lack) in CLASSES.into_iter().flat_map(|class| LACKS.map(|lack| (class, lack))) {
        loop {
            let mut lines = shard.lines.borrow_mut();
            let is_overdue = |first: &Waiting| now.since(first.since) >= longest;
            if !lines.line(class, lack).front().is_some_and(is_overdue) {
                break;
            }
            let overdue = lines.pop(class, lack);
            drop(lines);
            if let Some(Waiting { mut delivered, .. }) = overdue {
                if let Call::Read(call) = &mut *delivered {
                    call.answer = ReadAnswer::Busy;
                }
                delivered.reply();
            }
        }
    }
}
