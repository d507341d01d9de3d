//! What a credential may do: in which buckets, under which prefixes, how much of it. All but the
//! keys that a body lists is decided on the head. What is not known here needs the widest mode.

use nilas_net::copy_source::parse_copy_source;
use nilas_net::head::{Method, RequestHead};
use nilas_net::operation::{Effect, Operation};
use nilas_net::target::Target;
use nilas_net::{Code, S3Error, query};

use crate::config::Glob;
use crate::invalidate::Touched;

/// How much a credential may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Read objects and list them.
    ReadOnly,
    /// Write and delete them, too.
    ReadWrite,
    /// Everything: buckets and their settings, too.
    #[default]
    Admin,
}

/// What a credential may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// How much.
    pub mode: Mode,
    /// In which buckets; in every one where there is none.
    pub buckets: Vec<Glob>,
    /// Under which beginnings of keys; everywhere where there is none.
    pub prefixes: Vec<String>,
}

impl Scope {
    /// Whether a request is within it, as far as its head tells.
    pub fn admits(
        &self,
        head: &RequestHead<'_>,
        target: &Target<'_>,
        operation: Operation,
    ) -> Result<(), S3Error> {
        let needed = mode_for(head, operation);
        if needed > self.mode {
            return Err(refusal(mode_sentence(needed)));
        }
        let Some(bucket) = target.bucket else { return Ok(()) };
        self.admits_bucket(bucket)?;
        match target.key {
            Some(key) => self.admits_key(key)?,
            None => self.admits_on_bucket(head, operation)?,
        }
        self.admits_sources(head)
    }

    /// Whether a form may write a key of a bucket.
    pub fn admits_form(&self, bucket: &str, key: Option<&str>) -> Result<(), S3Error> {
        if self.mode < Mode::ReadWrite {
            return Err(refusal(mode_sentence(Mode::ReadWrite)));
        }
        self.admits_bucket(bucket)?;
        self.admits_key(key.unwrap_or_default())
    }

