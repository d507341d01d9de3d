//! What shards ask of one another. Question and answer travel in one box, there and back, so that
//! a call in the steady state allocates nothing. `serve` sends each to the story that answers it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nilas_base::ByteRange;
use nilas_net::range::RangeForm;
use nilas_shards::Delivered;
use nilas_shards::store::{Leases, ReadKind};
use tokio::sync::mpsc;

use crate::authority::TableRoots;
use crate::client::Scarce;
use crate::epoch::Moment;
use crate::freshness::Vouchers;
use crate::invalidate::Stage;
use crate::mapping::{Mapping, StoreClass};
use crate::origin::{IdentityId, OriginAnswer, OriginError, Signer};
use crate::persist::WriteId;
use crate::purge::{Heard, Purge};
use crate::put::Brought;
use crate::shard::Shard;
use crate::{authority, fill, invalidate, open, purge, relief, written};

/// One call between shards.
#[derive(Debug)]
pub enum Call {
    /// To the home: which version is current?
    Open(OpenCall),
    /// To a block's owner: bytes of it, please.
    Read(ReadCall),
    /// To a block's owner: these bytes will be wanted; begin to fetch them.
    Prepare(BlockWant),
    /// To a block's owner: here come bytes of it from an origin answer that is already under way.
    Adopt(AdoptCall),
    /// To the home: a write to these keys begins or ends.
    InvalidateKeys(KeysCall, Stage),
    /// To the home: a write to a key has happened, and here is what it has brought.
    Written(WrittenCall),
    /// To every shard: something that may concern this whole bucket begins or ends.
    InvalidateBucket(BucketCall, Stage),
    /// To every shard: this is to be forgotten.
    Purge(PurgeCall),
    /// To every shard: which of your sends keeps what others wait for, and stalls?
    Relieve(RelieveCall),
    /// To the home: the version that this mapping names has gone from the origin.
    Forget(Arc<Mapping>),
    /// To the home: the origin has refused this object to this identity.
    Refuse(NameCall, IdentityId),
    /// To every shard: what the watched catalogs vouch for now.
    Vouch(Vouchers),
    /// To every shard: what lies under these roots of tables, or was believed on a catalog's word, is to be asked for anew
    /// where nobody vouches for it.
    Unlisted(Arc<TableRoots>),
    /// To the home: no table lists these files any more.
    Retire(RetireCall),
    /// To the home of a root: is it a table's? Answered when every shard has been told.
    DecideRoot(NameCall),
    /// To every shard: `key` is the root of a table, or (where not `is_table`) of none, as far as was
    /// known after so many purges.
    NoteRoot(NameCall, bool, Heard),
}

/// A bucket and a key, in strings that are used again.
#[derive(Debug, Default)]
pub struct NameCall {
    /// The bucket.
    pub bucket: String,
    /// The key; empty where the call concerns the bucket.
    pub key: String,
}

/// Keys of one bucket.
#[derive(Debug)]
pub struct KeysCall {
    /// The bucket.
    pub bucket: String,
    /// The keys, all at home on one shard.
    pub keys: Vec<String>,
    /// By which write.
    pub write: WriteId,
    /// The moment of the last of them, once the home knows.
    pub moment: Option<Moment>,
    /// Whether the write must not be relayed.
    pub is_refused: bool,
}

impl KeysCall {
    /// Of these keys, which have their home in common.
    pub fn new(bucket: &str, keys: Vec<String>, write: WriteId) -> KeysCall {
        KeysCall { bucket: bucket.to_owned(), keys, write, moment: None, is_refused: false }
    }
}

/// See [`Call::Retire`].
#[derive(Debug)]
pub struct RetireCall {
    /// The bucket.
    pub bucket: Box<str>,
    /// The keys, all at home on one shard.
    pub keys: Vec<Box<str>>,
    /// Whether they are to be forgotten where a table lists them, too.
    pub even_listed: bool,
}

/// A bucket as a whole.
#[derive(Debug)]
pub struct BucketCall {
    /// The bucket.
    pub bucket: String,
    /// By which write.
    pub write: WriteId,
    /// Whether the write must not be relayed.
    pub is_refused: bool,
}

impl BucketCall {
    /// Of this bucket.
    pub fn new(bucket: &str, write: WriteId) -> BucketCall {
        BucketCall { bucket: bucket.to_owned(), write, is_refused: false }
    }
}

/// See [`Call::Purge`].
#[derive(Debug)]
pub struct PurgeCall {
    /// What is to be forgotten.
    pub what: Purge,
    /// Whether it might be known again after the node was started anew.
    pub is_passing: bool,
}

/// See [`Call::Written`].
#[derive(Debug)]
pub struct WrittenCall {
    /// The object.
    pub name: NameCall,
    /// Which write it was.
    pub write: WriteId,
    /// What is known of it.
    pub stage: Stage,
    /// The home's moment when it had been told that the write begins.
    pub began: Moment,
    /// What the write has brought; taken by the home.
    pub brought: Option<Brought>,
    /// As whom the writer asks.
    pub signer: Signer,
}

/// See [`Call::Open`].
#[derive(Debug)]
pub struct OpenCall {
    /// The object.
    pub name: NameCall,
    /// What the client wants of it.
    pub want: OpenWant,
    /// As whom the client asks.
    pub signer: Signer,
    /// What the home found.
    pub answer: OpenAnswer,
}

