//! ListParts and ListMultipartUploads.

use std::fs;

use nilas_base::UnixMillis;

use super::super::call::Call;
use super::super::checksums::xml_name;
use super::super::failure::{Outcome, not_implemented, xml_answer};
use super::super::list::{PAGE_ENTRIES_MAX, encoded_name, encodes_names, iso, write_owner};
use super::super::object::is_absent;
use super::super::xml::XmlWriter;
use super::upload::{Upload, uploads_folder};
use crate::origin::OriginAnswer;

/// Answers `GET /bucket/key?uploadId`.
pub(in super::super) fn list_parts(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&["uploadId", "max-parts", "part-number-marker"])?;
    let bucket = call.bucket()?;
    let upload = Upload::open(&bucket, call)?;
    let marker = call.number("part-number-marker", 0)?;
    let entries_max = call.number("max-parts", PAGE_ENTRIES_MAX)?.min(PAGE_ENTRIES_MAX);
    let mut parts = upload.parts()?;
    parts.retain(|part| part.number > marker);
    let is_truncated = parts.len() > entries_max as usize;
    parts.truncate(entries_max as usize);

    let xml = XmlWriter::document("ListPartsResult", |xml| {
        xml.text("Bucket", &call.bucket_name);
        xml.text("Key", &call.key);
        xml.text("UploadId", &upload.id);
        xml.text("PartNumberMarker", &marker.to_string());
        let last = parts.last().map_or(marker, |part| part.number);
        xml.text("NextPartNumberMarker", &last.to_string());
        xml.text("MaxParts", &entries_max.to_string());
        xml.text("IsTruncated", if is_truncated { "true" } else { "false" });
        write_owner(xml);
        xml.text("StorageClass", "STANDARD");
        xml.optional("ChecksumAlgorithm", upload.said.algorithm.as_deref());
        xml.optional("ChecksumType", upload.said.checksum_type.as_deref());
        for part in &parts {
            xml.group("Part", |xml| {
                xml.text("PartNumber", &part.number.to_string());
                xml.text("LastModified", &iso(UnixMillis(part.modified_ms)));
                xml.text("ETag", &format!("\"{}\"", part.etag));
                xml.text("Size", &part.bytes.to_string());
                if let Some(algorithm) = upload.said.algorithm() {
                    xml.optional(&xml_name(algorithm), part.checksum.as_deref());
                }
            });
        }
    });
    Ok(xml_answer(200, xml.into()))
}

/// Answers `GET /bucket?uploads`.
pub(in super::super) fn list_uploads(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&[
        "uploads",
        "prefix",
        "delimiter",
        "encoding-type",
        "key-marker",
        "upload-id-marker",
        "max-uploads",
    ])?;
    if call.parameter("delimiter").is_some_and(|delimiter| !delimiter.is_empty()) {
        return Err(not_implemented("ListMultipartUploads with a delimiter"));
    }
    let encodes = encodes_names(call)?;
    let marker = (
        call.parameter("key-marker").unwrap_or_default(),
        call.parameter("upload-id-marker").unwrap_or_default(),
    );
    let entries_max = call.number("max-uploads", PAGE_ENTRIES_MAX)?.min(PAGE_ENTRIES_MAX);
    let mut uploads = wanted_uploads(call, marker)?;
    let is_truncated = uploads.len() > entries_max as usize;
    uploads.truncate(entries_max as usize);

    let xml = XmlWriter::document("ListMultipartUploadsResult", |xml| {
        xml.text("Bucket", &call.bucket_name);
        xml.text("KeyMarker", &encoded_name(marker.0, encodes));
        xml.text("UploadIdMarker", marker.1);
        if let Some(last) = uploads.last().filter(|_| is_truncated) {
            xml.text("NextKeyMarker", &encoded_name(&last.said.key, encodes));
            xml.text("NextUploadIdMarker", &last.id);
        }
        xml.text("Prefix", &encoded_name(call.parameter("prefix").unwrap_or_default(), encodes));
        xml.text("MaxUploads", &entries_max.to_string());
        xml.text("IsTruncated", if is_truncated { "true" } else { "false" });
        xml.optional("EncodingType", encodes.then_some("url"));
        for upload in &uploads {
            xml.group("Upload", |xml| write_upload(xml, upload, encodes));
        }
    });
    Ok(xml_answer(200, xml.into()))
}

fn write_upload(xml: &mut XmlWriter, upload: &Upload, encodes: bool) {
    xml.text("Key", &encoded_name(&upload.said.key, encodes));
    xml.text("UploadId", &upload.id);
    write_owner(xml);
    xml.text("StorageClass", "STANDARD");
    xml.text("Initiated", &iso(UnixMillis(upload.said.initiated_ms)));
}

fn wanted_uploads(call: &Call, marker: (&str, &str)) -> Outcome<Vec<Upload>> {
    let bucket = call.bucket()?;
    let prefix = call.parameter("prefix").unwrap_or_default();
    let mut uploads = Vec::new();
    let entries = match fs::read_dir(uploads_folder(&bucket)) {
        Err(error) if is_absent(&error) => return Ok(uploads),
        entries => entries?,
    };
    for entry in entries {
        let Ok(id) = entry?.file_name().into_string() else { continue };
        uploads.extend(Upload::find(&bucket, &id)?);
    }
    let is_behind = |upload: &Upload| match marker {
        (key, "") => upload.said.key.as_str() > key,
        (key, id) => (upload.said.key.as_str(), upload.id.as_str()) > (key, id),
    };
    uploads.retain(|upload| upload.said.key.starts_with(prefix) && is_behind(upload));
    uploads.sort_by(|one, other| (&one.said.key, &one.id).cmp(&(&other.said.key, &other.id)));
    Ok(uploads)
}
