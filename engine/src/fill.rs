//! The block owner's story: bytes that are held are leased at once; bytes that are missing are
//! fetched by one fill however many wait, and leased as they arrive. Memory is reserved before the
//! origin is asked. `fetch` talks to the origin; `adopt` takes bytes that are already on their way.

mod adopt;
mod fetch;
pub mod line;

use std::rc::Rc;
use std::sync::Arc;

use nilas_base::ByteRange;
use nilas_shards::store::{BlockId, FillPermit, Leases, Read, ReadKind, Usage};
use nilas_shards::{Buffer, Delivered};

pub use adopt::serve_adopt;

use crate::call::{BlockWant, Call, ReadAnswer};
use crate::disk::{self, FillSource};
use crate::mapping::Mapping;
use crate::metrics::FillEnd;
use crate::origin::{OriginError, Signer};
use crate::shard::Shard;
use line::{Lack, SMALL_ANSWER_BYTES_MAX};

/// The part of a store that fills may hold before none are begun ahead of their readers: half of
/// what all fills may hold, so that readers who wait find room.
const AHEAD_DIVISOR: u64 = 4;

/// Why a fill stopped early.
#[derive(Debug)]
pub enum FillError {
    /// The origin has another version now, or none.
    VersionGone,
    /// The origin gave no answer.
    Origin(OriginError),
    /// The body broke off or stood still.
    BrokeOff(OriginError),
    /// It answered with an error.
    Refused,
    /// Its answer does not prove that it holds the bytes that were asked for.
    Unproven,
}

impl FillError {
    fn is_silence(&self) -> bool {
        matches!(
            self,
            FillError::Origin(OriginError::TimedOut { .. })
                | FillError::BrokeOff(OriginError::TimedOut { .. })
        )
    }
}

impl BlockWant {
    /// The block.
    pub fn id(&self) -> BlockId {
        self.mapping.block(self.index)
    }
}

/// The first block of a slice of the object, and what of it is wanted and lies in one store; `None` of an
/// empty slice.
pub fn block_want(
    shard: &Shard,
    mapping: &Arc<Mapping>,
    signer: &Signer,
    slice: ByteRange,
) -> Option<BlockWant> {
    let (class, slice) = mapping.first_of_a_class(slice);
    let (index, range) = shard.geometry.first_block(slice, mapping.length)?;
    let (mapping, signer) = (Arc::clone(mapping), signer.clone());
    Some(BlockWant { mapping, index, range, class, is_own: false, signer })
}

/// How an answer of these bytes reads.
pub fn read_kind(answer: ByteRange) -> ReadKind {
    if answer.len() <= SMALL_ANSWER_BYTES_MAX { ReadKind::Small } else { ReadKind::Large }
}

/// Leases the first wanted bytes if they are held and nobody waits for leases.
pub fn read_now(shard: &Shard, want: &BlockWant, kind: ReadKind) -> Option<Leases> {
    let class = want.class;
    if shard.lines.borrow().has(class, Lack::Leases(kind)) {
        return None;
    }
    match shard.stores.borrow_mut().of(class).read(want.id(), want.range, kind) {
        Read::Hit(leases) => {
            shard.counters.leased(leases.len() as u64);
            Some(leases)
        }
        Read::Filling | Read::Miss | Read::Full => None,
    }
}

/// Answers [`Call::Read`], at once or when its turn has come.
pub fn serve_read(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::Read(call) = &*delivered else { return };
    let (class, lack) = (call.want.class, Lack::Leases(call.kind));
    if shard.lines.borrow().has(class, lack) {
        line::join(shard, class, lack, delivered);
    } else if let Some((delivered, lack)) = attempt(shard, delivered, Turn::New) {
        line::join(shard, class, lack, delivered);
    }
}

/// Whether a read has stood in line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    New,
    Reached,
}

/// Answers a read, or lets it wait for bytes that are in flight. One that lacks memory is given
/// back with what it lacks.
fn attempt(
    shard: &Rc<Shard>,
    mut delivered: Delivered<Call>,
    turn: Turn,
) -> Option<(Delivered<Call>, Lack)> {
    let Call::Read(call) = &mut *delivered else { return None };
    let (want, kind) = (&call.want, call.kind);
    let read = shard.stores.borrow_mut().of(want.class).read(want.id(), want.range, kind);
    let is_short = match read {
        Read::Hit(leases) => {
            shard.counters.leased(leases.len() as u64);
            let held: u64 = leases.iter().map(|lease| lease.len() as u64).sum();
            if held < want.range.len() {
                begin_rest(shard, want);
            }
            call.answer = ReadAnswer::Bytes(leases);
            delivered.reply();
            return None;
        }
        Read::Full => return Some((delivered, Lack::Leases(kind))),
        Read::Filling => {
            begin_rest(shard, want);
            false
        }
        Read::Miss => {
            let others_first =
                turn == Turn::New && shard.lines.borrow().has(want.class, Lack::Fill);
            let is_short = others_first || begin_missing(shard, want) == Begun::Nothing;
            call.joined &= is_short;
            is_short
        }
    };
    call.waited = true;
    if is_short {
        return Some((delivered, Lack::Fill));
    }
    let id = call.want.id();
    shard.waiting.borrow_mut().entry(id).or_default().push(delivered);
    None
}

