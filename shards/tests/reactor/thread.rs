//! Claims about shards on threads of their own: wakes, sleep, stopping. Real bodies only.

use crate::stage::{connection, receive, send};
use nilas_base::{Clock, ShardId};
use nilas_shards::{
    CALLS_IN_FLIGHT_MAX, Delivered, Doorbell, Exchange, ExchangeSeat, Reactor, RingBody,
    RingOptions, Socket, open_ring, pin_to_core, usable_cores,
};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

fn reactor(body: RingBody) -> Reactor {
    let ring = open_ring(body, RingOptions::default()).expect("this machine allows the body");
    let reactor = Reactor::new(ring, Clock::system());
    assert_eq!(reactor.ring_body(), body, "no body falls back to another");
    reactor
}

struct Shard {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    doorbell: Doorbell,
}

impl Shard {
    /// A shard on a thread of its own, prepared by `begin`.
    fn start(body: RingBody, begin: impl FnOnce(&Reactor) + Send + 'static) -> Shard {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let reactor = reactor(body);
                tell.send(reactor.doorbell()).expect("the test waits");
                begin(&reactor);
                reactor.run(&stop);
                reactor.close();
            }
        });
        Shard { thread, stop, doorbell: told.recv().expect("the shard tells") }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Release);
        self.doorbell.ring();
        self.thread.join().expect("the shard's assertions hold");
    }
}

