//! What a file cannot say of the object it holds: ETag, content type, user metadata, checksums.
//! A sidecar is named for the file's identity (inode, modification time, size), not for the key:
//! it is written before its file takes the key's place, and a file changed by hand has none.
//! JSON, one line, in `.nilas/metadata/<two digits of the inode>/`.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use super::bucket::Bucket;

/// The largest sidecar that is read. S3's limits on headers and metadata are far below.
const SIDECAR_BYTES_MAX: u64 = 64 * 1024;

/// What is kept of an object beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sidecar {
    /// The ETag without quotes.
    pub(super) etag: String,
    /// System headers of the object by lower-case name: content type, cache control, and so on.
    pub(super) headers: BTreeMap<String, String>,
    /// User metadata by lower-case name, without `x-amz-meta-`.
    pub(super) metadata: BTreeMap<String, String>,
    /// Checksums by header name, as base64.
    pub(super) checksums: BTreeMap<String, String>,
    /// `FULL_OBJECT` or `COMPOSITE`, where there are checksums.
    pub(super) checksum_type: Option<String>,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    inode: u64,
    modified_ns: i128,
    bytes: u64,
}

impl FileIdentity {
    pub(super) fn of(metadata: &Metadata) -> FileIdentity {
        let modified_ns =
            i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        FileIdentity { inode: metadata.ino(), modified_ns, bytes: metadata.len() }
    }

    /// The ETag of a file that was put there by hand; it changes when the file does.
    fn etag(self) -> String {
        hex::encode(Md5::digest(format!("{self:?}")))
    }

    fn path(self, bucket: &Bucket) -> PathBuf {
        let folder = format!("{:02x}", self.inode % 256);
        let name = format!("{}-{}-{}", self.inode, self.modified_ns, self.bytes);
        bucket.hidden().join("metadata").join(folder).join(name)
    }
}

impl Sidecar {
    /// The sidecar of a file in this state; `None` where there is none, or one that makes no sense.
    pub(super) fn read(bucket: &Bucket, identity: FileIdentity) -> io::Result<Option<Sidecar>> {
        let path = identity.path(bucket);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.len() > SIDECAR_BYTES_MAX => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let found = fs::read(&path)?;
        Ok(serde_json::from_slice(&found).ok())
    }

    /// What is known of a file without a sidecar.
    pub(super) fn derived(identity: FileIdentity) -> Sidecar {
        Sidecar { etag: identity.etag(), ..Sidecar::default() }
    }

    /// Writes it for a file in this state, durably.
    pub(super) fn write(&self, bucket: &Bucket, identity: FileIdentity) -> io::Result<()> {
        let text = serde_json::to_vec(self).expect("strings and maps of them are always JSON");
        bucket.write_whole(&identity.path(bucket), &text)
    }

    /// Forgets the sidecar of a file that is no more.
    pub(super) fn remove(bucket: &Bucket, identity: FileIdentity) {
        // A sidecar left behind names a file that no longer exists: litter, never a wrong answer.
        let _ = fs::remove_file(identity.path(bucket));
    }
}
