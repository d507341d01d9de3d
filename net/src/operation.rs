//! Which S3 operation a request is, and whether this node may answer it. Only plain reads of an
//! object's current version are served; whatever is unknown here is relayed, never refused.

use crate::conditional::Conditions;
use crate::head::{BodyLength, Method, RequestHead};
use crate::query::{self, Pair};

/// A request as metrics, scopes and routing see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The operation.
    pub operation: Operation,
    /// Who answers.
    pub kind: Kind,
    /// Whether the client asked for checksums (`x-amz-checksum-mode: ENABLED`).
    pub checksum_mode: bool,
    /// The part that is wanted of an object that was uploaded in parts.
    pub part: Option<u16>,
}

/// Who answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GetObject from the tiers.
    ServedGet,
    /// HeadObject from the mapping.
    ServedHead,
    /// The origin.
    Relayed,
}

/// What an operation may change; what a cache must forget before the answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// The object that the path names.
    WritesObject,
    /// Objects that the body names.
    WritesListed,
    /// Who may read: of the object, or of the whole bucket when there is no key.
    ChangesAccess,
    /// The bucket, and thereby anything in it.
    WritesBucket,
}

macro_rules! operations {
    ($($operation:ident $effect:ident;)*) => {
        /// An S3 operation. Sub-resources of buckets are told apart only by read and write.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "their names are S3's own")]
        pub enum Operation { $($operation,)* }

        impl Operation {
            /// Every operation.
            pub const ALL: &'static [Operation] = &[$(Operation::$operation,)*];

            /// Its name, as metrics carry it.
            pub fn name(self) -> &'static str {
                match self { $(Operation::$operation => stringify!($operation),)* }
            }

            /// What it may change.
            pub fn effect(self) -> Effect {
                match self { $(Operation::$operation => Effect::$effect,)* }
            }
        }
    };
}

operations! {
    ListBuckets Reads;
    HeadBucket Reads;
    CreateBucket WritesBucket;
    DeleteBucket WritesBucket;
    ListObjects Reads;
    ListObjectsV2 Reads;
    ListObjectVersions Reads;
    ListMultipartUploads Reads;
    GetBucketSubresource Reads;
    PutBucketSubresource ChangesAccess;
    DeleteBucketSubresource ChangesAccess;
    DeleteObjects WritesListed;
    PostObject WritesBucket;
    GetObject Reads;
    HeadObject Reads;
    GetObjectAcl Reads;
    GetObjectAttributes Reads;
    GetObjectTagging Reads;
    GetObjectSubresource Reads;
    ListParts Reads;
    SelectObjectContent Reads;
    PutObject WritesObject;
    CopyObject WritesObject;
    DeleteObject WritesObject;
    PutObjectAcl ChangesAccess;
    PutObjectTagging WritesObject;
    DeleteObjectTagging WritesObject;
    PutObjectSubresource WritesObject;
    DeleteObjectSubresource WritesObject;
    RestoreObject WritesObject;
    CreateMultipartUpload Reads;
    UploadPart Reads;
    UploadPartCopy Reads;
    CompleteMultipartUpload WritesObject;
    AbortMultipartUpload Reads;
    Preflight Reads;
    Unknown WritesBucket;
}

impl Operation {
    /// Whether an `x-amz-checksum-*` header is of the request's body; on a completed multipart upload it
    /// is of the object.
    pub fn checksum_is_of_body(self) -> bool {
        self != Operation::CompleteMultipartUpload
    }
}

/// Response headers that a signed read may override, by query parameter.
const OVERRIDES: [(&str, &str); 6] = [
    ("response-cache-control", "Cache-Control"),
    ("response-content-disposition", "Content-Disposition"),
    ("response-content-encoding", "Content-Encoding"),
    ("response-content-language", "Content-Language"),
    ("response-content-type", "Content-Type"),
    ("response-expires", "Expires"),
];

/// The response headers that the query overrides: header name and raw value.
pub fn overrides(query_raw: &str) -> impl Iterator<Item = (&'static str, Pair<'_>)> {
    query::pairs(query_raw).filter_map(|pair| {
        OVERRIDES
            .iter()
            .find(|(parameter, _)| pair.is(parameter))
            .map(|(_, header)| (*header, pair))
    })
}

