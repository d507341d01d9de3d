//! The shards of one node on one thread, and the file that outlives them.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use nilas_base::{Clock, ShardId};
use nilas_net::range::RangeForm;
use nilas_shards::disk::{AreaKind, DeviceId, Superblock};
use nilas_shards::journal::{Journal, JournalUsage};
use nilas_shards::{
    Exchange, File, Reactor, RingBody, RingOptions, SimulatedWorld, Wait, open_ring,
};
use tempfile::TempDir;

use super::super::{Persist, Recovered, checkpoint, flush};
use crate::call::OpenWant;
use crate::config::{Inputs, Order, load};
use crate::disk::ShardDisk;
use crate::identity::NameRef;
use crate::invalidate::{self, Stage, Touched, Write};
use crate::mapping::{Mapping, StoreClass};
use crate::metrics::Metrics;
use crate::node::assembly::{Plan, ShardParts};
use crate::open;
use crate::origin::{ORIGIN_QUEUE_MAX, OriginPort, Signer};
use crate::persist::{NotDurable, WriteId};
use crate::purge::{self, Purge, PurgeScope};
use crate::shard::Shard;

pub const BUCKET: &str = "lake";
const ORIGIN: [u8; 16] = [7; 16];
const SHARDS: u16 = 2;

/// What shards leave behind.
pub struct Disk {
    body: Body,
    layout: Superblock,
}

/// Where the shards run.
enum Body {
    /// On epoll, on a file in this folder.
    Real(TempDir),
    /// In a world with this disk.
    Simulated(Rc<SimulatedWorld>, File),
}

impl Disk {
    /// One with so many MiB for the mappings of each shard.
    pub fn new(area_mib: u64) -> Disk {
        let body = Body::Real(tempfile::tempdir().expect("a folder"));
        let disk = Disk { body, layout: layout(area_mib) };
        let file = std::fs::File::create(disk.path()).expect("a file");
        file.set_len(disk.layout.device_bytes).expect("room");
        disk
    }

    /// The same in a world of its own.
    pub fn simulated(area_mib: u64, seed: u64) -> Disk {
        let (layout, world) = (layout(area_mib), SimulatedWorld::new(seed));
        let file = world.create_file(layout.device_bytes);
        Disk { body: Body::Simulated(Rc::new(world), file), layout }
    }

    pub fn path(&self) -> PathBuf {
        let Body::Real(folder) = &self.body else { panic!("a simulated disk has no path") };
        folder.path().join("device")
    }

    /// The world that it is in, and its file there.
    pub fn world(&self) -> (&SimulatedWorld, &File) {
        let Body::Simulated(world, file) = &self.body else { panic!("it is a real disk") };
        (world, file)
    }

    fn file(&self, is_read_only: bool) -> File {
        if let Body::Simulated(_, file) = &self.body {
            return file.clone();
        }
        let mut options = std::fs::File::options();
        File::from(options.read(true).write(!is_read_only).open(self.path()).expect("the file"))
    }

    /// Starts shards on it.
    pub fn start(&self) -> Bench {
        Start::default().on(self)
    }
}

/// How shards are started.
#[derive(Clone, Copy)]
pub struct Start {
    pub origin: [u8; 16],
    pub flags: &'static [&'static str],
    pub is_read_only: bool,
}

impl Default for Start {
    fn default() -> Start {
        Start { origin: ORIGIN, flags: &[], is_read_only: false }
    }
}

