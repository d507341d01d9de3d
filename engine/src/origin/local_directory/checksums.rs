//! What S3 says of checksum algorithms: their names in headers and XML, and which may cover a
//! multipart object as a whole or only its parts.

use std::collections::BTreeMap;

use nilas_net::checksum::Algorithm;

use super::xml::XmlWriter;

/// `x-amz-checksum-type` of a checksum over all bytes.
pub(super) const FULL_OBJECT: &str = "FULL_OBJECT";
/// `x-amz-checksum-type` of a checksum over the parts' checksums.
pub(super) const COMPOSITE: &str = "COMPOSITE";

/// The algorithm of this name in `x-amz-checksum-algorithm`.
pub(super) fn algorithm_named(name: &str) -> Option<Algorithm> {
    Algorithm::ALL
        .into_iter()
        .find(|known| *known != Algorithm::Md5 && known.name().eq_ignore_ascii_case(name))
}

/// The algorithm whose checksum is in the header `x-amz-checksum-…`.
pub(super) fn algorithm_of_header(name: &str) -> Option<Algorithm> {
    Algorithm::of_header(name).filter(|known| *known != Algorithm::Md5)
}

/// The element of its checksum in S3's XML.
pub(super) fn xml_name(algorithm: Algorithm) -> String {
    format!("Checksum{}", algorithm.name())
}

/// The types that a multipart object's checksum may have, the usual one first.
pub(super) fn multipart_types(algorithm: Algorithm) -> &'static [&'static str] {
    match algorithm {
        Algorithm::Crc64Nvme => &[FULL_OBJECT],
        Algorithm::Crc32 | Algorithm::Crc32C => &[COMPOSITE, FULL_OBJECT],
        Algorithm::Sha1 | Algorithm::Sha256 | Algorithm::Md5 => &[COMPOSITE],
    }
}

/// Writes an object's checksums, kept by header name.
pub(super) fn write_checksums(xml: &mut XmlWriter, checksums: &BTreeMap<String, String>) {
    for (name, value) in checksums {
        if let Some(algorithm) = algorithm_of_header(name) {
            xml.text(&xml_name(algorithm), value);
        }
    }
}
