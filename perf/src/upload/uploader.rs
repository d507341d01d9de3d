//! The writing client: a thread a connection, each taking the next request when its last is answered.
//! Every answer must be 200, and its ETag, where the body decides it, that of what was sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nilas_base::Clock;

use super::form::Prepared;
use crate::answer::{AnswerHead, HEAD_BYTES_MAX, parse_answer_head};
use crate::error::{Doing, Error, Result};

/// A server that says nothing for so long is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(300);
const HEADERS_MAX: usize = 64;
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// An open connection to a server.
#[derive(Debug)]
pub struct Uploader {
    stream: TcpStream,
}

impl Uploader {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Uploader> {
        let stream = TcpStream::connect(address).doing("connecting to a server")?;
        stream.set_nodelay(true).doing("setting TCP_NODELAY")?;
        stream.set_read_timeout(Some(SILENCE_MAX)).doing("limiting a wait")?;
        stream.set_write_timeout(Some(SILENCE_MAX)).doing("limiting a wait")?;
        Ok(Uploader { stream })
    }

    /// Sends a request and waits for its whole answer.
    pub fn send(&mut self, prepared: &Prepared) -> Result<()> {
        self.stream.write_all(&prepared.head).doing("sending a request")?;
        self.stream.write_all(prepared.body.as_slice()).doing("sending a body")?;
        self.receive(prepared.etag.as_deref())
    }

    /// Sends a head, and `count` times the same piece of body behind it.
    pub fn send_repeated(&mut self, head: &[u8], piece: &[u8], count: usize) -> Result<()> {
        self.stream.write_all(head).doing("sending a request")?;
        for _ in 0..count {
            self.stream.write_all(piece).doing("sending a body")?;
        }
        self.receive(None)
    }

    fn receive(&mut self, etag: Option<&str>) -> Result<()> {
        let mut received = vec![0; HEAD_BYTES_MAX];
        let mut filled = 0;
        loop {
            match self.stream.read(&mut received[filled..]).doing("receiving an answer")? {
                0 => return Err(Error::Answer("the server closed the connection".to_owned())),
                count => filled += count,
            }
            let Some(status) = status_of_whole(&received[..filled])? else { continue };
            let shown = String::from_utf8_lossy(&received[..filled.min(1000)]).into_owned();
            let is_right = etag.is_none_or(|etag| shown.contains(&format!("\"{etag}\"")));
            if status == 200 && is_right {
                return Ok(());
            }
            let wanted = etag.unwrap_or("any ETag");
            return Err(Error::Answer(format!("an upload wants 200 and {wanted}, got:\n{shown}")));
        }
    }
}

/// The status of an answer that has come to its end; `None` when more must arrive first. What an
/// origin says of an upload in parts may come in chunks.
fn status_of_whole(received: &[u8]) -> Result<Option<u16>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let is_in_chunks = response.parse(received).is_ok_and(|status| status.is_complete())
        && response.headers.iter().any(|it| it.name.eq_ignore_ascii_case("transfer-encoding"));
    if is_in_chunks {
        return Ok(response.code.filter(|_| received.ends_with(LAST_CHUNK)));
    }
    let head = parse_answer_head(received)?;
    let is_whole = |head: &AnswerHead| (received.len() - head.head_bytes) as u64 >= head.body_bytes;
    Ok(head.filter(is_whole).map(|head| head.status))
}

/// Sends all stages, one after the other; gives the time from the first byte to the last answer.
/// Connections are opened before.
pub fn write_all(
    address: SocketAddr,
    stages: &[Vec<Prepared>],
    connections: usize,
) -> Result<Duration> {
    let mut uploaders = Vec::new();
    for _ in 0..connections {
        uploaders.push(Uploader::open(address)?);
    }
    let clock = Clock::system();
    let began = clock.now();
    for stage in stages {
        write_stage(&mut uploaders, stage)?;
    }
    Ok(clock.now().since(began))
}

fn write_stage(uploaders: &mut [Uploader], stage: &[Prepared]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let next = &next;
    std::thread::scope(|scope| {
        let write = |uploader: &mut Uploader| {
            while let Some(prepared) = stage.get(next.fetch_add(1, Ordering::Relaxed)) {
                uploader.send(prepared)?;
            }
            Ok(())
        };
        let threads: Vec<_> =
            uploaders.iter_mut().map(|uploader| scope.spawn(move || write(uploader))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer does not panic"))
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use clap::ValueEnum as _;

    use super::*;
    use crate::link::Link;
    use crate::upload::form::{Body, Form};
    use crate::upload::origin::serve;

    const LATENCY_MS: u64 = 20;

    /// An origin in a thread that ends with the tests.
    fn origin_on(link: Link, discards: bool) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || serve(&listener, link, discards));
        address
    }

    fn write(form: Form, link: Link) -> Result<Duration> {
        let address = origin_on(link, false);
        let stages = form.prepare(address, "key", &Body::seeded(4 << 20))?;
        write_all(address, &stages, form.connections())
    }

    #[test]
    fn every_form_is_answered_late_and_with_the_etag_of_what_came() {
        for &form in Form::value_variants() {
            let link = Link { latency_ms: LATENCY_MS, connection_rate: None };
            let elapsed = write(form, link).expect("an honest origin");
            assert!(elapsed >= Duration::from_millis(LATENCY_MS), "{form:?}: {elapsed:?}");
        }
    }

    #[test]
    fn a_connection_is_no_faster_than_its_link() {
        let link = Link { latency_ms: 0, connection_rate: Some(20_000_000) };
        let elapsed = write(Form::Unsigned, link).expect("slow");
        assert!(elapsed >= Duration::from_millis(180), "{elapsed:?}");
    }

    #[test]
    fn an_etag_of_other_bytes_ends_the_run() {
        let address = origin_on(Link::NONE, true);
        let stages = Form::Unsigned.prepare(address, "key", &Body::seeded(1 << 20));
        let outcome = write_all(address, &stages.expect("can be signed"), 1);
        assert!(matches!(outcome, Err(Error::Answer(_))), "what is discarded has no digest");
    }
}
