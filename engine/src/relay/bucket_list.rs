//! The list of buckets, without those that the node or the client's credential does not cover. Else
//! it is passed on as it came; one that cannot be read, or for which there is no memory, is not.

use bytes::Bytes;
use nilas_net::operation::Operation;
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::buffers::Reserved;
use crate::origin::{AnswerBody, OriginAnswer, OriginError, OriginResult};
use crate::request::Request;
use crate::shard::Shard;

/// Bytes of a list: a thousand buckets take some 200 KiB.
const LIST_BYTES_MAX: usize = 4 << 20;

/// Bytes of a list for which memory is reserved at a time.
const STEP_BYTES: usize = 256 << 10;
/// A list takes itself, and what is shown of it.
const COPIES: u64 = 2;

/// The memory that a list takes, reserved as it grows.
#[derive(Default)]
pub(super) struct ListRoom(Vec<Reserved>);

/// Leaves out what is not to be seen, where this is a list of buckets. The room that it takes is to
/// be held until it has been sent.
pub(super) async fn shorten(
    shard: &Shard,
    request: &Request<'_>,
    answer: OriginAnswer,
    room: &mut ListRoom,
) -> OriginResult {
    let scope = &request.sender.grant.scope;
    let shows_all = scope.covers_every_bucket() && shard.settings.allows_every_bucket();
    if request.classified.operation != Operation::ListBuckets || shows_all || answer.status != 200 {
        return Ok(answer);
    }
    let OriginAnswer { status, mut headers, body, .. } = answer;
    let list = read(shard, body, room).await?;
    let is_shown =
        |bucket: &str| scope.covers_bucket(bucket) && shard.settings.allows_bucket(bucket);
    let shown = without(&list, is_shown)
        .ok_or_else(|| OriginError::broken("its list of buckets cannot be read"))?;
    headers.insert(http::header::CONTENT_LENGTH, shown.len().into());
    let length = Some(shown.len() as u64);
    Ok(OriginAnswer { status, headers, body: AnswerBody::whole(Bytes::from(shown)), length })
}

async fn read(
    shard: &Shard,
    mut body: AnswerBody,
    room: &mut ListRoom,
) -> Result<Vec<u8>, OriginError> {
    let mut list = Vec::new();
    while let Some(part) = body.next().await {
        let part = part?;
        let bytes = list.len() + part.len();
        if bytes > LIST_BYTES_MAX {
            let cause = format!("its list of buckets is longer than {LIST_BYTES_MAX} bytes");
            return Err(OriginError::broken(cause));
        }
        while room.0.len() * STEP_BYTES < bytes {
            let step = shard.buffers.try_reserve(COPIES * STEP_BYTES as u64);
            room.0.push(step.ok_or(OriginError::Busy)?);
        }
        list.extend_from_slice(&part);
    }
    Ok(list)
}

/// The list, byte for byte, without the `Bucket` elements whose `Name` is not to be shown.
fn without(list: &[u8], is_shown: impl Fn(&str) -> bool) -> Option<Vec<u8>> {
    let mut reader = Reader::from_reader(list);
    let mut walk = Walk::default();
    loop {
        let start = usize::try_from(reader.buffer_position()).ok()?;
        let event = reader.read_event().ok()?;
        let end = usize::try_from(reader.buffer_position()).ok()?;
        match event {
            Event::Start(tag) if tag.local_name().as_ref() == b"Bucket" => {
                walk.bucket = Some((start, String::new()));
            }
            Event::Start(tag) => walk.is_in_name = tag.local_name().as_ref() == b"Name",
            Event::Text(text) if walk.is_in_name => walk.name(&text.decode().ok()?),
            Event::End(tag) if tag.local_name().as_ref() == b"Bucket" => {
                let (start, name) = walk.bucket.take()?;
                if !is_shown(name.trim()) {
                    walk.shown.extend_from_slice(&list[walk.copied..start]);
                    walk.copied = end;
                }
            }
            Event::End(_) => walk.is_in_name = false,
            Event::Eof if walk.bucket.is_none() => {
                walk.shown.extend_from_slice(&list[walk.copied..]);
                return Some(walk.shown);
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

#[derive(Default)]
struct Walk {
    shown: Vec<u8>,
    /// What comes before is in `shown`, or left out.
    copied: usize,
    /// Where the element begins that is being read, and its name so far.
    bucket: Option<(usize, String)>,
    is_in_name: bool,
}

impl Walk {
    fn name(&mut self, text: &str) {
        if let Some((_, name)) = &mut self.bucket {
            name.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "<?xml version=\"1.0\"?>\n<ListAllMyBucketsResult><Owner><ID>o</ID></Owner>\
        <Buckets><Bucket><Name>lake</Name><CreationDate>c</CreationDate></Bucket>\n\
        <Bucket><CreationDate>c</CreationDate><Name>sea</Name></Bucket></Buckets>\
        </ListAllMyBucketsResult>";

    fn shown(names: &[&str]) -> String {
        let shown = without(LIST.as_bytes(), |bucket| names.contains(&bucket));
        String::from_utf8(shown.expect("well formed")).expect("text")
    }

    #[test]
    fn only_buckets_that_are_to_be_seen_are_left() {
        assert_eq!(shown(&["lake", "sea"]), LIST);
        let lake = shown(&["lake"]);
        assert!(lake.contains("<Name>lake</Name>") && !lake.contains("sea"), "{lake}");
        let sea = shown(&["sea"]);
        assert!(sea.contains("<Name>sea</Name>") && !sea.contains("lake"), "{sea}");
        let none = shown(&[]);
        assert!(none.contains("<Buckets>\n</Buckets>") && none.contains("<ID>o</ID>"), "{none}");
    }

    #[test]
    fn a_list_that_cannot_be_read_shows_nothing() {
        assert_eq!(without(b"<Buckets><Bucket><Name>lake</Name>", |_| true), None);
        assert_eq!(without(b"<Buckets><Bucket></Name></Buckets>", |_| true), None);
    }
}