/// Begins what a reader will come to next, unless others wait for the memory.
fn begin_rest(shard: &Rc<Shard>, want: &BlockWant) {
    if !shard.lines.borrow().has(want.class, Lack::Fill) {
        begin_missing(shard, want);
    }
}

/// What could be begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// The first missing bytes, at least, or none were missing.
    First,
    /// There was no memory.
    Nothing,
}

/// Begins fills for what is neither held nor in flight of a want, as far as there is memory.
fn begin_missing(shard: &Rc<Shard>, want: &BlockWant) -> Begun {
    let block_bytes = shard.geometry.block_range(want.index, want.mapping.length).len();
    let mut begun = Begun::Nothing;
    loop {
        let missing = {
            let mut stores = shard.stores.borrow_mut();
            stores.of(want.class).missing(want.id(), want.range, block_bytes)
        };
        let Some(run) = missing else { return Begun::First };
        let (run, source) = disk::first_part(shard, want, run);
        let Some(permit) = permit(shard, want, run) else { return begun };
        begun = Begun::First;
        shard.counters.fill_begun();
        shard.spawn(fill(Rc::clone(shard), want.clone(), permit, source));
    }
}

/// Memory for a run of a block, for which others may have to leave; `None` where there is none.
fn permit(shard: &Shard, want: &BlockWant, run: ByteRange) -> Option<FillPermit> {
    let mut stores = shard.stores.borrow_mut();
    let store = stores.of(want.class);
    let evictions = store.usage().evictions;
    let permit = store.begin_fill(want.id(), run);
    shard.counters.evicted(want.class.tier(), store.usage().evictions - evictions);
    permit.ok()
}

/// Has the owners of a slice's blocks begin their fills, ahead of its readers.
pub fn prepare_all(
    shard: &Rc<Shard>,
    mapping: &Arc<Mapping>,
    signer: &Signer,
    mut slice: ByteRange,
) {
    while let Some(want) = block_want(shard, mapping, signer, slice) {
        slice.start += want.range.len();
        prepare(shard, want);
    }
}

/// Has a block's owner begin its fill, ahead of its reader.
fn prepare(shard: &Rc<Shard>, want: BlockWant) {
    let owner = shard.geometry.owner(want.mapping.home_hash, want.index);
    if owner == shard.id {
        begin_ahead(shard, &want);
        return;
    }
    let asking = Rc::clone(shard);
    shard.spawn(async move {
        asking.call(owner, Box::new(Call::Prepare(want))).await;
    });
}

/// Answers [`Call::Prepare`]: where memory or the origin is short, those who wait go first.
pub fn begin_ahead(shard: &Rc<Shard>, want: &BlockWant) {
    if shard.lines.borrow().has(want.class, Lack::Fill) {
        return;
    }
    let usage = shard.stores.borrow_mut().of(want.class).usage();
    if has_room_ahead(&usage, want.range.len()) && shard.origin.is_at_ease() {
        begin_missing(shard, want);
    }
}

/// Whether a store has room for so many bytes of which nobody waits for the first.
pub fn has_room_ahead(usage: &Usage, bytes: u64) -> bool {
    usage.in_flight_bytes + bytes <= usage.budget_bytes / AHEAD_DIVISOR
}

async fn fill(shard: Rc<Shard>, want: BlockWant, mut permit: FillPermit, source: FillSource) {
    let source = match source {
        FillSource::Disk => disk::read_into(&shard, &want, &mut permit).await,
        FillSource::Origin => source,
    };
    match source {
        FillSource::Disk => end_disk_fill(&shard, &want, permit),
        FillSource::Origin => {
            let result = fetch::fetch(&shard, &want, &mut permit, 0).await;
            end(&shard, &want, permit, result);
        }
    }
}

/// Ends a fill from the cache device. Who waits for what it did not bring begins anew, without what the device could
/// not give: the memory of this fill may still be with it.
fn end_disk_fill(shard: &Rc<Shard>, want: &BlockWant, permit: FillPermit) {
    let is_whole = permit.remaining().is_empty();
    settle(shard, want, permit, if is_whole { FillEnd::Complete } else { FillEnd::Abandoned });
    wake(shard, want.id());
}

