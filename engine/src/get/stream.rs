//! The bytes of a served answer: slice by slice from the blocks' owners, the next slice looked up
//! while this one is on the wire, the blocks beyond it fetched ahead. A version that goes in
//! mid-stream cuts the connection: the client sees a short body, never a mixed one.

use std::rc::Rc;
use std::sync::Arc;

use nilas_base::{ByteRange, ShardId};
use nilas_shards::store::{Leases, ReadKind};

use super::head::{self, Shape};
use super::{Served, note_table};
use crate::both::both_unless_failed;
use crate::call::{Call, Found, ReadAnswer, ReadCall};
use crate::client::{Client, Scarce};
use crate::fill;
use crate::mapping::Mapping;
use crate::metrics::{Failure, Tier};
use crate::origin::{OriginError, Signer};
use crate::request::{Next, Request};
use crate::shard::Shard;

/// Blocks beyond the one being read whose fills are begun ahead. At 30 ms and 100 MB/s a connection,
/// sixteen of 2 MiB bring some 600 MB/s.
pub const BLOCKS_AHEAD_MAX: u32 = 16;

/// One answer's bytes on their way.
pub(super) struct Stream<'a> {
    shard: &'a Rc<Shard>,
    mapping: Arc<Mapping>,
    /// As whom the origin is asked.
    signer: &'a Signer,
    /// What is still to be looked up.
    rest: ByteRange,
    /// The first bytes, where the home gave them along.
    first: Leases,
    /// Whether the answer is a small one, for whom a share of the leases is kept.
    kind: ReadKind,
    /// Whether bytes came from the origin to find the version.
    waited: bool,
    /// The first block whose fill was not begun ahead yet.
    ahead: u32,
    tier: Tier,
}

