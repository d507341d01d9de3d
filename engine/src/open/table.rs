//! Whether a `data/` folder is a table's: asked of the origin once, by a listing of the sibling
//! `metadata/`, when the first mapping under it is learnt; told to every shard, and kept.

use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, Method};
use nilas_shards::Delivered;
use quick_xml::events::Event;

use crate::call::{Call, NameCall};
use crate::freshness::Mutability;
use crate::identity::{NameRef, ObjectName};
use crate::naming::{metadata_prefix, table_root_of_metadata};
use crate::origin::{OriginRequest, RequestBody, Signer};
use crate::purge::Heard;
use crate::shard::Shard;

/// Keys that one listing may bring: a page of S3's.
const LISTING_KEYS_MAX: usize = 1000;
/// Pages read of one `metadata/` before it is taken for no table's.
const LISTING_PAGES_MAX: usize = 20;
/// The largest page that is read.
const LISTING_BYTES_MAX: usize = 4 << 20;

/// Has it settled beside the readers whether the object is a table's data file, where that is open, and what
/// was learnt of it kept if it is.
pub fn decide_soon(shard: &Rc<Shard>, name: &Arc<ObjectName>) {
    if shard.judge.borrow().mutability(name.as_ref().as_ref()) == Mutability::Undecided {
        let (deciding, name) = (Rc::clone(shard), Arc::clone(name));
        shard.spawn(async move {
            if decide(&deciding, &name).await {
                super::believe(&deciding, name.as_ref().as_ref());
            }
        });
    }
}

/// Settles whether the object is a table's data file; true if it is.
pub async fn decide(shard: &Rc<Shard>, name: &Arc<ObjectName>) -> bool {
    let mutability = shard.judge.borrow().mutability(name.as_ref().as_ref());
    if mutability != Mutability::Undecided {
        return mutability == Mutability::Immutable;
    }
    let roots = shard.judge.borrow().undecided_roots(name.as_ref().as_ref());
    for root in roots {
        let name = NameRef { bucket: &name.bucket, key: &root };
        let home = shard.geometry.home(shard.geometry.home_hash(name));
        let name = NameCall { bucket: name.bucket.to_owned(), key: name.key.to_owned() };
        shard.call(home, Box::new(Call::DecideRoot(name))).await;
    }
    shard.judge.borrow().mutability(name.as_ref().as_ref()) == Mutability::Immutable
}

/// Answers [`Call::DecideRoot`]: at once where it is known, else when the origin has been asked.
pub fn serve_decide(shard: &Rc<Shard>, delivered: Delivered<Call>) {
    let deciding = Rc::clone(shard);
    shard.spawn(async move {
        if let Call::DecideRoot(name) = &*delivered {
            // One listing at a time: the files of one table are first read together.
            let _turn = deciding.listing_turn.lock().await;
            let is_known = deciding.judge.borrow().knows_root(&name.bucket, &name.key);
            let since = deciding.purges.borrow().heard();
            if !is_known
                && let Some(is_table) =
                    holds_table_metadata(&deciding, &name.bucket, &name.key).await
            {
                let root = NameRef { bucket: &name.bucket, key: &name.key };
                tell(&deciding, root, is_table, since).await;
            }
        }
        delivered.reply();
    });
}

/// Tells every shard about a root, where that is news, unless it was purged since that was learnt.
pub async fn tell(shard: &Rc<Shard>, root: NameRef<'_>, is_table: bool, since: Heard) {
    let NameRef { bucket, key: root } = root;
    if shard.purges.borrow().heard() > since {
        return;
    }
    if shard.judge.borrow_mut().note_root(bucket, root, is_table) {
        shard
            .call_all(|| {
                let name = NameCall { bucket: bucket.to_owned(), key: root.to_owned() };
                Call::NoteRoot(name, is_table, since)
            })
            .await;
    }
}

