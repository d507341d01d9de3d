//! HTTP's chunked request bodies (RFC 9112 §7.1), decoded as they come; how the bytes are cut never
//! matters. Extensions and trailer fields are read past, within limits, and dropped.

use crate::percent::hex_digit;
use crate::{Code, S3Error};

/// Bytes of one chunk-size line with its extensions.
pub const CHUNK_LINE_BYTES_MAX: usize = 1024;
/// Bytes of all trailer fields.
pub const TRAILER_BYTES_MAX: usize = 4 * 1024;
/// Hexadecimal digits of a chunk's size.
const SIZE_DIGITS_MAX: usize = 15;

/// What one step of decoding yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Bytes of the body, borrowed from the input.
    Data(&'a [u8]),
    /// The input is used up; more is needed.
    NeedMore,
    /// The body is complete; bytes after it belong to the next request.
    Done,
}

/// A body that is not chunked as HTTP says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkedError {
    /// A size that is not hexadecimal digits alone, or too large a number.
    #[error(
        "A chunk of the request body has a malformed size. Send hexadecimal digits followed by CR LF."
    )]
    BadSize,
    /// A line over [`CHUNK_LINE_BYTES_MAX`].
    #[error("A chunk-size line of the request body is longer than {CHUNK_LINE_BYTES_MAX} bytes.")]
    LineTooLong,
    /// Something other than CR LF where a line or chunk ends.
    #[error("A chunk of the request body does not end in CR LF.")]
    BadLineEnd,
    /// Trailer fields over [`TRAILER_BYTES_MAX`].
    #[error("The trailer of the request body is longer than {TRAILER_BYTES_MAX} bytes.")]
    TrailerTooLong,
}

