//! Request bodies on their way to an origin, as hyper reads them: part by part, so that a slow origin
//! slows the client. A body that breaks off is an error to hyper, which closes the connection before
//! the body is complete: the origin commits nothing.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use nilas_net::aws_chunked::{AwsChunkedEncoder, ENCODER_CHUNK_BYTES, encoded_length};
use nilas_net::checksum::Algorithm;

use super::head::{FormEnds, Framing};
use crate::origin::{BodyFraming, BodyPart, BodyStream, RequestBody};

/// Of a chunk, shorter pieces are copied: each may keep a whole receive's memory, of which a chunk must not have
/// more than two.
const SHARED_BYTES_MIN: usize = ENCODER_CHUNK_BYTES / 2;

/// A request's body.
#[derive(Debug)]
pub(super) struct Upload {
    source: Source,
    /// What [`Upload::begin`] waited for.
    first: Option<Bytes>,
    length: Option<u64>,
    progress: Progress,
}

#[derive(Debug)]
enum Source {
    Ended,
    Plain(Plain),
    Framed(Box<Framed>),
    Form(Box<Form>),
}

#[derive(Debug)]
struct Plain {
    body: BodyStream,
    /// The last part that came. It goes out when another follows, or the body is known to be whole:
    /// with its length announced, its last byte would complete it.
    held: Option<Bytes>,
    is_whole: bool,
}

#[derive(Debug)]
struct Framed {
    body: BodyStream,
    encoder: Option<AwsChunkedEncoder>,
    /// The data of the chunk at hand.
    gathered: Vec<Bytes>,
    trailer: Vec<(String, String)>,
    ready: VecDeque<Bytes>,
}

#[derive(Debug)]
struct Form {
    body: BodyStream,
    /// What goes out with the file's first bytes.
    head: Option<Bytes>,
    /// What goes out when the file is whole.
    end: Option<String>,
    rest_bytes: Option<u64>,
    file_bytes: u64,
    ready: VecDeque<Bytes>,
}

/// The client's body broke off, or a check of it failed.
#[derive(Debug)]
pub(super) struct UploadAborted;

impl fmt::Display for UploadAborted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the request's body did not arrive whole")
    }
}

impl std::error::Error for UploadAborted {}

/// How far an upload is, seen from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<AtomicU64>);

impl Progress {
    const ABORTED: u64 = u64::MAX;
    const WAITING: u64 = 1;

    /// Steps made so far; odd while the client is waited for.
    pub(super) fn seen(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether the next step is the client's.
    pub(super) fn waits_for_client(&self) -> bool {
        self.seen() & Progress::WAITING != 0
    }

    /// Whether the client broke off.
    pub(super) fn is_aborted(&self) -> bool {
        self.seen() == Progress::ABORTED
    }

    fn wait(&self) {
        self.0.fetch_or(Progress::WAITING, Ordering::Relaxed);
    }

    fn step(&self) {
        let steps = self.seen() & !Progress::WAITING;
        self.0.store(steps + 2, Ordering::Relaxed);
    }

    fn abort(&self) {
        self.0.store(Progress::ABORTED, Ordering::Relaxed);
    }
}

impl Upload {
    /// No body.
    pub(super) fn none() -> Upload {
        Upload::of(Source::Ended, Some(0), Progress::default())
    }

    /// `body`, framed as its head says, and its progress.
    pub(super) fn new(body: RequestBody, framing: Framing) -> (Upload, Progress) {
        let progress = Progress::default();
        let RequestBody::Stream(body) = body else { return (Upload::none(), progress) };
        let (source, length) = match framing {
            Framing::None => (Source::Ended, Some(0)),
            Framing::Plain => {
                let length = body.length;
                (Source::Plain(Plain { body, held: None, is_whole: false }), length)
            }
            Framing::Form(ends) => {
                let length = ends.rest_bytes.map(|rest| rest + ends.head.len() as u64);
                (Source::Form(Box::new(Form::new(body, *ends))), length)
            }
            Framing::AwsChunked { chain, payload } => {
                let trailer = trailer_lengths(&body.framing);
                let length = body.length.zip(trailer).map(|(length, trailer)| {
                    encoded_length(length, payload, &trailer_names(&trailer))
                });
                let encoder = Some(AwsChunkedEncoder::new(payload, chain.map(|chain| *chain)));
                let (gathered, trailer, ready) = (Vec::new(), Vec::new(), VecDeque::new());
                let framed = Framed { body, encoder, gathered, trailer, ready };
                (Source::Framed(Box::new(framed)), length)
            }
        };
        (Upload::of(source, length, progress.clone()), progress)
    }

