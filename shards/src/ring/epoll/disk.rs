//! Reads, writes and syncs for the epoll body: a few threads do them, since a file is never "not
//! ready". Buffers travel to the thread and back, so a dropped waiter leaves nothing behind.

use crate::buffer::{Buffer, advance_all};
use crate::doorbell::Doorbell;
use crate::file::File;
use crate::ring::{Operation, Outcome, Token};
use crate::sys::file::read_vectored_at;
use crossbeam_queue::SegQueue;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Disk operations of one shard at a time. More gain little on the machines this body is for.
const DISK_THREADS_MAX: usize = 4;

/// Threads, made as they are needed, and their two queues. The queues hold no more than the
/// operations that their shard has in flight.
pub(super) struct DiskPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    orders: Mutex<Orders>,
    ordered: Condvar,
    done: SegQueue<(Token, Done)>,
    doorbell: Doorbell,
}

#[derive(Default)]
struct Orders {
    waiting: VecDeque<(Token, Order)>,
    idle_threads: usize,
    closed: bool,
}

enum Order {
    Read(File, Vec<Buffer>, u64),
    Write(File, Buffer, u64),
    Sync(File),
}

enum Done {
    Read(io::Result<usize>, Vec<Buffer>),
    Written(io::Result<usize>, Buffer),
    Synced(io::Result<()>),
}

impl DiskPool {
    /// A pool without threads yet.
    pub(super) fn new(doorbell: Doorbell) -> DiskPool {
        let shared = Arc::new(Shared {
            orders: Mutex::default(),
            ordered: Condvar::new(),
            done: SegQueue::new(),
            doorbell,
        });
        DiskPool { shared, threads: Vec::new() }
    }

    /// Takes a disk operation.
    pub(super) fn start(&mut self, token: Token, operation: Operation) {
        let order = match operation {
            Operation::ReadAt { file, buffers, offset_bytes } => {
                Order::Read(file, buffers, offset_bytes)
            }
            Operation::WriteAt { file, buffer, offset_bytes } => {
                Order::Write(file, buffer, offset_bytes)
            }
            Operation::Sync { file } => Order::Sync(file),
            other => unreachable!("not a disk operation: {other:?}"),
        };
        let mut orders = self.shared.orders();
        orders.waiting.push_back((token, order));
        let all_busy = orders.idle_threads < orders.waiting.len();
        drop(orders);
        if all_busy && self.threads.len() < DISK_THREADS_MAX {
            let shared = Arc::clone(&self.shared);
            self.threads.push(std::thread::spawn(move || shared.work()));
        }
        self.shared.ordered.notify_one();
    }

    /// The next operation that has ended.
    pub(super) fn take_done(&self) -> Option<(Token, Outcome)> {
        let (token, done) = self.shared.done.pop()?;
        let outcome = match done {
            Done::Read(result, buffers) => Outcome::Read(result, buffers),
            Done::Written(result, buffer) => Outcome::Written(result, buffer),
            Done::Synced(result) => Outcome::Synced(result),
        };
        Some((token, outcome))
    }

    /// Whether one has ended.
    pub(super) fn has_done(&self) -> bool {
        !self.shared.done.is_empty()
    }
}

impl Drop for DiskPool {
    fn drop(&mut self) {
        self.shared.orders().closed = true;
        self.shared.ordered.notify_all();
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "a disk thread does not panic");
        }
    }
}

impl Shared {
    fn orders(&self) -> std::sync::MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((token, order)) = self.next() {
            let done = order.carry_out();
            self.done.push((token, done));
            self.doorbell.ring();
        }
    }

    /// Waits for an order; none when the pool is closed.
    fn next(&self) -> Option<(Token, Order)> {
        let mut orders = self.orders();
        loop {
            if orders.closed {
                return None;
            }
            if let Some(order) = orders.waiting.pop_front() {
                return Some(order);
            }
            orders.idle_threads += 1;
            orders = self.ordered.wait(orders).unwrap_or_else(PoisonError::into_inner);
            orders.idle_threads -= 1;
        }
    }
}

impl Order {
    fn carry_out(self) -> Done {
        match self {
            Order::Read(file, mut buffers, offset_bytes) => {
                let rooms = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer.unfilled_mut()));
                let mut rooms: Vec<IoSliceMut<'_>> = rooms.collect();
                let file = file.as_std();
                let read = file.and_then(|file| read_vectored_at(file, &mut rooms, offset_bytes));
                advance_all(&mut buffers, *read.as_ref().unwrap_or(&0));
                Done::Read(read, buffers)
            }
            Order::Write(file, buffer, offset_bytes) => {
                let bytes = buffer.filled();
                let written = file.as_std().and_then(|file| file.write_at(bytes, offset_bytes));
                Done::Written(written, buffer)
            }
            Order::Sync(file) => Done::Synced(file.as_std().and_then(std::fs::File::sync_data)),
        }
    }
}
