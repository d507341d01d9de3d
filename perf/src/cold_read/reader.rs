//! The reading client: a thread a connection, each taking the next request when its last is
//! answered, as engines' readers do. Length and status of every answer are checked, the first bytes
//! of every piece that arrives, and one piece in some whole.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nilas_base::{ByteRange, Clock};

use super::content::Content;
use crate::answer::{HEAD_BYTES_MAX, parse_answer_head};
use crate::error::{Doing, Error, Result};
use crate::latency::Latencies;

/// One piece in this many is compared whole; of the others, its first bytes.
const COMPARE_EVERY: usize = 16;
const FIRST_BYTES_COMPARED: usize = 16;
const PIECE_BYTES_MAX: usize = 256 << 10;
/// A server that sends nothing for so long is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A request as it is sent, and what must come back.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// For messages.
    pub name: String,
    /// The request's bytes.
    pub request: Vec<u8>,
    /// The status that must come.
    pub status: u16,
    /// The bytes of the file that must come.
    pub range: ByteRange,
    /// The file.
    pub content: Content,
}

/// What reading took.
#[derive(Clone, Debug)]
pub struct Reading {
    /// From the first request to the last byte.
    pub elapsed: Duration,
    /// Of each answer, to its last byte.
    pub latencies: Latencies,
}

/// Reads all stages, one after the other, over so many connections.
pub fn read_all(
    address: SocketAddr,
    stages: &[Vec<Prepared>],
    connections: usize,
) -> Result<Reading> {
    let mut readers = Vec::new();
    for _ in 0..connections {
        readers.push(Reader::open(address)?);
    }
    let clock = Clock::system();
    let began = clock.now();
    for stage in stages {
        read_stage(&mut readers, stage)?;
    }
    let elapsed = clock.now().since(began);
    let mut latencies = Latencies::new();
    readers.iter().for_each(|reader| latencies.add(&reader.latencies));
    Ok(Reading { elapsed, latencies })
}

fn read_stage(readers: &mut [Reader], stage: &[Prepared]) -> Result<()> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = readers
            .iter_mut()
            .map(|reader| scope.spawn(|| reader.read_while_any(stage, &next)))
            .collect();
        // Those behind a failed one are waited for by the scope's end.
        threads.into_iter().try_for_each(|thread| thread.join().expect("a reader does not panic"))
    })
}

struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
    clock: Clock,
    latencies: Latencies,
    pieces: usize,
}

impl Reader {
    fn open(address: SocketAddr) -> Result<Reader> {
        let stream = TcpStream::connect(address).doing("connecting to a server")?;
        stream.set_nodelay(true).doing("setting TCP_NODELAY")?;
        stream.set_read_timeout(Some(SILENCE_MAX)).doing("limiting a wait")?;
        let (clock, latencies) = (Clock::system(), Latencies::new());
        Ok(Reader { stream, buffer: vec![0; PIECE_BYTES_MAX], clock, latencies, pieces: 0 })
    }

    fn read_while_any(&mut self, stage: &[Prepared], next: &AtomicUsize) -> Result<()> {
        while let Some(prepared) = stage.get(next.fetch_add(1, Ordering::Relaxed)) {
            let asked_at = self.clock.now();
            self.read_one(prepared)?;
            self.latencies.record(self.clock.now().since(asked_at));
        }
        Ok(())
    }

    fn read_one(&mut self, prepared: &Prepared) -> Result<()> {
        self.stream.write_all(&prepared.request).doing("sending a request")?;
        let mut received = self.read_head(prepared)?;
        while received < prepared.range.len() {
            let wanted = (prepared.range.len() - received).min(PIECE_BYTES_MAX as u64) as usize;
            let count = self.receive(0, wanted)?;
            self.check(prepared, received, 0..count)?;
            received += count as u64;
        }
        Ok(())
    }

    /// The number of body bytes that came with the head.
    fn read_head(&mut self, prepared: &Prepared) -> Result<u64> {
        let mut filled = 0;
        let head = loop {
            filled += self.receive(filled, HEAD_BYTES_MAX)?;
            if let Some(head) = parse_answer_head(&self.buffer[..filled])? {
                break head;
            }
        };
        if head.status != prepared.status || head.body_bytes != prepared.range.len() {
            let shown = String::from_utf8_lossy(&self.buffer[..filled.min(1000)]);
            let Prepared { name, status, range, .. } = prepared;
            let wanted = format!("{status} and {} bytes", range.len());
            return Err(Error::Answer(format!("{name} wants {wanted}, got:\n{shown}")));
        }
        self.check(prepared, 0, head.head_bytes..filled)?;
        Ok((filled - head.head_bytes) as u64)
    }

    fn receive(&mut self, from: usize, to: usize) -> Result<usize> {
        match self.stream.read(&mut self.buffer[from..to]).doing("receiving an answer")? {
            0 => Err(Error::Answer("the server closed the connection".to_owned())),
            count => Ok(count),
        }
    }

    fn check(
        &mut self,
        prepared: &Prepared,
        received: u64,
        place: std::ops::Range<usize>,
    ) -> Result<()> {
        let piece = &self.buffer[place];
        if piece.len() as u64 > prepared.range.len() - received {
            return Err(Error::Answer(format!("{} came with bytes after it", prepared.name)));
        }
        let is_whole = self.pieces.is_multiple_of(COMPARE_EVERY);
        self.pieces += 1;
        let compared = if is_whole { piece.len() } else { piece.len().min(FIRST_BYTES_COMPARED) };
        let offset = prepared.range.start + received;
        if !prepared.content.matches(offset, &piece[..compared]) {
            return Err(Error::Answer(format!("{} came with wrong bytes", prepared.name)));
        }
        Ok(())
    }
}
