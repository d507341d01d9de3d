//! A form's file as it passes: told apart from what surrounds it, counted, and held against the
//! lengths that the policy allows. What follows the file is thrown away: S3 ignores it.

use memchr::memmem;

use super::LengthRange;
use crate::{Code, S3Error};

/// Bytes that may follow a file: the buttons of a page, and the last delimiter.
pub const AFTER_FILE_BYTES_MAX: u64 = 64 << 10;

/// The part of a form's body that is its file.
#[derive(Debug)]
pub struct FormFile {
    /// What ends it, with the line end before it.
    delimiter: Vec<u8>,
    /// Bytes of the form that are still to come before it.
    before_bytes: usize,
    /// Seen, and perhaps the beginning of the delimiter.
    held: Vec<u8>,
    file_bytes: u64,
    range: LengthRange,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begins,
    Within,
    /// It has ended, and so many bytes have followed.
    Ended(u64),
}

/// A file that is not to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// It does not end as a form's part does, or could be read in two ways.
    Malformed,
    /// The policy allows no file of so many bytes.
    TooSmall(u64, LengthRange),
    /// Nor one of at least so many.
    TooLarge(u64, LengthRange),
}

impl From<FileError> for S3Error {
    fn from(error: FileError) -> S3Error {
        match error {
            FileError::Malformed => S3Error::new(Code::MalformedPOSTRequest),
            FileError::TooSmall(bytes, range) => S3Error::new(Code::EntityTooSmall)
                .with("ProposedSize", bytes.to_string())
                .with("MinSizeAllowed", range.bytes_min.to_string()),
            FileError::TooLarge(bytes, range) => S3Error::new(Code::EntityTooLarge)
                .with("ProposedSize", bytes.to_string())
                .with("MaxSizeAllowed", range.bytes_max.to_string()),
        }
    }
}

impl FormFile {
    /// The file of a form whose body has so many bytes before it.
    pub fn new(boundary: &str, before_bytes: usize, range: LengthRange) -> FormFile {
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        let (held, stage) = (Vec::new(), Stage::Begins);
        FormFile { delimiter, before_bytes, held, file_bytes: 0, range, stage }
    }

    /// Refuses a file that is too short, where all that is still to come of the form is not enough.
    pub fn check_rest(&self, rest_bytes: u64) -> Result<(), FileError> {
        let end_bytes = self.delimiter.len() as u64 + 2;
        let most = rest_bytes.saturating_sub(end_bytes);
        if most < self.range.bytes_min {
            return Err(FileError::TooSmall(most, self.range));
        }
        Ok(())
    }

    /// Takes the next bytes of the form; appends those of the file.
    pub fn pass(&mut self, mut piece: &[u8], file: &mut Vec<u8>) -> Result<(), FileError> {
        let before = piece.len().min(self.before_bytes);
        self.before_bytes -= before;
        piece = &piece[before..];
        if let Stage::Ended(after) = self.stage {
            return self.count_after(after + piece.len() as u64);
        }
        self.held.extend_from_slice(piece);
        // A part whose first bytes are a delimiter is empty to some readers, and not to others.
        let dashes = &self.delimiter[2..];
        if self.stage == Stage::Begins {
            if self.held.starts_with(dashes) {
                return Err(FileError::Malformed);
            }
            if self.held.len() < dashes.len() {
                return Ok(());
            }
            self.stage = Stage::Within;
        }
        self.release(file)
    }

    fn release(&mut self, file: &mut Vec<u8>) -> Result<(), FileError> {
        let Some(at) = memmem::find(&self.held, &self.delimiter) else {
            let keep = self.held.len().min(self.delimiter.len() - 1);
            return self.give(self.held.len() - keep, file);
        };
        self.give(at, file)?;
        let after = self.held.len() - self.delimiter.len();
        match self.held.get(self.delimiter.len()..self.delimiter.len() + 2) {
            None => Ok(()),
            Some(b"--" | b"\r\n") => {
                self.held = Vec::new();
                self.count_after(after as u64)
            }
            // To some readers the delimiter is a longer one, and the file goes on.
            Some(_) => Err(FileError::Malformed),
        }
    }

    fn give(&mut self, count: usize, file: &mut Vec<u8>) -> Result<(), FileError> {
        self.file_bytes += count as u64;
        if self.file_bytes > self.range.bytes_max {
            return Err(FileError::TooLarge(self.file_bytes, self.range));
        }
        file.extend_from_slice(&self.held[..count]);
        self.held.drain(..count);
        Ok(())
    }

    fn count_after(&mut self, bytes: u64) -> Result<(), FileError> {
        self.stage = Stage::Ended(bytes);
        if bytes > AFTER_FILE_BYTES_MAX {
            return Err(FileError::Malformed);
        }
        Ok(())
    }

    /// Says, at the form's end, whether the file is whole and long enough.
    pub fn finish(&self) -> Result<(), FileError> {
        if !matches!(self.stage, Stage::Ended(_)) {
            return Err(FileError::Malformed);
        }
        if self.file_bytes < self.range.bytes_min {
            return Err(FileError::TooSmall(self.file_bytes, self.range));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
