//! A request's body as it was framed by HTTP: so many bytes, or chunks. Received in bounded pieces,
//! only as fast as whoever reads it goes on, so that an upload's memory does not grow with its size.

use std::collections::VecDeque;

use bytes::Bytes;
use nilas_net::chunked::{ChunkedDecoder, ChunkedError, Step};
use nilas_net::head::{BodyLength, RequestHead};
use nilas_shards::Buffer;

use super::Client;

/// The most that one receive brings.
pub const PIECE_BYTES_MAX: usize = 128 << 10;

/// A body being read.
#[derive(Debug)]
pub struct Body {
    framing: Framing,
    /// Pieces that arrived with the head, in order.
    arrived: VecDeque<Bytes>,
    is_paused: bool,
    awaits_continue: bool,
}

#[derive(Debug)]
enum Framing {
    Length { remaining_bytes: u64 },
    Chunked(Box<ChunkedDecoder>),
}

/// Why a body is not whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection broke.
    #[error("the client went away in the middle of the body")]
    Gone,
    /// The client said that nothing more will come; it may still read an answer.
    #[error("the client ended the body before its end")]
    Ended,
    /// The client sent nothing for too long.
    #[error("no byte of the body arrived for too long")]
    Slow,
    /// The chunks are not HTTP's.
    #[error(transparent)]
    Chunks(#[from] ChunkedError),
}

impl Body {
    /// The body that follows a head.
    pub fn of(head: &RequestHead<'_>) -> Body {
        let framing = match head.body() {
            BodyLength::None => Framing::Length { remaining_bytes: 0 },
            BodyLength::Bytes(remaining_bytes) => Framing::Length { remaining_bytes },
            BodyLength::Chunked => Framing::Chunked(Box::new(ChunkedDecoder::new())),
        };
        Body {
            framing,
            arrived: VecDeque::new(),
            is_paused: false,
            awaits_continue: head.expect_continue(),
        }
    }

    /// Whether all of it has been read.
    pub fn is_ended(&self) -> bool {
        match &self.framing {
            Framing::Length { remaining_bytes } => *remaining_bytes == 0,
            Framing::Chunked(decoder) => decoder.is_done(),
        }
    }

    /// The next bytes, never none of them; `None` at the end.
    pub async fn next(&mut self, client: &mut Client) -> Result<Option<Bytes>, BodyError> {
        loop {
            if self.is_ended() {
                return Ok(None);
            }
            self.send_continue(client).await?;
            let piece = self.receive(client).await?;
            let decoded = self.decode(client, piece)?;
            if !decoded.is_empty() {
                return Ok(Some(decoded));
            }
        }
    }

    async fn send_continue(&mut self, client: &mut Client) -> Result<(), BodyError> {
        if !std::mem::take(&mut self.awaits_continue) || !client.ahead.is_empty() {
            return Ok(());
        }
        let mut parts = client.parts();
        parts.push_static(nilas_net::response::CONTINUE);
        client.send(parts).await.map_err(|_| BodyError::Gone)?;
        Ok(())
    }

    /// Bytes as they came: what is at hand first, else one sized receive.
    async fn receive(&mut self, client: &mut Client) -> Result<Bytes, BodyError> {
        if !client.ahead.is_empty() {
            return Ok(Bytes::from(std::mem::take(&mut client.ahead)));
        }
        if !self.is_paused {
            self.is_paused = true;
            let received = client.pause_heads().await;
            self.arrived.extend(received.iter().map(|piece| Bytes::copy_from_slice(piece)));
        }
        if let Some(piece) = self.arrived.pop_front() {
            return Ok(piece);
        }
        let room = match &self.framing {
            Framing::Length { remaining_bytes } => (*remaining_bytes).min(PIECE_BYTES_MAX as u64),
            Framing::Chunked(_) => PIECE_BYTES_MAX as u64,
        };
        let limit = client.limits().body_idle_timeout;
        let reactor = client.shard.reactor.clone();
        let receiving = client.receive_into(Buffer::with_capacity(room as usize));
        let (result, buffer) =
            reactor.timeout(limit, receiving).await.map_err(|_| BodyError::Slow)?;
        match result {
            Ok(0) => Err(BodyError::Ended),
            Ok(_) => Ok(buffer.into_bytes()),
            Err(_) => Err(BodyError::Gone),
        }
    }

    /// Takes the framing off a piece. What belongs to the next request is put back.
    fn decode(&mut self, client: &mut Client, mut piece: Bytes) -> Result<Bytes, BodyError> {
        match &mut self.framing {
            Framing::Length { remaining_bytes } => {
                let own = (*remaining_bytes).min(piece.len() as u64);
                *remaining_bytes -= own;
                let body = piece.split_to(own as usize);
                self.return_rest(client, piece);
                Ok(body)
            }
            Framing::Chunked(decoder) => {
                let mut body = Vec::new();
                let mut input = &piece[..];
                while let Step::Data(data) = decoder.step(&mut input)? {
                    body.extend_from_slice(data);
                }
                let rest = piece.slice_ref(input);
                self.return_rest(client, rest);
                Ok(Bytes::from(body))
            }
        }
    }

    fn return_rest(&mut self, client: &mut Client, rest: Bytes) {
        client.ahead.extend_from_slice(&rest);
        if self.is_ended() {
            for piece in self.arrived.drain(..) {
                client.ahead.extend_from_slice(&piece);
            }
        }
    }
}
