//! The executor of one shard: local tasks, a queue of those that can run, and a second queue through
//! which other threads make them runnable. It never waits; see `reactor` for what happens in between.

use crate::doorbell::Doorbell;
use crate::sys::thread::OwnerCell;
use async_task::{Builder, Runnable, Task};
use crossbeam_queue::SegQueue;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rounds in which dropped tasks may start others before the shard gives up on ending them.
const CLOSE_ROUNDS_MAX: usize = 100;

/// Runs futures that stay on this thread.
pub(crate) struct Executor {
    ready: Arc<Ready>,
    tasks: RefCell<Tasks>,
}

/// Each task is in one of the queues at most once, so their lengths are bounded by the tasks.
struct Ready {
    local: OwnerCell<VecDeque<Runnable<u32>>>,
    remote: SegQueue<Runnable<u32>>,
    doorbell: Doorbell,
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Option<Task<(), u32>>>,
    free: Vec<u32>,
}

impl Executor {
    pub(crate) fn new(doorbell: Doorbell) -> Executor {
        let local = OwnerCell::new(VecDeque::new());
        let ready = Arc::new(Ready { local, remote: SegQueue::new(), doorbell });
        Executor { ready, tasks: RefCell::default() }
    }

    /// Starts a task; it first runs at the next turn.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let key = self.tasks.borrow_mut().reserve();
        let ready = Arc::clone(&self.ready);
        let (runnable, task) = Builder::new()
            .metadata(key)
            .spawn_local(move |_| future, move |runnable| ready.push(runnable));
        self.tasks.borrow_mut().slots[key as usize] = Some(task);
        runnable.schedule();
    }

    /// Runs ready tasks, at most `tasks_max` of them, and counts them.
    pub(crate) fn run(&self, tasks_max: usize) -> usize {
        self.take_remote();
        let mut count = 0;
        while count < tasks_max
            && let Some(runnable) = self.ready.local.with(VecDeque::pop_front)
        {
            let key = *runnable.metadata();
            runnable.run();
            self.tasks.borrow_mut().release_finished(key);
            count += 1;
        }
        count
    }

    /// Whether a task can run.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.remote.is_empty() || !self.ready.local.with(|queue| queue.is_empty())
    }

    /// Tasks that have not ended.
    pub(crate) fn task_count(&self) -> usize {
        let tasks = self.tasks.borrow();
        tasks.slots.len() - tasks.free.len()
    }

    /// Drops all tasks, and those that they start as they are dropped.
    pub(crate) fn close(&self) {
        for _ in 0..CLOSE_ROUNDS_MAX {
            let tasks: Vec<_> = {
                let mut tasks = self.tasks.borrow_mut();
                tasks.slots.iter_mut().filter_map(Option::take).collect()
            };
            if tasks.is_empty() {
                self.tasks.borrow_mut().clear();
                return;
            }
            // A dropped task is scheduled once more, and that run drops its future.
            drop(tasks);
            self.take_remote();
            while let Some(runnable) = self.ready.local.with(VecDeque::pop_front) {
                runnable.run();
            }
        }
        panic!("tasks go on starting tasks while they are dropped");
    }

    fn take_remote(&self) {
        while let Some(runnable) = self.ready.remote.pop() {
            self.ready.local.with(|queue| queue.push_back(runnable));
        }
    }
}

impl Ready {
    fn push(&self, runnable: Runnable<u32>) {
        if self.local.is_mine() {
            self.local.with(|queue| queue.push_back(runnable));
        } else {
            self.remote.push(runnable);
            self.doorbell.ring();
        }
    }
}

impl Tasks {
    fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        })
    }

    fn release_finished(&mut self, key: u32) {
        if let Some(slot) = self.slots.get_mut(key as usize)
            && slot.as_ref().is_some_and(Task::is_finished)
        {
            slot.take().expect("just seen").detach();
            self.free.push(key);
        }
    }

    fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }
}