impl Start {
    pub fn on(self, disk: &Disk) -> Bench {
        let flags =
            ["--shards", "2", "--cache.data_bytes", "16MiB", "--cache.metadata_bytes", "16MiB"];
        let arguments = flags.iter().chain(self.flags).map(|flag| (*flag).to_owned()).collect();
        let order = load(&Inputs { arguments, variables: Vec::new(), cores: 2 });
        let Order::Run { config, .. } = order.unwrap_or_else(|errors| panic!("{errors}")) else {
            panic!("the flags say to run")
        };
        let (port, queue) = OriginPort::pair(ORIGIN_QUEUE_MAX);
        // Nobody asks anything of the origin here.
        drop(queue);
        let world = match &disk.body {
            Body::Real(_) => None,
            Body::Simulated(world, _) => Some(Rc::clone(world)),
        };
        let clock = world.as_ref().map_or_else(Clock::system, |world| world.clock());
        let plan = Plan::new(&config, self.origin, clock, port);
        let file = disk.file(self.is_read_only);
        let (_metrics, counters) = Metrics::new(usize::from(SHARDS));
        let seats = Exchange::mesh(usize::from(SHARDS)).into_iter().zip(counters);
        let shard = |(number, (seat, counters))| {
            let reactor = world.as_ref().map_or_else(|| real(&plan), |world| world.reactor());
            let listener = reactor.listen(SocketAddr::from(([127, 0, 0, 1], 0)));
            let place = |kind| disk.layout.place(kind, number).expect("it was laid out");
            let (data, metadata) = (place(AreaKind::Data), place(AreaKind::Metadata));
            let (file, mappings) = (file.clone(), place(AreaKind::Mappings));
            let disk = Some(ShardDisk { file, data, metadata, mappings });
            let parts = ShardParts { id: ShardId(number), seat, counters, disk, reactor };
            plan.assemble(parts, listener.expect("a free port")).expect("a shard")
        };
        let shards = (0..SHARDS).zip(seats).map(shard).collect();
        Bench { shards, world }
    }
}

fn layout(area_mib: u64) -> Superblock {
    let areas = |shard| {
        [(AreaKind::Mappings, area_mib), (AreaKind::Data, 1), (AreaKind::Metadata, 1)]
            .map(|(kind, mib)| (kind, shard, mib << 20))
    };
    let areas: Vec<_> = (0..SHARDS).flat_map(areas).collect();
    Superblock::lay_out(DeviceId([3; 16]), 1 << 20, 1 << 18, &areas)
}

fn real(plan: &Plan) -> Reactor {
    let ring = open_ring(RingBody::Epoll, RingOptions::default()).expect("epoll is there");
    Reactor::new(ring, plan.clock().clone())
}

/// Running shards. Dropped, they end at once, without a word to the disk.
pub struct Bench {
    pub shards: Vec<Rc<Shard>>,
    world: Option<Rc<SimulatedWorld>>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        for shard in &self.shards {
            match &self.world {
                Some(world) => world.remove_reactor(&shard.reactor),
                None => shard.reactor.close(),
            }
        }
    }
}

/// What never changes, by its name.
pub fn key(number: usize) -> String {
    format!("t/metadata/{number}.avro")
}

pub fn name(key: &str) -> NameRef<'_> {
    NameRef { bucket: BUCKET, key }
}

pub fn write_to(id: u64, key: &str) -> Write<'_> {
    Write { id: WriteId(id), touched: Touched::Key(name(key)) }
}