/// `None` where the origin gave no answer. One that refuses the listing is believed to say no.
async fn holds_table_metadata(shard: &Shard, bucket: &str, root: &str) -> Option<bool> {
    let mut after = String::new();
    for _ in 0..LISTING_PAGES_MAX {
        let request = listing(bucket, &metadata_prefix(root), &after);
        let answer = shard.origin.ask(request).await.ok()?;
        match answer.status {
            200 => {}
            500.. => return None,
            _ => return Some(false),
        }
        let page = answer.body.collect(LISTING_BYTES_MAX).await.ok()?;
        let page = Page::read(&page)?;
        if page.keys.iter().any(|key| table_root_of_metadata(key) == Some(root)) {
            return Some(true);
        }
        // A page may be shorter than was asked for and still not be the last.
        if !page.is_truncated && page.keys.len() < LISTING_KEYS_MAX {
            return Some(false);
        }
        after = page.keys.last()?.clone();
    }
    Some(false)
}

fn listing(bucket: &str, prefix: &str, after: &str) -> OriginRequest {
    let mut query = format!("list-type=2&max-keys={LISTING_KEYS_MAX}&prefix=").into_bytes();
    nilas_net::percent::encode_query(prefix.as_bytes(), &mut query);
    if !after.is_empty() {
        query.extend_from_slice(b"&start-after=");
        nilas_net::percent::encode_query(after.as_bytes(), &mut query);
    }
    OriginRequest {
        method: Method::GET,
        bucket: bucket.to_owned(),
        key: None,
        path_raw: format!("/{bucket}"),
        query_raw: String::from_utf8(query).expect("what is percent-encoded is ASCII"),
        signer: Signer::Node,
        headers: HeaderMap::new(),
        body: RequestBody::Empty,
    }
}

/// What one page of a listing says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    keys: Vec<String>,
    is_truncated: bool,
}

impl Page {
    /// Reads a ListBucketResult; nothing where it is not whole: what it lacks may be what it was asked for.
    fn read(xml: &[u8]) -> Option<Page> {
        let mut reader = quick_xml::Reader::from_reader(xml);
        let (mut page, mut open, mut text) = (Page::default(), 0_usize, String::new());
        loop {
            match reader.read_event().ok()? {
                Event::Start(_) => {
                    open += 1;
                    text.clear();
                }
                Event::End(tag) => {
                    open -= 1;
                    page.note(tag.local_name().as_ref(), std::mem::take(&mut text));
                    if open == 0 {
                        return Some(page);
                    }
                }
                Event::Text(more) => text.push_str(&more.decode().ok()?),
                Event::GeneralRef(entity) => text.push(entity_char(&entity)?),
                Event::Empty(_) if open == 0 => return Some(page),
                Event::Eof => return None,
                _ => {}
            }
        }
    }

    fn note(&mut self, tag: &[u8], text: String) {
        match tag {
            b"Key" => self.keys.push(text),
            b"IsTruncated" => self.is_truncated = text.trim() == "true",
            _ => {}
        }
    }
}

fn entity_char(entity: &quick_xml::events::BytesRef<'_>) -> Option<char> {
    if let Some(character) = entity.resolve_char_ref().ok()? {
        return Some(character);
    }
    match entity.decode().ok()?.as_ref() {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_out_of_a_listing_with_their_entities() {
        let xml = b"<?xml version=\"1.0\"?><ListBucketResult><Name>b</Name>\
            <IsTruncated>false</IsTruncated>\
            <Contents><Key>t/metadata/a&amp;b.metadata.json</Key><Size>1</Size></Contents>\
            <Contents><Key>t/metadata/&#233;</Key></Contents></ListBucketResult>";
        let keys = ["t/metadata/a&b.metadata.json", "t/metadata/é"].map(str::to_owned).to_vec();
        assert_eq!(Page::read(xml), Some(Page { keys, is_truncated: false }));
        assert_eq!(Page::read(b"<ListBucketResult/>"), Some(Page::default()));
        for not_one in ["<a><Key>x</b>", "</a>", "", "no XML"] {
            assert_eq!(Page::read(not_one.as_bytes()), None, "{not_one}");
        }
    }

    #[test]
    fn a_listing_that_was_cut_off_tells_nothing_and_a_short_page_need_not_be_the_last() {
        let xml = b"<ListBucketResult><IsTruncated>true</IsTruncated>\
            <Contents><Key>t/metadata/a.avro</Key></Contents></ListBucketResult>";
        let keys = vec!["t/metadata/a.avro".to_owned()];
        assert_eq!(Page::read(xml), Some(Page { keys, is_truncated: true }));
        for length in 0..xml.len() {
            assert_eq!(Page::read(&xml[..length]), None, "{length}");
        }
    }
}
