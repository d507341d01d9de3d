//! DeleteObject and DeleteObjects.

use http::HeaderMap;
use nilas_net::delete_list::{self, ListedObject};
use nilas_net::{Code, S3Error};

use super::bucket::Bucket;
use super::call::{Call, check_key};
use super::commit::remove;
use super::condition::Conditions;
use super::failure::{Failure, Outcome, not_implemented, xml_answer};
use super::file_body::blocking;
use super::incoming::{Expected, receive_small};
use super::xml::XmlWriter;
use crate::origin::{OriginAnswer, RequestBody};

/// Answers `DELETE /bucket/key`. A key that is not there is as good as deleted.
pub(super) fn delete_object(call: &Call) -> Outcome<OriginAnswer> {
    check_key(&call.key)?;
    call.allow_parameters(&[])?;
    call.allow_headers(&[])?;
    let conditions = Conditions::of(&call.headers, "");
    conditions.check_write_form()?;
    remove(&call.bucket()?, &call.key, &conditions)?;
    Ok(OriginAnswer::empty(204, HeaderMap::new()))
}

/// Answers `POST /bucket?delete`.
pub(super) async fn delete_objects(call: Call, body: RequestBody) -> Outcome<OriginAnswer> {
    call.allow_parameters(&["delete"])?;
    call.allow_headers(&["x-amz-checksum-"])?;
    let expected = Expected::of(&call, &body)?;
    let text = receive_small(body, expected, delete_list::BODY_BYTES_MAX).await?;
    let list = delete_list::parse_delete_list(&text)?;
    blocking(move || {
        let bucket = call.bucket()?;
        let xml = XmlWriter::document("DeleteResult", |xml| {
            for object in &list.objects {
                match delete_one(&bucket, object) {
                    Ok(()) if list.quiet => {}
                    Ok(()) => xml.group("Deleted", |xml| xml.text("Key", &object.key)),
                    Err(error) => xml.group("Error", |xml| {
                        xml.text("Key", &object.key);
                        xml.optional("VersionId", object.version_id.as_deref());
                        xml.text("Code", error.code.name());
                        xml.text("Message", &error.message);
                    }),
                }
            }
        });
        Ok(xml_answer(200, xml.into()))
    })
    .await
}

fn delete_one(bucket: &Bucket, object: &ListedObject) -> Result<(), S3Error> {
    let outcome = match &object.version_id {
        Some(_) => Err(not_implemented("deletes of an object's earlier version")),
        None => check_key(&object.key)
            .and_then(|()| remove(bucket, &object.key, &Conditions::default())),
    };
    outcome.map_err(|failure| match failure {
        Failure::Refused(error) => error,
        Failure::Broken(error) => S3Error::because(Code::InternalError, error.to_string()),
    })
}
