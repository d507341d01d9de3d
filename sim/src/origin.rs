//! The origin of a run: objects that are functions of their version, answers after drawn delays, and
//! the faults of the run's weather. It serves the queue that real origins do. Reads are `read`, their
//! lies `lie`, writes `write`, listings `listing`; what nobody may ask twice at once is `overlap`.

mod lie;
mod listing;
mod overlap;
mod read;
mod write;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use http::{HeaderMap, Method};
use nilas_base::{ByteRange, Rng};
use nilas_engine::origin::{
    OriginAnswer, OriginError, OriginQueue, OriginRequest, OriginResult, Replier,
};
use nilas_shards::Reactor;

use crate::history::{Asker, History};
use crate::judge::range::single;
use crate::weather::{OriginWeather, happens};
use overlap::Overlap;

/// A first byte that is slow takes up to this long.
const SLOW_MS_MAX: u64 = 1000;
/// How long after its lost answer a write may still take effect.
const LATE_MS_MAX: u64 = 1500;

/// The origin.
pub struct SimulatedOrigin {
    reactor: Reactor,
    history: Rc<RefCell<History>>,
    rng: RefCell<Rng>,
    /// Its faults from now on.
    pub weather: Cell<OriginWeather>,
    overlap: RefCell<Overlap>,
    /// Whether questions may fail, by a fault or by a leap of the clock, and be repeated.
    questions_fail: bool,
    /// Writes that have not settled.
    pub unsettled: Cell<usize>,
    /// What it was asked.
    pub count: RefCell<Count>,
}

/// What an origin was asked, and what it sent.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// Requests.
    pub requests: u64,
    /// HEADs among them.
    pub heads: u64,
    /// Listings among them.
    pub listings: u64,
    /// Bytes of bodies that somebody took.
    pub body_bytes: u64,
    /// The `Range` of every GET that had one.
    pub ranges: Vec<String>,
}

impl Count {
    /// The ranges that were asked for, but for the first so many, as bytes of their objects.
    pub fn byte_ranges(&self, skipped: usize) -> Vec<ByteRange> {
        self.ranges[skipped..].iter().filter_map(|range| single(range)).collect()
    }
}

impl SimulatedOrigin {
    /// An origin whose objects are those of the history.
    pub fn new(
        reactor: &Reactor,
        history: &Rc<RefCell<History>>,
        rng: Rng,
        (weather, questions_fail): (OriginWeather, bool),
    ) -> Rc<SimulatedOrigin> {
        Rc::new(SimulatedOrigin {
            reactor: reactor.clone(),
            history: Rc::clone(history),
            rng: RefCell::new(rng),
            weather: Cell::new(weather),
            overlap: RefCell::default(),
            questions_fail,
            unsettled: Cell::new(0),
            count: RefCell::default(),
        })
    }

    /// Answers the queue until nobody asks any more.
    pub async fn serve(self: Rc<Self>, mut queue: OriginQueue) {
        while let Some((request, replier)) = queue.next().await {
            let origin = Rc::clone(&self);
            origin.count(&request);
            let (method, path) = (request.method.clone(), request.path_raw.clone());
            let who = asker(&request);
            let number = origin.count.borrow().requests;
            let range = header(&request, "range").map(str::to_owned);
            origin
                .history
                .borrow_mut()
                .note(|| format!("  origin < {number}: {method} {path} {range:?} by {who:?}"));
            self.reactor.spawn(async move { origin.answer(request, replier).await });
        }
    }

    fn count(&self, request: &OriginRequest) {
        let mut count = self.count.borrow_mut();
        count.requests += 1;
        count.heads += u64::from(request.method == Method::HEAD);
        count.listings += u64::from(request.key.is_none());
        let range = request.headers.get("range").and_then(|range| range.to_str().ok());
        count.ranges.extend(range.map(str::to_owned));
    }

    async fn answer(self: Rc<Self>, request: OriginRequest, replier: Replier) {
        let key = request.key.as_deref().map(|name| self.history.borrow().key_named(name));
        match (key, &request.method) {
            (None, &Method::GET) => self.list(&request, replier).await,
            (Some(Some(key)), &Method::GET | &Method::HEAD) => {
                self.read(key, &request, replier).await;
            }
            (Some(Some(key)), &Method::PUT | &Method::DELETE) => {
                self.write(key, request, replier).await;
            }
            _ => replier.reply(Ok(OriginAnswer::empty(501, HeaderMap::new()))),
        }
    }

    /// Waits as long as a first byte takes.
    async fn delay(&self) {
        let weather = self.weather.get();
        if let Some(steady) = weather.steady {
            return self.reactor.sleep(steady.pause).await;
        }
        let delay_us = {
            let mut rng = self.rng.borrow_mut();
            match happens(&mut rng, weather.slow_one_in) {
                true => rng.below(SLOW_MS_MAX * 1000),
                false => rng.below(weather.delay_us_max),
            }
        };
        self.reactor.sleep(Duration::from_micros(delay_us)).await;
    }

    fn happens(&self, one_in: Option<u64>) -> bool {
        happens(&mut self.rng.borrow_mut(), one_in)
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    /// Instead of an answer: silence, or an error of the origin's own.
    fn failure(&self) -> Option<OriginResult> {
        let weather = self.weather.get();
        if self.happens(weather.silent_one_in) {
            return Some(Err(self.silence()));
        }
        self.happens(weather.error_one_in).then(|| {
            let status = [500, 502, 503, 504][self.below(4) as usize];
            Ok(OriginAnswer::empty(status, HeaderMap::new()))
        })
    }

    fn silence(&self) -> OriginError {
        let (origin, cause) = ("simulated".to_owned(), "by chance".to_owned());
        match self.below(3) {
            0 => OriginError::Unreachable { origin, cause },
            _ => self.silence_after_asking(),
        }
    }

    /// Of which nobody can say whether what was asked has happened.
    fn silence_after_asking(&self) -> OriginError {
        let (origin, waited) = ("simulated".to_owned(), Duration::from_secs(1));
        match self.below(2) {
            0 => OriginError::TimedOut { origin, step: "waiting by chance", waited },
            _ => OriginError::broken("by chance"),
        }
    }
}

/// Who asks: a relayed request carries its client's mark.
fn asker(request: &OriginRequest) -> Asker {
    if request.headers.contains_key(crate::client::CLIENT_MARK) {
        Asker::Client
    } else if request.headers.contains_key("if-match") {
        Asker::Fill
    } else {
        Asker::Open
    }
}

fn header<'a>(request: &'a OriginRequest, name: &str) -> Option<&'a str> {
    request.headers.get(name)?.to_str().ok()
}
