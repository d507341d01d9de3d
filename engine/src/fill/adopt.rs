//! Bytes of a block that another question to the origin already brings: taken if the whole run is
//! missing and there is memory for it, else left to the block's own readers to fetch. Where they
//! break off, the rest is fetched as any fill's.

use std::rc::Rc;

use bytes::Bytes;
use nilas_shards::Delivered;
use nilas_shards::store::FillPermit;
use tokio::sync::mpsc;

use super::{append, end, fetch, permit};
use crate::call::{BlockWant, Call};
use crate::metrics::OriginEvent;
use crate::shard::Shard;

/// Answers [`Call::Adopt`]: with `bytes` taken where they are wanted.
pub fn serve_adopt(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Adopt(call) = &mut *delivered else { return };
    if let Some(permit) = permit_for_all(shard, &call.want)
        && let Some(bytes) = call.bytes.take()
    {
        shard.counters.fill_begun();
        shard.spawn(drink(Rc::clone(shard), call.want.clone(), permit, bytes));
    }
    delivered.reply();
}

/// Memory for all of what will come, if all of it is missing.
fn permit_for_all(shard: &Shard, want: &BlockWant) -> Option<FillPermit> {
    let block_bytes = shard.geometry.block_range(want.index, want.mapping.length).len();
    let missing = {
        let mut stores = shard.stores.borrow_mut();
        stores.of(want.class).missing(want.id(), want.range, block_bytes)?
    };
    if missing == want.range { permit(shard, want, missing) } else { None }
}

async fn drink(
    shard: Rc<Shard>,
    want: BlockWant,
    mut permit: FillPermit,
    mut bytes: mpsc::Receiver<Bytes>,
) {
    while let Some(chunk) = bytes.recv().await {
        append(&shard, &want, &mut permit, &chunk);
    }
    let result = if permit.remaining().is_empty() {
        Ok(())
    } else {
        shard.counters.origin_event(OriginEvent::Resume);
        let is_barren = permit.remaining() == permit.run();
        fetch::fetch(&shard, &want, &mut permit, u32::from(is_barren)).await
    };
    end(&shard, &want, permit, result);
}