/// What the client wants of an object.
#[derive(Clone, Copy, Debug)]
pub struct OpenWant {
    /// Its bytes, or its head alone.
    pub body: bool,
    /// Which bytes.
    pub range: RangeForm,
    /// Whether it asks for the whole object's checksums.
    pub checksums: bool,
    /// From where on the object is planning metadata, where the node itself asks and knows; see [`Mapping::tail_start`].
    pub tail_start: Option<u64>,
    /// Whether it is the node's own read, whose failures say nothing of how the origin serves clients.
    pub is_own: bool,
}

/// What the home found.
#[derive(Debug)]
pub enum OpenAnswer {
    /// Nothing yet.
    Pending,
    /// The current version, and the first wanted bytes where the home itself holds them.
    Found(Found),
    /// The origin's own answer to this request: pass it on as it is.
    PassOn(OriginAnswer),
    /// The request cannot be served from here: relay it as the client sent it.
    Relay,
    /// The origin gave no answer.
    Failed(OriginError),
}

/// The current version of an object.
#[derive(Debug)]
pub struct Found {
    /// What is known of it.
    pub mapping: Arc<Mapping>,
    /// The first wanted bytes; none where the home does not hold them.
    pub leases: Leases,
    /// Whether they came from the origin just now.
    pub waited: bool,
}

/// Bytes of one block of one version.
#[derive(Clone, Debug)]
pub struct BlockWant {
    /// The version.
    pub mapping: Arc<Mapping>,
    /// Which block.
    pub index: u32,
    /// Which bytes, counted from the block's first.
    pub range: ByteRange,
    /// The store that they belong in.
    pub class: StoreClass,
    /// Whether a read of the node's own wants them.
    pub is_own: bool,
    /// As whom the origin is asked for what of them is missing.
    pub signer: Signer,
}

/// See [`Call::Read`].
#[derive(Debug)]
pub struct ReadCall {
    /// The bytes that are wanted.
    pub want: BlockWant,
    /// Whether a small answer wants them.
    pub kind: ReadKind,
    /// Whether a fill that fails may have been begun before the origin recovered: one that others
    /// began does not speak for a reader who joined it.
    pub joined: bool,
    /// Whether the bytes were not at hand when they were asked for.
    pub waited: bool,
    /// What the owner found.
    pub answer: ReadAnswer,
}

/// What a block's owner found.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the usual answer is the large one, and allocates nothing"
)]
pub enum ReadAnswer {
    /// Nothing yet.
    Pending,
    /// The first of the wanted bytes, at least one.
    Bytes(Leases),
    /// The origin no longer has this version.
    VersionGone,
    /// The origin gave no bytes that could be kept; it may have an answer for the client.
    Failed,
    /// The origin gave no answer.
    Unavailable(OriginError),
    /// There was no memory for them for too long.
    Busy,
}

/// See [`Call::Relieve`].
#[derive(Debug)]
pub struct RelieveCall {
    /// What others wait for.
    pub scarce: Scarce,
    /// How long a send must have stalled to be closed; `None` only asks.
    pub cut_from: Option<Duration>,
    /// For how long the longest-stalled send that keeps it has stalled.
    pub longest: Duration,
}

/// See [`Call::Adopt`].
#[derive(Debug)]
pub struct AdoptCall {
    /// The bytes that will come: whole sectors of the block, or up to the object's end.
    pub want: BlockWant,
    /// Where they come from; taken when they are wanted.
    pub bytes: Option<mpsc::Receiver<Bytes>>,
}

/// Answers a call, at once or later.
pub fn serve(shard: &Rc<Shard>, mut delivered: Delivered<Call>) {
    match &mut *delivered {
        Call::Open(_) => open::serve(shard, delivered),
        Call::Read(_) => fill::serve_read(shard, delivered),
        Call::Prepare(want) => {
            fill::begin_ahead(shard, want);
            delivered.reply();
        }
        Call::Adopt(_) => fill::serve_adopt(shard, delivered),
        Call::InvalidateKeys(..) => invalidate::serve_keys(shard, delivered),
        Call::Written(_) => written::serve(shard, delivered),
        Call::InvalidateBucket(..) => invalidate::serve_bucket(shard, delivered),
        Call::Purge(_) => purge::serve_here(shard, delivered),
        Call::Relieve(_) => relief::serve(shard, delivered),
        Call::Forget(_) => invalidate::serve_forget(shard, delivered),
        Call::Refuse(..) => invalidate::serve_refuse(shard, delivered),
        Call::Vouch(vouchers) => {
            shard.judge.borrow_mut().take_vouchers(std::mem::take(vouchers));
            delivered.reply();
        }
        Call::Unlisted(_) => authority::serve_unlisted(shard, delivered),
        Call::Retire(_) => authority::serve_retire(shard, delivered),
        Call::DecideRoot(_) => open::table::serve_decide(shard, delivered),
        Call::NoteRoot(name, is_table, since) => {
            if shard.purges.borrow().heard() <= *since {
                shard.judge.borrow_mut().note_root(&name.bucket, &name.key, *is_table);
            }
            delivered.reply();
        }
    }
}
