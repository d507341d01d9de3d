//! Reads at the origin: evaluated at one moment, answered at a later one, so that answers overtake
//! each other and overwrites; bodies that trickle, stop and break off.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nilas_base::ByteRange;
use nilas_engine::origin::{
    AnswerBody, AnswerSender, OriginAnswer, OriginError, OriginRequest, Replier,
};

use super::overlap::Line;
use super::{SimulatedOrigin, asker, header};
use crate::client::ANSWER_MARK;
use crate::content::bytes_of;
use crate::history::{Asker, Moment, Named, Told, VersionId};
use crate::judge::range::{Wanted, wanted};
use crate::key::KeyId;

/// What a read comes to, before its head is written.
pub(super) struct Reading {
    pub(super) status: u16,
    pub(super) version: Option<VersionId>,
    /// Of the whole object.
    pub(super) length: u64,
    pub(super) slice: ByteRange,
    /// Bytes that the head announces.
    pub(super) announced: u64,
    pub(super) etag: Option<String>,
    pub(super) content_range: Option<String>,
    pub(super) is_lie: bool,
}

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Whole,
    /// With an error, after so many bytes.
    Broken(u64),
    /// As though it were whole, after so many bytes.
    Short(u64),
    /// Without a word, after so many bytes.
    Dropped(u64),
}

impl SimulatedOrigin {
    pub(super) async fn read(
        self: &Rc<Self>,
        key: KeyId,
        request: &OriginRequest,
        replier: Replier,
    ) {
        let asked = self.history.borrow_mut().now();
        let line = self.enter(key, request, replier);
        self.delay().await;
        if let Some(failure) = self.failure() {
            return line.reply(failure, None);
        }
        let mut reading = self.evaluate(key, request);
        if self.happens(self.weather.get().lie_one_in) {
            self.tell_a_lie(&mut reading, request);
        }
        self.delay().await;
        let hides = self.weather.get().hides_versions;
        reading.etag = reading.etag.take().filter(|_| !hides);
        if line.is_given_up() {
            return;
        }
        let headers = self.head(key, request, &reading, asked);
        let (status, length) = (reading.status, Some(reading.announced));
        if status == 404 {
            self.disturb(key);
        }
        if status == 416 && asker(request) == Asker::Open {
            // It is asked for whole, also on behalf of those who asked before a write.
            self.history.borrow_mut().keep_readers_apart(key);
        }
        let answer = |body| Ok(OriginAnswer { status, headers, body, length });
        let Some(version) = reading.version.filter(|_| matches!(status, 200 | 206)) else {
            return line.reply(answer(AnswerBody::empty()), None);
        };
        if request.method == Method::HEAD {
            return line.reply(answer(AnswerBody::empty()), None);
        }
        let (sender, body) = AnswerBody::channel();
        let sender = Rc::new(sender);
        line.reply(answer(body), Some(Rc::clone(&sender)));
        let left_bytes = reading.length - reading.slice.start;
        self.send_body(&line, sender, (bytes_of(version, reading.slice), left_bytes)).await;
    }

    /// What is so at this moment.
    fn evaluate(&self, key: KeyId, request: &OriginRequest) -> Reading {
        let history = self.history.borrow();
        let mut reading = Reading {
            status: 404,
            version: history.current(key),
            length: 0,
            slice: ByteRange::new(0, 0),
            announced: 0,
            etag: None,
            content_range: None,
            is_lie: false,
        };
        let Some(version) = reading.version else {
            let is_conditional = header(request, "if-match").is_some();
            reading.status = if is_conditional && self.below(2) == 0 { 412 } else { 404 };
            return reading;
        };
        let etag = version.etag();
        let known = history.version(version).expect("current versions are known");
        reading.length = known.length;
        reading.etag = Some(etag.clone());
        if header(request, "if-match").is_some_and(|asked| asked != etag && asked != "*") {
            reading.status = 412;
        } else if header(request, "if-none-match").is_some_and(|asked| asked == etag) {
            reading.status = 304;
        } else {
            slice(&mut reading, header(request, "range"));
        }
        reading
    }

