//! A trace: who read which bytes of which object, in order. Objects are numbers; nothing else is known of them.

use nilas_base::ByteRange;

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which version of which object.
    pub object: u64,
    /// Its length, bytes.
    pub length: u64,
    /// What is read of it: at least a byte, and none beyond its end.
    pub range: ByteRange,
}

/// Reads in order, of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What it is a trace of.
    pub name: String,
    /// The reads.
    pub requests: Vec<Request>,
}

impl Request {
    /// A read of a whole object; nothing where there is no byte to read.
    pub fn whole(object: u64, length: u64) -> Option<Request> {
        Request::of(object, length, 0, length)
    }

    /// A read of the bytes from `start` until `end`, as far as the object has them.
    pub fn of(object: u64, length: u64, start: u64, end: u64) -> Option<Request> {
        let end = end.min(length);
        (start < end).then(|| Request { object, length, range: ByteRange::new(start, end) })
    }
}
