//! The decoder: a state machine over lines and data; how the bytes are cut never matters.
//! Data is handed out as it comes, ahead of its chunk's signature: whoever stores it withholds the last
//! bytes until the end is `Done`. `verified_bytes` says how much is already covered.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{
    CHUNK_BYTES_MAX, CHUNK_LINE_BYTES_MAX, SIGNATURE_EXTENSION, Step, TRAILER_BYTES_MAX,
    TRAILER_FIELDS_MAX, TRAILER_SIGNATURE,
};
use crate::head::RequestHead;
use crate::hop::tokens;
use crate::sigv4::{ChunkChain, PayloadHash};
use crate::{Code, S3Error};

/// A body that is not framed or signed as S3 wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AwsChunkedError {
    /// No `x-amz-decoded-content-length`.
    #[error(
        "You must provide the x-amz-decoded-content-length HTTP header with an aws-chunked body."
    )]
    NoDecodedLength,
    /// Not one number.
    #[error("The x-amz-decoded-content-length header must be one decimal number.")]
    BadDecodedLength,
    /// A chunk line that is no hexadecimal size with the extension that the mode wants.
    #[error("A chunk of the aws-chunked body has a malformed size line.")]
    BadChunkLine,
    /// Over [`CHUNK_LINE_BYTES_MAX`].
    #[error("A size line of the aws-chunked body is longer than {CHUNK_LINE_BYTES_MAX} bytes.")]
    LineTooLong,
    /// Over [`CHUNK_BYTES_MAX`].
    #[error("A chunk of the aws-chunked body is larger than {CHUNK_BYTES_MAX} bytes.")]
    ChunkTooLarge,
    /// No CR LF after a chunk.
    #[error("A chunk of the aws-chunked body does not end in CR LF.")]
    BadChunkEnd,
    /// More or fewer bytes than announced.
    #[error(
        "The aws-chunked body does not have the length that x-amz-decoded-content-length gives."
    )]
    WrongLength,
    /// The body ended before its last chunk or trailer did.
    #[error("The aws-chunked body ended before its last chunk.")]
    Truncated,
    /// Bytes after the end.
    #[error("There are bytes after the end of the aws-chunked body.")]
    TrailingBytes,
    /// A chunk without a signature where one is due.
    #[error("A chunk of the aws-chunked body has no chunk-signature.")]
    NoChunkSignature,
    /// A chunk or trailer signature that is wrong.
    #[error(
        "The signature we calculated for a chunk or trailer of the body does not match the signature you provided. Check your key and signing method."
    )]
    BadSignature,
    /// A malformed trailer, or other fields than `x-amz-trailer` announced.
    #[error(
        "The request contained trailing data that was not well-formed or did not conform to our published schema: send exactly the fields that x-amz-trailer announces."
    )]
    BadTrailer,
    /// Over [`TRAILER_BYTES_MAX`] or [`TRAILER_FIELDS_MAX`].
    #[error(
        "The trailer of the aws-chunked body is longer than {TRAILER_BYTES_MAX} bytes or has more than {TRAILER_FIELDS_MAX} fields."
    )]
    TrailerTooLong,
}

