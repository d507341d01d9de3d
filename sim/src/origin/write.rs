//! Writes at the origin: the body is read to its end and compared with the version it claims to be;
//! then it takes effect, or does not, and the answer arrives, or does not, in any order.

use std::rc::Rc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use nilas_engine::origin::{
    BodyPart, OriginAnswer, OriginRequest, OriginResult, Replier, RequestBody,
};

use super::{LATE_MS_MAX, SimulatedOrigin, header};
use crate::client::WRITE_MARK;
use crate::content::first_difference;
use crate::history::WriteId;
use crate::key::KeyId;

/// What becomes of a write whose answer is lost.
enum Loss {
    /// It never takes effect.
    Never,
    /// It has taken effect.
    Done,
    /// It takes effect later.
    Late,
}

impl SimulatedOrigin {
    pub(super) async fn write(
        self: &Rc<Self>,
        key: KeyId,
        request: OriginRequest,
        replier: Replier,
    ) {
        let Some(write) = header(&request, WRITE_MARK).and_then(|mark| mark.parse().ok()) else {
            return replier.reply(Ok(OriginAnswer::empty(400, HeaderMap::new())));
        };
        let write = WriteId(write);
        self.note(write, |write, now| write.arrived = Some(now));
        self.disturb(key);
        self.unsettled.set(self.unsettled.get() + 1);
        let answer = self.carry_out(key, write, request, replier.is_gone()).await;
        if let Some(answer) = answer {
            self.reply(key, write, answer, replier);
        } else {
            self.lose(key, write, replier).await;
        }
        self.unsettled.set(self.unsettled.get() - 1);
    }

    /// The answer, or `None` where it is to be lost.
    async fn carry_out(
        &self,
        key: KeyId,
        write: WriteId,
        request: OriginRequest,
        is_gone: bool,
    ) -> Option<OriginResult> {
        if let Some(failure) = self.failure() {
            return Some(failure);
        }
        let conditions = (
            header(&request, "if-match").map(str::to_owned),
            header(&request, "if-none-match").map(str::to_owned),
        );
        let deletes = request.method == Method::DELETE;
        if !self.take_body(write, request.body).await || is_gone {
            let aborted = nilas_engine::origin::OriginError::BodyAborted;
            return Some(Err(aborted));
        }
        self.delay().await;
        if !self.allows(key, conditions) {
            return Some(Ok(OriginAnswer::empty(412, HeaderMap::new())));
        }
        if self.happens(self.weather.get().lost_one_in) {
            return None;
        }
        self.commit(write);
        self.delay().await;
        let mut headers = HeaderMap::new();
        let version = self.history.borrow().writes[write.0].version;
        if let Some(version) = version {
            let etag = HeaderValue::from_str(&version.etag()).expect("plain text");
            headers.insert("etag", etag);
        }
        Some(Ok(OriginAnswer::empty(if deletes { 204 } else { 200 }, headers)))
    }

    async fn lose(&self, key: KeyId, write: WriteId, replier: Replier) {
        let loss = match self.below(3) {
            0 => Loss::Never,
            1 => Loss::Done,
            _ => Loss::Late,
        };
        if let Loss::Done = loss {
            self.commit(write);
        }
        self.delay().await;
        self.note(write, |write, _| write.is_unknown = !write.is_orphan);
        let silence = self.silence_after_asking();
        self.reply(key, write, Err(silence), replier);
        if let Loss::Late = loss {
            let late_ms = self.below(LATE_MS_MAX);
            self.reactor.sleep(Duration::from_millis(late_ms)).await;
            self.commit(write);
        }
    }

    fn reply(&self, key: KeyId, write: WriteId, answer: OriginResult, replier: Replier) {
        if self.is_orphan(write) {
            return;
        }
        self.note(write, |write, now| write.replied = Some(now));
        self.disturb(key);
        if answer.as_ref().map_or(true, |answer| answer.status >= 500) {
            self.history.borrow_mut().keep_readers_apart(key);
        }
        replier.reply(answer);
    }

    /// A write takes effect, unless the node has gone that relayed it.
    fn commit(&self, write: WriteId) {
        if !self.is_orphan(write) {
            self.history.borrow_mut().commit(write);
        }
    }

    fn is_orphan(&self, write: WriteId) -> bool {
        self.history.borrow().writes[write.0].is_orphan
    }

    fn note(
        &self,
        write: WriteId,
        change: impl FnOnce(&mut crate::history::Write, crate::history::Moment),
    ) {
        let mut history = self.history.borrow_mut();
        let now = history.now();
        change(&mut history.writes[write.0], now);
    }

    /// Reads a body; false where it broke off.
    async fn take_body(&self, write: WriteId, body: RequestBody) -> bool {
        let mut taken = 0;
        if let RequestBody::Stream(mut stream) = body {
            loop {
                match stream.next().await {
                    Some(BodyPart::Data(bytes)) => {
                        self.compare(write, taken, &bytes);
                        taken += bytes.len() as u64;
                    }
                    Some(BodyPart::Trailer(_)) => {}
                    Some(BodyPart::End) => break,
                    None => return false,
                }
            }
        }
        let mut history = self.history.borrow_mut();
        let version = history.writes[write.0].version;
        let length = version.and_then(|version| history.version(version)).map_or(0, |it| it.length);
        if taken != length {
            history.violation(format!("an upload of {length} bytes ended well after {taken}"));
        }
        true
    }

    fn compare(&self, write: WriteId, start: u64, bytes: &[u8]) {
        let mut history = self.history.borrow_mut();
        let Some(version) = history.writes[write.0].version else { return };
        if let Some(at) = first_difference(version, start, bytes) {
            history.violation(format!("an upload arrives changed at byte {at}"));
        }
    }

    fn allows(&self, key: KeyId, (same, none): (Option<String>, Option<String>)) -> bool {
        let current = self.history.borrow().current(key).map(crate::history::VersionId::etag);
        let same = same.is_none_or(|asked| current.as_ref() == Some(&asked));
        same && none.is_none_or(|_| current.is_none())
    }
}