    /// Whether it covers every key of the buckets that it covers.
    pub fn covers_every_key(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Whether it covers a bucket.
    pub fn covers_bucket(&self, bucket: &str) -> bool {
        self.buckets.is_empty() || self.buckets.iter().any(|glob| glob.matches(bucket))
    }

    /// Whether it covers every bucket.
    pub fn covers_every_bucket(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Whether it covers what a request's body names.
    pub fn admits_touched(&self, touched: &Touched<'_>) -> Result<(), S3Error> {
        match touched {
            Touched::Keys(_, keys) => keys.iter().try_for_each(|key| self.admits_key(key)),
            Touched::Bucket(_) if !self.prefixes.is_empty() => Err(refusal(UNREADABLE_LIST)),
            Touched::Bucket(_) | Touched::Key(_) | Touched::Nothing => Ok(()),
        }
    }

    /// The objects that a write reads.
    fn admits_sources(&self, head: &RequestHead<'_>) -> Result<(), S3Error> {
        if self.buckets.is_empty() && self.prefixes.is_empty() {
            return Ok(());
        }
        for source in head.headers_named("x-amz-copy-source") {
            let source = parse_copy_source(source).map_err(|_| refusal(BAD_SOURCE))?;
            self.admits_bucket(&source.bucket)?;
            self.admits_key(&source.key)?;
        }
        // What a rename names depends on the origin.
        match head.header("x-amz-rename-source") {
            Some(_) => Err(refusal(BAD_SOURCE)),
            None => Ok(()),
        }
    }

    fn admits_bucket(&self, bucket: &str) -> Result<(), S3Error> {
        self.covers_bucket(bucket)
            .then_some(())
            .ok_or_else(|| refusal("The scope of this access key does not cover this bucket."))
    }

    fn admits_key(&self, key: &str) -> Result<(), S3Error> {
        let is_covered =
            self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        is_covered
            .then_some(())
            .ok_or_else(|| refusal("The scope of this access key does not cover this key."))
    }

    /// A listing must ask for no more than one of the prefixes; the body of a list of deletes is
    /// looked at later.
    fn admits_on_bucket(
        &self,
        head: &RequestHead<'_>,
        operation: Operation,
    ) -> Result<(), S3Error> {
        let is_held_elsewhere = matches!(
            operation,
            Operation::HeadBucket | Operation::DeleteObjects | Operation::GetBucketSubresource
        );
        if self.prefixes.is_empty() || is_held_elsewhere {
            return Ok(());
        }
        if !lists(operation) {
            return Err(refusal(
                "The scope of this access key covers prefixes, not a whole bucket.",
            ));
        }
        let asked = query::find(head.query_raw(), "prefix").map(|pair| pair.decoded());
        match asked {
            Some(Ok(prefix)) => self.admits_key(&prefix).map_err(|_| refusal(WIDE_LISTING)),
            _ => Err(refusal(WIDE_LISTING)),
        }
    }
}

const BAD_SOURCE: &str = "The source of the copy cannot be read, so that nobody can tell whether the \
    scope of this access key covers it.";
const UNREADABLE_LIST: &str = "What this request names cannot be read, so that nobody can tell \
    whether the scope of this access key covers it.";
const WIDE_LISTING: &str =
    "The scope of this access key covers prefixes: a listing must ask for one of them.";

fn refusal(because: &'static str) -> S3Error {
    S3Error::because(Code::AccessDenied, because)
}

fn mode_sentence(needed: Mode) -> &'static str {
    match needed {
        Mode::ReadOnly | Mode::ReadWrite => "This access key may only read.",
        Mode::Admin => "This access key may not look at or change buckets and their settings.",
    }
}

fn lists(operation: Operation) -> bool {
    use Operation as S3;
    matches!(
        operation,
        S3::ListObjects | S3::ListObjectsV2 | S3::ListObjectVersions | S3::ListMultipartUploads
    )
}

/// Whether an operation looks at or changes what is not an object: buckets, their settings, rights.
pub fn is_administrative(head: &RequestHead<'_>, operation: Operation) -> bool {
    mode_for(head, operation) == Mode::Admin || operation.effect() == Effect::ChangesAccess
}

/// The least mode in which an operation is allowed.
fn mode_for(head: &RequestHead<'_>, operation: Operation) -> Mode {
    use Operation as S3;
    match operation {
        S3::Unknown | S3::CreateBucket | S3::DeleteBucket => Mode::Admin,
        S3::PutBucketSubresource | S3::DeleteBucketSubresource => Mode::Admin,
        // Clients ask for a bucket's region before they read.
        S3::GetBucketSubresource if asks_for_location(head) => Mode::ReadOnly,
        S3::GetBucketSubresource => Mode::Admin,
        S3::PostObject | S3::CreateMultipartUpload | S3::UploadPart => Mode::ReadWrite,
        S3::UploadPartCopy | S3::AbortMultipartUpload => Mode::ReadWrite,
        _ if operation.effect() == Effect::Reads => Mode::ReadOnly,
        _ => Mode::ReadWrite,
    }
}

fn asks_for_location(head: &RequestHead<'_>) -> bool {
    head.method() == Method::Get && query::find(head.query_raw(), "location").is_some()
}

#[cfg(test)]
mod tests {
    use nilas_net::head::{Parsed, parse_head};
    use nilas_net::operation::classify;
    use nilas_net::target::Addressing;

    use super::*;

