//! A small world without chance: a node, an origin and the requests that a test plays one by one, or
//! at once. For claims about one thing; `run` is for everything at once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use nilas_base::Rng;
use nilas_engine::config::WriteAllocate;
use nilas_shards::area::AreaPolicies;
use nilas_shards::eviction::EvictionKind;
use nilas_shards::{Reactor, SimulatedWorld};

use crate::client::answer::Answer;
use crate::client::{Ask, Connection, Pace};
use crate::device::Device;
use crate::history::{Author, History, VersionId};
use crate::judge::{Leniency, Read, judge};
use crate::key::{Key, KeyId};
use crate::node::{NodeShape, SimulatedNode, assemble};
use crate::origin::SimulatedOrigin;
use crate::weather::{OriginWeather, SmallBudget, SmallGeometry, Steady};

/// An origin near by, without faults.
pub const FAIR: OriginWeather = OriginWeather {
    delay_us_max: 1000,
    slow_one_in: None,
    piece_bytes_max: 64 << 10,
    pause_us_max: 10,
    silent_one_in: None,
    error_one_in: None,
    cut_one_in: None,
    lie_one_in: None,
    hides_versions: false,
    lost_one_in: None,
    steady: None,
};

/// An origin that answers in order, always after the same while: before a client has read on, and after shards have told
/// each other what they do.
pub const fn steady(last_first: bool) -> OriginWeather {
    OriginWeather { steady: Some(Steady { pause: Duration::from_nanos(1), last_first }), ..FAIR }
}

/// A node of two shards with small blocks, room for all of them, and a minute's belief.
pub fn small_shape() -> NodeShape {
    NodeShape {
        shards: 2,
        geometry: SmallGeometry {
            block_bytes: 16 << 10,
            data_sector_bytes: 2 << 10,
            metadata_sector_bytes: 1 << 10,
        },
        budget: SmallBudget {
            data_bytes: 4 << 20,
            metadata_bytes: 1 << 20,
            mapping_bytes: 64 << 10,
        },
        mutable_ttl: Duration::from_secs(60),
        hold: Duration::from_secs(900),
        write_allocate: WriteAllocate::Metadata,
        eviction: EvictionKind::S3Fifo,
        policies: AreaPolicies::default(),
        device: None,
        seed: 1,
    }
}

/// The world.
pub struct Stage {
    /// Time and network.
    pub world: SimulatedWorld,
    /// The node.
    pub node: SimulatedNode,
    /// Its origin.
    pub origin: Rc<SimulatedOrigin>,
    /// What has happened.
    pub history: Rc<RefCell<History>>,
    /// Runs the clients.
    pub reactor: Reactor,
}

impl Stage {
    /// A world with these keys, none of which has a version; with a blank cache device, if the node is to have one.
    pub fn new(shape: &NodeShape, keys: Vec<Key>, weather: OriginWeather) -> Stage {
        let world = SimulatedWorld::new(shape.seed);
        let blocks = (shape.shards, shape.geometry.block_bytes);
        let device = shape.device.map(|size| Device::lay_out(&world, blocks, size));
        let (node, queue) = assemble(&world, shape, device.as_ref());
        let (reactor, outside) = (world.reactor(), world.reactor());
        let history = History::new(world.clock(), keys, shape.mutable_ttl, shape.hold);
        let history = Rc::new(RefCell::new(history));
        let rng = Rng::from_seed(shape.seed);
        let fails = weather.fails_reads();
        let origin = SimulatedOrigin::new(&outside, &history, rng, (weather, fails));
        outside.spawn(Rc::clone(&origin).serve(queue));
        Stage { world, node, origin, history, reactor }
    }

    /// Gives a key a new version, behind the node's back.
    pub fn write(&self, key: usize, length: u64) -> VersionId {
        let mut history = self.history.borrow_mut();
        let version = history.draw_version(KeyId(key), length);
        let write = history.begin_write(KeyId(key), Author::Stranger, Some(version));
        history.commit(write);
        version
    }

    /// A request for a key.
    pub fn ask(&self, method: &'static str, key: usize) -> Ask {
        Ask::new(method, self.history.borrow().keys[key].path())
    }

    /// A read of a range.
    pub fn range(&self, key: usize, start: u64, length: u64) -> Ask {
        self.ask("GET", key).header("range", format!("bytes={start}-{}", start + length - 1))
    }

    /// Plays one read on a connection of its own; its answer is judged, and must be whole.
    pub fn play(&self, key: usize, ask: Ask) -> Answer {
        self.world.block_on(self.read(key, ask, Pace::FAST, Leniency::NONE)).expect("an answer")
    }

    /// One read among several; judged with leniency.
    pub async fn read(
        &self,
        key: usize,
        ask: Ask,
        pace: Pace,
        leniency: Leniency,
    ) -> Option<Answer> {
        let mut connection = Connection::open(&self.reactor).await.expect("the node listens");
        self.read_on(&mut connection, (key, ask), pace, leniency).await
    }

    /// The same on a connection that is open already.
    pub async fn read_on(
        &self,
        connection: &mut Connection,
        (key, ask): (usize, Ask),
        pace: Pace,
        leniency: Leniency,
    ) -> Option<Answer> {
        let began = self.history.borrow_mut().now();
        connection.send_head(&ask).await.expect("the node reads");
        let answer = connection.answer(ask.method, pace).await?;
        let read = Read { key: KeyId(key), ask, began };
        judge(&mut self.history.borrow_mut(), &read, &answer, leniency);
        Some(answer)
    }

    /// Plays reads at once, each on a connection of its own; how many were answered whole.
    pub fn play_together(self: &Rc<Self>, key: usize, asks: Vec<Ask>) -> usize {
        let (whole, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(asks.len())));
        for ask in asks {
            let (stage, whole, left) = (Rc::clone(self), Rc::clone(&whole), Rc::clone(&left));
            self.reactor.spawn(async move {
                let answer = stage.read(key, ask, Pace::FAST, Leniency::NONE).await;
                whole.set(whole.get() + usize::from(answer.is_some_and(|answer| answer.is_whole)));
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            assert!(self.world.step(), "something happens while somebody waits");
        }
        whole.get()
    }

    /// Fails if anything was wrong so far.
    pub fn assert_right(&self) {
        let history = self.history.borrow();
        assert!(history.violations.is_empty(), "{:#?}", history.violations);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.node.reactors.iter().for_each(Reactor::close);
    }
}
