//! After the faults: every key is read, whole, by its head and in part, and must be what it is at the
//! origin. What was wrong for a while may not stay so.

use std::rc::Rc;
use std::time::Duration;

use nilas_base::Rng;

use crate::client::{Ask, Connection, Pace};
use crate::judge::{Leniency, Read, judge};
use crate::key::KeyId;
use crate::run::Scene;
use crate::workload::draw_range;

/// Beyond every time to live, and what a node that has given an origin up needs to try it again.
const SETTLING: Duration = Duration::from_secs(60);

/// How long after the last fault everything must be right.
pub fn after(scene: &Scene) -> Duration {
    SETTLING + scene.weather.mutable_ttl
}

/// Reads everything, twice. Where the origin has called a version by another name, the first reader
/// may still find that name; whoever comes after it may not.
pub async fn read_everything(scene: Rc<Scene>, seed: u64) {
    let lies = scene.weather.origin.lie_one_in.is_some();
    let mut rng = Rng::from_seed(seed);
    for leniency in [Leniency { errors: false, cuts: lies }, Leniency::NONE] {
        let count = scene.history.borrow().keys.len();
        for number in 0..count {
            if !read_key(&scene, KeyId(number), &mut rng, leniency).await {
                return;
            }
        }
    }
}

/// Reads a key in every way; false if nothing more is to be learnt.
async fn read_key(scene: &Scene, key: KeyId, rng: &mut Rng, leniency: Leniency) -> bool {
    let path = scene.history.borrow().keys[key.0].path();
    let unit = scene.weather.geometry.data_sector_bytes;
    let range = draw_range(rng, scene.weather.crowd.object_bytes_max / 2, unit);
    let asks = [
        Ask::new("GET", path.clone()).header("range", range),
        Ask::new("HEAD", path.clone()),
        Ask::new("GET", path),
    ];
    for ask in asks {
        let what = format!("{} {} in the end", ask.method, ask.path);
        if scene.in_time(&what, read(scene, key, ask, leniency)).await.is_none() {
            return false;
        }
    }
    true
}

async fn read(scene: &Scene, key: KeyId, ask: Ask, leniency: Leniency) {
    let began = scene.history.borrow_mut().now();
    let Ok(mut connection) = Connection::open(&scene.reactor).await else {
        return scene.history.borrow_mut().violation("nobody listens in the end");
    };
    // Whether it arrives is seen from the answer.
    let _ = connection.send_head(&ask).await;
    let answer = connection.answer(ask.method, Pace::FAST).await;
    let mut history = scene.history.borrow_mut();
    let Some(answer) = answer else {
        return history.violation(format!("{} is not answered in the end", ask.path));
    };
    let read = Read { key, ask, began };
    judge(&mut history, &read, &answer, leniency);
    let current = history.current(key);
    let is_current = match (answer.head.status, current) {
        (404, None) | (416, Some(_)) => true,
        (200 | 206, current @ Some(_)) => answer.head.version() == current,
        _ => false,
    };
    if !is_current {
        let (path, status) = (&read.ask.path, answer.head.status);
        let etag = answer.head.header("etag");
        history.violation(format!("{path} is {current:?} in the end, not {status} {etag:?}"));
    }
    scene.answers.set(scene.answers.get() + 1);
}