impl Bench {
    /// Turns all shards until a future of the first one's has ended.
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let output = Rc::new(RefCell::new(None));
        let told = Rc::clone(&output);
        self.shards[0].spawn(async move { *told.borrow_mut() = Some(future.await) });
        self.turn_until(|| output.borrow_mut().take())
    }

    fn turn_until<T>(&self, mut found: impl FnMut() -> Option<T>) -> T {
        let clock = self.shards[0].reactor.clock();
        let start = clock.now();
        loop {
            match &self.world {
                Some(world) => drop(world.step()),
                None => self.shards.iter().for_each(|shard| {
                    shard.reactor.turn(Wait::No);
                }),
            }
            if let Some(found) = found() {
                return found;
            }
            assert!(clock.now().since(start).as_secs() < 60, "it takes too long");
        }
    }

    /// Waits until everything is known that the disk tells, and installed; says what it was worth.
    pub fn recover(&self) -> Vec<Recovered> {
        let persists: Vec<&Persist> = self.shards.iter().map(|shard| persist(shard)).collect();
        self.turn_until(|| {
            let has_ended = |persist: &&Persist| {
                persist.recovered.get().is_some() && persist.outline.borrow().is_none()
            };
            persists.iter().all(has_ended).then_some(())
        });
        persists.iter().filter_map(|persist| persist.recovered.get()).collect()
    }

    /// A clean stop.
    pub fn stop(self) {
        for shard in &self.shards {
            let flushing = Rc::clone(shard);
            self.run(async move { flush(&flushing).await });
        }
    }

    /// A sudden end, some time after everything that was appended has been written.
    pub fn write_then_end(self) {
        let reactor = self.shards[0].reactor.clone();
        self.run(async move { reactor.sleep(std::time::Duration::from_millis(300)).await });
    }

    pub fn home(&self, key: &str) -> &Rc<Shard> {
        let geometry = &self.shards[0].geometry;
        &self.shards[geometry.home(geometry.home_hash(name(key))).index()]
    }

    /// The home learns a version of an object, as it is told by the origin now.
    pub fn learn(&self, key: &str, version: u64) -> Arc<Mapping> {
        self.learn_as(key, version, StoreClass::Metadata)
    }

    /// The same of an object of this class, none of whose end is known to be planning metadata.
    pub fn learn_as(&self, key: &str, version: u64, class: StoreClass) -> Arc<Mapping> {
        let home = self.home(key);
        let hash = home.geometry.home_hash(name(key));
        let moment = home.moment(name(key), hash);
        let etag = format!("\"{version}\"");
        let mapping = Arc::new(Mapping {
            name: name(key).to_name(),
            home_hash: hash,
            version: home.geometry.version(name(key), &etag, version, moment.era()),
            headers: format!("etag: {etag}\r\n").into_bytes().into(),
            etag: etag.into(),
            length: version,
            last_modified: Some("Thu, 01 Jan 2015 00:00:00 GMT".into()),
            checksums: Some(Box::default()),
            era: moment.era(),
            class,
            tail_start: version,
        });
        open::install(home, &mapping, hash, moment).expect("nothing has happened since");
        mapping
    }

    /// What a reader is told without asking the origin.
    pub fn find(&self, key: &str) -> Option<Arc<Mapping>> {
        self.find_tailed(key, None)
    }

    /// The same of the node's own read, which says from where on the object is planning metadata.
    pub fn find_tailed(&self, key: &str, tail_start: Option<u64>) -> Option<Arc<Mapping>> {
        let want = OpenWant {
            body: false,
            range: RangeForm::Absent,
            checksums: true,
            tail_start,
            is_own: tail_start.is_some(),
        };
        open::find(self.home(key), name(key), &want, &Signer::Node).map(|found| found.mapping)
    }

    pub fn is_held(&self, key: &str) -> bool {
        let home = self.home(key);
        home.is_held(name(key), home.geometry.home_hash(name(key)))
    }

    pub fn begin(&self, write: Write<'static>) -> Result<(), NotDurable> {
        let shard = Rc::clone(&self.shards[0]);
        self.run(async move { invalidate::begin(&shard, &write).await.map(|_| ()) })
    }

    pub fn begin_key(&self, id: u64, key: &str) -> Result<(), NotDurable> {
        let (shard, key) = (Rc::clone(&self.shards[0]), key.to_owned());
        self.run(async move { invalidate::begin(&shard, &write_to(id, &key)).await.map(|_| ()) })
    }

    pub fn announce_key(&self, id: u64, key: &str, stage: Stage) {
        let (shard, key) = (Rc::clone(&self.shards[0]), key.to_owned());
        self.run(async move { invalidate::announce(&shard, &write_to(id, &key), stage).await });
    }

    /// A whole write of known outcome.
    pub fn write_key(&self, id: u64, key: &str) {
        self.begin_key(id, key).expect("the disk is sound");
        self.announce_key(id, key, Stage::Settled);
    }

    pub fn purge(&self, scope: PurgeScope) -> Result<(), NotDurable> {
        let (shard, what) =
            (Rc::clone(&self.shards[0]), Purge { bucket: BUCKET.to_owned(), scope });
        self.run(async move { purge::purge(&shard, &what).await })
    }

    /// Makes a checkpoint on every shard whose disk can be written.
    pub fn checkpoint(&self) {
        for shard in &self.shards {
            let shard = Rc::clone(shard);
            self.run(async move { checkpoint_of(&shard).await });
        }
    }

    pub fn journal(&self, shard: usize) -> &Journal {
        persist(&self.shards[shard]).journal()
    }

    pub fn usage(&self, shard: usize) -> JournalUsage {
        self.journal(shard).usage()
    }
}

pub async fn checkpoint_of(shard: &Rc<Shard>) {
    let persist = persist(shard);
    let made = checkpoint::checkpoint(shard, persist, persist.journal()).await;
    assert!(made.is_ok() || persist.journal().has_failed());
}

pub fn persist(shard: &Shard) -> &Persist {
    shard.persist.as_ref().expect("it was given a place")
}
