//! Reads: whole objects and ranges of every form, HEADs, conditions, one after another or at once, at
//! any pace, given up half-way or not. Every answer is judged.

use std::time::Duration;

use crate::client::{Ask, Connection, Pace};
use crate::judge::{Leniency, Read, judge};
use crate::key::KeyId;
use crate::workload::{Actor, draw_range};

/// Requests sent at once.
const PIPELINED_MAX: u64 = 3;
/// How long a reader that has stopped keeps its connection.
const STALL_MS_MAX: u64 = 3000;

impl Actor {
    pub(crate) async fn read(&mut self) {
        let count = if self.rng.chance(1, 8) { 1 + self.rng.below(PIPELINED_MAX) } else { 1 };
        let asks: Vec<(KeyId, Ask)> = (0..count).map(|_| self.draw_read()).collect();
        let pace = self.draw_pace();
        let scene = std::rc::Rc::clone(&self.scene);
        let what = format!("{} {}", asks[0].1.method, asks[0].1.path);
        let Some(done) = scene.in_time(&what, self.read_all(asks, pace)).await else { return };
        self.connection = done;
        if let Some(stop) = pace.stop_after_bytes {
            let stall_ms = self.rng.below(STALL_MS_MAX) * (stop % 2);
            self.scene.reactor.sleep(Duration::from_millis(stall_ms)).await;
            self.connection = None;
        }
    }

    /// Sends all, then reads all answers; gives the connection back if it can be used again.
    async fn read_all(&mut self, asks: Vec<(KeyId, Ask)>, pace: Pace) -> Option<Connection> {
        let mut connection = self.take_connection().await?;
        let began = self.scene.history.borrow_mut().now();
        let heads: String = asks.iter().map(|(_, ask)| connection.head(ask)).collect();
        // A connection that was closed in the meantime says so when it is read.
        let _ = connection.send(heads.into()).await;
        for (key, ask) in asks {
            let read = Read { key, ask, began };
            let answer = connection.answer(read.ask.method, pace).await;
            let leniency = self.leniency(pace);
            let mut history = self.scene.history.borrow_mut();
            let Some(answer) = answer else {
                if !leniency.cuts {
                    let path = &read.ask.path;
                    history.violation(format!("{path}: the connection ends without an answer"));
                }
                return None;
            };
            judge(&mut history, &read, &answer, leniency);
            self.scene.answers.set(self.scene.answers.get() + 1);
            self.seen[key.0] = answer.head.version().or(self.seen[key.0]);
            if !answer.is_whole || answer.head.closes() {
                return None;
            }
        }
        Some(connection)
    }

    /// A reader that stops has itself to blame.
    fn leniency(&self, pace: Pace) -> Leniency {
        let leniency = self.scene.leniency();
        Leniency { cuts: leniency.cuts || pace.stop_after_bytes.is_some(), ..leniency }
    }

    fn draw_read(&mut self) -> (KeyId, Ask) {
        let key = self.draw_key();
        let path = self.scene.history.borrow().keys[key.0].path();
        let is_head = self.rng.chance(1, 6);
        let mut ask = Ask::new(if is_head { "HEAD" } else { "GET" }, path);
        // Of a HEAD the origin says what a range means.
        let ranged_of_six = if is_head { 1 } else { 4 };
        if self.rng.chance(ranged_of_six, 6) {
            let length = self.likely_length(key);
            let unit = self.scene.weather.geometry.data_sector_bytes;
            ask = ask.header("range", draw_range(&mut self.rng, length, unit));
        }
        if self.rng.chance(1, 6) {
            ask = ask.header("x-amz-checksum-mode", "ENABLED");
        }
        if let Some(seen) = self.seen[key.0] {
            match self.rng.below(10) {
                0 => ask = ask.header("if-none-match", seen.etag()),
                1 => ask = ask.header("if-match", seen.etag()),
                _ => {}
            }
        }
        (key, ask)
    }

    fn likely_length(&self, key: KeyId) -> u64 {
        let history = self.scene.history.borrow();
        let current = history.current(key).and_then(|version| history.version(version));
        current.map_or(self.scene.weather.crowd.object_bytes_max, |version| version.length)
    }

    fn draw_pace(&mut self) -> Pace {
        if !self.is_odd() {
            return Pace::FAST;
        }
        let chunk_bytes = 256 + self.rng.below(4000) as usize;
        let pause = Duration::from_micros(self.rng.below(20_000));
        let most = self.scene.weather.crowd.object_bytes_max;
        let stop_after_bytes = self.rng.chance(1, 2).then(|| self.rng.below(most));
        Pace { chunk_bytes, pause, stop_after_bytes }
    }
}