impl From<AwsChunkedError> for S3Error {
    fn from(error: AwsChunkedError) -> S3Error {
        use AwsChunkedError as E;
        let code = match error {
            E::NoDecodedLength => Code::MissingContentLength,
            E::BadDecodedLength => Code::InvalidArgument,
            E::WrongLength | E::Truncated => Code::IncompleteBody,
            E::BadSignature => Code::SignatureDoesNotMatch,
            E::NoChunkSignature => Code::AccessDenied,
            E::BadTrailer | E::TrailerTooLong => Code::MalformedTrailerError,
            E::ChunkTooLarge => Code::EntityTooLarge,
            E::BadChunkLine | E::LineTooLong | E::BadChunkEnd | E::TrailingBytes => {
                Code::InvalidRequest
            }
        };
        S3Error::because(code, error.to_string())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ChunkLine,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    TrailerLine,
    Done,
}

/// Digits of `x-amz-decoded-content-length`.
const LENGTH_DIGITS_MAX: usize = 19;
/// A CR LF too many, which some clients send after a trailer.
const SURPLUS_BYTES_MAX: u8 = 2;

/// The decoder of one body.
#[derive(Debug)]
pub struct AwsChunkedDecoder {
    state: State,
    line: Vec<u8>,
    /// Data of this chunk that is yet to come.
    remaining: u64,
    chunk_bytes: u64,
    decoded_bytes: u64,
    verified_bytes: u64,
    decoded_length: u64,
    signing: Option<Signing>,
    has_trailer: bool,
    trailer_names: Vec<String>,
    trailer: Vec<(String, String)>,
    trailer_bytes: usize,
    trailer_sha256: Sha256,
    is_trailer_signed: bool,
    surplus_bytes: u8,
}

#[derive(Debug)]
struct Signing {
    chain: Box<ChunkChain>,
    provided: [u8; 32],
    sha256: Sha256,
}

impl AwsChunkedDecoder {
    /// For a request whose payload is streaming; `chain` comes with a signed one.
    pub fn of(
        head: &RequestHead<'_>,
        payload: PayloadHash,
        chain: Option<Box<ChunkChain>>,
    ) -> Result<AwsChunkedDecoder, AwsChunkedError> {
        let decoded_length = decoded_length(head)?.ok_or(AwsChunkedError::NoDecodedLength)?;
        let names = head.headers_named("x-amz-trailer").flat_map(tokens);
        let trailer_names =
            names.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
        Ok(AwsChunkedDecoder::new(payload, chain, decoded_length, trailer_names))
    }

    /// For a body of `decoded_length` bytes and these trailer fields, in lower case.
    pub fn new(
        payload: PayloadHash,
        chain: Option<Box<ChunkChain>>,
        decoded_length: u64,
        trailer_names: Vec<String>,
    ) -> AwsChunkedDecoder {
        let is_signed = matches!(payload, PayloadHash::StreamingSigned { .. });
        assert_eq!(is_signed, chain.is_some(), "signed chunks, and only they, have a chain");
        AwsChunkedDecoder {
            state: State::ChunkLine,
            line: Vec::new(),
            remaining: 0,
            chunk_bytes: 0,
            decoded_bytes: 0,
            verified_bytes: 0,
            decoded_length,
            signing: chain.map(|chain| Signing { chain, provided: [0; 32], sha256: Sha256::new() }),
            has_trailer: payload != PayloadHash::StreamingSigned { trailer: false },
            trailer_names,
            trailer: Vec::new(),
            trailer_bytes: 0,
            trailer_sha256: Sha256::new(),
            is_trailer_signed: false,
            surplus_bytes: 0,
        }
    }

    /// The length that the head announced.
    pub fn decoded_length(&self) -> u64 {
        self.decoded_length
    }

    /// Bytes handed out.
    pub fn decoded_bytes(&self) -> u64 {
        self.decoded_bytes
    }

    /// Bytes handed out whose chunk is complete and, if signed, verified.
    pub fn verified_bytes(&self) -> u64 {
        self.verified_bytes
    }

    /// Whether the last byte was seen and everything held.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The trailer's fields, names in lower case; whole once done.
    pub fn trailer(&self) -> &[(String, String)] {
        &self.trailer
    }

    /// Says whether the body may end here.
    pub fn finish(&self) -> Result<(), AwsChunkedError> {
        if self.is_done() { Ok(()) } else { Err(AwsChunkedError::Truncated) }
    }

    /// Decodes from the front of `input` until there is something to say, and moves `input` past what was
    /// used. Call again with what is left until [`Step::NeedMore`] or [`Step::Done`]; give it every byte of the
    /// body, also after `Done`. After an error the body is lost.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, AwsChunkedError> {
        loop {
            match self.state {
                State::Done => return self.surplus(input),
                State::Data => {
                    return Ok(match self.take_data(input) {
                        Some(data) => Step::Data(data),
                        None => Step::NeedMore,
                    });
                }
                State::ChunkLine | State::TrailerLine => {
                    if !self.take_line(input)? {
                        return Ok(Step::NeedMore);
                    }
                    self.end_line()?;
                }
                State::DataCarriageReturn | State::DataLineFeed => {
                    let Some((&byte, rest)) = input.split_first() else {
                        return Ok(Step::NeedMore);
                    };
                    *input = rest;
                    self.end_data(byte)?;
                }
            }
        }
    }

