//! One seed: a world, a node, its origin and its clients, until they are done; then fair weather, a
//! last pass over every key, and a look at what is left. What was wrong is told, not thrown.
//! A node with a cache device may end in between, and another begin on the same device.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use nilas_base::Rng;
use nilas_engine::purge::PurgePort;
use nilas_shards::{DiskCondition, NetworkCondition, Reactor, SimulatedWorld};

use crate::device::{Device, DeviceCounts};
use crate::final_pass;
use crate::history::{Author, History};
use crate::judge::Leniency;
use crate::key::{KeyId, draw_keys};
use crate::node::{NodeShape, SimulatedNode, assemble};
use crate::origin::SimulatedOrigin;
use crate::restart::{Change, Restarts};
use crate::watch::When;
use crate::weather::{DeviceShare, Weather};
use crate::workload::{Actor, stranger};

/// Simulated time after which a run hangs.
const RUN_MAX: Duration = Duration::from_secs(4 * 3600);
/// How long after its last request a node may still be at work.
const QUIET_AFTER: Duration = Duration::from_secs(100);
/// How long a node looks at a blank device at most.
const LOOK_AT_BLANK: Duration = Duration::from_millis(200);

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What was wrong, in order; empty if nothing was.
    pub violations: Vec<String>,
    /// A hash of all that happened on the network.
    pub trace_hash: u64,
    /// Answers that were judged.
    pub answers: u64,
    /// What became of its cache device.
    pub device: DeviceCounts,
    /// What has happened, where it was kept.
    pub journal: Vec<String>,
}

/// What the actors of a run share.
pub struct Scene {
    /// Runs the clients.
    pub reactor: Reactor,
    /// What has happened.
    pub history: Rc<RefCell<History>>,
    /// What it is like.
    pub weather: Weather,
    /// Where what is to be forgotten is told.
    pub purges: RefCell<PurgePort>,
    /// The origin.
    pub origin: Rc<SimulatedOrigin>,
    /// Actors that are not done.
    pub acting: Cell<usize>,
    /// Leaps of the clock so far.
    pub leaps: Cell<u64>,
    /// Answers judged so far.
    pub answers: Cell<u64>,
}

impl Scene {
    /// Which failures of reads are nobody's fault.
    pub fn leniency(&self) -> Leniency {
        let weather = &self.weather;
        let writes = weather.crowd.write_one_in.is_some() || weather.crowd.strange_writes > 0;
        let restarts = weather.device.is_some_and(|device| device.restarts.count_max > 0);
        let breaks =
            weather.network.reset_one_in.is_some() || weather.leap_one_in.is_some() || restarts;
        let fails = weather.origin.fails_reads();
        let leaps = weather.leap_one_in.is_some();
        Leniency { errors: fails || leaps, cuts: fails || writes || breaks }
    }

    /// Starts an actor.
    pub fn act(self: &Rc<Self>, actor: impl Future<Output = ()> + 'static) {
        let scene = Rc::clone(self);
        scene.acting.set(scene.acting.get() + 1);
        self.reactor.spawn(async move {
            actor.await;
            scene.acting.set(scene.acting.get() - 1);
        });
    }
}

