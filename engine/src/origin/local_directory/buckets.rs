//! Operations on buckets as such: make, remove, look for, list, locate.

use std::fs;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use nilas_base::UnixMillis;
use nilas_net::Code;

use super::bucket::{Bucket, is_readable_name, is_valid_new_name};
use super::call::Call;
use super::failure::{Failure, Outcome, refused, xml_answer};
use super::key_path::HIDDEN_FOLDER;
use super::list::{iso, write_owner};
use super::object::is_absent;
use super::read::value_of;
use super::walk::{Walk, Wanted};
use super::xml::XmlWriter;
use crate::origin::OriginAnswer;

/// The region that a directory is in.
const REGION: &str = "us-east-1";

/// Answers `GET /`.
pub(super) fn list_buckets(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&[])?;
    let mut buckets = Vec::new();
    for entry in fs::read_dir(&call.root)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type()?.is_dir() && is_readable_name(&name) {
            let since =
                entry.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            buckets.push((name, UnixMillis(since.as_millis() as u64)));
        }
    }
    buckets.sort();
    let xml = XmlWriter::document("ListAllMyBucketsResult", |xml| {
        write_owner(xml);
        xml.group("Buckets", |xml| {
            for (name, made) in &buckets {
                xml.group("Bucket", |xml| {
                    xml.text("Name", name);
                    xml.text("CreationDate", &iso(*made));
                });
            }
        });
    });
    Ok(xml_answer(200, xml.into()))
}

/// Answers `PUT /bucket`. The body, a location constraint, has been read: a directory is where it is.
pub(super) fn create_bucket(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&[])?;
    call.allow_headers(&[])?;
    if !is_valid_new_name(&call.bucket_name) {
        return Err(refused(Code::InvalidBucketName));
    }
    match fs::create_dir(call.root.join(&call.bucket_name)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(refused(Code::BucketAlreadyOwnedByYou))
        }
        Err(error) => Err(error.into()),
        Ok(()) => {
            let mut headers = HeaderMap::new();
            headers.insert("location", value_of(&format!("/{}", call.bucket_name))?);
            Ok(OriginAnswer::empty(200, headers))
        }
    }
}

/// Answers `DELETE /bucket`. What is no object is not removed either.
pub(super) fn delete_bucket(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&[])?;
    let bucket = call.bucket()?;
    let lock = bucket.lock()?;
    let everything = Wanted { prefix: "", after: "" };
    if Walk::new(&bucket, everything).next_key("")?.is_some() {
        return Err(refused(Code::BucketNotEmpty));
    }
    remove_empty_folders(bucket.folder())?;
    fs::remove_dir_all(bucket.hidden())?;
    drop(lock);
    fs::remove_dir(bucket.folder()).map_err(not_empty)?;
    Ok(OriginAnswer::empty(204, HeaderMap::new()))
}

fn remove_empty_folders(folder: &Path) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == HIDDEN_FOLDER {
            continue;
        }
        if !entry.file_type()?.is_dir() {
            return Err(refused(Code::BucketNotEmpty));
        }
        remove_empty_folders(&entry.path())?;
        fs::remove_dir(entry.path()).map_err(not_empty)?;
    }
    Ok(())
}

fn not_empty(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => refused(Code::BucketNotEmpty),
        _ if is_absent(&error) => refused(Code::NoSuchBucket),
        _ => error.into(),
    }
}

/// Answers `HEAD /bucket`.
pub(super) fn head_bucket(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&[])?;
    let _: Bucket = call.bucket()?;
    let mut headers = HeaderMap::new();
    headers.insert("x-amz-bucket-region", HeaderValue::from_static(REGION));
    Ok(OriginAnswer::empty(200, headers))
}

/// Answers `GET /bucket?location`. The default region is written as none, as on S3.
pub(super) fn bucket_location(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&["location"])?;
    let _: Bucket = call.bucket()?;
    let xml = XmlWriter::document("LocationConstraint", |_| {});
    Ok(xml_answer(200, Bytes::from(xml)))
}