#[expect(
    clippy::large_enum_variant,
    reason = "the usual answer is the large one, and allocates nothing"
)]
enum Piece {
    Bytes(Leases),
    VersionGone,
    Failed,
    Unavailable(OriginError),
    Busy,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        shard: &'a Rc<Shard>,
        found: Found,
        signer: &'a Signer,
        bytes: ByteRange,
    ) -> Stream<'a> {
        let tier = found.mapping.first_of_a_class(bytes).0.tier();
        let ahead = shard.geometry.block_index(bytes.start) + 1;
        let Found { mapping, leases: first, waited } = found;
        let kind = fill::read_kind(bytes);
        Stream { shard, mapping, signer, rest: bytes, first, kind, waited, ahead, tier }
    }

    /// Sends the head and all bytes.
    pub(super) async fn send(
        mut self,
        client: &mut Client,
        request: &Request<'_>,
        shape: Shape<'_>,
    ) -> Served {
        let first = std::mem::take(&mut self.first);
        let mut piece = match self.first_piece(client, first).await {
            Ok(leases) => leases,
            Err(served) => return served,
        };
        let mut head = Some(head::write(self.shard, request, &self.mapping, shape));
        loop {
            let mut parts = client.parts();
            if let Some(head) = head.take() {
                head.push_to(&mut parts);
            }
            piece.drain(..).for_each(|lease| parts.push_lease(lease));
            if self.rest.is_empty() {
                let sent = client.send(parts).await;
                return self.end(request, shape, sent.map_err(|error| error.failure()));
            }
            let sent = both_unless_failed(client.send(parts), self.next_piece(client)).await;
            let cut_by = match sent {
                Ok(((), Piece::Bytes(leases))) => {
                    piece = leases;
                    continue;
                }
                Ok(((), Piece::VersionGone | Piece::Failed | Piece::Unavailable(_))) => {
                    Some(Failure::OriginBroken)
                }
                Ok(((), Piece::Busy)) => Some(Failure::Overloaded),
                Err(error) => error.failure(),
            };
            return self.end(request, shape, Err(cut_by));
        }
    }

    /// The first bytes; before them nothing was sent, so everything can still be answered.
    async fn first_piece(&mut self, client: &Client, given: Leases) -> Result<Leases, Served> {
        if self.rest.is_empty() {
            return Ok(given);
        }
        if !given.is_empty() {
            let home = self.shard.geometry.home(self.mapping.home_hash);
            self.take(client, home, (&given, false));
            return Ok(given);
        }
        match self.next_piece(client).await {
            Piece::Bytes(leases) => Ok(leases),
            Piece::VersionGone => Err(Served::VersionGone),
            Piece::Failed => Err(Served::Relay),
            Piece::Unavailable(error) => Err(Served::Unavailable(error)),
            Piece::Busy => Err(Served::Busy),
        }
    }

    async fn next_piece(&mut self, client: &Client) -> Piece {
        let want = fill::block_want(self.shard, &self.mapping, self.signer, self.rest)
            .expect("the rest is not empty");
        self.begin_ahead(want.index);
        let owner = self.shard.geometry.owner(self.mapping.home_hash, want.index);
        if owner == self.shard.id
            && let Some(leases) = fill::read_now(self.shard, &want, self.kind)
        {
            self.take(client, owner, (&leases, false));
            return Piece::Bytes(leases);
        }
        let _place = self.shard.place_of_read(owner, self.kind).await;
        let answer = ReadAnswer::Pending;
        let call = ReadCall { want, kind: self.kind, joined: true, waited: false, answer };
        match *self.shard.call(owner, Box::new(Call::Read(call))).await {
            Call::Read(ReadCall { answer: ReadAnswer::Bytes(leases), waited, .. }) => {
                self.take(client, owner, (&leases, waited));
                Piece::Bytes(leases)
            }
            Call::Read(ReadCall { answer: ReadAnswer::VersionGone, .. }) => {
                self.forget().await;
                Piece::VersionGone
            }
            Call::Read(ReadCall { answer: ReadAnswer::Unavailable(error), .. }) => {
                Piece::Unavailable(error)
            }
            Call::Read(ReadCall { answer: ReadAnswer::Busy, .. }) => Piece::Busy,
            _ => Piece::Failed,
        }
    }

    /// Has the home forget the version, also when it goes in mid-stream: else every later reader
    /// would find its first bytes here and be cut where they end.
    async fn forget(&self) {
        let home = self.shard.geometry.home(self.mapping.home_hash);
        self.shard.call(home, Box::new(Call::Forget(Arc::clone(&self.mapping)))).await;
    }

    /// Counts bytes that were looked up, which the next send keeps from others.
    fn take(&mut self, client: &Client, owner: ShardId, (leases, waited): (&Leases, bool)) {
        let (class, _) = self.mapping.first_of_a_class(self.rest);
        client.keep_ahead(Scarce::Leases { owner, class });
        let bytes: u64 = leases.iter().map(|lease| lease.len() as u64).sum();
        self.rest.start += bytes;
        let tier = class.tier();
        if waited || self.waited {
            self.tier = Tier::Origin;
            self.shard.counters.miss(tier);
            self.shard.counters.sent(Tier::Origin, bytes);
        } else {
            self.shard.counters.hit(tier, bytes);
        }
    }

    /// Has the owners of the next blocks begin their fills.
    fn begin_ahead(&mut self, reading: u32) {
        let last = self.shard.geometry.block_index(self.rest.end - 1);
        let until = last.min(reading.saturating_add(BLOCKS_AHEAD_MAX));
        while self.ahead <= until {
            let block = self.shard.geometry.block_range(self.ahead, self.mapping.length);
            if let Some(wanted) = block.intersection(self.rest) {
                fill::prepare_all(self.shard, &self.mapping, self.signer, wanted);
            }
            self.ahead += 1;
        }
    }

    fn end(
        &self,
        request: &Request<'_>,
        shape: Shape<'_>,
        sent: Result<(), Option<Failure>>,
    ) -> Served {
        let status = match shape {
            Shape::Whole => 200,
            Shape::Slice(_) | Shape::Part(_) => 206,
        };
        request.count(self.shard, status, self.tier);
        if let Err(cut_by) = sent {
            cut_by.into_iter().for_each(|failure| self.shard.counters.failure(failure));
            return Served::Done(Next::Close);
        }
        note_table(self.shard, self.mapping.name.as_ref().as_ref());
        Served::Done(request.next(self.shard))
    }
}
