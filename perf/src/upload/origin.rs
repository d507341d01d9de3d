//! The origin of uploads, a process of its own: a thread a connection, takes what is written and
//! keeps nothing of it. Like any store it reads every byte and answers with the MD5 of what came;
//! told to discard, it leaves the bytes to the kernel. Its link is that of cold reads: each answer
//! late by the latency, each connection no faster than the rate.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use nilas_base::Clock;
use nilas_net::checksum::{Algorithm, Hasher};
use rustix::net::{RecvFlags, recv};

use crate::answer::HEAD_BYTES_MAX;
use crate::error::{Doing, Result};
use crate::link::{Link, pause_until};

/// The id of every upload in parts.
pub const UPLOAD_ID: &str = "an-upload-of-a-measurement";
/// Bytes taken at once: where the link has a rate, the rate's grain.
const PIECE_BYTES: usize = 256 << 10;
const HEADERS_MAX: usize = 64;

/// Takes uploads at `address`, until the process ends; `discards` bodies unread.
pub fn serve_uploads(address: SocketAddr, link: Link, discards: bool) -> Result<()> {
    serve(&TcpListener::bind(address).doing("binding the origin")?, link, discards)
}

/// The same on a bound socket.
pub(super) fn serve(listener: &TcpListener, link: Link, discards: bool) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().doing("accepting a connection")?;
        stream.set_nodelay(true).doing("setting TCP_NODELAY")?;
        let taking = Taking { stream, link, discards, clock: Clock::system() };
        std::thread::spawn(move || taking.run());
    }
}

struct Taking {
    stream: TcpStream,
    link: Link,
    discards: bool,
    clock: Clock,
}

struct Question {
    method: String,
    query: String,
    length: u64,
    head_bytes: usize,
    waits_for_100: bool,
}

impl Taking {
    /// Until the client goes away or sends what nobody sends here.
    fn run(mut self) {
        let mut buffer = vec![0; HEAD_BYTES_MAX.max(PIECE_BYTES)];
        let mut filled = 0;
        loop {
            match parse_question(&buffer[..filled]) {
                Some(question) => match self.answer(&question, &mut buffer, filled) {
                    Ok(rest) => filled = rest,
                    Err(_) => return,
                },
                None => match self.stream.read(&mut buffer[filled..]) {
                    Ok(count) if count > 0 => filled += count,
                    _ => return,
                },
            }
        }
    }

    /// Takes the body and answers; gives the number of bytes in `buffer` that follow the request.
    fn answer(
        &mut self,
        question: &Question,
        buffer: &mut [u8],
        filled: usize,
    ) -> std::io::Result<usize> {
        if question.waits_for_100 {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let came = ((filled - question.head_bytes) as u64).min(question.length) as usize;
        let body_end = question.head_bytes + came;
        let mut hasher = Hasher::new(Algorithm::Md5);
        if !self.discards {
            hasher.update(&buffer[question.head_bytes..body_end]);
        }
        buffer.copy_within(body_end..filled, 0);
        let rest = filled - body_end;
        if came as u64 == question.length {
            self.send(question, &hasher.finish().hex())?;
            return Ok(rest);
        }
        let etag = self.take_body(question.length - came as u64, buffer, hasher)?;
        self.send(question, &etag)?;
        Ok(0)
    }

    fn take_body(
        &mut self,
        length: u64,
        buffer: &mut [u8],
        mut hasher: Hasher,
    ) -> std::io::Result<String> {
        let began = self.clock.now();
        let mut taken = 0;
        while taken < length {
            self.link.pace(&self.clock, began, taken);
            let wanted = (length - taken).min(PIECE_BYTES as u64) as usize;
            let count = if self.discards {
                recv(&self.stream, &mut buffer[..wanted], RecvFlags::TRUNC)?.1
            } else {
                let count = self.stream.read(&mut buffer[..wanted])?;
                hasher.update(&buffer[..count]);
                count
            };
            if count == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            taken += count as u64;
        }
        Ok(hasher.finish().hex())
    }

    fn send(&mut self, question: &Question, etag: &str) -> std::io::Result<()> {
        pause_until(&self.clock, self.link.first_byte_at(&self.clock));
        let text = match (question.method.as_str(), question.query.starts_with("uploads")) {
            ("POST", true) => format!(
                "<InitiateMultipartUploadResult><UploadId>{UPLOAD_ID}</UploadId>\
                 </InitiateMultipartUploadResult>"
            ),
            ("POST", false) => {
                format!(
                    "<CompleteMultipartUploadResult><ETag>\"{etag}-8\"</ETag>\
                     </CompleteMultipartUploadResult>"
                )
            }
            _ => String::new(),
        };
        let length = text.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\netag: \"{etag}\"\r\ncontent-length: {length}\r\n\r\n{text}"
        );
        self.stream.write_all(answer.as_bytes())
    }
}

/// The question at the start of `received`; `None` when more must arrive first, or it is none.
fn parse_question(received: &[u8]) -> Option<Question> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(head_bytes)) = request.parse(received) else { return None };
    let value = |name: &str| {
        let header = request.headers.iter().find(|it| it.name.eq_ignore_ascii_case(name));
        header.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    let query = request.path.unwrap_or_default().split_once('?').map_or("", |(_, query)| query);
    Some(Question {
        method: request.method.unwrap_or_default().to_owned(),
        query: query.to_owned(),
        length: value("content-length").and_then(|text| text.parse().ok()).unwrap_or(0),
        head_bytes,
        waits_for_100: value("expect").is_some(),
    })
}
