//! Reads, writes and syncs for the epoll body: a few threads do them, since a file is never "not
//! ready". Buffers travel to the thread and back, so a dropped waiter leaves nothing behind.

use crate::buffer::Buffer;
use crate::doorbell::Doorbell;
use crate::file::File;
use crate::ring::{Operation, Outcome, Token};
use crossbeam_queue::SegQueue;
use std::collections::VecDeque;
use std::io;
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
    Read(File, Buffer, u64),
    Write(File, Buffer, u64),
    Sync(File),
}

enum Done {
    Moved(io::Result<usize>, Buffer),
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
            Operation::ReadAt { file, buffer, offset_bytes } => {
                Order::Read(file, buffer, offset_bytes)
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
            Done::Moved(result, buffer) => Outcome::Disk(result, buffer),
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
            Order::Read(file, mut buffer, offset_bytes) => {
                let room = buffer.unfilled_mut();
                let read = file.as_std().and_then(|file| file.read_at(room, offset_bytes));
                buffer.advance(*read.as_ref().unwrap_or(&0));
                Done::Moved(read, buffer)
            }
            Order::Write(file, buffer, offset_bytes) => {
                let bytes = buffer.filled();
                let written = file.as_std().and_then(|file| file.write_at(bytes, offset_bytes));
                Done::Moved(written, buffer)
            }
            Order::Sync(file) => Done::Synced(file.as_std().and_then(std::fs::File::sync_data)),
        }
    }
}
