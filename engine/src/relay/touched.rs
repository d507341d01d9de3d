//! What a relayed request may change: the object that its path names, those that its body lists,
//! or, where neither can be told, anything in its bucket.

use std::rc::Rc;

use nilas_net::delete_list::{BODY_BYTES_MAX, parse_delete_list};
use nilas_net::operation::Effect;

use crate::buffers::Reserved;
use crate::client::Client;
use crate::invalidate::Touched;
use crate::put::{Upload, UploadError};
use crate::request::Request;
use crate::shard::Shard;

/// What a body that is read for its keys takes: itself, and the keys.
const COPIES: u64 = 2;

/// What a request may change. A body that lists keys is read for it, and kept to be sent on; the
/// room that it takes is to be held until then.
pub(super) async fn touched<'a>(
    shard: &Rc<Shard>,
    client: &mut Client,
    request: &Request<'a>,
    upload: &mut Option<Upload>,
) -> Result<(Touched<'a>, Option<Reserved>), UploadError> {
    let Some(bucket) = request.target.bucket else { return Ok((Touched::Nothing, None)) };
    let touched = match (request.classified.operation.effect(), request.name()) {
        (Effect::Reads, _) => Touched::Nothing,
        // The object of another name goes with it.
        _ if request.head.header("x-amz-rename-source").is_some() => Touched::Bucket(bucket),
        (Effect::WritesObject | Effect::ChangesAccess, Some(name)) => Touched::Key(name),
        (Effect::WritesListed, _) => return listed(shard, client, bucket, upload).await,
        _ => Touched::Bucket(bucket),
    };
    Ok((touched, None))
}

async fn listed<'a>(
    shard: &Rc<Shard>,
    client: &mut Client,
    bucket: &'a str,
    upload: &mut Option<Upload>,
) -> Result<(Touched<'a>, Option<Reserved>), UploadError> {
    let Some(upload) = upload else { return Ok((Touched::Bucket(bucket), None)) };
    let bytes = upload.length().unwrap_or(BODY_BYTES_MAX as u64);
    // One that finds no room passes unread.
    let room = match bytes <= BODY_BYTES_MAX as u64 {
        true => shard.buffers.try_reserve(COPIES * bytes),
        false => None,
    };
    let Some(room) = room else { return Ok((Touched::Bucket(bucket), None)) };
    let list = match upload.read_ahead(shard, client, bytes as usize).await? {
        Some(body) => parse_delete_list(&body).ok(),
        None => None,
    };
    let touched = match list {
        Some(list) => {
            let keys = list.objects.into_iter().map(|object| object.key).collect();
            Touched::Keys(bucket, keys)
        }
        None => Touched::Bucket(bucket),
    };
    Ok((touched, Some(room)))
}
