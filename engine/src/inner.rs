//! Reads that the node asks of itself: the control side names an object and a range, and a shard reads it as it would
//! for a client, by the same mapping, blocks and fills. What is read so is warm for those who come later.
//! Nothing here decides what is worth reading; a read that finds no place is refused, and nobody's GET waits for it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use nilas_base::ByteRange;
use nilas_net::range::{RangeForm, Resolved};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::call::{Call, Found, OpenAnswer, OpenWant, ReadAnswer, ReadCall};
use crate::fill;
use crate::get;
use crate::identity::NameRef;
use crate::origin::Signer;
use crate::shard::Shard;

/// Reads that wait; one more is refused.
pub const INNER_READS_WAITING_MAX: usize = 256;
/// Reads under way at a time.
const INNER_READS_MAX: usize = 16;
/// The most bytes of one read that are given back.
pub const INNER_READ_BYTES_MAX: u64 = 64 << 20;
/// How often a read begins anew because its version has gone from the origin.
const RESTARTS_MAX: usize = 3;

/// What is to be read.
#[derive(Clone, Debug)]
pub struct InnerRead {
    /// The bucket.
    pub bucket: String,
    /// The key, as it is: nothing of it is encoded.
    pub key: String,
    /// Which bytes.
    pub range: RangeForm,
    /// From where on the object is planning metadata; `None` where that is as its name says.
    pub tail_start: Option<u64>,
    /// Whether they are wanted, or only to be at hand from now on.
    pub gives_bytes: bool,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InnerBytes {
    /// The bytes; none where they were not asked for.
    pub bytes: Bytes,
    /// How many were read.
    pub read_bytes: u64,
    /// The whole object's length.
    pub object_bytes: u64,
    /// Whether the origin was asked.
    pub waited: bool,
}

impl InnerBytes {
    /// Bytes that the origin was asked for.
    pub fn origin_bytes(&self) -> u64 {
        if self.waited { self.read_bytes } else { 0 }
    }
}

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InnerReadError {
    /// The origin has an answer of its own.
    #[error("the origin answers with status {0}")]
    Status(u16),
    /// The origin does not answer in a way that can be kept.
    #[error("the origin's answer proves no version, so it cannot be kept")]
    Unproven,
    /// The origin gave no answer.
    #[error("{0}")]
    Unavailable(String),
    /// There is too much to do.
    #[error("there is no memory or no place for it now")]
    Busy,
    /// More than [`INNER_READ_BYTES_MAX`].
    #[error("{0} bytes are more than the {INNER_READ_BYTES_MAX} that are read at once")]
    TooLarge(u64),
    /// The shards have ended.
    #[error("the node is stopping")]
    Stopping,
}

type Answer = Result<InnerBytes, InnerReadError>;
type Order = (InnerRead, oneshot::Sender<Answer>);

/// Has things read; clones reach the same node.
#[derive(Clone, Debug)]
pub struct InnerReadPort {
    orders: mpsc::Sender<Order>,
}

/// The shards' side of an [`InnerReadPort`].
#[derive(Debug)]
pub struct InnerReadQueue {
    orders: mpsc::Receiver<Order>,
}

impl InnerReadPort {
    /// A port and the queue behind it.
    pub fn pair() -> (InnerReadPort, InnerReadQueue) {
        let (sender, orders) = mpsc::channel(INNER_READS_WAITING_MAX);
        (InnerReadPort { orders: sender }, InnerReadQueue { orders })
    }

    /// Reads. Dropped, the read goes on to its end, and what it brings is kept.
    pub async fn read(&self, what: InnerRead) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.orders.try_send((what, reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => InnerReadError::Busy,
            mpsc::error::TrySendError::Closed(_) => InnerReadError::Stopping,
        })?;
        answer.await.unwrap_or(Err(InnerReadError::Stopping))
    }
}