/// Runs a seed, with a cache device if it is among those that have one, and keeps a journal of it or not.
pub fn run(seed: u64, share: DeviceShare, keeps_journal: bool) -> Outcome {
    let mut rng = Rng::from_seed(seed);
    let weather = Weather::draw(&mut rng).with_device(seed, share);
    let world = SimulatedWorld::new(rng.next_u64());
    let (device, restarts) = match weather.device {
        None => (None, None),
        Some(of) => {
            let device =
                Device::lay_out(&world, (weather.shards, weather.geometry.block_bytes), of.size);
            let rng = Rng::from_seed(rng.clone().next_u64());
            (Some(device), Some(Restarts::new(of.restarts, rng, world.clock().now())))
        }
    };
    let shape = NodeShape::of(&weather, seed);
    let (node, queue) = assemble(&world, &shape, device.as_ref());
    let (reactor, outside) = (world.reactor(), world.reactor());
    let history =
        History::new(world.clock(), draw_keys(&mut rng), weather.mutable_ttl, weather.hold);
    let history = Rc::new(RefCell::new(history));
    history.borrow_mut().journal = keeps_journal.then(|| vec![format!("{weather:#?}")]);
    let faults = Rng::from_seed(rng.next_u64());
    let fails = weather.origin.fails_reads() || weather.leap_one_in.is_some();
    let origin = SimulatedOrigin::new(&outside, &history, faults, (weather.origin, fails));
    outside.spawn(Rc::clone(&origin).serve(queue));
    let (acting, leaps, answers) = Default::default();
    let purges = RefCell::new(node.purges.clone());
    let scene = Scene { reactor, history, weather, purges, origin, acting, leaps, answers };
    let leap_one_in = scene.weather.leap_one_in;
    let counts = DeviceCounts { devices: u64::from(device.is_some()), ..DeviceCounts::default() };
    let scene = Rc::new(scene);
    let mut run =
        Run { world, outside, shape, node, device, restarts, counts, scene, rng, leap_one_in };
    run.play();
    run.count_node();
    let history = run.scene.history.borrow();
    Outcome {
        seed,
        violations: history.violations.clone(),
        trace_hash: run.world.trace_hash(),
        answers: run.scene.answers.get(),
        device: run.counts,
        journal: history.journal.clone().unwrap_or_default(),
    }
}

struct Run {
    world: SimulatedWorld,
    /// Runs the origin.
    outside: Reactor,
    shape: NodeShape,
    node: SimulatedNode,
    device: Option<Device>,
    restarts: Option<Restarts>,
    counts: DeviceCounts,
    scene: Rc<Scene>,
    rng: Rng,
    /// One in so many steps the clock leaps, for now.
    leap_one_in: Option<u64>,
}

impl Run {
    fn play(&mut self) {
        let looks = if self.device.is_some() { LOOK_AT_BLANK } else { Duration::from_millis(1) };
        self.world.run_for(looks);
        let tasks: Vec<usize> =
            self.node.watches.iter().map(|look| look(When::Running).tasks).collect();
        self.first_versions();
        self.world.set_network(self.scene.weather.network);
        self.set_device(self.scene.weather.device.map(|device| device.condition));
        self.begin();
        self.drive(|run| run.scene.acting.get() == 0 && run.scene.origin.unsettled.get() == 0);
        self.leap_one_in = None;
        self.scene.origin.weather.set(self.scene.weather.origin.fair());
        self.world.set_network(NetworkCondition::default());
        self.set_device(None);
        if self.is_wrong() {
            return;
        }
        let now = self.world.clock().now();
        let last = self.restarts.as_mut().map(|restarts| restarts.last(now));
        last.into_iter().flatten().for_each(|change| self.change(change));
        self.world.run_for(final_pass::after(&self.scene));
        self.scene.act(final_pass::read_everything(Rc::clone(&self.scene), self.rng.next_u64()));
        self.drive(|run| run.scene.acting.get() == 0);
        if !self.is_wrong() {
            self.world.run_for(QUIET_AFTER);
            self.check_ceilings();
            self.check_left_over(&tasks);
        }
        self.check_alignment();
    }

    /// How well the device works from now on; by default in good health.
    fn set_device(&self, condition: Option<DiskCondition>) {
        if let Some(device) = &self.device {
            self.world.set_disk(&device.file, condition.unwrap_or_default());
        }
    }

    fn change(&mut self, change: Change) {
        self.scene.history.borrow_mut().note(|| format!("the node: {change:?}"));
        match change {
            Change::End { cuts_power } => self.end_node(cuts_power),
            Change::Begin => self.begin_node(),
        }
    }

    fn end_node(&mut self, cuts_power: bool) {
        self.count_node();
        self.scene.history.borrow_mut().has_restarted = true;
        self.node.kill(&self.world);
        self.counts.restarts += 1;
        if let (true, Some(device)) = (cuts_power, &self.device) {
            self.world.crash_disk(&device.file);
            self.counts.power_cuts += 1;
        }
        // What it had sent has arrived by now.
        self.world.run_for(Duration::ZERO);
        let may_lose = self.scene.weather.device.is_some_and(|device| device.may_lose());
        self.scene.history.borrow_mut().node_ends(may_lose);
        self.scene.origin.node_ends();
    }