    fn head(
        &self,
        key: KeyId,
        request: &OriginRequest,
        reading: &Reading,
        asked: Moment,
    ) -> HeaderMap {
        let mut history = self.history.borrow_mut();
        let named = match (reading.status, reading.version) {
            (200 | 206 | 304 | 416, Some(version)) => Named::Version(version),
            (404, _) => Named::Absent,
            _ => Named::Nothing,
        };
        let replied = history.now();
        let told = history.tell(Told {
            key,
            asker: asker(request),
            asked,
            replied,
            named,
            status: reading.status,
            body: match request.method {
                Method::HEAD => ByteRange::new(0, 0),
                _ => reading.slice,
            },
            is_lie: reading.is_lie,
            given: 0,
        });
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: String| {
            let value = HeaderValue::from_str(&value).expect("plain text");
            headers.insert(HeaderName::from_static(name), value);
        };
        put(ANSWER_MARK, told.0.to_string());
        put("content-length", reading.announced.to_string());
        reading.etag.clone().into_iter().for_each(|etag| put("etag", etag));
        reading.content_range.clone().into_iter().for_each(|range| put("content-range", range));
        if reading.version.is_some() && !self.weather.get().hides_versions {
            put("last-modified", "Wed, 01 Jan 2025 00:00:00 GMT".to_owned());
        }
        headers
    }

    fn draw_end(&self, length: u64) -> BodyEnd {
        if length == 0 || !self.happens(self.weather.get().cut_one_in) {
            return BodyEnd::Whole;
        }
        let kept = self.below(length);
        match self.below(3) {
            0 => BodyEnd::Broken(kept),
            1 => BodyEnd::Short(kept),
            _ => BodyEnd::Dropped(kept),
        }
    }

    /// Sends a body piece by piece, to its end or not.
    async fn send_body(
        &self,
        line: &Line,
        sender: Rc<AnswerSender>,
        (mut bytes, left_bytes): (Bytes, u64),
    ) {
        let end = self.draw_end(bytes.len() as u64);
        let kept = match end {
            BodyEnd::Whole => bytes.len() as u64,
            BodyEnd::Broken(kept) | BodyEnd::Short(kept) | BodyEnd::Dropped(kept) => kept,
        };
        bytes.truncate(kept as usize);
        while !bytes.is_empty() {
            let weather = self.weather.get();
            let (piece, pause) = match weather.steady {
                Some(steady) => (bytes.len() as u64, steady.body(left_bytes)),
                None => (
                    self.below(weather.piece_bytes_max) + 1,
                    Duration::from_micros(self.below(weather.pause_us_max)),
                ),
            };
            self.reactor.sleep(pause).await;
            let piece = bytes.split_to(bytes.len().min(piece as usize));
            self.count.borrow_mut().body_bytes += piece.len() as u64;
            if sender.send(piece).await.is_err() {
                return line.end();
            }
        }
        line.end();
        match (end, Rc::try_unwrap(sender)) {
            (BodyEnd::Whole | BodyEnd::Short(_), Ok(sender)) => sender.end().await,
            (BodyEnd::Broken(_), Ok(sender)) => {
                sender.fail(OriginError::broken("cut by chance")).await;
            }
            (BodyEnd::Dropped(_), _) | (_, Err(_)) => {}
        }
    }
}

/// Answers with the range that was asked for.
pub(super) fn serve_slice(reading: &mut Reading, request: &OriginRequest) {
    slice(reading, header(request, "range"));
}

/// Fills in the slice of a read that is not refused.
fn slice(reading: &mut Reading, range: Option<&str>) {
    let length = reading.length;
    let (status, slice) = match wanted(range, length) {
        Wanted::Whole => (200, ByteRange::new(0, length)),
        Wanted::Slice(slice) => (206, slice),
        Wanted::Nothing => (416, ByteRange::new(0, 0)),
    };
    reading.status = status;
    reading.slice = slice;
    reading.announced = slice.len();
    reading.content_range = match status {
        206 => Some(format!("bytes {}-{}/{length}", slice.start, slice.end - 1)),
        416 => Some(format!("bytes */{length}")),
        _ => None,
    };
}
