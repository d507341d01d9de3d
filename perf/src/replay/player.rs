//! A node's reading, played through the stores that its shards run, with nothing in their sectors: the same blocks in
//! the same places, looked up, filled and fetched ahead by the node's own rules and in its order. One read after the
//! other, on one connection; the origin answers before the client has read on, and no object ever changes.

use nilas_base::{ByteRange, HashMap, Monotonic, ShardId};
use nilas_engine::reading::{
    Arrival, BLOCKS_AHEAD_MAX, Digest16, Era, Geometry, HomeHash, NameRef, SequentialReads,
    block_id, first_question, has_room_ahead, read_kind,
};
use nilas_shards::Doorbell;
use nilas_shards::eviction::EvictionKind;
use nilas_shards::store::{BlockId, FillPermit, Leases, Read, Store, StoreConfig, Usage};

use super::memory::{MemoryShape, Tally};
use super::trace::Request;
use crate::error::{Error, Result};

/// How far apart reads are taken to come: too far for a reader to be followed who finds everything.
const APART_NS: u64 = 1_000_000_000;
/// Bytes that are brought into memory at a time: few enough that no ceiling on what is lent is met.
const BROUGHT_BYTES_MAX: u64 = 256 << 10;
/// How often a piece is tried for before it is given up, for which there is no memory.
const TRIES_MAX: usize = 4;

/// A bucket, a key and an ETag.
pub type Named = (String, String, String);

/// What the objects of a trace are called, by their numbers.
pub struct Naming<'a>(pub Box<dyn Fn(u64) -> Named + 'a>);

impl Naming<'_> {
    /// By their numbers alone.
    pub fn of_numbers() -> Naming<'static> {
        let name = |object| ("trace".to_owned(), format!("object-{object}"), "\"1\"".to_owned());
        Naming(Box::new(name))
    }
}

/// An object as its blocks are found.
#[derive(Clone, Copy)]
struct Object {
    hash: HomeHash,
    version: Digest16,
    length: u64,
}

/// What is wanted of a block.
#[derive(Clone, Copy)]
struct Want {
    object: Object,
    index: u32,
    range: ByteRange,
}

impl Want {
    fn id(&self) -> BlockId {
        block_id(self.object.version, self.index)
    }
}

/// The node.
pub struct Player<'a> {
    shape: MemoryShape,
    geometry: Geometry,
    naming: Naming<'a>,
    stores: Vec<Store>,
    followed: Vec<SequentialReads>,
    known: HashMap<u64, Object>,
    /// Fills that the origin has not answered, in the order in which it was asked.
    filling: Vec<(ShardId, FillPermit)>,
    /// What other shards are told to begin, and do not know yet.
    told: Vec<Want>,
    /// What the read under way wants of its object.
    wanted: ByteRange,
    reads: u64,
    tally: Tally,
}

impl<'a> Player<'a> {
    /// A node that holds nothing.
    ///
    /// # Errors
    /// Where the memory cannot be mapped, or holds no two blocks of each shard.
    pub fn new(
        shape: MemoryShape,
        policy: EvictionKind,
        (geometry, naming): (Geometry, Naming<'a>),
    ) -> Result<Player<'a>> {
        let budget_bytes = shape.budget_bytes / u64::from(shape.shards);
        let config = StoreConfig {
            budget_bytes,
            sector_bytes: shape.sector_bytes,
            block_bytes: shape.block_bytes,
            leases_bytes_max: None,
            doorbell: Doorbell::unattached(),
        };
        let store = |_| Store::new(config.clone(), policy.build());
        let stores = (0..shape.shards).map(store).collect::<std::io::Result<Vec<Store>>>();
        Ok(Player {
            shape,
            geometry,
            naming,
            stores: stores.map_err(|source| Error::System {
                doing: format!("making a memory of {budget_bytes} bytes"),
                source,
            })?,
            followed: (0..shape.shards).map(|_| SequentialReads::default()).collect(),
            known: HashMap::default(),
            filling: Vec::new(),
            told: Vec::new(),
            wanted: ByteRange::new(0, 0),
            reads: 0,
            tally: Tally::default(),
        })
    }