/// Classifies a request whose target has a bucket or not, a key or not.
pub fn classify(head: &RequestHead<'_>, has_bucket: bool, has_key: bool) -> Classified {
    let query = head.query_raw();
    let operation = match (has_bucket, has_key) {
        (false, _) => of_service(head.method()),
        (true, false) => of_bucket(head.method(), query),
        (true, true) => of_object(head, query),
    };
    let relayed = Classified { operation, kind: Kind::Relayed, checksum_mode: false, part: None };
    let kind = match operation {
        Operation::GetObject => Kind::ServedGet,
        Operation::HeadObject => Kind::ServedHead,
        _ => return relayed,
    };
    if !matches!(head.body(), BodyLength::None | BodyLength::Bytes(0)) {
        return relayed;
    }
    let is_folder = names_a_folder(head.path_raw());
    let has_odd_override = overrides(query).any(|(_, pair)| is_folder || is_odd_override(pair));
    if has_odd_override || (is_folder && !Conditions::of(head).is_empty()) {
        return relayed;
    }
    let from_query = plain_read_query(query);
    let from_headers = plain_read_headers(head);
    match (from_query, from_headers) {
        (Some((in_query, part)), Some(in_headers)) => {
            Classified { operation, kind, checksum_mode: in_query || in_headers, part }
        }
        _ => relayed,
    }
}

/// Whether origins differ in what they make of an override: of none at all, and of what no header holds.
fn is_odd_override(pair: Pair<'_>) -> bool {
    let is_plain = |value: &str| value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    !pair.decoded().is_ok_and(|value| !value.is_empty() && is_plain(&value))
}

/// Whether the path's key ends with a slash, be it a backslash: to some origins a directory, of which
/// they override nothing and to which they put no condition.
fn names_a_folder(path_raw: &str) -> bool {
    let last_three = path_raw.len().checked_sub(3).and_then(|start| path_raw.get(start..));
    let is_escaped_slash =
        |end: &str| ["%2F", "%5C"].iter().any(|slash| end.eq_ignore_ascii_case(slash));
    path_raw.ends_with(['/', '\\']) || last_three.is_some_and(is_escaped_slash)
}

/// Parts of an object at most, S3's own limit.
const PART_NUMBER_MAX: u16 = 10_000;

/// A part's number as all origins read it: digits without a sign or a zero before them.
fn part_number(pair: Pair<'_>) -> Option<u16> {
    let digits = pair.value.filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()))?;
    let number = digits.parse().ok().filter(|_| !digits.starts_with('0'))?;
    (number <= PART_NUMBER_MAX).then_some(number)
}

/// `None` when a parameter asks for more than a plain read of the object or of a part of it; else
/// whether checksum mode is on, and which part is wanted.
fn plain_read_query(query_raw: &str) -> Option<(bool, Option<u16>)> {
    let mut checksum_mode = false;
    let mut part = None;
    for pair in query::pairs(query_raw) {
        // A presigned URL carries headers as parameters.
        if pair.is("x-amz-checksum-mode") {
            checksum_mode = pair.value == Some("ENABLED");
            checksum_mode.then_some(())?;
        } else if pair.is("partNumber") {
            let is_first = part.replace(part_number(pair)?).is_none();
            is_first.then_some(())?;
        } else if !(pair.is("x-id")
            || pair.is_presign()
            || OVERRIDES.iter().any(|(parameter, _)| pair.is(parameter)))
        {
            return None;
        }
    }
    Some((checksum_mode, part))
}

/// Headers of S3 that leave a read plain. The SDK for C++, hence PyArrow, names the API's version.
const PLAIN_READ_HEADERS: [&str; 5] = [
    "x-amz-api-version",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-user-agent",
];

/// `None` when a header asks for more than a plain read; else whether checksum mode is on.
fn plain_read_headers(head: &RequestHead<'_>) -> Option<bool> {
    let mut checksum_mode = false;
    if head.expects_otherwise() {
        return None;
    }
    // Of a browser's reads the answer depends on who embeds them, which only the origin knows.
    if head.header("origin").is_some() {
        return None;
    }
    for (name, value) in head.fields() {
        if !name.get(..6).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"x-amz-")) {
            continue;
        }
        if name.eq_ignore_ascii_case(b"x-amz-checksum-mode") {
            checksum_mode = value.eq_ignore_ascii_case(b"ENABLED");
            checksum_mode.then_some(())?;
        } else if !PLAIN_READ_HEADERS
            .iter()
            .any(|plain| name.eq_ignore_ascii_case(plain.as_bytes()))
        {
            return None;
        }
    }
    Some(checksum_mode)
}

