//! The formats that traces come in: this program's own, and two that public ones are told in. What
//! reads nothing (writes, deletes, HEADs) is passed over; a line that makes no sense is an error.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use super::trace::{Request, Trace};
use crate::error::{Error, Result};

/// The first line of this program's own format; then a line a read.
pub const COLUMNS: &str = "object,length,start,end";
/// Bytes of a record of the format `oracleGeneral`: time (u32), object (u64), bytes (u32), when it is
/// next read (i64), little-endian and without gaps.
const ORACLE_RECORD_BYTES: usize = 24;

/// Formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `object,length,start,end`, the end not among the bytes read.
    Nilas,
    /// libCacheSim's `oracleGeneral`, uncompressed: reads of whole objects.
    OracleGeneral,
    /// IBM's traces of its object store: `time operation object [length [first last]]`, separated by
    /// spaces or commas, the last byte among those read.
    IbmCos,
}

/// Reads the trace in a file.
///
/// # Errors
/// A file that cannot be read, or is not of the format: which line or record, and why.
pub fn read(path: &Path, format: Format) -> Result<Trace> {
    let bytes = std::fs::read(path).map_err(|source| Error::System {
        doing: format!("reading the trace {}", path.display()),
        source,
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let refuse = |why: String| Error::Failed(format!("{}: {why}", path.display()));
    let requests = decode(&bytes, format).map_err(refuse)?;
    if requests.is_empty() {
        return Err(refuse("no read of a byte is in it".to_owned()));
    }
    Ok(Trace { name, requests })
}

/// The reads in a trace's bytes; why not, in words, where it is not of the format.
pub fn decode(bytes: &[u8], format: Format) -> std::result::Result<Vec<Request>, String> {
    match format {
        Format::OracleGeneral => oracle_general(bytes),
        Format::Nilas => own(text(bytes)?),
        Format::IbmCos => ibm_cos(text(bytes)?),
    }
}

fn text(bytes: &[u8]) -> std::result::Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| format!("it is no text: {error}"))
}

fn own(text: &str) -> std::result::Result<Vec<Request>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    if lines.next().map(|(_, line)| line) != Some(COLUMNS) {
        return Err(format!("its first line is not `{COLUMNS}`"));
    }
    let request = |(at, line): (usize, &str)| {
        let why = || format!("line {}: `{line}` is not `{COLUMNS}`", at + 1);
        let numbers: Vec<u64> = line
            .split(',')
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| why())?;
        let [object, length, start, end] = numbers[..] else { return Err(why()) };
        Request::of(object, length, start, end).ok_or_else(why)
    };
    lines.map(request).collect()
}

fn oracle_general(bytes: &[u8]) -> std::result::Result<Vec<Request>, String> {
    let (records, rest) = bytes.as_chunks::<ORACLE_RECORD_BYTES>();
    if !rest.is_empty() {
        return Err(format!(
            "its {} bytes are no whole records of {ORACLE_RECORD_BYTES}; is it compressed?",
            bytes.len()
        ));
    }
    let request = |record: &[u8; ORACLE_RECORD_BYTES]| {
        let object = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
        let length = u32::from_le_bytes(record[12..16].try_into().expect("four bytes"));
        Request::whole(object, length.into())
    };
    Ok(records.iter().filter_map(request).collect())
}

fn ibm_cos(text: &str) -> std::result::Result<Vec<Request>, String> {
    let mut requests = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let why = |what: &str| format!("line {}: {what} in `{line}`", at + 1);
        let mut fields = line.split([' ', ',']).filter(|field| !field.is_empty());
        let (Some(_time), Some(operation)) = (fields.next(), fields.next()) else {
            if line.trim().is_empty() {
                continue;
            }
            return Err(why("no operation"));
        };
        if operation != "REST.GET.OBJECT" {
            continue;
        }
        let object = object_number(fields.next().ok_or_else(|| why("no object"))?);
        let numbers: Vec<u64> = fields
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| why("something that is no number"))?;
        match numbers[..] {
            // A read that failed has no length.
            [] => {}
            [length] => requests.extend(Request::whole(object, length)),
            [length, first, last] => {
                requests.extend(Request::of(object, length, first, last.saturating_add(1)));
            }
            _ => return Err(why("neither a length nor a length and a range")),
        }
    }
    Ok(requests)
}

