//! Where a claim is played: reactors of one body on this thread, and time that passes for them.

use nilas_base::Clock;
use nilas_shards::{
    File, Listener, Reactor, RingBody, RingOptions, SimulatedWorld, Socket, Wait, open_ring,
};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A claim that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    body: RingBody,
    world: Option<SimulatedWorld>,
    reactors: RefCell<Vec<Reactor>>,
}

impl Stage {
    pub(crate) fn io_uring() -> Stage {
        Stage::real(RingBody::IoUring)
    }

    pub(crate) fn epoll() -> Stage {
        Stage::real(RingBody::Epoll)
    }

    pub(crate) fn simulated() -> Stage {
        let world = Some(SimulatedWorld::new(1));
        Stage { body: RingBody::Simulated, world, reactors: RefCell::default() }
    }

    fn real(body: RingBody) -> Stage {
        Stage { body, world: None, reactors: RefCell::default() }
    }

    /// A new reactor, which runs the body that the test names.
    pub(crate) fn reactor(&self) -> Reactor {
        self.reactor_with(RingOptions::default())
    }

    /// One with other sizes; the simulated body has its own.
    pub(crate) fn reactor_with(&self, options: RingOptions) -> Reactor {
        let reactor = match &self.world {
            Some(world) => world.reactor(),
            None => {
                let ring = open_ring(self.body, options).expect("this machine allows the body");
                Reactor::new(ring, Clock::system())
            }
        };
        assert_eq!(reactor.ring_body(), self.body, "no body falls back to another");
        assert_eq!(reactor.ring_name(), self.body.name());
        self.reactors.borrow_mut().push(reactor.clone());
        reactor
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.world.is_some()
    }

    /// A file of so many zeros, of the body's kind.
    pub(crate) fn file(&self, bytes: u64) -> File {
        if let Some(world) = &self.world {
            return world.create_file(bytes);
        }
        let file = tempfile::tempfile().expect("a temporary file can be made");
        file.set_len(bytes).expect("the disk has room");
        File::from(file)
    }

    /// Lets all reactors run until `future` has ended.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        if let Some(world) = &self.world {
            return world.block_on(future);
        }
        let clock = Clock::system();
        let end = clock.now().after(LONGEST);
        let mut future = pin!(future);
        loop {
            // One reactor sleeps in its ring, as a shard does; several share the thread awake.
            let reactors = self.reactors.borrow().clone();
            if let [only] = &reactors[..] {
                return only
                    .block_on(async { only.timeout(LONGEST, future).await.expect("it ends") });
            }
            let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(output) = polled {
                return output;
            }
            reactors.iter().for_each(|reactor| {
                reactor.turn(Wait::No);
            });
            assert!(clock.now() < end, "it ends");
        }
    }

    /// Lets all reactors run until this holds.
    pub(crate) fn until(&self, reactor: &Reactor, holds: impl Fn() -> bool) {
        self.block_on(async {
            while !holds() {
                reactor.sleep(Duration::from_millis(1)).await;
            }
        });
    }

    /// Ends: nothing may be left.
    pub(crate) fn end(self) {
        for reactor in self.reactors.take() {
            reactor.close();
            assert_eq!((reactor.task_count(), reactor.operation_count()), (0, 0));
        }
    }
}

/// A listener on any port, and a connection through it: its client and its server end.
pub(crate) async fn connection(reactor: &Reactor) -> (Socket, Socket) {
    let mut listener = listener(reactor);
    let address = listener.local_address().expect("it listens");
    let client = reactor.connect(address).await.expect("the listener is there");
    let server = listener.accept().await.expect("the client is there");
    (client, server)
}

pub(crate) fn listener(reactor: &Reactor) -> Listener {
    reactor.listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("any port will do")
}

/// Sends bytes as one part.
pub(crate) async fn send(socket: &Socket, bytes: &[u8]) -> std::io::Result<usize> {
    let mut parts = socket.reactor().parts();
    parts.push_bytes(bytes::Bytes::copy_from_slice(bytes));
    socket.send(parts).await
}

/// Receives heads until there are `count` bytes.
pub(crate) async fn receive(socket: &Socket, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let received = socket.receive_head().await.expect("bytes are on their way");
        assert!(!received.is_empty(), "the peer goes on");
        bytes.extend_from_slice(&received);
    }
    bytes
}
