//! What the clients of a run do, step by step: reads (`reader`) and writes (`writer`) over one
//! connection each; and the stranger who writes behind the node's back what names let it.

use std::rc::Rc;
use std::time::Duration;

use nilas_base::{ByteRange, Rng};
use nilas_engine::purge::{Purge, PurgeError, PurgeScope};

use crate::client::Connection;
use crate::history::{Author, Purged, VersionId};
use crate::key::{BUCKET, KeyId, Nature};
use crate::run::Scene;
use crate::weather::{Weather, happens, pick};

/// A node has a mapping on its device after that time at the latest, in microseconds.
const KEPT_AFTER_US_MAX: u64 = 300_000;
/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(150);

/// One client.
pub struct Actor {
    pub(crate) scene: Rc<Scene>,
    pub(crate) rng: Rng,
    pub(crate) connection: Option<Connection>,
    /// The ETag that it saw last of each key.
    pub(crate) seen: Vec<Option<VersionId>>,
    /// The only key that it asks for, for now.
    aim: Option<KeyId>,
    /// For what only some clients do.
    more_rng: Rng,
}

impl Actor {
    /// A client without a connection.
    pub fn new(scene: Rc<Scene>, rng: Rng) -> Actor {
        let keys = scene.history.borrow().keys.len();
        let more_rng = Rng::from_seed(!rng.clone().next_u64());
        Actor { scene, rng, connection: None, seen: vec![None; keys], aim: None, more_rng }
    }

    /// Does what it does.
    pub async fn act(mut self) {
        let crowd = self.scene.weather.crowd;
        for _ in 0..crowd.steps {
            let pause_us = self.rng.below(crowd.pause_us_max);
            self.scene.reactor.sleep(Duration::from_micros(pause_us)).await;
            if happens(&mut self.more_rng, crowd.overwrite_one_in) {
                self.overwrite().await;
            }
            if happens(&mut self.rng, crowd.purge_one_in) {
                self.purge().await;
            } else if happens(&mut self.rng, crowd.write_one_in) {
                self.write().await;
            } else {
                self.read().await;
            }
            if self.rng.chance(1, 12) {
                self.connection = None;
            }
        }
    }

    /// Reads what never changes by itself, and overwrites it when a node has had the time to keep it.
    async fn overwrite(&mut self) {
        let kept: Vec<KeyId> = {
            let history = self.scene.history.borrow();
            let keys = history.keys.iter().enumerate();
            let kept = keys.filter(|(_, key)| key.nature != Nature::Mutable);
            kept.map(|(number, _)| KeyId(number)).collect()
        };
        if kept.is_empty() {
            return;
        }
        self.aim = Some(kept[self.more_rng.below(kept.len() as u64) as usize]);
        self.read().await;
        let pause = Duration::from_micros(self.more_rng.below(KEPT_AFTER_US_MAX));
        self.scene.reactor.sleep(pause).await;
        self.write().await;
        self.aim = None;
    }

    /// Has a key, a folder or everything forgotten.
    async fn purge(&mut self) {
        let key = self.draw_key();
        let name = self.scene.history.borrow().keys[key.0].name.clone();
        let scope = match self.rng.below(4) {
            0 => PurgeScope::Bucket,
            1 => PurgeScope::Prefix(name[..1 + name.find('/').unwrap_or(0)].to_owned()),
            _ => PurgeScope::Key(name),
        };
        let purge = Purge { bucket: BUCKET.to_owned(), scope };
        let begun = self.scene.history.borrow_mut().now();
        self.scene.origin.disturb_purged(&purge);
        let port = self.scene.purges.borrow().clone();
        let purging = port.purge(purge.clone());
        let Some(done) = self.scene.in_time("a purge", purging).await else { return };
        self.scene.origin.disturb_purged(&purge);
        let mut history = self.scene.history.borrow_mut();
        let has_device = self.scene.weather.device.is_some();
        match done {
            // On a device that cannot be written it is known to hold until the node ends.
            Err(PurgeError::Passing) if !has_device => {
                history.violation("a purge is passing without a device".to_owned());
            }
            Ok(()) | Err(PurgeError::Passing) => {
                let acknowledged = history.now();
                history.note(|| format!("purged: {:?}", purge.scope));
                history.purges.push(Purged { purge, begun, acknowledged });
            }
            Err(PurgeError::Stopping) if history.has_restarted => {}
            Err(error) => history.violation(format!("a purge fails: {error}")),
        }
    }

