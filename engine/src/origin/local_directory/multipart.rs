//! Multipart uploads. Each is a folder, `.nilas/uploads/<id>/`: what was said at its creation, and
//! its parts. Nothing of it is an object before CompleteMultipartUpload commits the whole.

mod complete;
mod listing;
mod part;
mod upload;

pub(super) use complete::complete_upload;
pub(super) use listing::{list_parts, list_uploads};
pub(super) use part::upload_part;
pub(super) use upload::{abort_upload, create_upload};