    fn of(source: Source, length: Option<u64>, progress: Progress) -> Upload {
        Upload { source, first: None, length, progress }
    }

    /// Waits for the first bytes, and keeps them. There are origins that commit an empty object when
    /// the connection ends between a request's head and the first byte of its body: a head is sent
    /// only when a byte can follow it.
    pub(super) async fn begin(&mut self) -> Result<(), UploadAborted> {
        match std::future::poll_fn(|context| self.poll_step(context)).await {
            Some(Ok(bytes)) => self.first = Some(bytes),
            Some(Err(aborted)) => return Err(aborted),
            None => {}
        }
        Ok(())
    }

    /// Its length as it is sent, where that is known.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Step {
        let next = match &mut self.source {
            Source::Ended => return Poll::Ready(None),
            Source::Plain(plain) => plain.poll(context),
            Source::Framed(framed) => framed.poll(context),
            Source::Form(form) => form.poll(context),
        };
        match next {
            Poll::Pending => {
                self.progress.wait();
                return Poll::Pending;
            }
            Poll::Ready(Some(Err(_))) => self.progress.abort(),
            Poll::Ready(_) => self.progress.step(),
        }
        if !matches!(next, Poll::Ready(Some(Ok(_)))) {
            self.source = Source::Ended;
        }
        next
    }
}

/// The trailer's names and the bytes of their values; `None` where a value's length is not known.
fn trailer_lengths(framing: &BodyFraming) -> Option<Vec<(String, usize)>> {
    let BodyFraming::AwsChunked { trailer_names, .. } = framing else { return Some(Vec::new()) };
    let length = |name: &String| {
        Algorithm::of_header(name).map(|algorithm| (name.clone(), algorithm.base64_bytes()))
    };
    trailer_names.iter().map(length).collect()
}

