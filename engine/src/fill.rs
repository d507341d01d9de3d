//! The block owner's story: bytes that are held are leased at once; bytes that are missing are
//! fetched by one fill however many wait, and leased as they arrive. Memory is reserved before the
//! origin is asked. `fetch` talks to the origin; `adopt` takes bytes that are already on their way.

mod adopt;
mod fetch;

use std::rc::Rc;
use std::time::Duration;

use nilas_base::ByteRange;
use nilas_shards::Delivered;
use nilas_shards::store::{BlockId, FillPermit, Leases, Read};

pub use adopt::serve_adopt;

use crate::call::{BlockWant, Call, ReadAnswer};
use crate::mapping::Mapping;
use crate::metrics::FillEnd;
use crate::origin::OriginError;
use crate::shard::Shard;

/// Fills that may fail one reader before it is told; each begins where the one before stopped.
const FAILED_FILLS_MAX: u32 = 3;

/// How often waiting reads look for memory that has come back.
const MEMORY_WATCH_INTERVAL: Duration = Duration::from_millis(1);

/// Why a fill stopped early.
#[derive(Debug)]
pub enum FillError {
    /// The origin has another version now, or none.
    VersionGone,
    /// The origin gave no (more) bytes.
    Origin(OriginError),
    /// It answered with this status.
    Status(u16),
    /// Its answer does not prove that it holds the bytes that were asked for.
    Unproven,
}

impl BlockWant {
    /// The block.
    pub fn id(&self) -> BlockId {
        self.mapping.block(self.index)
    }
}

/// The first block of a slice of the object, and what of it is wanted; `None` of an empty slice.
pub fn block_want(
    shard: &Shard,
    mapping: &std::sync::Arc<Mapping>,
    slice: ByteRange,
) -> Option<BlockWant> {
    if slice.is_empty() {
        return None;
    }
    let index = shard.geometry.block_index(slice.start);
    let block = shard.geometry.block_range(index, mapping.length);
    let wanted = block.intersection(slice)?;
    let range = ByteRange::new(wanted.start - block.start, wanted.end - block.start);
    Some(BlockWant { mapping: std::sync::Arc::clone(mapping), index, range })
}

/// Leases the first wanted bytes if they are held.
pub fn read_now(shard: &Shard, want: &BlockWant) -> Option<Leases> {
    match shard.stores.borrow_mut().of(want.mapping.class).read(want.id(), want.range) {
        Read::Hit(leases) => {
            shard.counters.leased(leases.len() as u64);
            Some(leases)
        }
        Read::Filling | Read::Miss | Read::Full => None,
    }
}

/// Answers [`Call::Read`].
pub fn serve_read(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Read(call) = &mut *delivered else { return };
    let class = call.want.mapping.class;
    let read = shard.stores.borrow_mut().of(class).read(call.want.id(), call.want.range);
    match read {
        Read::Hit(leases) => {
            shard.counters.leased(leases.len() as u64);
            let held: u64 = leases.iter().map(|lease| lease.len() as u64).sum();
            if held < call.want.range.len() {
                begin_missing(shard, &call.want);
            }
            call.answer = ReadAnswer::Bytes(leases);
            delivered.reply();
            return;
        }
        Read::Filling | Read::Miss => begin_missing(shard, &call.want),
        Read::Full => watch_memory(shard),
    }
    call.waited = true;
    let id = call.want.id();
    shard.waiting.borrow_mut().entry(id).or_default().push(delivered);
}

/// Begins fills for what is neither held nor in flight of a want. Where there is no memory, readers
/// try again when some has come back.
pub fn begin_missing(shard: &Rc<Shard>, want: &BlockWant) {
    let block_bytes = shard.geometry.block_range(want.index, want.mapping.length).len();
    loop {
        let mut stores = shard.stores.borrow_mut();
        let store = stores.of(want.mapping.class);
        let Some(run) = store.missing(want.id(), want.range, block_bytes) else { return };
        let evictions = store.usage().evictions;
        match store.begin_fill(want.id(), run) {
            Ok(permit) => {
                let evicted = store.usage().evictions - evictions;
                shard.counters.evicted(want.mapping.class.tier(), evicted);
                shard.counters.fill_begun();
                shard.spawn(fill(Rc::clone(shard), want.clone(), permit));
            }
            Err(_) => {
                drop(stores);
                watch_memory(shard);
                return;
            }
        }
    }
}

async fn fill(shard: Rc<Shard>, want: BlockWant, mut permit: FillPermit) {
    let result = fetch::fetch(&shard, &want, &mut permit).await;
    end(&shard, &want, permit, result);
}

/// Bytes came: readers of the block look again.
fn append(shard: &Rc<Shard>, want: &BlockWant, permit: &mut FillPermit, bytes: &[u8]) {
    shard.stores.borrow_mut().of(want.mapping.class).append(permit, bytes);
    wake(shard, want.id());
}

fn end(shard: &Rc<Shard>, want: &BlockWant, permit: FillPermit, result: Result<(), FillError>) {
    let filled = permit.remaining().start - permit.run().start;
    shard.stores.borrow_mut().of(want.mapping.class).end_fill(permit);
    let how = if result.is_ok() { FillEnd::Complete } else { FillEnd::Failed };
    shard.counters.fill_ended(how, filled);
    shard.report_use();
    match result {
        Ok(()) => wake(shard, want.id()),
        Err(error) => fail(shard, want.id(), &error),
    }
}

fn wake(shard: &Rc<Shard>, id: BlockId) {
    let waiting = shard.waiting.borrow_mut().remove(&id);
    for delivered in waiting.into_iter().flatten() {
        serve_read(shard, delivered);
    }
}

fn fail(shard: &Rc<Shard>, id: BlockId, error: &FillError) {
    let waiting = shard.waiting.borrow_mut().remove(&id);
    for mut delivered in waiting.into_iter().flatten() {
        let Call::Read(call) = &mut *delivered else { continue };
        call.failed_fills += 1;
        let gone = matches!(error, FillError::VersionGone);
        if !gone && call.failed_fills < FAILED_FILLS_MAX && is_worth_another_try(error) {
            serve_read(shard, delivered);
            continue;
        }
        call.answer = if gone { ReadAnswer::VersionGone } else { ReadAnswer::Failed };
        delivered.reply();
    }
}

fn is_worth_another_try(error: &FillError) -> bool {
    match error {
        FillError::Origin(OriginError::Broken { .. }) => true,
        FillError::Status(status) => *status >= 500,
        FillError::Origin(_) | FillError::VersionGone | FillError::Unproven => false,
    }
}

/// Lets waiting reads look again whenever memory may have come back.
fn watch_memory(shard: &Rc<Shard>) {
    if shard.watches_memory.replace(true) {
        return;
    }
    let watching = Rc::clone(shard);
    shard.spawn(async move {
        loop {
            watching.reactor.sleep(MEMORY_WATCH_INTERVAL).await;
            let gained = {
                let mut stores = watching.stores.borrow_mut();
                let gained = stores.data.reclaim();
                stores.metadata.reclaim() || gained
            };
            if watching.waiting.borrow().is_empty() {
                break;
            }
            if gained {
                retry_all(&watching);
            }
        }
        watching.watches_memory.set(false);
    });
}

fn retry_all(shard: &Rc<Shard>) {
    let waiting = std::mem::take(&mut *shard.waiting.borrow_mut());
    for delivered in waiting.into_values().flatten() {
        serve_read(shard, delivered);
    }
}