/// An object's name as a number; names are 64-bit numbers in hexadecimal as a rule.
fn object_number(name: &str) -> u64 {
    u64::from_str_radix(name, 16).unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(object: u64, length: u64, start: u64, end: u64) -> Request {
        Request::of(object, length, start, end).expect("it reads a byte")
    }

    /// A trace in this program's own format.
    fn encode(trace: &Trace) -> String {
        let line = |request: &Request| {
            let Request { object, length, range } = request;
            format!("{object},{length},{},{}\n", range.start, range.end)
        };
        std::iter::once(format!("{COLUMNS}\n")).chain(trace.requests.iter().map(line)).collect()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(
            reads in prop::collection::vec((any::<u64>(), 1_u64..1 << 40, 0_u64..1 << 40), 0..50)
        ) {
            let requests = reads
                .into_iter()
                .filter_map(|(object, length, start)| Request::of(object, length, start, u64::MAX))
                .collect();
            let trace = Trace { name: "trace".to_owned(), requests };
            prop_assert_eq!(decode(encode(&trace).as_bytes(), Format::Nilas), Ok(trace.requests));
        }

        #[test]
        fn whatever_a_file_holds_it_is_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            for format in [Format::Nilas, Format::OracleGeneral, Format::IbmCos] {
                let _ = decode(&bytes, format);
            }
        }
    }

    #[test]
    fn an_oracle_record_is_a_read_of_a_whole_object() {
        let mut bytes = Vec::new();
        for (object, length) in [(7_u64, 100_u32), (8, 0), (7, 100)] {
            bytes.extend(5_u32.to_le_bytes());
            bytes.extend(object.to_le_bytes());
            bytes.extend(length.to_le_bytes());
            bytes.extend((-1_i64).to_le_bytes());
        }
        let read = decode(&bytes, Format::OracleGeneral);
        assert_eq!(read, Ok(vec![of(7, 100, 0, 100), of(7, 100, 0, 100)]));
        let refused = decode(&bytes[1..], Format::OracleGeneral).expect_err("a byte is missing");
        assert!(refused.contains("no whole records"), "{refused}");
    }

    #[test]
    fn of_an_ibm_trace_the_reads_are_taken() {
        let text = "1219008 REST.PUT.OBJECT 8d4fcda3d675bac9 1056\n\
            1221974 REST.HEAD.OBJECT 39d177fb735ac5df 528\n\
            1232437 REST.GET.OBJECT ff 528\n\
            1232488,REST.GET.OBJECT,ff,528,10,19\n\
            1232489 REST.GET.OBJECT ff\n\n\
            1234545 REST.DELETE.OBJECT ff\n";
        let read = decode(text.as_bytes(), Format::IbmCos);
        assert_eq!(read, Ok(vec![of(255, 528, 0, 528), of(255, 528, 10, 20)]));
        let refused = decode(b"1 REST.GET.OBJECT ff 528 x 19", Format::IbmCos);
        assert!(refused.expect_err("x is no number").starts_with("line 1: something"));
    }

    #[test]
    fn a_line_of_ours_that_makes_no_sense_is_named() {
        let refused = |text: &str| decode(text.as_bytes(), Format::Nilas).expect_err("no sense");
        assert!(refused("1,2,0,1\n").contains("its first line"));
        let line = refused(&format!("# a remark\n{COLUMNS}\n1,10,0,10\n1,10,10,11\n"));
        assert!(line.starts_with("line 4: `1,10,10,11`"), "{line}");
    }
}
