//! The disks of a simulated world, and their operations in flight: when each ends, and what becomes
//! of those that do not. Their randomness is their own, so that a disk moves nothing on the network.
//! Begin at `drive` for what one disk does and `medium` for what is durable; tests enter by `world`.

mod condition;
mod drive;
mod event;
mod fault;
mod medium;
mod world;

pub use condition::DiskCondition;
pub use event::DiskEvents;

use super::network::Network;
use super::trace::hash_bytes;
use crate::buffer::Buffer;
use crate::file::File;
use crate::ring::{Operation, Outcome, Token};
use drive::Drive;
use nilas_base::{Clock, Monotonic, Rng};
use std::collections::BTreeMap;
use std::io;

/// Names a disk, and the world it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskId {
    world_seed: u64,
    number: usize,
}

pub(super) struct Disks {
    clock: Clock,
    world_seed: u64,
    /// Of the disks' own seeds.
    rng: Rng,
    drives: Vec<Drive>,
    /// By when they end, and then in the order in which they began.
    in_flight: BTreeMap<(Monotonic, u64), InFlight>,
    sequence: u64,
}

struct InFlight {
    ring: usize,
    token: Token,
    disk: usize,
    order: Order,
}

enum Order {
    Read(Vec<Buffer>, u64),
    Write(Buffer, u64),
    /// Of the first so many of all writes.
    Sync(u64),
}

impl Disks {
    pub(super) fn new(world_seed: u64, clock: Clock) -> Disks {
        // Of the seed's complement: the world draws from the seed itself.
        let rng = Rng::from_seed(Rng::from_seed(!world_seed).next_u64());
        Disks {
            clock,
            world_seed,
            rng,
            drives: Vec::new(),
            in_flight: BTreeMap::new(),
            sequence: 0,
        }
    }

    pub(super) fn create(&mut self, bytes: usize) -> File {
        let rng = Rng::from_seed(self.rng.next_u64());
        self.drives.push(Drive::new(bytes, rng));
        File::simulated(DiskId { world_seed: self.world_seed, number: self.drives.len() - 1 })
    }

    /// Takes a disk operation. What is wrong with its file is said at once.
    pub(super) fn start(
        &mut self,
        network: &mut Network,
        (ring, token): (usize, Token),
        operation: Operation,
    ) {
        let (file, order) = match operation {
            Operation::ReadAt { file, buffers, offset_bytes } => {
                (file, Order::Read(buffers, offset_bytes))
            }
            Operation::WriteAt { file, buffer, offset_bytes } => {
                (file, Order::Write(buffer, offset_bytes))
            }
            Operation::Sync { file } => (file, Order::Sync(0)),
            other => unreachable!("not a disk operation: {other:?}"),
        };
        match file.disk() {
            Ok(disk) => self.begin(self.number(disk), (ring, token), order),
            Err(error) => network.complete(ring, token, order.fail(error)),
        }
    }

    fn begin(&mut self, disk: usize, (ring, token): (usize, Token), mut order: Order) {
        let drive = &mut self.drives[disk];
        let condition = drive.condition;
        let delay = match &mut order {
            Order::Read(..) | Order::Write(..) => drive.draw_delay(condition.delay_us_max),
            Order::Sync(writes) => {
                *writes = drive.medium.write_count();
                drive.draw_delay(condition.sync_delay_us_max)
            }
        };
        self.sequence += 1;
        let end = (self.clock.now().after(delay), self.sequence);
        self.in_flight.insert(end, InFlight { ring, token, disk, order });
    }

    pub(super) fn next_event(&self) -> Option<Monotonic> {
        self.in_flight.keys().next().map(|(at, _)| *at)
    }

    /// Carries out what is due.
    pub(super) fn carry_out_due(&mut self, network: &mut Network) {
        let now = self.clock.now();
        while self.next_event().is_some_and(|at| at <= now) {
            let (_, InFlight { ring, token, disk, order }) =
                self.in_flight.pop_first().expect("just seen");
            let name = order.name();
            let outcome = order.carry_out(&mut self.drives[disk]);
            network.trace.note(name, disk as u64, digest(&outcome));
            network.complete(ring, token, outcome);
        }
    }

