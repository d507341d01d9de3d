//! The wire: HTTP/1.1 and S3, bytes in, bytes out. Every room is pure functions or a state machine;
//! nothing here opens a socket, reads a clock or knows a cache.
//! A request passes the rooms in the order of the list: head, target, operation, sigv4, then its body.
#![forbid(unsafe_code)]

/// Bodies in S3's own chunks: decoded, verified, framed anew.
pub mod aws_chunked;
/// Checksums of bodies.
pub mod checksum;
/// The decoder of HTTP's chunked request bodies.
pub mod chunked;
/// Conditional reads.
pub mod conditional;
/// Dates as HTTP and S3 write them.
pub mod copy_source;
pub mod date;
/// The request body of DeleteObjects.
pub mod delete_list;
/// S3's errors and their XML.
pub mod error;
/// The request head, parsed in place.
pub mod form;
pub mod head;
/// Headers that do not travel on.
pub mod hop;
/// Which S3 operation a request is, and whether it is served or relayed.
pub mod operation;
/// Percent-encoding.
pub mod percent;
/// The PROXY protocol of balancers.
pub mod proxy;
/// Raw query strings.
pub mod query;
/// The `Range` header.
pub mod range;
/// Response heads.
pub mod response;
/// Signature Version 4: verifying clients, signing for origins.
pub mod sigv4;
/// Bucket and key out of host and path.
pub mod target;

mod sink;

pub use error::{Code, S3Error};
pub use sink::{Counted, Sink};
