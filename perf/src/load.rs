//! The load: one thread, one epoll, a closed loop of one request a connection. Latency is from
//! the request's send to the answer's last byte; processor time is sampled at both ends of the
//! measured window, so that warming up and taking down cost neither.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nilas_base::{Clock, Monotonic};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::connection::{BODY_PIECE_BYTES_MAX, Connection, Progress, Reading};
use crate::error::{Doing, Error, Result};
use crate::latency::Latencies;
use crate::processor::ProcessorTime;
use crate::request::Target;

/// One answer in this many has its bytes compared.
const COMPARE_EVERY: u64 = 64;
/// Events taken by one look at the kernel.
const EVENTS_MAX: usize = 64;
/// A wait ends by then, so that the window's ends are seen.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Without one answer for so long, the server is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How a burst is driven.
#[derive(Clone, Copy, Debug)]
pub struct BurstPlan {
    /// Connections, each with one request in flight.
    pub connections: usize,
    /// Time before the measured window.
    pub warm_up: Duration,
    /// The measured window.
    pub measured: Duration,
    /// Throw bodies outside the sample away in the kernel, in place of copying them.
    pub discard: bool,
}

/// What a burst saw in its measured window.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Answers received.
    pub requests: u64,
    /// The window's true length.
    pub elapsed: Duration,
    /// Their latencies.
    pub latencies: Latencies,
    /// Processor time of the server, ns.
    pub server_ns: u64,
    /// Processor time of the load itself, ns.
    pub client_ns: u64,
}

impl Burst {
    /// Processor time of the server for one request, µs.
    pub fn server_us_per_request(&self) -> f64 {
        self.server_ns as f64 / 1000.0 / self.requests.max(1) as f64
    }

    /// Answers a second.
    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    /// The share of the window in which the load's thread ran. Near 1 it was the bottleneck.
    pub fn client_busy(&self) -> f64 {
        self.client_ns as f64 / self.elapsed.as_nanos().max(1) as f64
    }
}

/// Fetches every target once on one connection and compares every byte.
pub fn fetch_each(address: SocketAddr, targets: &[Target]) -> Result<()> {
    let mut connection = Connection::open(address)?;
    let mut scratch = vec![0; BODY_PIECE_BYTES_MAX];
    for target in targets {
        connection.ask(target, Reading::Compare)?;
        while connection.receive(target, &mut scratch)? == Progress::Waiting {}
    }
    Ok(())
}

/// Asks the server at `address` for `targets` in turn; `server_time` tells what it has used.
pub fn run_burst(
    address: SocketAddr,
    targets: &[Target],
    plan: &BurstPlan,
    server_time: &dyn Fn() -> Result<ProcessorTime>,
) -> Result<Burst> {
    let mut load = Load::start(address, targets, plan)?;
    let warm_until = load.clock.now().after(plan.warm_up);
    load.drive(warm_until)?;
    load.forget();
    let (server_before, client_before) = (server_time()?, ProcessorTime::of_this_thread()?);
    let began = load.clock.now();
    load.drive(began.after(plan.measured))?;
    let elapsed = load.clock.now().since(began);
    let client_ns = ProcessorTime::of_this_thread()?.saturating_sub(client_before);
    let server_ns = server_time()?.since_ns(&server_before);
    let latencies = load.latencies;
    Ok(Burst { requests: latencies.count(), elapsed, latencies, server_ns, client_ns })
}

struct Load<'a> {
    targets: &'a [Target],
    discard: bool,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    scratch: Vec<u8>,
    clock: Clock,
    latencies: Latencies,
    asked: u64,
    answered_at: Monotonic,
}

impl<'a> Load<'a> {
    fn start(address: SocketAddr, targets: &'a [Target], plan: &BurstPlan) -> Result<Load<'a>> {
        let clock = Clock::system();
        let mut load = Load {
            targets,
            discard: plan.discard,
            connections: Vec::with_capacity(plan.connections),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).doing("making an epoll")?,
            events: Vec::with_capacity(EVENTS_MAX),
            scratch: vec![0; BODY_PIECE_BYTES_MAX],
            answered_at: clock.now(),
            clock,
            latencies: Latencies::new(),
            asked: 0,
        };
        for number in 0..plan.connections {
            let connection = Connection::open(address)?;
            connection.stop_blocking()?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&load.epoll, connection.socket(), data, epoll::EventFlags::IN)
                .doing("watching a socket")?;
            load.connections.push(connection);
            load.ask(number, load.clock.now())?;
        }
        Ok(load)
    }

    /// Answers events until `until`.
    fn drive(&mut self, until: Monotonic) -> Result<()> {
        while self.clock.now() < until {
            self.wait()?;
            for position in 0..self.events.len() {
                let data = self.events[position].data;
                self.receive(data.u64() as usize)?;
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&WAIT)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).doing("waiting for answers"),
        }
        if self.events.is_empty() && self.clock.now().since(self.answered_at) > SILENCE_MAX {
            return Err(Error::Answer(format!("no answer for {SILENCE_MAX:?}")));
        }
        Ok(())
    }

    fn receive(&mut self, number: usize) -> Result<()> {
        let connection = &mut self.connections[number];
        let target = &self.targets[connection.target];
        if connection.receive(target, &mut self.scratch)? == Progress::Answered {
            let now = self.clock.now();
            self.latencies.record(now.since(connection.asked_at));
            self.answered_at = now;
            self.ask(number, now)?;
        }
        Ok(())
    }

    fn ask(&mut self, number: usize, now: Monotonic) -> Result<()> {
        let reading = match self.discard {
            _ if self.asked.is_multiple_of(COMPARE_EVERY) => Reading::Compare,
            true => Reading::Discard,
            false => Reading::Copy,
        };
        let connection = &mut self.connections[number];
        connection.target = (self.asked % self.targets.len() as u64) as usize;
        connection.asked_at = now;
        self.asked += 1;
        connection.ask(&self.targets[connection.target], reading)
    }

    /// What was seen so far was warming up.
    fn forget(&mut self) {
        self.latencies = Latencies::new();
    }
}

#[cfg(test)]
mod tests;