    pub(crate) fn draw_key(&mut self) -> KeyId {
        if let Some(aim) = self.aim {
            return aim;
        }
        let keys = self.scene.history.borrow().keys.len() as u64;
        // The first key is the most wanted one.
        if self.rng.chance(1, 3) { KeyId(0) } else { KeyId(self.rng.below(keys) as usize) }
    }

    /// A connection to send on: the last one, or a new one.
    pub(crate) async fn take_connection(&mut self) -> Option<Connection> {
        if let Some(connection) = self.connection.take() {
            return Some(connection);
        }
        Connection::open(&self.scene.reactor).await.ok()
    }

    pub(crate) fn is_odd(&mut self) -> bool {
        happens(&mut self.rng, self.scene.weather.crowd.odd_one_in)
    }
}

impl Scene {
    /// What a request comes to, if it comes to something in time.
    pub async fn in_time<T>(&self, what: &str, request: impl Future<Output = T>) -> Option<T> {
        let mut request = std::pin::pin!(request);
        loop {
            let leaps = self.leaps.get();
            match self.reactor.timeout(REQUEST_MAX, request.as_mut()).await {
                Ok(outcome) => return Some(outcome),
                // A leap is no time in which anything could have happened.
                Err(_) if self.leaps.get() > leaps => {}
                Err(_) => {
                    let hangs = format!("{what} hangs for {REQUEST_MAX:?}");
                    self.history.borrow_mut().violation(hangs);
                    return None;
                }
            }
        }
    }
}

/// Writes mutable keys behind the node's back.
pub async fn stranger(scene: Rc<Scene>, mut rng: Rng) {
    let crowd = scene.weather.crowd;
    let mutable: Vec<KeyId> = {
        let history = scene.history.borrow();
        let keys = history.keys.iter().enumerate();
        let mutable = keys.filter(|(_, key)| key.nature == Nature::Mutable);
        mutable.map(|(number, _)| KeyId(number)).collect()
    };
    for _ in 0..crowd.strange_writes {
        let pause_us = rng.below(3 * crowd.pause_us_max + 20_000);
        scene.reactor.sleep(Duration::from_micros(pause_us)).await;
        let key = mutable[rng.below(mutable.len() as u64) as usize];
        let length = draw_length(&mut rng, &scene.weather);
        let mut history = scene.history.borrow_mut();
        let version = (!rng.chance(1, 8)).then(|| history.draw_version(key, length));
        let write = history.begin_write(key, Author::Stranger, version);
        history.commit(write);
    }
}

/// An object's length: often at a border.
pub fn draw_length(rng: &mut Rng, weather: &Weather) -> u64 {
    let most = weather.crowd.object_bytes_max;
    let unit = pick(rng, &[weather.geometry.block_bytes, weather.geometry.data_sector_bytes]);
    match rng.below(6) {
        0 => rng.below(3),
        1 => unit + rng.below(3) - 1,
        2 => (unit * (1 + rng.below(3))).min(most),
        _ => rng.below(most) + 1,
    }
}

/// A range of an object of about this length, in any form, sensible or not.
pub fn draw_range(rng: &mut Rng, length: u64, unit: u64) -> String {
    let start = match rng.chance(1, 3) {
        true => (rng.below(length / unit + 2) * unit).saturating_sub(rng.below(2)),
        false => rng.below(length + 3),
    };
    let count = match rng.below(3) {
        0 => 1 + rng.below(100),
        1 => unit,
        _ => 1 + rng.below(length + 10),
    };
    match rng.below(12) {
        0 | 1 => format!("bytes={start}-"),
        2 | 3 => format!("bytes=-{count}"),
        4 => "bytes=-0".to_owned(),
        5 => format!("bytes={}-{start}", start + 1),
        6 => format!("bytes=0-0,{start}-{}", start + count),
        _ => {
            let range = ByteRange::new(start, start + count);
            format!("bytes={}-{}", range.start, range.end - 1)
        }
    }
}