/// What was read into the memory of a fill can be read from now on.
pub fn accept(
    shard: &Rc<Shard>,
    want: &BlockWant,
    permit: &mut FillPermit,
    (rooms, bytes): (Vec<Buffer>, u64),
) {
    shard.stores.borrow_mut().of(want.class).accept(permit, rooms, bytes);
    wake(shard, want.id());
}

/// Bytes came: readers of the block look again.
pub fn append(shard: &Rc<Shard>, want: &BlockWant, permit: &mut FillPermit, bytes: &[u8]) {
    shard.stores.borrow_mut().of(want.class).append(permit, bytes);
    wake(shard, want.id());
}

/// Ends a fill from the origin.
fn end(shard: &Rc<Shard>, want: &BlockWant, permit: FillPermit, result: Result<(), FillError>) {
    let how = if result.is_ok() { FillEnd::Complete } else { FillEnd::Failed };
    let (run, came_to) = settle(shard, want, permit, how);
    disk::keep(shard, want, ByteRange::new(run.start, kept_to(shard, want, (run, came_to))));
    match result {
        Ok(()) => wake(shard, want.id()),
        Err(error) => fail(shard, want, &error),
    }
}

/// Ends a fill in its store, and counts it; gives its run and how far it came.
fn settle(shard: &Shard, want: &BlockWant, permit: FillPermit, how: FillEnd) -> (ByteRange, u64) {
    let (run, came_to) = (permit.run(), permit.remaining().start);
    shard.stores.borrow_mut().of(want.class).end_fill(permit);
    shard.counters.fill_ended(how, came_to - run.start);
    shard.report_use();
    (run, came_to)
}

/// Where the part of a run ends that its store has kept, if the run came as far as that.
fn kept_to(shard: &Shard, want: &BlockWant, (run, came_to): (ByteRange, u64)) -> u64 {
    let sector_bytes = shard.settings.sector_bytes(want.class);
    let whole_sectors = came_to / sector_bytes * sector_bytes;
    if came_to == run.end { came_to } else { whole_sectors.max(run.start) }
}

fn wake(shard: &Rc<Shard>, id: BlockId) {
    let waiting = shard.waiting.borrow_mut().remove(&id);
    for delivered in waiting.into_iter().flatten() {
        serve_read(shard, delivered);
    }
}

/// Tells those who waited for what this fill did not bring; others of the block wait on.
fn fail(shard: &Rc<Shard>, want: &BlockWant, error: &FillError) {
    let waiting = shard.waiting.borrow_mut().remove(&want.id());
    for mut delivered in waiting.into_iter().flatten() {
        let Call::Read(call) = &mut *delivered else { continue };
        let is_gone = matches!(error, FillError::VersionGone);
        // Once: else many who join one another's fills would fail one after the other. Not after a
        // silence: to ask again would double the wait.
        let may_try = std::mem::take(&mut call.joined) && !error.is_silence();
        if !is_gone && may_try {
            serve_read(shard, delivered);
            continue;
        }
        if !is_gone && is_at_hand_or_coming(shard, &call.want) {
            wait_on(shard, delivered);
            continue;
        }
        call.answer = match error {
            FillError::VersionGone => ReadAnswer::VersionGone,
            FillError::Origin(error) | FillError::BrokeOff(error) => {
                ReadAnswer::Unavailable(error.clone())
            }
            FillError::Refused | FillError::Unproven => ReadAnswer::Failed,
        };
        delivered.reply();
    }
}

/// Lets a reader wait for its first byte alone. What has just failed is not begun again before that
/// has come: where the origin refuses at once, it would fail and begin again for ever.
fn wait_on(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let Call::Read(call) = &*delivered else { return };
    let (id, range, kind) = (call.want.id(), call.want.range, call.kind);
    let class = call.want.class;
    let is_coming =
        matches!(shard.stores.borrow_mut().of(class).read(id, range, kind), Read::Filling);
    if is_coming {
        shard.waiting.borrow_mut().entry(id).or_default().push(delivered);
    } else {
        serve_read(shard, delivered);
    }
}

/// Whether the first wanted byte is held, or another fill brings it.
fn is_at_hand_or_coming(shard: &Shard, want: &BlockWant) -> bool {
    let first = ByteRange::new(want.range.start, want.range.start + 1);
    let mut stores = shard.stores.borrow_mut();
    stores.of(want.class).missing(want.id(), first, first.end).is_none()
}