/// Reads what is asked for, some at a time, until nobody can ask any more.
pub async fn serve(shard: Rc<Shard>, mut queue: InnerReadQueue) {
    let places = Rc::new(Semaphore::new(INNER_READS_MAX));
    while let Some((what, reply)) = queue.orders.recv().await {
        let acquired = places.acquire().await.map(tokio::sync::SemaphorePermit::forget);
        acquired.expect("the semaphore is never closed");
        let (reading, places) = (Rc::clone(&shard), Rc::clone(&places));
        shard.spawn(async move {
            let answer = read(&reading, &what).await;
            places.add_permits(1);
            // What was read is kept, whether anybody still wants it or not.
            let _ = reply.send(answer);
        });
    }
}

async fn read(shard: &Rc<Shard>, what: &InnerRead) -> Answer {
    let name = NameRef { bucket: &what.bucket, key: &what.key };
    let want = OpenWant {
        body: true,
        range: what.range,
        checksums: false,
        tail_start: what.tail_start,
        is_own: true,
    };
    for _ in 0..RESTARTS_MAX {
        match get::open(shard, name, want, &Signer::Node).await {
            OpenAnswer::Found(found) => {
                if let Some(answer) = read_found(shard, what, found).await {
                    return answer;
                }
            }
            OpenAnswer::PassOn(answer) => return Err(InnerReadError::Status(answer.status)),
            OpenAnswer::Failed(error) => {
                return Err(InnerReadError::Unavailable(error.to_string()));
            }
            OpenAnswer::Relay | OpenAnswer::Pending => return Err(InnerReadError::Unproven),
        }
    }
    Err(InnerReadError::Unproven)
}

/// Reads a version; `None` where it has gone meanwhile.
async fn read_found(shard: &Rc<Shard>, what: &InnerRead, found: Found) -> Option<Answer> {
    let Found { mapping, leases, mut waited } = found;
    drop(leases);
    let mut rest = match what.range.resolve(mapping.length) {
        Resolved::Whole => ByteRange::new(0, mapping.length),
        Resolved::Slice(slice) => slice,
        Resolved::Unsatisfiable | Resolved::Relay => return Some(Err(InnerReadError::Status(416))),
    };
    let read_bytes = rest.len();
    if what.gives_bytes && read_bytes > INNER_READ_BYTES_MAX {
        return Some(Err(InnerReadError::TooLarge(read_bytes)));
    }
    let mut bytes = BytesMut::new();
    while !rest.is_empty() {
        let mut want = fill::block_want(shard, &mapping, &Signer::Node, rest)?;
        want.is_own = true;
        let owner = shard.geometry.owner(mapping.home_hash, want.index);
        let kind = fill::read_kind(rest);
        let _place = shard.place_of_read(owner, kind).await;
        let answer = ReadAnswer::Pending;
        let call = ReadCall { want, kind, joined: true, waited: false, answer };
        let told = shard.call(owner, Box::new(Call::Read(call))).await;
        let Call::Read(ReadCall { answer, waited: has_waited, .. }) = *told else { return None };
        waited |= has_waited;
        match answer {
            ReadAnswer::Bytes(leases) => {
                for lease in &leases {
                    rest.start += lease.len() as u64;
                    if what.gives_bytes {
                        bytes.extend_from_slice(lease);
                    }
                }
            }
            ReadAnswer::VersionGone => {
                let home = shard.geometry.home(mapping.home_hash);
                shard.call(home, Box::new(Call::Forget(Arc::clone(&mapping)))).await;
                return None;
            }
            ReadAnswer::Unavailable(error) => {
                return Some(Err(InnerReadError::Unavailable(error.to_string())));
            }
            ReadAnswer::Busy => return Some(Err(InnerReadError::Busy)),
            ReadAnswer::Failed | ReadAnswer::Pending => return Some(Err(InnerReadError::Unproven)),
        }
    }
    let object_bytes = mapping.length;
    Some(Ok(InnerBytes { bytes: bytes.freeze(), read_bytes, object_bytes, waited }))
}