fn a_foreign_thread_wakes_a_sleeper(body: RingBody) {
    let reactor = reactor(body);
    let (ask, mut asked) = tokio::sync::mpsc::channel::<u64>(4);
    let (answer, answered) = mpsc::channel();
    let asker = std::thread::spawn(move || {
        for number in 0..200 {
            ask.blocking_send(number).expect("the shard listens");
            assert_eq!(answered.recv().expect("the shard answers"), number);
            if number % 10 == 0 {
                // Long enough for the shard to fall asleep.
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    });
    reactor.block_on(async {
        while let Some(number) = asked.recv().await {
            answer.send(number).expect("the thread waits");
        }
    });
    asker.join().expect("the thread's assertions hold");
    reactor.close();
}

fn a_task_is_woken_from_another_thread(body: RingBody) {
    let (ask, mut asked) = tokio::sync::mpsc::channel::<tokio::sync::oneshot::Sender<u64>>(1);
    let shard = Shard::start(body, move |reactor| {
        reactor.spawn(async move {
            let mut count = 0;
            while let Some(answer) = asked.recv().await {
                count += 1;
                answer.send(count).expect("the test waits");
            }
        });
    });
    for number in 1..=200 {
        let (answer, answered) = tokio::sync::oneshot::channel();
        ask.blocking_send(answer).expect("the shard listens");
        assert_eq!(answered.blocking_recv().expect("the shard answers"), number);
    }
    shard.end();
}

fn a_sleeping_shard_stops_at_once(body: RingBody) {
    for _ in 0..20 {
        let shard = Shard::start(body, |_| {});
        std::thread::park_timeout(Duration::from_millis(2));
        // It would sleep for ever if the bell were lost.
        shard.end();
    }
}

fn serve_and_call(seat: ExchangeSeat<u64>, reactor: &Reactor, answered: &Arc<AtomicU64>) {
    let exchange = seat.sit(reactor);
    exchange.serve(|mut delivered: Delivered<u64>| {
        *delivered *= 2;
        delivered.reply();
    });
    let to = ShardId(1 - exchange.me().0);
    for number in 0..20 * CALLS_IN_FLIGHT_MAX as u64 {
        let (exchange, answered) = (exchange.clone(), Arc::clone(answered));
        reactor.spawn(async move {
            for round in 0..10 {
                let answer = exchange.call(to, Box::new(number + round)).await;
                assert_eq!(*answer, 2 * (number + round));
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

fn shards_on_threads_answer_each_other(body: RingBody) {
    let answered = Arc::new(AtomicU64::new(0));
    let shards: Vec<_> = Exchange::<u64>::mesh(2)
        .into_iter()
        .map(|seat| {
            let answered = Arc::clone(&answered);
            Shard::start(body, move |reactor| serve_and_call(seat, reactor, &answered))
        })
        .collect();
    let waiting = reactor(body);
    let all = 2 * 20 * 10 * CALLS_IN_FLIGHT_MAX as u64;
    waiting.block_on(async {
        let answers = async {
            while answered.load(Ordering::Relaxed) < all {
                waiting.sleep(Duration::from_millis(1)).await;
            }
        };
        waiting.timeout(Duration::from_secs(60), answers).await.expect("no call is lost");
    });
    shards.into_iter().for_each(Shard::end);
}

fn scanty_buffers(body: RingBody) -> Reactor {
    let options = RingOptions { head_buffers: 4, head_buffer_bytes: 64, ..RingOptions::default() };
    let ring = open_ring(body, options).expect("this machine allows the body");
    Reactor::new(ring, Clock::system())
}

async fn pairs(reactor: &Reactor, count: usize) -> Vec<(Socket, Socket)> {
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push(connection(reactor).await);
    }
    pairs
}

/// All bytes arrive at once, and there is a buffer for a third of the sockets.
fn starved_sockets_receive_when_buffers_come_back(body: RingBody) {
    let reactor = scanty_buffers(body);
    let received = Rc::new(Cell::new(0));
    reactor.block_on(async {
        let mut clients = Vec::new();
        for (client, server) in pairs(&reactor, 12).await {
            let received = Rc::clone(&received);
            reactor.spawn(async move {
                for round in 0..50 {
                    assert_eq!(receive(&server, 100).await, [round; 100]);
                    received.set(received.get() + 1);
                }
            });
            clients.push(Rc::new(client));
        }
        for round in 0..50 {
            for client in &clients {
                let client = Rc::clone(client);
                reactor.spawn(async move {
                    send(&client, &[round; 100]).await.expect("it is open");
                });
            }
            while received.get() < (usize::from(round) + 1) * clients.len() {
                reactor.sleep(Duration::from_micros(100)).await;
            }
        }
    });
    reactor.close();
}

fn held_heads_do_not_starve_others(body: RingBody) {
    let reactor = scanty_buffers(body);
    reactor.block_on(async {
        let mut held = Vec::new();
        for (client, server) in pairs(&reactor, 12).await {
            send(&client, b"hello").await.expect("it is open");
            let received = reactor.timeout(Duration::from_secs(10), server.receive_head()).await;
            held.push(received.expect("others hold theirs").expect("it is open"));
        }
        assert!(held.iter().all(|received| &received[..] == b"hello"));
    });
    reactor.close();
}

fn a_pinned_shard_runs_on_its_core(body: RingBody) {
    let core = *usable_cores().expect("the kernel tells").first().expect("this runs on one");
    Shard::start(body, move |_| {
        pin_to_core(core).expect("the core is usable");
        assert_eq!(usable_cores().expect("the kernel tells"), [core]);
    })
    .end();
}

/// Stamps each claim on both real bodies.
macro_rules! on_threads {
    ($($claim:ident),* $(,)?) => {
        mod io_uring {
            $(#[test] fn $claim() { super::$claim(nilas_shards::RingBody::IoUring); })*
        }
        mod epoll {
            $(#[test] fn $claim() { super::$claim(nilas_shards::RingBody::Epoll); })*
        }
    };
}

on_threads! {
    a_foreign_thread_wakes_a_sleeper,
    a_task_is_woken_from_another_thread,
    a_sleeping_shard_stops_at_once,
    shards_on_threads_answer_each_other,
    starved_sockets_receive_when_buffers_come_back,
    held_heads_do_not_starve_others,
    a_pinned_shard_runs_on_its_core,
}
