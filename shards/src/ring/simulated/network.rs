//! The simulated network: listeners, streams, and what is under way between them. Delays and the
//! pieces that bytes arrive in come from the seed; the order of one direction is kept, as TCP does.

use super::condition::NetworkCondition;
use super::stream::{Reader, Stream, Writer};
use super::trace::{Trace, hash_bytes};
use crate::endpoint::EndpointKey;
use crate::ring::{Completion, Outcome, Token};
use crate::sys::provided::BufferPool;
use nilas_base::{Clock, Monotonic, Rng};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The shortest way between two sockets.
const DELAY_US_MIN: u64 = 20;
/// Heads that one socket gives at a time; others get their turn in between.
const HEADS_A_ROUND_MAX: usize = 4;
/// Connections that wait for a listener; more are refused.
const BACKLOG_MAX: usize = 1024;
/// Ports that are given out when none is asked for.
const PORT_FIRST: u16 = 10_000;

pub(super) struct Network {
    pub(super) trace: Trace,
    pub(super) condition: NetworkCondition,
    clock: Clock,
    rng: Rng,
    sockets: BTreeMap<EndpointKey, Socket>,
    next_key: i32,
    next_port: u16,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    sequence: u64,
    rings: Vec<RingState>,
}

pub(super) enum Socket {
    Listener(Listener),
    Stream(Box<Stream>),
}

pub(super) struct Listener {
    ring: usize,
    pub(super) address: SocketAddr,
    backlog: VecDeque<EndpointKey>,
    acceptor: Option<Token>,
}

struct RingState {
    heads: Rc<BufferPool>,
    ready: Vec<Ready>,
    /// Sockets that may give more in the next turn.
    again: VecDeque<EndpointKey>,
}

/// A completion, whose endpoint is made when it is taken.
pub(super) enum Ready {
    Done(Completion),
    Accepted { token: Token, socket: EndpointKey },
    Connected { token: Token, socket: EndpointKey },
}

struct UnderWay {
    at: Monotonic,
    sequence: u64,
    what: What,
}

enum What {
    Connect { ring: usize, token: Token, address: SocketAddr },
    Bytes { to: EndpointKey, bytes: Vec<u8> },
    End { to: EndpointKey },
    Reset { to: EndpointKey },
}

impl Network {
    pub(super) fn new(rng: Rng, clock: Clock) -> Network {
        Network {
            trace: Trace::new(clock.clone()),
            condition: NetworkCondition::default(),
            clock,
            rng,
            sockets: BTreeMap::new(),
            next_key: 0,
            next_port: PORT_FIRST,
            under_way: BinaryHeap::new(),
            sequence: 0,
            rings: Vec::new(),
        }
    }

    pub(super) fn add_ring(&mut self, heads: Rc<BufferPool>) -> usize {
        self.rings.push(RingState { heads, ready: Vec::new(), again: VecDeque::new() });
        self.rings.len() - 1
    }

    /// Ends what no socket has yet and a closing ring waits for: its connects.
    pub(super) fn end_connects(&mut self, ring: usize) {
        let mut ended = Vec::new();
        self.under_way.retain(|Reverse(under_way)| match under_way.what {
            What::Connect { ring: of, token, .. } if of == ring => {
                ended.push(token);
                false
            }
            _ => true,
        });
        for token in ended {
            let cancelled = io::Error::from_raw_os_error(libc::ECANCELED);
            self.complete(ring, token, Outcome::Connected(Err(cancelled)));
        }
    }

