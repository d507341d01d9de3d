//! Writes through the node: uploads in one piece or many, under conditions or not, broken off half-way
//! or not, and deletes. What was acknowledged is noted: from then on every read must see it.

use std::time::Duration;

use nilas_base::ByteRange;

use crate::client::answer::Answer;
use crate::client::{Ask, Connection, Pace, WRITE_MARK};
use crate::content::bytes_of;
use crate::history::{Author, VersionId, WriteId};
use crate::workload::{Actor, draw_length};

/// How long a node waits for a device that stalls before it refuses a write.
const DURABLE_WAIT_MAX: Duration = Duration::from_secs(10);

impl Actor {
    pub(crate) async fn write(&mut self) {
        let key = self.draw_key();
        let path = self.scene.history.borrow().keys[key.0].path();
        let deletes = self.rng.chance(1, 5);
        let length = draw_length(&mut self.rng, &self.scene.weather);
        let (write, version) = {
            let mut history = self.scene.history.borrow_mut();
            let version = (!deletes).then(|| history.draw_version(key, length));
            if self.scene.leniency().errors {
                // It may fail before the origin hears of it; the node then holds the key.
                history.keep_readers_apart(key);
            }
            (history.begin_write(key, Author::Client, version), version)
        };
        let method = if deletes { "DELETE" } else { "PUT" };
        let mut ask = Ask::new(method, path).header(WRITE_MARK, write.0.to_string());
        if !deletes {
            ask.body_bytes = length;
            ask = self.draw_condition(ask, self.seen[key.0]);
        }
        let what = format!("{} {}", ask.method, ask.path);
        let scene = std::rc::Rc::clone(&self.scene);
        let done = scene.in_time(&what, self.send(&ask, version)).await;
        {
            let mut history = scene.history.borrow_mut();
            let now = history.now();
            history.writes[write.0].over = Some(now);
        }
        let Some((connection, answer)) = done.flatten() else { return };
        let Some(answer) = answer else { return };
        self.note(write, &ask, &answer);
        if let (200, Some(version)) = (answer.head.status, version) {
            self.seen[key.0] = Some(version);
        }
        if answer.is_whole && !answer.head.closes() {
            self.connection = Some(connection);
        }
    }

    fn draw_condition(&mut self, ask: Ask, seen: Option<VersionId>) -> Ask {
        match (self.rng.below(8), seen) {
            (0, _) => ask.header("if-none-match", "*"),
            (1, Some(seen)) => ask.header("if-match", seen.etag()),
            _ => ask,
        }
    }

    /// Sends a write and reads its answer; neither if the client has gone half-way.
    async fn send(
        &mut self,
        ask: &Ask,
        version: Option<VersionId>,
    ) -> Option<(Connection, Option<Answer>)> {
        let mut connection = self.take_connection().await?;
        // One that was closed in the meantime says so when its answer is read.
        let _ = connection.send_head(ask).await;
        if let Some(version) = version
            && !self.send_body(&connection, version, ask.body_bytes).await
        {
            return None;
        }
        if self.is_odd() && self.rng.chance(1, 4) {
            // Gone before the answer: the write happens all the same, or does not.
            return None;
        }
        let answer = connection.answer(ask.method, Pace::FAST).await;
        Some((connection, answer))
    }

    /// False where the client breaks off.
    async fn send_body(
        &mut self,
        connection: &Connection,
        version: VersionId,
        length: u64,
    ) -> bool {
        let is_odd = self.is_odd();
        let stop = (is_odd && length > 0 && self.rng.chance(1, 3)).then(|| self.rng.below(length));
        let end = stop.unwrap_or(length);
        let piece_bytes = if is_odd { 1 + length / 3 } else { length.max(1) };
        let mut at = 0;
        while at < end {
            let piece = ByteRange::new(at, end.min(at + piece_bytes));
            if connection.send(bytes_of(version, piece)).await.is_err() {
                break;
            }
            at = piece.end;
            if is_odd {
                let pause_us = self.rng.below(30_000);
                self.scene.reactor.sleep(Duration::from_micros(pause_us)).await;
            }
        }
        stop.is_none()
    }

    fn note(&self, write: WriteId, ask: &Ask, answer: &Answer) {
        let fails = self.scene.leniency().errors;
        let device = self.scene.weather.device;
        let stalls = device.is_some_and(|device| device.condition.stall_one_in.is_some());
        self.scene.history.borrow_mut().note(|| {
            format!(
                "client > {} {} write {}: {}",
                ask.method, ask.path, write.0, answer.head.status
            )
        });
        let is_conditional = ask.headers.iter().any(|(name, _)| name.starts_with("if-"));
        let mut history = self.scene.history.borrow_mut();
        let took = history.now().at.since(history.writes[write.0].begun.at);
        match answer.head.status {
            200 | 204 => {
                let now = history.now();
                let write = &mut history.writes[write.0];
                write.acknowledged = Some(now);
                if write.committed.is_none() || write.replied.is_none() {
                    history.violation(format!("{} was acknowledged and never happened", ask.path));
                }
            }
            412 if is_conditional => {}
            // RequestTimeout: a leap has passed while the body was on its way.
            400 if self.scene.weather.leap_one_in.is_some() => {}
            500..=599 if fails => {}
            503 if stalls && took >= DURABLE_WAIT_MAX => {}
            status => {
                history.violation(format!("{} {} was answered {status}", ask.method, ask.path));
            }
        }
    }
}