impl From<ChunkedError> for S3Error {
    fn from(error: ChunkedError) -> S3Error {
        S3Error::because(Code::BadRequest, error.to_string())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { digits: usize, line_bytes: usize },
    Extension { line_bytes: usize },
    SizeLineFeed,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

/// The decoder of one body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// The size being read, then what of the chunk is yet to come.
    remaining: u64,
    trailer_bytes: usize,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkedDecoder {
    /// Before the first byte.
    pub fn new() -> ChunkedDecoder {
        let state = State::Size { digits: 0, line_bytes: 0 };
        ChunkedDecoder { state, remaining: 0, trailer_bytes: 0 }
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes from the front of `input` until there is something to say, and moves `input` past what was
    /// used. Call again with what is left until [`Step::NeedMore`] or [`Step::Done`].
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, ChunkedError> {
        while self.state != State::Done {
            if self.state == State::Data {
                let length = (input.len() as u64).min(self.remaining) as usize;
                if length == 0 {
                    return Ok(Step::NeedMore);
                }
                let (data, rest) = input.split_at(length);
                *input = rest;
                self.remaining -= length as u64;
                if self.remaining == 0 {
                    self.state = State::DataCarriageReturn;
                }
                return Ok(Step::Data(data));
            }
            let Some((&byte, rest)) = input.split_first() else { return Ok(Step::NeedMore) };
            *input = rest;
            self.state = self.after(byte)?;
        }
        Ok(Step::Done)
    }

    fn after(&mut self, byte: u8) -> Result<State, ChunkedError> {
        Ok(match self.state {
            State::Size { digits, line_bytes } => {
                return self.after_size(byte, digits, line_bytes + 1);
            }
            State::Extension { line_bytes } => extension(byte, line_bytes + 1)?,
            State::SizeLineFeed if byte != b'\n' => return Err(ChunkedError::BadLineEnd),
            State::SizeLineFeed if self.remaining == 0 => State::TrailerStart,
            State::SizeLineFeed => State::Data,
            State::DataCarriageReturn if byte == b'\r' => State::DataLineFeed,
            State::DataLineFeed if byte == b'\n' => State::Size { digits: 0, line_bytes: 0 },
            State::DataCarriageReturn | State::DataLineFeed => {
                return Err(ChunkedError::BadLineEnd);
            }
            State::TrailerStart if byte == b'\r' => State::EndLineFeed,
            State::TrailerStart | State::Trailer => self.after_trailer(byte)?,
            State::TrailerLineFeed if byte == b'\n' => State::TrailerStart,
            State::EndLineFeed if byte == b'\n' => State::Done,
            State::TrailerLineFeed | State::EndLineFeed => return Err(ChunkedError::BadLineEnd),
            State::Data | State::Done => unreachable!("no single byte is read in these"),
        })
    }

    fn after_size(
        &mut self,
        byte: u8,
        digits: usize,
        line_bytes: usize,
    ) -> Result<State, ChunkedError> {
        if let Some(digit) = hex_digit(byte) {
            if digits == SIZE_DIGITS_MAX {
                return Err(ChunkedError::BadSize);
            }
            self.remaining = self.remaining << 4 | u64::from(digit);
            return Ok(State::Size { digits: digits + 1, line_bytes });
        }
        match byte {
            _ if digits == 0 => Err(ChunkedError::BadSize),
            b'\r' => Ok(State::SizeLineFeed),
            b';' => Ok(State::Extension { line_bytes }),
            _ => Err(ChunkedError::BadSize),
        }
    }

    fn after_trailer(&mut self, byte: u8) -> Result<State, ChunkedError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(ChunkedError::TrailerTooLong);
        }
        match byte {
            b'\r' => Ok(State::TrailerLineFeed),
            b'\n' => Err(ChunkedError::BadLineEnd),
            _ => Ok(State::Trailer),
        }
    }
}

fn extension(byte: u8, line_bytes: usize) -> Result<State, ChunkedError> {
    match byte {
        b'\r' => Ok(State::SizeLineFeed),
        b'\n' => Err(ChunkedError::BadLineEnd),
        _ if line_bytes > CHUNK_LINE_BYTES_MAX => Err(ChunkedError::LineTooLong),
        _ => Ok(State::Extension { line_bytes }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `wire` cut at `cuts`; gives the body and what followed it.
    fn decode(wire: &[u8], cuts: &[usize]) -> Result<(Vec<u8>, Vec<u8>, bool), ChunkedError> {
        let mut decoder = ChunkedDecoder::new();
        let (mut body, mut rest, mut from) = (Vec::new(), Vec::new(), 0);
        for to in cuts.iter().copied().chain([wire.len()]) {
            let to = to.clamp(from, wire.len());
            let mut input = &wire[from..to];
            while let Step::Data(data) = decoder.step(&mut input)? {
                body.extend_from_slice(data);
            }
            rest.extend_from_slice(input);
            from = to;
        }
        Ok((body, rest, decoder.is_done()))
    }

    #[test]
    fn a_chunked_body_ends_where_it_says() {
        for (wire, body, rest) in [
            ("0\r\n\r\n", "", ""),
            ("5\r\nhello\r\n0\r\n\r\nGET ", "hello", "GET "),
            (
                "3;a=b\r\nabc\r\nA\r\n0123456789\r\n000\r\nX-T: v\r\nY: w\r\n\r\n",
                "abc0123456789",
                "",
            ),
        ] {
            let found = decode(wire.as_bytes(), &[]).expect("well formed");
            assert_eq!(found, (body.into(), rest.into(), true), "{wire:?}");
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        let long_line = format!("1;{}\r\n", "x".repeat(CHUNK_LINE_BYTES_MAX + 1));
        let long_trailer = format!("0\r\na: {}\r\n\r\n", "x".repeat(TRAILER_BYTES_MAX));
        for (wire, expected) in [
            ("\r\n", ChunkedError::BadSize),
            ("g\r\n", ChunkedError::BadSize),
            ("-1\r\n", ChunkedError::BadSize),
            ("+1\r\n", ChunkedError::BadSize),
            (" 1\r\n", ChunkedError::BadSize),
            ("0x1\r\n", ChunkedError::BadSize),
            ("1\n", ChunkedError::BadSize),
            ("1 \r\n", ChunkedError::BadSize),
            ("1000000000000000\r\n", ChunkedError::BadSize),
            ("1;x\n", ChunkedError::BadLineEnd),
            ("1\rx", ChunkedError::BadLineEnd),
            ("1\r\nab\r\n", ChunkedError::BadLineEnd),
            ("1\r\na\rb", ChunkedError::BadLineEnd),
            ("0\r\n\rx", ChunkedError::BadLineEnd),
            ("0\r\n\n", ChunkedError::BadLineEnd),
            ("0\r\na: b\n", ChunkedError::BadLineEnd),
            (&long_line, ChunkedError::LineTooLong),
            (&long_trailer, ChunkedError::TrailerTooLong),
        ] {
            assert_eq!(decode(wire.as_bytes(), &[]).expect_err("malformed"), expected, "{wire:?}");
            assert_eq!(S3Error::from(expected).code, Code::BadRequest);
        }
    }

    proptest! {
        #[test]
        fn what_was_chunked_decodes_to_itself_however_it_is_cut(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in proptest::collection::vec(0..300usize, 0..12),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:X};e\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\nnext");
            let mut cuts = cuts;
            cuts.sort_unstable();
            let found = decode(&wire, &cuts).expect("well formed");
            prop_assert_eq!(found, (chunks.concat(), b"next".to_vec(), true));
        }
    }
}