    /// Closes all sockets of a ring that has ended, as the system does for a process.
    pub(super) fn remove_ring(&mut self, ring: usize) {
        let state = &mut self.rings[ring];
        state.ready.clear();
        state.again.clear();
        let of_ring = |socket: &Socket| match socket {
            Socket::Listener(listener) => listener.ring == ring,
            Socket::Stream(stream) => stream.ring == ring,
        };
        let sockets = self.sockets.iter().filter(|(_, socket)| of_ring(socket));
        let keys: Vec<EndpointKey> = sockets.map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.close(key));
    }

    pub(super) fn socket(&self, key: EndpointKey) -> Option<&Socket> {
        self.sockets.get(&key)
    }

    pub(super) fn listen(
        &mut self,
        ring: usize,
        mut address: SocketAddr,
    ) -> (EndpointKey, SocketAddr) {
        if address.port() == 0 {
            address.set_port(self.take_port());
        }
        let listener = Listener { ring, address, backlog: VecDeque::new(), acceptor: None };
        (self.add_socket(Socket::Listener(listener)), address)
    }

    pub(super) fn accept(&mut self, token: Token, listener: EndpointKey) {
        self.listener(listener).acceptor = Some(token);
        self.give_connections(listener);
    }

    pub(super) fn connect(&mut self, ring: usize, token: Token, address: SocketAddr) {
        let at = self.arrival();
        self.send_off(at, What::Connect { ring, token, address });
    }

    pub(super) fn read(&mut self, key: EndpointKey, reader: Reader) {
        let stream = self.stream(key).expect("open while it has operations");
        assert!(stream.reader.replace(reader).is_none(), "one receive at a time");
        self.give_bytes(key);
    }

    pub(super) fn write(&mut self, key: EndpointKey, writer: Writer) {
        let stream = self.stream(key).expect("open while it has operations");
        assert!(stream.writer.replace(writer).is_none(), "one send at a time");
        self.move_bytes(key);
    }

    pub(super) fn complete(&mut self, ring: usize, token: Token, outcome: Outcome) {
        self.rings[ring].ready.push(Ready::Done(Completion { token, outcome, more: false }));
    }

    /// Takes an operation back; false when there is none of this token.
    pub(super) fn cancel(&mut self, ring: usize, token: Token) {
        let cancelled = || io::Error::from_raw_os_error(libc::ECANCELED);
        let outcome = self.sockets.values_mut().find_map(|socket| match socket {
            Socket::Stream(stream) if stream.ring == ring => stream.cancel(token),
            Socket::Listener(listener) if listener.ring == ring => {
                let acceptor = listener.acceptor.take_if(|acceptor| *acceptor == token);
                acceptor.map(|_| Outcome::Accepted(Err(cancelled())))
            }
            Socket::Stream(_) | Socket::Listener(_) => None,
        });
        if let Some(outcome) = outcome {
            self.complete(ring, token, outcome);
        }
    }

    pub(super) fn shut(&mut self, key: EndpointKey) {
        let Some(stream) = self.stream(key) else { return };
        if !std::mem::replace(&mut stream.shut, true) {
            let other = stream.other;
            self.send_to(other, What::End { to: other });
            // What is being sent fails, as on a real socket.
            self.move_bytes(key);
        }
    }

    pub(super) fn end_reading(&mut self, key: EndpointKey) {
        if let Some(stream) = self.stream(key) {
            stream.ended = true;
            self.give_bytes(key);
        }
    }

    pub(super) fn close(&mut self, key: EndpointKey) {
        self.trace.note("close", key.0 as u64, 0);
        match self.sockets.remove(&key) {
            Some(Socket::Stream(stream)) => {
                let to = stream.other;
                // As TCP does: bytes that nobody will read reset the connection.
                let what =
                    if stream.arrived.is_empty() { What::End { to } } else { What::Reset { to } };
                self.send_to(to, what);
            }
            Some(Socket::Listener(listener)) => {
                for waiting in listener.backlog {
                    self.close(waiting);
                }
            }
            None => {}
        }
    }

    /// What has completed on one ring since the last call.
    pub(super) fn take_ready(&mut self, ring: usize) -> Vec<Ready> {
        for key in std::mem::take(&mut self.rings[ring].again) {
            self.give_bytes(key);
        }
        std::mem::take(&mut self.rings[ring].ready)
    }

    pub(super) fn has_ready(&self, ring: usize) -> bool {
        !self.rings[ring].ready.is_empty() || !self.rings[ring].again.is_empty()
    }

    pub(super) fn next_event(&self) -> Option<Monotonic> {
        self.under_way.peek().map(|Reverse(first)| first.at)
    }

    /// Lets arrive what is due.
    pub(super) fn carry_out_due(&mut self) {
        let now = self.clock.now();
        while self.next_event().is_some_and(|at| at <= now) {
            let Reverse(first) = self.under_way.pop().expect("just seen");
            self.arrive(first.what);
        }
    }

    fn arrive(&mut self, what: What) {
        match what {
            What::Connect { ring, token, address } => self.arrive_connect(ring, token, address),
            What::Bytes { to, bytes } => {
                self.trace.note("bytes", to.0 as u64, hash_bytes(&bytes));
                match self.stream(to) {
                    Some(stream) => {
                        stream.under_way_bytes -= bytes.len();
                        stream.arrived.extend(bytes);
                        self.give_bytes(to);
                    }
                    None => self.answer_with_reset(to),
                }
            }
            What::End { to } => {
                self.trace.note("end", to.0 as u64, 0);
                if let Some(stream) = self.stream(to) {
                    stream.ended = true;
                    self.give_bytes(to);
                    self.move_bytes(to);
                }
            }
            What::Reset { to } => {
                self.trace.note("reset", to.0 as u64, 0);
                if let Some(stream) = self.stream(to) {
                    stream.reset = true;
                    self.give_bytes(to);
                    self.move_bytes(to);
                }
            }
        }
    }

    fn arrive_connect(&mut self, ring: usize, token: Token, address: SocketAddr) {
        let listeners: Vec<EndpointKey> = self
            .sockets
            .iter()
            .filter_map(|(key, socket)| {
                let Socket::Listener(listener) = socket else { return None };
                (listener.address == address && listener.backlog.len() < BACKLOG_MAX)
                    .then_some(*key)
            })
            .collect();
        self.trace.note("connect", ring as u64, listeners.len() as u64);
        if listeners.is_empty() {
            let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
            return self.complete(ring, token, Outcome::Connected(Err(refused)));
        }
        // Listeners that share an address share its connections.
        let listener = listeners[self.rng.below(listeners.len() as u64) as usize];
        let mut local = address;
        local.set_port(self.take_port());
        let server = EndpointKey(self.next_key + 1);
        let client = Stream::new(ring, [local, address], server);
        let client = self.add_socket(Socket::Stream(Box::new(client)));
        let owner = self.listener(listener).ring;
        let other = Stream::new(owner, [address, local], client);
        assert_eq!(self.add_socket(Socket::Stream(Box::new(other))), server, "numbered in turn");
        self.rings[ring].ready.push(Ready::Connected { token, socket: client });
        self.listener(listener).backlog.push_back(server);
        self.give_connections(listener);
    }

    fn give_connections(&mut self, key: EndpointKey) {
        let listener = self.listener(key);
        let Some(token) = listener.acceptor else { return };
        let ring = listener.ring;
        let backlog = std::mem::take(&mut listener.backlog);
        let accepted = backlog.into_iter().map(|socket| Ready::Accepted { token, socket });
        self.rings[ring].ready.extend(accepted);
    }

    /// Gives a stream's reader what has arrived, and lets the other end send on.
    fn give_bytes(&mut self, key: EndpointKey) {
        for round in 0.. {
            let Some(Socket::Stream(stream)) = self.sockets.get_mut(&key) else { return };
            let RingState { heads, ready, again } = &mut self.rings[stream.ring];
            if round == HEADS_A_ROUND_MAX {
                again.push_back(key);
                break;
            }
            let Some((token, outcome, more)) = stream.read(heads) else { break };
            ready.push(Ready::Done(Completion { token, outcome, more }));
        }
        if let Some(other) = self.stream(key).map(|stream| stream.other) {
            self.move_bytes(other);
        }
    }

    /// Sends off what a stream's writer has, as far as the other end's window allows.
    fn move_bytes(&mut self, key: EndpointKey) {
        let Some(stream) = self.stream(key) else { return };
        let (ring, other) = (stream.ring, stream.other);
        if stream.reset || stream.shut {
            let failed = stream.fail_writer();
            if let Some((token, outcome, _)) = failed {
                self.complete(ring, token, outcome);
            }
            return;
        }
        let Some(mut writer) = stream.writer.take() else { return };
        // What is sent to a closed end gets lost, and answered by a reset.
        let window_bytes = self.condition.window_bytes;
        let window =
            self.stream(other).map_or(usize::MAX, |other| other.window_bytes(window_bytes));
        let bytes = writer.take(window);
        if let Some(stream) = self.stream(key) {
            stream.taken_bytes += bytes.len() as u64;
        }
        if !bytes.is_empty() && self.breaks() {
            self.send_to(other, What::Reset { to: other });
            self.send_to(key, What::Reset { to: key });
        } else {
            self.send_pieces(other, &bytes);
        }
        if writer.is_done() {
            let all = writer.sent_bytes;
            self.complete(ring, writer.token, Outcome::Sent(Ok(all), writer.parts));
        } else if let Some(stream) = self.stream(key) {
            stream.writer = Some(writer);
        }
    }

    fn breaks(&mut self) -> bool {
        self.condition.reset_one_in.is_some_and(|one_in| self.rng.chance(1, one_in))
    }

    fn send_pieces(&mut self, to: EndpointKey, mut bytes: &[u8]) {
        let pieces_max = self.condition.pieces_max;
        for piece in 1..=pieces_max {
            if bytes.is_empty() {
                return;
            }
            let whole = piece == pieces_max || self.rng.chance(1, 2);
            let length =
                if whole { bytes.len() } else { 1 + self.rng.below(bytes.len() as u64) as usize };
            let (first, rest) = bytes.split_at(length);
            bytes = rest;
            if let Some(stream) = self.stream(to) {
                stream.under_way_bytes += first.len();
            }
            self.send_to(to, What::Bytes { to, bytes: first.to_vec() });
        }
    }

    fn answer_with_reset(&mut self, closed: EndpointKey) {
        let other = self.sockets.iter().find_map(|(key, socket)| match socket {
            Socket::Stream(stream) if stream.other == closed => Some(*key),
            _ => None,
        });
        if let Some(to) = other {
            self.send_to(to, What::Reset { to });
        }
    }

    /// Sends something to a stream, after all that was sent to it before.
    fn send_to(&mut self, to: EndpointKey, what: What) {
        let mut at = self.arrival();
        if let Some(stream) = self.stream(to) {
            at = at.max(stream.last_arrival);
            stream.last_arrival = at;
        }
        self.send_off(at, what);
    }

    fn send_off(&mut self, at: Monotonic, what: What) {
        self.sequence += 1;
        self.under_way.push(Reverse(UnderWay { at, sequence: self.sequence, what }));
    }

    fn arrival(&mut self) -> Monotonic {
        let condition = self.condition;
        let slow = self.rng.chance(1, condition.slow_one_in);
        let longest = if slow { condition.slow_delay_us_max } else { condition.delay_us_max };
        let delay_us = DELAY_US_MIN + self.rng.below(longest - DELAY_US_MIN);
        self.clock.now().after(Duration::from_micros(delay_us))
    }

    fn add_socket(&mut self, socket: Socket) -> EndpointKey {
        let key = EndpointKey(self.next_key);
        self.next_key += 1;
        self.sockets.insert(key, socket);
        key
    }

    fn take_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = self.next_port.checked_add(1).unwrap_or(PORT_FIRST);
        port
    }

    fn stream(&mut self, key: EndpointKey) -> Option<&mut Stream> {
        match self.sockets.get_mut(&key)? {
            Socket::Stream(stream) => Some(stream),
            Socket::Listener(_) => None,
        }
    }

    fn listener(&mut self, key: EndpointKey) -> &mut Listener {
        match self.sockets.get_mut(&key) {
            Some(Socket::Listener(listener)) => listener,
            _ => unreachable!("a listener is open while it has operations"),
        }
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &UnderWay) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for UnderWay {}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &UnderWay) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UnderWay {
    fn cmp(&self, other: &UnderWay) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}
