//! One seed: a world, a node, its origin and its clients, until they are done; then fair weather, a
//! last pass over every key, and a look at what is left. What was wrong is told, not thrown.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use nilas_base::Rng;
use nilas_engine::purge::PurgePort;
use nilas_shards::{NetworkCondition, Reactor, SimulatedWorld};

use crate::final_pass;
use crate::history::{Author, History};
use crate::judge::Leniency;
use crate::key::{KeyId, draw_keys};
use crate::node::{NodeShape, SimulatedNode, assemble};
use crate::origin::SimulatedOrigin;
use crate::watch::When;
use crate::weather::Weather;
use crate::workload::{Actor, stranger};

/// Simulated time after which a run hangs.
const RUN_MAX: Duration = Duration::from_secs(4 * 3600);
/// How long after its last request a node may still be at work.
const QUIET_AFTER: Duration = Duration::from_secs(100);

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
    pub purges: PurgePort,
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
        let breaks = weather.network.reset_one_in.is_some() || weather.leap_one_in.is_some();
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

/// Runs a seed, and keeps a journal of it or not.
pub fn run(seed: u64, keeps_journal: bool) -> Outcome {
    let mut rng = Rng::from_seed(seed);
    let weather = Weather::draw(&mut rng);
    let world = SimulatedWorld::new(rng.next_u64());
    let (node, queue) = assemble(&world, &NodeShape::of(&weather, seed));
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
    let purges = node.purges.clone();
    let scene = Scene { reactor, history, weather, purges, origin, acting, leaps, answers };
    let leap_one_in = scene.weather.leap_one_in;
    let mut run = Run { world, node, scene: Rc::new(scene), rng, leap_one_in };
    run.play();
    let history = run.scene.history.borrow();
    Outcome {
        seed,
        violations: history.violations.clone(),
        trace_hash: run.world.trace_hash(),
        answers: run.scene.answers.get(),
        journal: history.journal.clone().unwrap_or_default(),
    }
}

struct Run {
    world: SimulatedWorld,
    node: SimulatedNode,
    scene: Rc<Scene>,
    rng: Rng,
    /// One in so many steps the clock leaps, for now.
    leap_one_in: Option<u64>,
}

impl Run {
    fn play(&mut self) {
        self.world.run_for(Duration::from_millis(1));
        let tasks: Vec<usize> =
            self.node.watches.iter().map(|look| look(When::Running).tasks).collect();
        self.first_versions();
        self.world.set_network(self.scene.weather.network);
        self.begin();
        self.drive(|run| run.scene.acting.get() == 0 && run.scene.origin.unsettled.get() == 0);
        self.leap_one_in = None;
        self.scene.origin.weather.set(self.scene.weather.origin.fair());
        self.world.set_network(NetworkCondition::default());
        if self.is_wrong() {
            return;
        }
        self.world.run_for(final_pass::after(&self.scene));
        self.scene.act(final_pass::read_everything(Rc::clone(&self.scene), self.rng.next_u64()));
        self.drive(|run| run.scene.acting.get() == 0);
        if !self.is_wrong() {
            self.world.run_for(QUIET_AFTER);
            self.check_ceilings();
            self.check_left_over(&tasks);
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
            if !self.world.step() || self.world.clock().now().0 > RUN_MAX.as_nanos() as u64 {
                let acting = self.scene.acting.get();
                let hangs = format!("{acting} actors hang");
                return self.scene.history.borrow_mut().violation(hangs);
            }
            self.check_ceilings();
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
