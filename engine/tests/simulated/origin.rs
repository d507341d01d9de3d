//! A simulated origin: objects in memory, answers after a drawn delay, bodies in drawn pieces.
//! It serves the same queue that the real origins do, as tasks of a simulated reactor.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use nilas_base::Rng;
use nilas_engine::origin::{
    AnswerBody, AnswerSender, BodyPart, OriginAnswer, OriginQueue, OriginRequest, OriginResult,
    RequestBody,
};
use nilas_net::range::{RangeForm, Resolved, parse_range};
use nilas_shards::Reactor;

/// The slowest first byte.
const DELAY_MS_MAX: u64 = 60;
/// The largest piece of a body.
const PIECE_BYTES_MAX: u64 = 96 << 10;

/// Objects, and what was asked of them.
pub struct SimulatedOrigin {
    reactor: Reactor,
    objects: RefCell<BTreeMap<String, Object>>,
    writes: RefCell<u64>,
    rng: RefCell<Rng>,
    /// `METHOD path status`, in order.
    pub asked: RefCell<Vec<String>>,
}

#[derive(Clone)]
struct Object {
    bytes: Bytes,
    etag: String,
}

impl SimulatedOrigin {
    /// An origin without objects.
    pub fn new(reactor: &Reactor, seed: u64) -> Rc<SimulatedOrigin> {
        Rc::new(SimulatedOrigin {
            reactor: reactor.clone(),
            objects: RefCell::default(),
            writes: RefCell::default(),
            rng: RefCell::new(Rng::from_seed(seed)),
            asked: RefCell::default(),
        })
    }

    /// Writes an object behind everybody's back.
    pub fn write(&self, path: &str, bytes: Bytes) {
        let number = *self.writes.borrow() + 1;
        *self.writes.borrow_mut() = number;
        let object = Object { bytes, etag: format!("\"version-{number}\"") };
        self.objects.borrow_mut().insert(path.to_owned(), object);
    }

    /// Answers the queue until nobody asks any more.
    pub async fn serve(self: Rc<Self>, mut queue: OriginQueue) {
        while let Some((request, replier)) = queue.next().await {
            let origin = Rc::clone(&self);
            self.reactor.spawn(async move {
                let delay = origin.rng.borrow_mut().below(DELAY_MS_MAX);
                origin.reactor.sleep(Duration::from_millis(delay)).await;
                replier.reply(origin.answer(request).await);
            });
        }
    }

    async fn answer(self: &Rc<Self>, request: OriginRequest) -> OriginResult {
        let asked = format!("{} {}?{}", request.method, request.path_raw, request.query_raw);
        let answer = match request.method {
            Method::GET | Method::HEAD => self.read(&request),
            Method::PUT => self.put(request).await,
            Method::DELETE => {
                self.objects.borrow_mut().remove(&request.path_raw);
                OriginAnswer::empty(204, HeaderMap::new())
            }
            _ => OriginAnswer::empty(501, HeaderMap::new()),
        };
        self.asked.borrow_mut().push(format!("{asked} {}", answer.status));
        Ok(answer)
    }

    fn read(self: &Rc<Self>, request: &OriginRequest) -> OriginAnswer {
        let Some(object) = self.objects.borrow().get(&request.path_raw).cloned() else {
            return OriginAnswer::empty(404, HeaderMap::new());
        };
        let mut headers = HeaderMap::new();
        let header = |text: String| HeaderValue::from_str(&text).expect("a header's value");
        headers.insert("etag", header(object.etag.clone()));
        let named = |name: &str| request.headers.get(name).map(HeaderValue::as_bytes);
        if named("if-match").is_some_and(|etag| etag != object.etag.as_bytes()) {
            return OriginAnswer::empty(412, headers);
        }
        if named("if-none-match") == Some(object.etag.as_bytes()) {
            return OriginAnswer::empty(304, headers);
        }
        let length = object.bytes.len() as u64;
        let form = named("range").map_or(RangeForm::Absent, parse_range);
        let (status, bytes) = match form.resolve(length) {
            Resolved::Slice(slice) => {
                let range = format!("bytes {}-{}/{length}", slice.start, slice.end - 1);
                headers.insert("content-range", header(range));
                (206, object.bytes.slice(slice.start as usize..slice.end as usize))
            }
            Resolved::Unsatisfiable => return OriginAnswer::empty(416, headers),
            Resolved::Whole | Resolved::Relay => (200, object.bytes),
        };
        headers.insert("content-length", header(bytes.len().to_string()));
        let answered = bytes.len() as u64;
        let body = match request.method {
            Method::HEAD => AnswerBody::empty(),
            _ => self.trickle(bytes),
        };
        OriginAnswer { status, headers, body, length: Some(answered) }
    }

    fn trickle(self: &Rc<Self>, bytes: Bytes) -> AnswerBody {
        let (sender, body) = AnswerBody::channel();
        let origin = Rc::clone(self);
        self.reactor.spawn(async move { origin.send(sender, bytes).await });
        body
    }

    async fn send(&self, sender: AnswerSender, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let (piece, pause) = {
                let mut rng = self.rng.borrow_mut();
                (rng.below(PIECE_BYTES_MAX) + 1, rng.below(3))
            };
            self.reactor.sleep(Duration::from_millis(pause)).await;
            let piece = bytes.split_to(bytes.len().min(piece as usize));
            if sender.send(piece).await.is_err() {
                return;
            }
        }
        sender.end().await;
    }

    async fn put(&self, request: OriginRequest) -> OriginAnswer {
        let mut bytes = Vec::new();
        if let RequestBody::Stream(mut stream) = request.body {
            loop {
                match stream.next().await {
                    Some(BodyPart::Data(data)) => bytes.extend_from_slice(&data),
                    Some(BodyPart::Trailer(_)) => {}
                    Some(BodyPart::End) => break,
                    None => return OriginAnswer::empty(400, HeaderMap::new()),
                }
            }
        }
        self.write(&request.path_raw, Bytes::from(bytes));
        OriginAnswer::empty(200, HeaderMap::new())
    }
}