fn of_service(method: Method<'_>) -> Operation {
    match method {
        Method::Get => Operation::ListBuckets,
        Method::Options => Operation::Preflight,
        _ => Operation::Unknown,
    }
}

fn has(query_raw: &str, name: &str) -> bool {
    query::find(query_raw, name).is_some()
}

/// Parameters of a listing, which are no sub-resources.
const LISTING: [&str; 11] = [
    "list-type",
    "prefix",
    "delimiter",
    "marker",
    "max-keys",
    "encoding-type",
    "start-after",
    "continuation-token",
    "fetch-owner",
    "x-id",
    "allow-unordered",
];

fn of_bucket(method: Method<'_>, query_raw: &str) -> Operation {
    let is_plain = query::pairs(query_raw)
        .all(|pair| pair.is_presign() || LISTING.iter().any(|parameter| pair.is(parameter)));
    match method {
        Method::Options => Operation::Preflight,
        Method::Get if has(query_raw, "versions") => Operation::ListObjectVersions,
        Method::Get if has(query_raw, "uploads") => Operation::ListMultipartUploads,
        Method::Get if has(query_raw, "list-type") => Operation::ListObjectsV2,
        Method::Get if is_plain => Operation::ListObjects,
        Method::Get => Operation::GetBucketSubresource,
        Method::Head => Operation::HeadBucket,
        Method::Put if is_plain => Operation::CreateBucket,
        Method::Put => Operation::PutBucketSubresource,
        Method::Delete if is_plain => Operation::DeleteBucket,
        Method::Delete => Operation::DeleteBucketSubresource,
        Method::Post if has(query_raw, "delete") => Operation::DeleteObjects,
        Method::Post if is_plain => Operation::PostObject,
        _ => Operation::Unknown,
    }
}

/// Sub-resources of an object that have no operation name of their own here.
const OBJECT_SUBRESOURCES: [&str; 4] = ["legal-hold", "retention", "torrent", "encryption"];

fn of_object(head: &RequestHead<'_>, query_raw: &str) -> Operation {
    let method = head.method();
    match method {
        Method::Options => Operation::Preflight,
        Method::Head => Operation::HeadObject,
        Method::Get => get_object(query_raw),
        Method::Put => put_object(head, query_raw),
        Method::Delete if has(query_raw, "uploadId") => Operation::AbortMultipartUpload,
        Method::Delete if has(query_raw, "tagging") => Operation::DeleteObjectTagging,
        Method::Delete if has_subresource(query_raw) => Operation::DeleteObjectSubresource,
        Method::Delete => Operation::DeleteObject,
        Method::Post if has(query_raw, "uploads") => Operation::CreateMultipartUpload,
        Method::Post if has(query_raw, "uploadId") => Operation::CompleteMultipartUpload,
        Method::Post if has(query_raw, "select") => Operation::SelectObjectContent,
        Method::Post if has(query_raw, "restore") => Operation::RestoreObject,
        Method::Post | Method::Other(_) => Operation::Unknown,
    }
}

fn has_subresource(query_raw: &str) -> bool {
    query::pairs(query_raw).any(|pair| is_subresource(&pair))
}

fn is_subresource(pair: &Pair<'_>) -> bool {
    OBJECT_SUBRESOURCES.iter().any(|name| pair.is(name))
}

/// The first parameter that names a sub-resource decides; most reads have none.
fn get_object(query_raw: &str) -> Operation {
    let named = query::pairs(query_raw).find_map(|pair| {
        let known = [
            ("acl", Operation::GetObjectAcl),
            ("attributes", Operation::GetObjectAttributes),
            ("tagging", Operation::GetObjectTagging),
            ("uploadId", Operation::ListParts),
        ];
        let operation = known.into_iter().find(|(name, _)| pair.is(name));
        match operation {
            Some((_, operation)) => Some(operation),
            None => is_subresource(&pair).then_some(Operation::GetObjectSubresource),
        }
    });
    named.unwrap_or(Operation::GetObject)
}