fn trailer_names(trailer: &[(String, usize)]) -> Vec<(&str, usize)> {
    trailer.iter().map(|(name, length)| (name.as_str(), *length)).collect()
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadAborted>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.poll_step(context).map(|step| step.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && matches!(self.source, Source::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

type Step = Poll<Option<Result<Bytes, UploadAborted>>>;

impl Plain {
    fn poll(&mut self, context: &mut Context<'_>) -> Step {
        while !self.is_whole {
            match std::task::ready!(self.body.poll_next(context)) {
                Some(BodyPart::Data(bytes)) if bytes.is_empty() => {}
                Some(BodyPart::Data(bytes)) => {
                    if let Some(before) = self.held.replace(bytes) {
                        return Poll::Ready(Some(Ok(before)));
                    }
                }
                // A plain body has no place for one; only chunks that needed none are sent so.
                Some(BodyPart::Trailer(_)) => {}
                Some(BodyPart::End) => self.is_whole = true,
                None => return Poll::Ready(Some(Err(UploadAborted))),
            }
        }
        Poll::Ready(self.held.take().map(Ok))
    }
}

impl Framed {
    fn poll(&mut self, context: &mut Context<'_>) -> Step {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if self.encoder.is_none() {
                return Poll::Ready(None);
            }
            match std::task::ready!(self.body.poll_next(context)) {
                Some(BodyPart::Data(bytes)) => self.gather(bytes),
                Some(BodyPart::Trailer(trailer)) => self.trailer = trailer,
                Some(BodyPart::End) => self.end(),
                None => return Poll::Ready(Some(Err(UploadAborted))),
            }
        }
    }

    /// Takes data into chunks; those that are full are ready.
    fn gather(&mut self, mut bytes: Bytes) {
        let encoder = self.encoder.as_mut().expect("data comes before the end");
        while !bytes.is_empty() {
            let taken = bytes.split_to(encoder.take(&bytes));
            self.gathered.push(match taken.len() < SHARED_BYTES_MIN {
                true => Bytes::copy_from_slice(&taken),
                false => taken,
            });
            if encoder.is_full() {
                let mut line = Vec::new();
                encoder.put_chunk_line(&mut line);
                self.ready.push_back(Bytes::from(line));
                self.ready.extend(self.gathered.drain(..));
            }
        }
    }

    fn end(&mut self) {
        let mut encoder = self.encoder.take().expect("a body ends once");
        let mut line = Vec::new();
        if !encoder.is_empty() {
            encoder.put_chunk_line(&mut line);
            self.ready.push_back(Bytes::from(std::mem::take(&mut line)));
            self.ready.extend(self.gathered.drain(..));
        }
        encoder.finish(&self.trailer, &mut line);
        self.ready.push_back(Bytes::from(line));
    }
}

impl Form {
    fn new(body: BodyStream, ends: FormEnds) -> Form {
        let FormEnds { head, end, rest_bytes } = ends;
        let (head, end) = (Some(head), Some(end));
        Form { body, head, end, rest_bytes, file_bytes: 0, ready: VecDeque::new() }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Step {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if self.end.is_none() {
                return Poll::Ready(None);
            }
            match std::task::ready!(self.body.poll_next(context)) {
                Some(BodyPart::Data(bytes)) if bytes.is_empty() => {}
                Some(BodyPart::Data(bytes)) => {
                    self.file_bytes += bytes.len() as u64;
                    self.ready.extend(self.head.take());
                    self.ready.push_back(bytes);
                }
                Some(BodyPart::Trailer(_)) => {}
                Some(BodyPart::End) => {
                    self.ready.extend(self.head.take());
                    self.ready.extend(self.end.take().map(|end| self.ending(end)));
                }
                None => return Poll::Ready(Some(Err(UploadAborted))),
            }
        }
    }

    /// The end, made as long as what followed the client's file: nothing after it means anything.
    fn ending(&self, end: String) -> Bytes {
        const LINE_END: &[u8] = b"\r\n";
        let shortest = end.len() as u64 + LINE_END.len() as u64;
        let wanted = self.rest_bytes.map_or(shortest, |rest| rest.saturating_sub(self.file_bytes));
        let mut ending = [end.as_bytes(), LINE_END].concat();
        // Bounded: what follows a file has a greatest length.
        ending.resize((wanted as usize).max(end.len()), b' ');
        Bytes::from(ending)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::origin::PayloadHash;

    fn plain() -> (crate::origin::BodySender, Upload) {
        let framing = BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned };
        let (sender, body) = BodyStream::channel(Some(4), framing);
        let (upload, _) = Upload::new(RequestBody::Stream(body), Framing::Plain);
        (sender, upload)
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_early_never_begins() {
        let (sender, mut upload) = plain();
        sender.send(BodyPart::Data(Bytes::from_static(b"bo"))).await.expect("it is read");
        drop(sender);
        assert!(upload.begin().await.is_err());
    }

    fn form(rest_bytes: Option<u64>) -> (crate::origin::BodySender, Upload) {
        let framing = BodyFraming::Plain { payload_sha256: PayloadHash::Unsigned };
        let (sender, body) = BodyStream::channel(None, framing);
        let (head, end) = (Bytes::from_static(b"head "), "\r\n--b--".to_owned());
        let ends = FormEnds { head, end, rest_bytes };
        let (upload, _) = Upload::new(RequestBody::Stream(body), Framing::Form(Box::new(ends)));
        (sender, upload)
    }

    #[tokio::test]
    async fn a_form_is_as_long_as_was_announced_whatever_followed_its_file() {
        for (rest_bytes, sent) in [
            (None, "head file\r\n--b--\r\n"),
            (Some(11), "head file\r\n--b--"),
            (Some(12), "head file\r\n--b--\r"),
            (Some(13), "head file\r\n--b--\r\n"),
            (Some(15), "head file\r\n--b--\r\n  "),
        ] {
            let (sender, mut upload) = form(rest_bytes);
            for part in [&b"fi"[..], b"", b"le"] {
                sender.send(BodyPart::Data(Bytes::from_static(part))).await.expect("it is read");
            }
            sender.send(BodyPart::End).await.expect("it is read");
            assert!(upload.begin().await.is_ok());
            assert_eq!(upload.length(), rest_bytes.map(|_| sent.len() as u64));
            assert_eq!(upload.collect().await.expect("whole").to_bytes(), sent);
        }
    }

    #[tokio::test]
    async fn a_form_whose_file_is_not_to_be_written_has_no_end() {
        let (sender, mut upload) = form(Some(11));
        sender.send(BodyPart::Data(Bytes::from_static(b"file"))).await.expect("it is read");
        drop(sender);
        assert!(upload.begin().await.is_ok());
        assert!(upload.collect().await.is_err());
    }

    #[tokio::test]
    async fn a_form_of_an_empty_file_is_sent_whole() {
        let (sender, mut upload) = form(Some(7));
        sender.send(BodyPart::End).await.expect("it is read");
        assert!(upload.begin().await.is_ok());
        assert_eq!(upload.collect().await.expect("whole").to_bytes(), "head \r\n--b--");
    }

    #[tokio::test]
    async fn what_was_waited_for_is_sent_first() {
        let (sender, mut upload) = plain();
        for part in [&b"bo"[..], b"dy"] {
            sender.send(BodyPart::Data(Bytes::from_static(part))).await.expect("it is read");
        }
        sender.send(BodyPart::End).await.expect("it is read");
        assert!(upload.begin().await.is_ok());
        assert_eq!(upload.collect().await.expect("whole").to_bytes(), "body");
    }
}