    fn scope(mode: Mode, buckets: &[&str], prefixes: &[&str]) -> Scope {
        Scope {
            mode,
            buckets: buckets.iter().map(|text| Glob::new(text)).collect(),
            prefixes: prefixes.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    fn admits(scope: &Scope, line: &str, header: &str) -> bool {
        let text = format!("{line} HTTP/1.1\r\nHost: h\r\n{header}\r\n");
        let Ok(Parsed::Whole(head, _)) = parse_head(text.as_bytes()) else { panic!("{line}") };
        let mut decoded = Vec::new();
        let target = Addressing::default()
            .resolve(head.host(), head.path_raw(), &mut decoded)
            .expect("a target");
        let operation = classify(&head, target.bucket.is_some(), target.key.is_some()).operation;
        scope.admits(&head, &target, operation).is_ok()
    }

    #[test]
    fn each_mode_admits_what_it_says_and_no_more() {
        let lines = [
            (Mode::ReadOnly, "GET /lake/k"),
            (Mode::ReadOnly, "HEAD /lake/k"),
            (Mode::ReadOnly, "GET /lake?list-type=2"),
            (Mode::ReadOnly, "GET /lake?location"),
            (Mode::ReadOnly, "HEAD /lake"),
            (Mode::ReadOnly, "GET /"),
            (Mode::ReadOnly, "GET /lake/k?tagging"),
            (Mode::ReadWrite, "PUT /lake/k"),
            (Mode::ReadWrite, "DELETE /lake/k"),
            (Mode::ReadWrite, "POST /lake?delete"),
            (Mode::ReadWrite, "POST /lake/k?uploads"),
            (Mode::ReadWrite, "PUT /lake/k?partNumber=1&uploadId=u"),
            (Mode::ReadWrite, "DELETE /lake/k?uploadId=u"),
            (Mode::ReadWrite, "POST /lake/k?uploadId=u"),
            (Mode::ReadWrite, "PUT /lake/k?acl"),
            (Mode::ReadWrite, "POST /lake"),
            (Mode::Admin, "PUT /lake"),
            (Mode::Admin, "DELETE /lake"),
            (Mode::Admin, "GET /lake?policy"),
            (Mode::Admin, "PUT /lake?policy"),
            (Mode::Admin, "POST /lake/k?of-the-future"),
        ];
        for mode in [Mode::ReadOnly, Mode::ReadWrite, Mode::Admin] {
            for (needed, line) in lines {
                let scope = scope(mode, &[], &[]);
                assert_eq!(admits(&scope, line, ""), mode >= needed, "{mode:?} {line}");
            }
        }
    }

    #[test]
    fn prefixes_cover_keys_listings_and_sources_of_copies() {
        let scope = scope(Mode::Admin, &["lake*"], &["a/", "b"]);
        for (line, header, is_admitted) in [
            ("GET /lake/a/k", "", true),
            ("GET /lake-2/b-k", "", true),
            ("GET /sea/a/k", "", false),
            ("GET /lake/c", "", false),
            ("GET /lake/a", "", false),
            ("GET /lake?prefix=a/", "", true),
            ("GET /lake?prefix=a%2Fdeep&list-type=2", "", true),
            ("GET /lake?prefix=", "", false),
            ("GET /lake", "", false),
            ("GET /lake?versions", "", false),
            ("GET /lake?uploads&prefix=b", "", true),
            ("HEAD /lake", "", true),
            ("GET /lake?location", "", true),
            ("POST /lake?delete", "", true),
            ("PUT /lake", "", false),
            ("POST /lake", "", false),
            ("PUT /lake/a/k", "x-amz-copy-source: /lake/a/other\r\n", true),
            ("PUT /lake/a/k", "x-amz-copy-source: lake-2/b%20c?versionId=1\r\n", true),
            ("PUT /lake/a/k", "x-amz-copy-source: /lake/c\r\n", false),
            ("PUT /lake/a/k", "x-amz-copy-source: /sea/a/k\r\n", false),
            ("PUT /lake/a/k", "x-amz-copy-source: odd\r\n", false),
        ] {
            assert_eq!(admits(&scope, line, header), is_admitted, "{line} {header}");
        }
    }

    #[test]
    fn every_key_of_a_list_must_be_covered() {
        let scope = scope(Mode::ReadWrite, &[], &["a/"]);
        let keys = |keys: &[&str]| Touched::Keys("lake", keys.iter().map(|&k| k.into()).collect());
        assert!(scope.admits_touched(&keys(&["a/1", "a/2"])).is_ok());
        assert!(scope.admits_touched(&keys(&["a/1", "b/2"])).is_err());
        assert!(scope.admits_touched(&Touched::Bucket("lake")).is_err());
        assert!(Scope::default().admits_touched(&Touched::Bucket("lake")).is_ok());
    }
}
