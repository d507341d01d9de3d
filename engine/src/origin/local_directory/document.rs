//! The list of parts that completes an upload, read from its XML. Elements that are not known are
//! passed over; what is not XML, or has more parts than there can be, is refused.

use nilas_net::Code;
use quick_xml::de::from_str;
use serde::Deserialize;

use super::failure::{Outcome, refused};

/// A part as the client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompletedPart {
    pub(super) number: u32,
    pub(super) etag: String,
    /// By whichever algorithm the upload has, as base64.
    pub(super) checksum: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename = "CompleteMultipartUpload")]
struct List {
    #[serde(rename = "Part", default)]
    parts: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "PartNumber")]
    number: u32,
    #[serde(rename = "ETag")]
    etag: String,
    #[serde(rename = "ChecksumCRC32")]
    crc32: Option<String>,
    #[serde(rename = "ChecksumCRC32C")]
    crc32c: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    crc64nvme: Option<String>,
    #[serde(rename = "ChecksumSHA1")]
    sha1: Option<String>,
    #[serde(rename = "ChecksumSHA256")]
    sha256: Option<String>,
}

/// Reads the list; at least one part, at most `parts_max`.
pub(super) fn read_completed_parts(xml: &[u8], parts_max: usize) -> Outcome<Vec<CompletedPart>> {
    let malformed = || refused(Code::MalformedXML);
    let text = std::str::from_utf8(xml).map_err(|_| malformed())?;
    let list: List = from_str(text).map_err(|_| malformed())?;
    if list.parts.is_empty() || list.parts.len() > parts_max {
        return Err(malformed());
    }
    Ok(list.parts.into_iter().map(Named::settled).collect())
}

impl Named {
    fn settled(self) -> CompletedPart {
        let checksum = self.crc32.or(self.crc32c).or(self.crc64nvme).or(self.sha1).or(self.sha256);
        CompletedPart { number: self.number, etag: self.etag, checksum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_parts_is_read() {
        let xml = r#"<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <Part><ETag>&quot;a&quot;</ETag><PartNumber>1</PartNumber></Part>
            <Part><PartNumber>2</PartNumber><ChecksumCRC32>AAAAAA==</ChecksumCRC32><ETag>"b"</ETag></Part>
            </CompleteMultipartUpload>"#;
        let parts = read_completed_parts(xml.as_bytes(), 10).expect("well formed");
        assert_eq!((parts[0].number, parts[0].etag.as_str()), (1, "\"a\""));
        assert_eq!(parts[1].checksum.as_deref(), Some("AAAAAA=="));
        assert!(read_completed_parts(xml.as_bytes(), 1).is_err(), "more parts than there can be");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for xml in [
            "",
            "<",
            "<CompleteMultipartUpload/>",
            "<A><Part/></A>",
            "\u{0}",
            "{}",
            "<CompleteMultipartUpload><Part><PartNumber>x</PartNumber></Part></CompleteMultipartUpload>",
        ] {
            assert!(read_completed_parts(xml.as_bytes(), 10).is_err(), "{xml:?}");
        }
    }
}