    /// Nobody waits for this operation any more. It is withdrawn, or goes on to its end, as one does
    /// that a real ring has begun. False when it is none of a disk.
    pub(super) fn cancel(&mut self, network: &mut Network, ring: usize, token: Token) -> bool {
        let mut all = self.in_flight.iter();
        let found = all.find(|(_, it)| it.ring == ring && it.token == token);
        let Some((&key, disk)) = found.map(|(key, it)| (key, it.disk)) else { return false };
        let drive = &mut self.drives[disk];
        if drive.rng.chance(1, 2)
            && let Some(withdrawn) = self.in_flight.remove(&key)
        {
            drive.events.withdrawn += 1;
            let cancelled = io::Error::from_raw_os_error(libc::ECANCELED);
            network.complete(ring, token, withdrawn.order.fail(cancelled));
        }
        true
    }

    /// Ends what this ring has in flight: what it wrote may land in part. Time stands still for a ring
    /// that closes, so there is no later moment at which it could end.
    pub(super) fn end_ring(&mut self, network: &mut Network, ring: usize) {
        for InFlight { token, disk, order, .. } in self.take(|it| it.ring == ring) {
            let drive = &mut self.drives[disk];
            drive.events.cut_short += 1;
            if let Order::Write(buffer, offset) = &order {
                drive.interrupt_write(buffer.filled(), *offset);
            }
            network.trace.note("end in flight", disk as u64, u64::from(token.index));
            let cancelled = io::Error::from_raw_os_error(libc::ECANCELED);
            network.complete(ring, token, order.fail(cancelled));
        }
    }

    /// Cuts the power of one disk, and puts it on again. What was in flight fails with `EIO`.
    pub(super) fn crash(&mut self, network: &mut Network, disk: usize) {
        let mut writes = Vec::new();
        let mut waiting = Vec::new();
        let cut_short = self.take(|it| it.disk == disk);
        self.drives[disk].events.cut_short += cut_short.len() as u64;
        for InFlight { ring, token, order, .. } in cut_short {
            match order {
                Order::Write(buffer, offset) => {
                    waiting.push((ring, token));
                    writes.push((buffer, offset));
                }
                other => network.complete(ring, token, other.fail(broken())),
            }
        }
        let drive = &mut self.drives[disk];
        drive.crash(&writes);
        network.trace.note("crash", disk as u64, drive.events.lost_writes);
        for ((ring, token), (buffer, offset)) in waiting.into_iter().zip(writes) {
            network.complete(ring, token, Order::Write(buffer, offset).fail(broken()));
        }
    }

    fn take(&mut self, which: impl Fn(&InFlight) -> bool) -> Vec<InFlight> {
        self.in_flight.extract_if(.., |_, it| which(it)).map(|(_, taken)| taken).collect()
    }

    fn drive(&mut self, file: &File) -> &mut Drive {
        let disk = file.disk().expect("a world is asked about its own files");
        let number = self.number(disk);
        &mut self.drives[number]
    }

    fn number(&self, disk: DiskId) -> usize {
        assert_eq!(disk.world_seed, self.world_seed, "a file is used in its own world");
        disk.number
    }
}

impl Order {
    fn name(&self) -> &'static str {
        match self {
            Order::Read(..) => "read",
            Order::Write(..) => "write",
            Order::Sync(_) => "sync",
        }
    }

    fn carry_out(self, drive: &mut Drive) -> Outcome {
        match self {
            Order::Read(mut buffers, offset) => {
                Outcome::Read(drive.read(&mut buffers, offset), buffers)
            }
            Order::Write(buffer, offset) => {
                Outcome::Written(drive.write(buffer.filled(), offset), buffer)
            }
            Order::Sync(writes) => Outcome::Synced(drive.sync(writes)),
        }
    }

    fn fail(self, error: io::Error) -> Outcome {
        match self {
            Order::Read(buffers, _) => Outcome::Read(Err(error), buffers),
            Order::Write(buffer, _) => Outcome::Written(Err(error), buffer),
            Order::Sync(_) => Outcome::Synced(Err(error)),
        }
    }
}

/// What of an outcome goes into the trace.
fn digest(outcome: &Outcome) -> u64 {
    let number = |error: &io::Error| error.raw_os_error().unwrap_or(0) as u64;
    match outcome {
        Outcome::Read(Ok(count), buffers) => {
            let hashes = buffers.iter().map(|buffer| hash_bytes(buffer.filled()));
            hashes.fold(*count as u64, |hash, of_buffer| hash.rotate_left(1) ^ of_buffer)
        }
        Outcome::Written(Ok(count), buffer) => hash_bytes(buffer.filled()) ^ *count as u64,
        Outcome::Read(Err(error), _)
        | Outcome::Written(Err(error), _)
        | Outcome::Synced(Err(error)) => number(error),
        Outcome::Synced(Ok(())) => 0,
        other => unreachable!("not of a disk: {other:?}"),
    }
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}
