//! An upload on disk: created, found again, aborted. Its parts are `part`'s; it becomes an object
//! in `complete`.

use std::fs;
use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use http::HeaderMap;
use nilas_net::Code;
use nilas_net::checksum::Algorithm;
use serde::{Deserialize, Serialize};

use super::super::bucket::{Bucket, make_folders, unique_name};
use super::super::call::{Call, check_key};
use super::super::checksums::{FULL_OBJECT, algorithm_named, multipart_types};
use super::super::described::{WRITE_HEADERS, describe};
use super::super::failure::{Outcome, not_implemented, refused, refused_because, xml_answer};
use super::super::object::is_absent;
use super::super::sidecar::Sidecar;
use super::super::xml::XmlWriter;
use super::part::Part;
use crate::origin::OriginAnswer;

/// Bytes of an upload's id, hexadecimal digits.
const UPLOAD_ID_BYTES: usize = 32;

/// What was said at an upload's creation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) key: String,
    pub(super) initiated_ms: u64,
    pub(super) sidecar: Sidecar,
    /// As in `x-amz-checksum-algorithm`.
    pub(super) algorithm: Option<String>,
    pub(super) checksum_type: Option<String>,
}

impl Said {
    /// The algorithm of all parts' checksums.
    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        self.algorithm.as_deref().and_then(algorithm_named)
    }

    /// Whether the object's checksum is over its bytes, not over its parts' checksums.
    pub(super) fn is_full_object(&self) -> bool {
        self.checksum_type.as_deref() == Some(FULL_OBJECT)
    }
}

/// An upload under way.
#[derive(Clone, Debug)]
pub(super) struct Upload {
    pub(super) id: String,
    pub(super) folder: PathBuf,
    pub(super) said: Said,
}

impl Upload {
    /// The upload that the request names, which must be there and for this key.
    pub(super) fn open(bucket: &Bucket, call: &Call) -> Outcome<Upload> {
        let id = call.parameter("uploadId").unwrap_or_default();
        match Upload::find(bucket, id)? {
            Some(upload) if upload.said.key == call.key => Ok(upload),
            _ => Err(refused(Code::NoSuchUpload)),
        }
    }

    /// The upload of this id.
    pub(super) fn find(bucket: &Bucket, id: &str) -> io::Result<Option<Upload>> {
        // An id of another form would be a path.
        if id.len() != UPLOAD_ID_BYTES || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let folder = uploads_folder(bucket).join(id);
        let said = match fs::read(folder.join("upload.json")) {
            Err(error) if is_absent(&error) => return Ok(None),
            said => said?,
        };
        let said = serde_json::from_slice(&said).map_err(io::Error::other)?;
        Ok(Some(Upload { id: id.to_owned(), folder, said }))
    }

    /// Whether it has been neither completed nor aborted. Asked under the bucket's lock.
    pub(super) fn check_is_open(&self) -> Outcome<()> {
        match self.folder.join("upload.json").try_exists()? {
            true => Ok(()),
            false => Err(refused(Code::NoSuchUpload)),
        }
    }

    /// Its parts by number.
    pub(super) fn parts(&self) -> io::Result<Vec<Part>> {
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_part = path.extension().is_some_and(|extension| extension == "part");
            if is_part {
                parts.push(
                    serde_json::from_slice::<Part>(&fs::read(path)?).map_err(io::Error::other)?,
                );
            }
        }
        parts.sort_by_key(|part| part.number);
        Ok(parts)
    }

    /// Ends it; its parts are gone. Done under the bucket's lock.
    pub(super) fn remove(&self) -> io::Result<()> {
        // This first: without it there is no upload, whatever else is left.
        fs::remove_file(self.folder.join("upload.json"))?;
        fs::remove_dir_all(&self.folder)
    }
}

/// Where the uploads of a bucket are.
pub(super) fn uploads_folder(bucket: &Bucket) -> PathBuf {
    bucket.hidden().join("uploads")
}

/// Answers `POST /bucket/key?uploads`.
pub(in super::super) fn create_upload(call: &Call) -> Outcome<OriginAnswer> {
    check_key(&call.key)?;
    call.allow_parameters(&["uploads"])?;
    call.allow_headers(&WRITE_HEADERS)?;
    let bucket = call.bucket()?;
    let algorithm = asked_algorithm(call)?;
    let said = Said {
        key: call.key.clone(),
        initiated_ms: call.clock.wall().0,
        sidecar: describe(call)?,
        checksum_type: checksum_type(call, algorithm)?,
        algorithm: algorithm.map(|algorithm| algorithm.name().to_owned()),
    };
    let id = unique_name();
    let folder = uploads_folder(&bucket).join(&id);
    make_folders(bucket.folder(), &folder)?;
    let text = serde_json::to_vec(&said).expect("strings and maps of them are always JSON");
    bucket.write_whole(&folder.join("upload.json"), &text)?;

    let xml = XmlWriter::document("InitiateMultipartUploadResult", |xml| {
        xml.text("Bucket", &call.bucket_name);
        xml.text("Key", &call.key);
        xml.text("UploadId", &id);
    });
    let mut answer = xml_answer(200, Bytes::from(xml));
    answer.headers.extend(checksum_headers(&said));
    Ok(answer)
}

fn checksum_headers(said: &Said) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let pairs = [
        ("x-amz-checksum-algorithm", &said.algorithm),
        ("x-amz-checksum-type", &said.checksum_type),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            headers.insert(name, value.parse().expect("a known name is plain ASCII"));
        }
    }
    headers
}

fn asked_algorithm(call: &Call) -> Outcome<Option<Algorithm>> {
    let Some(name) = call.header("x-amz-checksum-algorithm")? else { return Ok(None) };
    algorithm_named(name).map(Some).ok_or_else(|| {
        let message = format!("x-amz-checksum-algorithm is none that is known: {name:?}");
        refused_because(Code::InvalidRequest, message)
    })
}

fn checksum_type(call: &Call, algorithm: Option<Algorithm>) -> Outcome<Option<String>> {
    let Some(algorithm) = algorithm else { return Ok(None) };
    let types = multipart_types(algorithm);
    match call.header("x-amz-checksum-type")? {
        None => Ok(Some(types[0].to_owned())),
        Some(kind) if types.contains(&kind) => Ok(Some(kind.to_owned())),
        Some(kind) => {
            Err(not_implemented(&format!("{} checksums of type {kind}", algorithm.name())))
        }
    }
}

/// Answers `DELETE /bucket/key?uploadId`.
pub(in super::super) fn abort_upload(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&["uploadId"])?;
    let bucket = call.bucket()?;
    let upload = Upload::open(&bucket, call)?;
    let _lock = bucket.lock()?;
    upload.check_is_open()?;
    upload.remove()?;
    Ok(OriginAnswer::empty(204, HeaderMap::new()))
}