    /// Plays one read; what became of it.
    pub fn read(&mut self, request: &Request) -> Tally {
        self.tally = Tally { requests: 1, bytes: request.range.len(), ..Tally::default() };
        self.wanted = request.range;
        self.reads += 1;
        let (object, is_new) = self.object(request);
        let first = self.open(object, is_new);
        self.stream(object, first);
        self.end_fills();
        // As a shard does whenever it tells how its memory is used, which it does each second.
        self.stores.iter_mut().for_each(Store::take_returns);
        self.tally.missed_requests = u64::from(self.tally.missed_bytes > 0);
        self.tally
    }

    /// How each shard's memory is used.
    pub fn usages(&self) -> Vec<Usage> {
        self.stores.iter().map(Store::usage).collect()
    }

    /// The object, and whether the node has never heard of it.
    fn object(&mut self, request: &Request) -> (Object, bool) {
        if let Some(known) = self.known.get(&request.object) {
            return (*known, false);
        }
        let (bucket, key, etag) = (self.naming.0)(request.object);
        let name = NameRef { bucket: &bucket, key: &key };
        let object = Object {
            hash: self.geometry.home_hash(name),
            version: self.geometry.version(name, &etag, request.length, Era::default()),
            length: request.length,
        };
        self.known.insert(request.object, object);
        (object, true)
    }

    /// What the object's home does: it finds the first bytes, if it has them, and sees who reads on.
    fn open(&mut self, object: Object, is_new: bool) -> Leases {
        let home = self.geometry.home(object.hash);
        if is_new {
            self.ask_first(object);
        }
        let mut leases = Leases::new();
        let first = self.want(object, self.wanted).filter(|first| self.owner(first) == home);
        if let Some(first) = first
            && let Read::Hit(held) = self.look(&first)
        {
            leases = held;
        }
        if self.shape.reads_ahead {
            let is_missing = is_new || (first.is_some() && leases.is_empty());
            self.follow(object, home, is_missing);
        }
        leases
    }

    /// The question that tells of an object brings bytes along.
    fn ask_first(&mut self, object: Object) {
        let MemoryShape { block_bytes, sector_bytes, .. } = self.shape;
        let wanted = (self.wanted.start, self.wanted.end);
        let asked = first_question(wanted, block_bytes, sector_bytes);
        let asked = ByteRange::new(asked.start, asked.end.min(object.length));
        if let Some(want) = self.want(object, asked) {
            self.begin_missing(&want);
        }
    }

    /// Fetches ahead of a reader who reads on where another read ended.
    fn follow(&mut self, object: Object, home: ShardId, is_missing: bool) {
        let arrival = Arrival { at: Monotonic(self.reads * APART_NS), is_missing };
        let followed = &mut self.followed[usize::from(home.0)];
        let ahead = followed.note(object.version, self.wanted, object.length, arrival);
        let Some(mut slice) = ahead else { return };
        while let Some(want) = self.want(object, slice) {
            slice.start += want.range.len();
            self.prepare(want, home);
        }
        self.tell();
    }

    /// What the shard does that serves the connection: piece by piece, the next one looked up while one is sent.
    fn stream(&mut self, object: Object, first: Leases) {
        let mut rest = self.wanted;
        let mut ahead = self.geometry.block_index(rest.start) + 1;
        rest.start += bytes_of(&first);
        let mut sending = first;
        while !rest.is_empty() {
            self.begin_ahead_of(object, rest, &mut ahead);
            let want = self.want(object, rest).expect("the rest is not empty");
            let piece = self.piece(&want, &mut sending);
            // Of a block for which there is no memory nothing more is read.
            rest.start += if piece.is_empty() { want.range.len() } else { bytes_of(&piece) };
            if !sending.is_empty() {
                self.end_fills();
            }
            sending = piece;
        }
    }

    fn begin_ahead_of(&mut self, object: Object, rest: ByteRange, ahead: &mut u32) {
        let reading = self.geometry.block_index(rest.start);
        let last = self.geometry.block_index(rest.end - 1);
        let until = last.min(reading.saturating_add(BLOCKS_AHEAD_MAX));
        while *ahead <= until {
            let block = self.geometry.block_range(*ahead, object.length);
            let wanted = block.intersection(rest);
            if let Some(want) = wanted.and_then(|wanted| self.want(object, wanted)) {
                self.prepare(want, self.shape.door);
            }
            *ahead += 1;
        }
    }

