//! The fields, taken apart. Everything is bounded by [`FORM_HEAD_BYTES_MAX`], and what comes after
//! the head of the file's part is not read.

use memchr::memmem;

use super::{FileStart, FormError, FormHead, FormParsed};

/// Bytes of a form before its file: S3's 20 KB of fields, and what frames them.
pub const FORM_HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of a boundary: RFC 2046's limit.
pub const BOUNDARY_BYTES_MAX: usize = 70;
/// Fields of one form.
pub const FIELDS_MAX: usize = 256;

/// The boundary that a `Content-Type` names.
pub fn boundary(content_type: &[u8]) -> Result<&str, FormError> {
    let text = std::str::from_utf8(content_type).map_err(|_| FormError::NoBoundary)?;
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    if !kind.eq_ignore_ascii_case("multipart/form-data") {
        return Err(FormError::NoBoundary);
    }
    let named = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    });
    named
        .filter(|text| !text.is_empty() && text.len() <= BOUNDARY_BYTES_MAX)
        .ok_or(FormError::NoBoundary)
}

/// Parses a form as far as its file.
pub fn parse_form(bytes: &[u8], boundary: &str) -> Result<FormParsed, FormError> {
    let delimiter = format!("--{boundary}");
    let mut form = FormHead::default();
    // What comes before the first delimiter says nothing.
    let Some(first) = memmem::find(bytes, delimiter.as_bytes()) else { return partial(bytes) };
    let mut rest = &bytes[first + delimiter.len()..];
    loop {
        // Two more bytes say whether this was the last delimiter.
        let [one, two, ..] = rest else { return partial(bytes) };
        match [*one, *two] {
            [b'-', b'-'] => return Ok(FormParsed::Whole(form)),
            [b'\r', b'\n'] => rest = &rest[2..],
            _ => return Err(FormError::Malformed),
        }
        let Some(head_end) = memmem::find(rest, b"\r\n\r\n") else { return partial(bytes) };
        let (name, mut file) = part_head(&rest[..head_end])?;
        if name.eq_ignore_ascii_case("file") {
            file.offset = bytes.len() - rest.len() + head_end + 4;
            form.file = Some(file);
            return Ok(FormParsed::Whole(form));
        }
        rest = &rest[head_end + 4..];
        let end = format!("\r\n{delimiter}");
        let Some(value_end) = memmem::find(rest, end.as_bytes()) else { return partial(bytes) };
        let value = String::from_utf8(rest[..value_end].to_vec());
        form.fields.push((name, value.map_err(|_| FormError::Malformed)?));
        if form.fields.len() > FIELDS_MAX {
            return Err(FormError::TooLarge);
        }
        rest = &rest[value_end + end.len()..];
    }
}

fn partial(bytes: &[u8]) -> Result<FormParsed, FormError> {
    match bytes.len() < FORM_HEAD_BYTES_MAX {
        true => Ok(FormParsed::Partial),
        false => Err(FormError::TooLarge),
    }
}

/// A part's name, and what it says of itself as a file.
fn part_head(head: &[u8]) -> Result<(String, FileStart), FormError> {
    let head = std::str::from_utf8(head).map_err(|_| FormError::Malformed)?;
    let header = |wanted: &str| {
        head.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let disposition = header("content-disposition").ok_or(FormError::Malformed)?;
    let name = parameter(disposition, "name").ok_or(FormError::Malformed)?;
    let file = FileStart {
        name: parameter(disposition, "filename").unwrap_or_default(),
        content_type: header("content-type").map(str::to_owned),
        offset: 0,
    };
    Ok((name, file))
}

/// A parameter of a header's value, quoted or not.
fn parameter(value: &str, wanted: &str) -> Option<String> {
    let mut rest = value.split_once(';')?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (found, next) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (found, next) = after.split_once(';').unwrap_or((after, ""));
                (found.trim().to_owned(), next)
            }
        };
        if name.trim().trim_start_matches(';').trim().eq_ignore_ascii_case(wanted) {
            return Some(found);
        }
        rest = next;
    }
}

/// A quoted text whose first quote is read, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((found, &text[at + 1..])),
            '\\' => found.push(characters.next()?.1),
            other => found.push(other),
        }
    }
    None
}