    fn take_data<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = (input.len() as u64).min(self.remaining) as usize;
        if length == 0 {
            return None;
        }
        let (data, rest) = input.split_at(length);
        *input = rest;
        self.remaining -= length as u64;
        self.decoded_bytes += length as u64;
        if let Some(signing) = &mut self.signing {
            signing.sha256.update(data);
        }
        if self.remaining == 0 {
            self.state = State::DataCarriageReturn;
        }
        Some(data)
    }

    /// Collects up to the line feed; false when it is not there yet.
    fn take_line(&mut self, input: &mut &[u8]) -> Result<bool, AwsChunkedError> {
        let (limit, error) = match self.state {
            State::TrailerLine => {
                (TRAILER_BYTES_MAX - self.trailer_bytes, AwsChunkedError::TrailerTooLong)
            }
            _ => (CHUNK_LINE_BYTES_MAX, AwsChunkedError::LineTooLong),
        };
        let room = limit + 1 - self.line.len();
        let window = &input[..input.len().min(room)];
        let end = memchr::memchr(b'\n', window).map(|at| at + 1);
        let taken = end.unwrap_or(window.len());
        self.line.extend_from_slice(&input[..taken]);
        *input = &input[taken..];
        if self.line.len() > limit {
            return Err(error);
        }
        Ok(end.is_some())
    }

    fn end_line(&mut self) -> Result<(), AwsChunkedError> {
        let line = std::mem::take(&mut self.line);
        let result = match self.state {
            State::TrailerLine => self.end_trailer_line(&line),
            _ => self.end_chunk_line(&line),
        };
        self.line = line;
        self.line.clear();
        result
    }

    fn end_chunk_line(&mut self, line: &[u8]) -> Result<(), AwsChunkedError> {
        let text = line.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok());
        let text = text.ok_or(AwsChunkedError::BadChunkLine)?;
        let (size, extensions) = text.split_once(';').unwrap_or((text, ""));
        self.chunk_bytes = chunk_size(size)?;
        if self.chunk_bytes > self.decoded_length - self.decoded_bytes {
            return Err(AwsChunkedError::WrongLength);
        }
        if let Some(signing) = &mut self.signing {
            signing.provided = provided_signature(extensions)?;
        }
        self.remaining = self.chunk_bytes;
        if self.chunk_bytes > 0 {
            self.state = State::Data;
            return Ok(());
        }
        if self.decoded_bytes != self.decoded_length {
            return Err(AwsChunkedError::WrongLength);
        }
        self.verify_chunk()?;
        // Without a trailer, what follows is the empty last chunk's own CR LF.
        self.state = if self.has_trailer { State::TrailerLine } else { State::DataCarriageReturn };
        Ok(())
    }

    fn end_data(&mut self, byte: u8) -> Result<(), AwsChunkedError> {
        self.state = match (self.state, byte) {
            (State::DataCarriageReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') if self.chunk_bytes == 0 => State::Done,
            (State::DataLineFeed, b'\n') => {
                self.verify_chunk()?;
                State::ChunkLine
            }
            _ => return Err(AwsChunkedError::BadChunkEnd),
        };
        Ok(())
    }

    fn verify_chunk(&mut self) -> Result<(), AwsChunkedError> {
        if let Some(signing) = &mut self.signing {
            let digest = signing.sha256.finalize_reset().into();
            let expected = signing.chain.sign_chunk(digest);
            if !bool::from(expected.ct_eq(&signing.provided)) {
                return Err(AwsChunkedError::BadSignature);
            }
        }
        self.verified_bytes = self.decoded_bytes;
        Ok(())
    }

    /// A trailer's line may end in a line feed alone, and a blank line may stand before its signature:
    /// minio-go writes both.
    fn end_trailer_line(&mut self, line: &[u8]) -> Result<(), AwsChunkedError> {
        self.trailer_bytes += line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.end_trailer();
        }
        let text = std::str::from_utf8(line).map_err(|_| AwsChunkedError::BadTrailer)?;
        let (name, value) = text.split_once(':').ok_or(AwsChunkedError::BadTrailer)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if self.is_trailer_signed {
            return Err(AwsChunkedError::BadTrailer);
        }
        if name == TRAILER_SIGNATURE {
            return self.verify_trailer(value);
        }
        if !self.trailer_names.contains(&name) || self.trailer.iter().any(|(seen, _)| *seen == name)
        {
            return Err(AwsChunkedError::BadTrailer);
        }
        if self.trailer.len() == TRAILER_FIELDS_MAX {
            return Err(AwsChunkedError::TrailerTooLong);
        }
        self.trailer_sha256.update(name.as_bytes());
        self.trailer_sha256.update(b":");
        self.trailer_sha256.update(value.as_bytes());
        self.trailer_sha256.update(b"\n");
        self.trailer.push((name, value.to_owned()));
        Ok(())
    }

    fn end_trailer(&mut self) -> Result<(), AwsChunkedError> {
        if self.trailer.len() != self.trailer_names.len() {
            return Err(AwsChunkedError::BadTrailer);
        }
        if self.signing.is_none() || self.is_trailer_signed {
            self.state = State::Done;
        }
        Ok(())
    }

    fn verify_trailer(&mut self, provided: &str) -> Result<(), AwsChunkedError> {
        let signing = self.signing.as_mut().ok_or(AwsChunkedError::BadTrailer)?;
        let mut signature = [0; 32];
        hex::decode_to_slice(provided, &mut signature)
            .map_err(|_| AwsChunkedError::BadSignature)?;
        let expected = signing.chain.sign_trailer(self.trailer_sha256.finalize_reset().into());
        if !bool::from(expected.ct_eq(&signature)) {
            return Err(AwsChunkedError::BadSignature);
        }
        self.is_trailer_signed = true;
        Ok(())
    }

    fn surplus<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, AwsChunkedError> {
        while let Some((&byte, rest)) = input.split_first() {
            let allowed = self.has_trailer
                && self.surplus_bytes < SURPLUS_BYTES_MAX
                && byte == b"\r\n"[usize::from(self.surplus_bytes)];
            if !allowed {
                return Err(AwsChunkedError::TrailingBytes);
            }
            self.surplus_bytes += 1;
            *input = rest;
        }
        Ok(Step::Done)
    }
}