    /// One piece, which lies in one block. What is being sent is leased meanwhile.
    fn piece(&mut self, want: &Want, sending: &mut Leases) -> Leases {
        if self.owner(want) == self.shape.door
            && let Read::Hit(leases) = self.look(want)
        {
            self.tell();
            return leases;
        }
        for _ in 0..TRIES_MAX {
            match self.look(want) {
                Read::Hit(leases) => {
                    if bytes_of(&leases) < want.range.len() {
                        self.begin_missing(want);
                    }
                    self.tell();
                    return leases;
                }
                Read::Full => sending.clear(),
                Read::Miss | Read::Filling => {
                    if !self.begin_missing(want) {
                        sending.clear();
                    }
                }
            }
            self.tell();
            self.end_fills();
        }
        Leases::new()
    }

    fn look(&mut self, want: &Want) -> Read {
        let kind = read_kind(self.wanted);
        self.store(want).read(want.id(), want.range, kind)
    }

    /// Begins fills for what is missing of a want; false where there was no memory for the first.
    fn begin_missing(&mut self, want: &Want) -> bool {
        let block = self.geometry.block_range(want.index, want.object.length);
        let mut is_begun = false;
        loop {
            let store = self.store(want);
            let Some(run) = store.missing(want.id(), want.range, block.len()) else { return true };
            let Ok(permit) = store.begin_fill(want.id(), run) else { return is_begun };
            is_begun = true;
            let asked = ByteRange::new(block.start + run.start, block.start + run.end);
            self.tally.origin_requests += 1;
            self.tally.origin_bytes += asked.len();
            self.tally.missed_bytes += asked.intersection(self.wanted).map_or(0, ByteRange::len);
            self.filling.push((self.owner(want), permit));
        }
    }

    /// Has a block's owner begin ahead of its reader: at once where that is who asks.
    fn prepare(&mut self, want: Want, asking: ShardId) {
        if self.owner(&want) == asking {
            self.begin_ahead(&want);
        } else {
            self.told.push(want);
        }
    }

    /// What other shards were told arrives.
    fn tell(&mut self) {
        for want in std::mem::take(&mut self.told) {
            self.begin_ahead(&want);
        }
    }

    fn begin_ahead(&mut self, want: &Want) {
        let usage = self.store(want).usage();
        if has_room_ahead(&usage, want.range.len()) {
            self.begin_missing(want);
        }
    }

    /// The origin answers, in the order in which it was asked.
    fn end_fills(&mut self) {
        for (owner, mut permit) in std::mem::take(&mut self.filling) {
            let store = &mut self.stores[usize::from(owner.0)];
            while !permit.remaining().is_empty() {
                bring(store, &mut permit);
            }
            store.end_fill(permit);
            store.take_returns();
        }
    }

    fn want(&self, object: Object, slice: ByteRange) -> Option<Want> {
        let (index, range) = self.geometry.first_block(slice, object.length)?;
        Some(Want { object, index, range })
    }

    fn owner(&self, want: &Want) -> ShardId {
        self.geometry.owner(want.object.hash, want.index)
    }

    fn store(&mut self, want: &Want) -> &mut Store {
        let owner = self.owner(want);
        &mut self.stores[usize::from(owner.0)]
    }
}

fn bytes_of(leases: &Leases) -> u64 {
    leases.iter().map(|lease| lease.len() as u64).sum()
}

/// Some of a fill's bytes come: whatever the memory holds, where it can be lent; else zeros.
fn bring(store: &mut Store, permit: &mut FillPermit) {
    const ZEROS: [u8; 4096] = [0; 4096];
    let bytes = permit.remaining().len().min(BROUGHT_BYTES_MAX);
    let rooms = store.lend(permit, bytes);
    if rooms.is_empty() {
        store.append(permit, &ZEROS[..bytes.min(ZEROS.len() as u64) as usize]);
    } else {
        store.accept(permit, rooms, bytes);
    }
}
