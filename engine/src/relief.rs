//! Relief under pressure: while anybody waits for memory that sends keep, the longest-stalled of
//! those sends is closed, one after the other. Its memory comes back when the kernel has done with
//! it. Without pressure nobody is closed here; `client` has a limit of its own for that.

use std::rc::Rc;
use std::time::Duration;

use nilas_base::ShardId;
use nilas_shards::Delivered;

use crate::call::{Call, RelieveCall};
use crate::client::Scarce;
use crate::fill::line;
use crate::mapping::StoreClass;
use crate::metrics::Failure;
use crate::shard::Shard;

/// Between two looks at least: what was closed gives its memory back meanwhile.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(20);

/// A send's progress is looked at so often within the time that it may stall.
const LOOKS_A_STALL: u32 = 4;

/// How long a read waits for memory before it is refused with SlowDown: several times what it takes
/// to close those who stall.
pub const MEMORY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Begins to look for relief, unless that goes on already.
pub fn begin(shard: &Rc<Shard>) {
    if !shard.seeks_relief.replace(true) {
        shard.spawn(seek(Rc::clone(shard)));
    }
}

async fn seek(shard: Rc<Shard>) {
    let stall_max = shard.settings.client.send_stall_max;
    let mut pause = LOOK_PAUSE_MIN;
    loop {
        shard.reactor.sleep(pause).await;
        line::refuse_overdue(&shard, MEMORY_WAIT_MAX);
        if shard.lines.borrow().waiting() == 0 && !shard.buffers.is_waited_for() {
            break;
        }
        let mut longest = Duration::ZERO;
        for scarce in wanted(&shard) {
            longest = longest.max(relieve(&shard, scarce, stall_max).await);
        }
        // When the longest-stalled is due, but never too seldom to tell who goes on.
        let due = stall_max.saturating_sub(longest);
        pause = due.min(stall_max / LOOKS_A_STALL).max(LOOK_PAUSE_MIN);
    }
    shard.seeks_relief.set(false);
}

/// What is waited for and kept by sends.
fn wanted(shard: &Shard) -> Vec<Scarce> {
    let lines = shard.lines.borrow();
    let classes = [StoreClass::Metadata, StoreClass::Data].into_iter();
    let leases = classes.filter(|class| lines.wants_leases(*class));
    let mut wanted: Vec<Scarce> =
        leases.map(|class| Scarce::Leases { owner: shard.id, class }).collect();
    wanted.extend(shard.buffers.is_waited_for().then_some(Scarce::Buffers));
    wanted
}

/// Closes the longest-stalled send of all shards if it is due; gives its stall.
async fn relieve(shard: &Rc<Shard>, scarce: Scarce, stall_max: Duration) -> Duration {
    let shards = match scarce {
        Scarce::Leases { .. } => 0..shard.geometry.shards,
        Scarce::Buffers => shard.id.0..shard.id.0 + 1,
    };
    let (mut longest, mut at) = (Duration::ZERO, shard.id);
    for number in shards {
        let stall = ask(shard, ShardId(number), scarce, None).await;
        if stall > longest {
            (longest, at) = (stall, ShardId(number));
        }
    }
    if longest >= stall_max {
        ask(shard, at, scarce, Some(stall_max)).await;
    }
    longest
}

async fn ask(
    shard: &Rc<Shard>,
    to: ShardId,
    scarce: Scarce,
    cut_from: Option<Duration>,
) -> Duration {
    let call = RelieveCall { scarce, cut_from, longest: Duration::ZERO };
    match *shard.call(to, Box::new(Call::Relieve(call))).await {
        Call::Relieve(call) => call.longest,
        _ => Duration::ZERO,
    }
}

/// Answers [`Call::Relieve`].
pub fn serve(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    let Call::Relieve(call) = &mut *delivered else { return };
    let now = shard.reactor.clock().now();
    let links = shard.links.borrow();
    call.longest = links.longest_stall(call.scarce, now);
    if let Some(stall_min) = call.cut_from
        && links.cut_longest_stalled(call.scarce, now, stall_min)
    {
        shard.counters.failure(Failure::ClientStalled);
    }
    drop(links);
    delivered.reply();
}