fn put_object(head: &RequestHead<'_>, query_raw: &str) -> Operation {
    let copies = head.header("x-amz-copy-source").is_some();
    if has(query_raw, "uploadId") {
        return if copies { Operation::UploadPartCopy } else { Operation::UploadPart };
    }
    if has(query_raw, "acl") {
        Operation::PutObjectAcl
    } else if has(query_raw, "tagging") {
        Operation::PutObjectTagging
    } else if has_subresource(query_raw) {
        Operation::PutObjectSubresource
    } else if copies {
        Operation::CopyObject
    } else {
        Operation::PutObject
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Parsed, parse_head};

    fn of(line: &str, headers: &str) -> Classified {
        let request = format!("{line} HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        let Parsed::Whole(head, _) = parse_head(request.as_bytes()).expect("well formed") else {
            panic!("the head is whole")
        };
        let path = head.path_raw();
        let has_bucket = path.len() > 1;
        let has_key = path[1..].split_once('/').is_some_and(|(_, key)| !key.is_empty());
        classify(&head, has_bucket, has_key)
    }

    fn check(line: &str, operation: Operation, kind: Kind) {
        let found = of(line, "");
        assert_eq!((found.operation, found.kind), (operation, kind), "{line}");
    }

    #[test]
    fn plain_reads_are_served() {
        use Operation::{GetObject, HeadObject};
        check("GET /b/k", GetObject, Kind::ServedGet);
        check("HEAD /b/k", HeadObject, Kind::ServedHead);
        check("GET /b/k?x-id=GetObject", GetObject, Kind::ServedGet);
        check("GET /b/k?response-content-type=a&response-expires=b", GetObject, Kind::ServedGet);
        check(
            "GET /b/k?X-Amz-Algorithm=a&X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Expires=1&X-Amz-SignedHeaders=host&X-Amz-Signature=s&X-Amz-Security-Token=t",
            GetObject,
            Kind::ServedGet,
        );
    }

    #[test]
    fn a_part_is_named_by_its_number() {
        for (query, part) in [
            ("", None),
            ("partNumber=1", Some(1)),
            ("x-id=GetObject&partNumber=10000", Some(10_000)),
        ] {
            for method in ["GET", "HEAD"] {
                let found = of(&format!("{method} /b/k?{query}"), "");
                assert_eq!((found.kind == Kind::Relayed, found.part), (false, part), "{query}");
            }
        }
    }

    #[test]
    fn reads_of_anything_else_are_relayed() {
        for query in [
            "versionId=1",
            "versionId=null",
            "partNumber=0",
            "partNumber=01",
            "partNumber=10001",
            "partNumber=99999999999",
            "partNumber=%31",
            "partNumber=",
            "partNumber",
            "partNumber=1&partNumber=1",
            "partNumber=1&versionId=1",
            "partnumber=1",
            "acl",
            "tagging",
            "torrent",
            "attributes",
            "uploadId=1",
            "legal-hold",
            "retention",
            "unknown",
            "unknown=1",
            "version%49d=1",
            "x-amz-checksum-mode=odd",
            "x-amz-server-side-encryption-customer-algorithm=AES256",
            "AWSAccessKeyId=a&Signature=s&Expires=1",
            "Versionid=1",
            "x-amz-algorithm=a",
            "=",
        ] {
            assert_eq!(of(&format!("GET /b/k?{query}"), "").kind, Kind::Relayed, "{query}");
            assert_eq!(of(&format!("HEAD /b/k?{query}"), "").kind, Kind::Relayed, "{query}");
        }
    }

    #[test]
    fn overrides_that_are_empty_or_no_header_are_the_origins_to_apply() {
        for value in ["", "a%0D%0Ab", "a%00b", "%09", "%C3%A9", "%zz"] {
            let line = format!("GET /b/k?response-expires=b&response-content-type={value}");
            assert_eq!(of(&line, "").kind, Kind::Relayed, "{value}");
        }
        assert_eq!(of("GET /b/k?response-content-type", "").kind, Kind::Relayed);
    }

    #[test]
    fn overrides_and_conditions_on_what_may_be_a_directory_are_the_origins_to_apply() {
        for path in ["/b/k/", "/b/k%2F", "/b/k%2f", "/b//", "/b/k%5c"] {
            let line = format!("GET {path}?response-content-type=a");
            assert_eq!(of(&line, "").kind, Kind::Relayed, "{path}");
            let line = format!("GET {path}");
            assert_eq!(of(&line, "If-Match: a\r\n").kind, Kind::Relayed, "{path}");
            assert_eq!(of(&line, "").kind, Kind::ServedGet, "{path}");
        }
    }

    #[test]
    fn headers_that_ask_for_more_are_relayed() {
        for header in [
            "x-amz-server-side-encryption-customer-algorithm: AES256",
            "x-amz-server-side-encryption-customer-key: a",
            "X-Amz-Expected-Bucket-Owner: 1",
            "x-amz-request-payer: requester",
            "x-amz-object-attributes: ETag",
            "x-amz-checksum-mode: later",
            "x-amz-of-the-future: 1",
            "Origin: https://app.example",
            "Expect: 200",
            "Content-Length: 1",
            "Transfer-Encoding: chunked",
        ] {
            assert_eq!(of("GET /b/k", &format!("{header}\r\n")).kind, Kind::Relayed, "{header}");
        }
    }

    #[test]
    fn what_sdks_add_to_every_read_leaves_it_plain() {
        let pyarrow = "x-amz-api-version: 2006-03-01\r\namz-sdk-request: attempt=1\r\n\
                       content-type: application/xml\r\nx-amz-checksum-mode: enabled\r\n";
        assert_eq!(of("GET /b/k", pyarrow).kind, Kind::ServedGet);
        assert_eq!(of("HEAD /b/k", pyarrow).kind, Kind::ServedHead);
    }

    #[test]
    fn checksum_mode_is_served_by_header_and_by_query() {
        let header = of(
            "GET /b/k",
            "X-Amz-Checksum-Mode: ENABLED\r\nx-amz-date: d\r\nContent-Length: 0\r\n",
        );
        assert_eq!((header.kind, header.checksum_mode), (Kind::ServedGet, true));
        let query = of("HEAD /b/k?x-amz-checksum-mode=ENABLED", "");
        assert_eq!((query.kind, query.checksum_mode), (Kind::ServedHead, true));
        assert!(!of("GET /b/k", "").checksum_mode);
    }

    #[test]
    fn every_other_operation_is_named_and_relayed() {
        use Operation as O;
        for (line, operation) in [
            ("GET /", O::ListBuckets),
            ("PATCH /", O::Unknown),
            ("OPTIONS /b/k", O::Preflight),
            ("GET /b", O::ListObjects),
            ("GET /b?prefix=a&delimiter=/", O::ListObjects),
            ("GET /b/?list-type=2&prefix=a", O::ListObjectsV2),
            ("GET /b?versions", O::ListObjectVersions),
            ("GET /b?uploads", O::ListMultipartUploads),
            ("GET /b?location", O::GetBucketSubresource),
            ("GET /b?future", O::GetBucketSubresource),
            ("HEAD /b", O::HeadBucket),
            ("PUT /b", O::CreateBucket),
            ("PUT /b?policy", O::PutBucketSubresource),
            ("DELETE /b", O::DeleteBucket),
            ("DELETE /b?cors", O::DeleteBucketSubresource),
            ("POST /b?delete", O::DeleteObjects),
            ("POST /b", O::PostObject),
            ("POST /b?future", O::Unknown),
            ("PUT /b/k", O::PutObject),
            ("PUT /b/k?x-id=PutObject", O::PutObject),
            ("PUT /b/k?partNumber=1&uploadId=2", O::UploadPart),
            ("PUT /b/k?acl", O::PutObjectAcl),
            ("PUT /b/k?tagging", O::PutObjectTagging),
            ("PUT /b/k?retention", O::PutObjectSubresource),
            ("DELETE /b/k", O::DeleteObject),
            ("DELETE /b/k?versionId=1", O::DeleteObject),
            ("DELETE /b/k?uploadId=1", O::AbortMultipartUpload),
            ("DELETE /b/k?tagging", O::DeleteObjectTagging),
            ("POST /b/k?uploads", O::CreateMultipartUpload),
            ("POST /b/k?uploadId=1", O::CompleteMultipartUpload),
            ("POST /b/k?select&select-type=2", O::SelectObjectContent),
            ("POST /b/k?restore", O::RestoreObject),
            ("POST /b/k", O::Unknown),
            ("GET /b/k?acl", O::GetObjectAcl),
            ("GET /b/k?attributes", O::GetObjectAttributes),
            ("GET /b/k?uploadId=1", O::ListParts),
            ("get /b/k", O::Unknown),
        ] {
            check(line, operation, Kind::Relayed);
        }
        let copy = "x-amz-copy-source: /b/a\r\n";
        assert_eq!(of("PUT /b/k", copy).operation, O::CopyObject);
        assert_eq!(of("PUT /b/k?partNumber=1&uploadId=2", copy).operation, O::UploadPartCopy);
    }

    #[test]
    fn overrides_are_found_by_their_parameters() {
        let found: Vec<_> =
            overrides("a=b&response-content-type=text%2Fcsv&response-expires=x").collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, "Content-Type");
        assert_eq!(found[0].1.decoded().expect("well formed"), "text/csv");
    }
}
