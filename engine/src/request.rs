//! One request on its way through a story: what it is, who sent it, when it began, and what becomes
//! of its connection afterwards.

use nilas_base::Monotonic;
use nilas_net::head::{RequestHead, Version};
use nilas_net::operation::{Classified, Kind, Operation as S3Operation};
use nilas_net::target::Target;

use crate::access::Sender;
use crate::audit::Notes;
use crate::identity::NameRef;
use crate::mapping::PartAsked;
use crate::metrics::{Operation, Tier};
use crate::shard::Shard;

/// A request that was admitted.
pub struct Request<'a> {
    /// Its head.
    pub head: &'a RequestHead<'a>,
    /// Bucket and key.
    pub target: Target<'a>,
    /// What it asks for.
    pub classified: Classified,
    /// Who sent it, and what was signed of its body.
    pub sender: Sender,
    /// Its id, for the answer and for whoever reports it.
    pub id: RequestId,
    /// When its head was whole.
    pub started: Monotonic,
    /// What an audit would tell of it.
    pub notes: Notes,
}

/// An id that no other request of this node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub u64);

impl Request<'_> {
    /// What it asks of a part of an object, if that is all it asks for.
    pub fn part(&self) -> Option<PartAsked> {
        let Classified { kind, checksum_mode: checksums, part, .. } = self.classified;
        part.map(|number| PartAsked { number, body: kind == Kind::ServedGet, checksums })
    }
}

impl RequestId {
    /// As it is sent: sixteen hexadecimal digits.
    pub fn digits(self) -> [u8; 16] {
        let mut digits = [0; 16];
        for (place, digit) in digits.iter_mut().rev().enumerate() {
            *digit = b"0123456789ABCDEF"[(self.0 >> (4 * place)) as usize & 15];
        }
        digits
    }

    /// The same, as text.
    pub fn text(self) -> String {
        String::from_utf8_lossy(&self.digits()).into_owned()
    }
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next request may come.
    KeepAlive,
    /// It is closed: the answer was complete, and nothing more is to come.
    Close,
    /// It is closed once the client has had time to read the answer: more of its request may come.
    Linger,
}

impl<'a> Request<'a> {
    /// The object it names; `None` for requests on buckets and the service.
    pub fn name(&self) -> Option<NameRef<'a>> {
        Some(NameRef { bucket: self.target.bucket?, key: self.target.key? })
    }

    /// What follows a complete answer to a request whose body was read.
    pub fn next(&self, shard: &Shard) -> Next {
        match self.head.keep_alive() && !shard.draining.get() {
            true => Next::KeepAlive,
            false => Next::Close,
        }
    }

    /// Whether the answer may come in HTTP chunks.
    pub fn takes_chunks(&self) -> bool {
        self.head.version() == Version::Http11
    }

    /// Counts the answer.
    pub fn count(&self, shard: &Shard, status: u16, tier: Tier) {
        self.notes.status(status);
        let latency = shard.reactor.clock().now().since(self.started);
        let operation = metrics_operation(self.classified.operation);
        shard.counters.request(operation, status, tier, latency.as_nanos() as u64);
    }
}

/// The metrics' coarser view of an operation.
pub fn metrics_operation(operation: S3Operation) -> Operation {
    use S3Operation as S3;
    match operation {
        S3::GetObject => Operation::GetObject,
        S3::HeadObject => Operation::HeadObject,
        S3::PutObject | S3::CopyObject => Operation::PutObject,
        S3::DeleteObject | S3::DeleteObjects => Operation::DeleteObject,
        S3::ListObjects | S3::ListObjectsV2 | S3::ListObjectVersions => Operation::ListObjects,
        S3::CreateMultipartUpload
        | S3::UploadPart
        | S3::UploadPartCopy
        | S3::CompleteMultipartUpload
        | S3::AbortMultipartUpload
        | S3::ListParts
        | S3::ListMultipartUploads => Operation::MultipartUpload,
        S3::ListBuckets
        | S3::HeadBucket
        | S3::CreateBucket
        | S3::DeleteBucket
        | S3::GetBucketSubresource
        | S3::PutBucketSubresource
        | S3::DeleteBucketSubresource => Operation::Bucket,
        _ => Operation::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_sixteen_digits() {
        assert_eq!(&RequestId(0x1234_ABCD).digits(), b"000000001234ABCD");
    }
}