fn decoded_length(head: &RequestHead<'_>) -> Result<Option<u64>, AwsChunkedError> {
    let mut values = head.headers_named("x-amz-decoded-content-length");
    let Some(value) = values.next() else { return Ok(None) };
    let digits = !value.is_empty()
        && value.len() <= LENGTH_DIGITS_MAX
        && value.iter().all(u8::is_ascii_digit);
    if !digits || values.next().is_some() {
        return Err(AwsChunkedError::BadDecodedLength);
    }
    Ok(Some(value.iter().fold(0, |sum, &digit| sum * 10 + u64::from(digit - b'0'))))
}

fn chunk_size(text: &str) -> Result<u64, AwsChunkedError> {
    let digits =
        (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = if digits { u64::from_str_radix(text, 16).ok() } else { None };
    match size.ok_or(AwsChunkedError::BadChunkLine)? {
        size if size > CHUNK_BYTES_MAX => Err(AwsChunkedError::ChunkTooLarge),
        size => Ok(size),
    }
}

fn provided_signature(extensions: &str) -> Result<[u8; 32], AwsChunkedError> {
    let mut found = extensions.split(';').filter_map(|part| part.strip_prefix(SIGNATURE_EXTENSION));
    let text = found.next().ok_or(AwsChunkedError::NoChunkSignature)?;
    let mut signature = [0; 32];
    hex::decode_to_slice(text, &mut signature).map_err(|_| AwsChunkedError::BadSignature)?;
    Ok(signature)
}