    fn begin_node(&mut self) {
        self.shape.seed += 1;
        let (node, queue) = assemble(&self.world, &self.shape, self.device.as_ref());
        self.scene.purges.replace(node.purges.clone());
        self.node = node;
        self.scene.history.borrow_mut().settle(self.is_settling());
        self.outside.spawn(Rc::clone(&self.scene.origin).serve(queue));
    }

    /// Whether the node looks at what its device holds.
    fn is_settling(&self) -> bool {
        let shards = self.node.metrics.shards();
        self.device.is_some() && shards.iter().any(|shard| shard.disk_recovered.get() == 0)
    }

    /// Counts what the node did with its device.
    fn count_node(&mut self) {
        if self.device.is_some() {
            for look in &self.node.watches {
                look(When::AtEnd);
            }
            self.counts.add_node(&self.node.metrics);
        }
    }

    /// Most keys exist from the beginning, those of a table's metadata among them.
    fn first_versions(&mut self) {
        let mut history = self.scene.history.borrow_mut();
        for number in 0..history.keys.len() {
            if self.rng.chance(4, 5) {
                let length = crate::workload::draw_length(&mut self.rng, &self.scene.weather);
                let version = history.draw_version(KeyId(number), length);
                let write = history.begin_write(KeyId(number), Author::Stranger, Some(version));
                history.commit(write);
            }
        }
    }

    fn begin(&mut self) {
        for _ in 0..self.scene.weather.crowd.clients {
            let actor = Actor::new(Rc::clone(&self.scene), Rng::from_seed(self.rng.next_u64()));
            self.scene.act(actor.act());
        }
        let rng = Rng::from_seed(self.rng.next_u64());
        self.scene.act(stranger(Rc::clone(&self.scene), rng));
    }

    /// Lets time pass until something is so, or wrong.
    fn drive(&mut self, is_done: impl Fn(&Run) -> bool) {
        while !is_done(self) && !self.is_wrong() {
            self.scene.history.borrow_mut().settle(self.is_settling());
            // Without a node, the last actor's end is the last that happens.
            let stands_still = !self.world.step() && !is_done(self);
            if stands_still || self.world.clock().now().0 > RUN_MAX.as_nanos() as u64 {
                let acting = self.scene.acting.get();
                let hangs = format!("{acting} actors hang");
                return self.scene.history.borrow_mut().violation(hangs);
            }
            self.check_ceilings();
            let now = self.world.clock().now();
            if let Some(change) = self.restarts.as_mut().and_then(|restarts| restarts.due(now)) {
                self.change(change);
            }
            if crate::weather::happens(&mut self.rng, self.leap_one_in) {
                let leap_us = self.rng.below(self.scene.weather.leap_max.as_micros() as u64);
                self.scene.leaps.set(self.scene.leaps.get() + 1);
                self.scene.history.borrow_mut().note(|| format!("the clock leaps {leap_us} us"));
                self.world.leap(Duration::from_micros(leap_us));
            }
        }
    }

    fn is_wrong(&self) -> bool {
        !self.scene.history.borrow().violations.is_empty()
    }

    fn check_ceilings(&self) {
        let weather = &self.scene.weather;
        for (shard, look) in self.node.watches.iter().enumerate() {
            if let Some(wrong) = look(When::Running).over_budget(&weather.budget, &weather.geometry)
            {
                self.scene.history.borrow_mut().violation(format!("shard {shard}: {wrong}"));
            }
        }
    }

    /// A device that the page cache does not stand before takes whole pages only.
    fn check_alignment(&self) {
        let Some(device) = &self.device else { return };
        let misaligned = self.world.disk_events(&device.file).misaligned;
        if misaligned > 0 {
            let wrong = format!("{misaligned} operations of the cache device were not aligned");
            self.scene.history.borrow_mut().violation(wrong);
        }
    }

    fn check_left_over(&self, tasks: &[usize]) {
        for (shard, (look, tasks)) in self.node.watches.iter().zip(tasks).enumerate() {
            if let Some(left) = look(When::AtEnd).left_over(*tasks) {
                let wrong = format!("shard {shard} is left with {left}");
                self.scene.history.borrow_mut().violation(wrong);
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.node.reactors.iter().for_each(Reactor::close);
    }
}
