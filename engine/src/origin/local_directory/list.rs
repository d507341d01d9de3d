//! ListObjects, both versions: prefix, delimiter, pages, `encoding-type=url`.
//! Which keys, and in which order, is `walk`'s to say; nothing here reads a folder.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nilas_base::UnixMillis;
use nilas_net::Code;
use nilas_net::date::iso_date;
use nilas_net::percent::encode_path;

use super::bucket::Bucket;
use super::call::Call;
use super::failure::{Outcome, refused_because, xml_answer};
use super::object::StoredObject;
use super::walk::{Walk, Wanted};
use super::xml::XmlWriter;
use crate::origin::OriginAnswer;

/// S3's limit on entries in one page.
pub(super) const PAGE_ENTRIES_MAX: u32 = 1000;

/// Answers `GET /bucket`.
pub(super) fn list_objects(call: &Call) -> Outcome<OriginAnswer> {
    call.allow_parameters(&[
        "prefix",
        "delimiter",
        "max-keys",
        "encoding-type",
        "marker",
        "list-type",
        "start-after",
        "continuation-token",
        "fetch-owner",
    ])?;
    call.allow_headers(&["x-amz-optional-object-attributes"])?;
    let bucket = call.bucket()?;
    let ask = Ask::of(call)?;
    let page = Page::read(&bucket, &ask)?;
    let xml = XmlWriter::document("ListBucketResult", |xml| write_page(xml, call, &ask, &page));
    Ok(xml_answer(200, xml.into()))
}

/// What is asked for.
#[derive(Debug)]
struct Ask {
    prefix: String,
    delimiter: String,
    entries_max: u32,
    after: String,
    encodes: bool,
    is_v2: bool,
}

impl Ask {
    fn of(call: &Call) -> Outcome<Ask> {
        let text = |name: &str| call.parameter(name).unwrap_or_default().to_owned();
        let is_v2 = match call.parameter("list-type") {
            None | Some("1") => false,
            Some("2") => true,
            Some(other) => {
                let message = format!("list-type is neither 1 nor 2: {other:?}");
                return Err(refused_because(Code::InvalidArgument, message));
            }
        };
        let after = match (is_v2, call.parameter("continuation-token")) {
            (false, _) => text("marker"),
            (true, None) => text("start-after"),
            (true, Some(token)) => read_token(token)?,
        };
        Ok(Ask {
            prefix: text("prefix"),
            delimiter: text("delimiter"),
            entries_max: call.number("max-keys", PAGE_ENTRIES_MAX)?.min(PAGE_ENTRIES_MAX),
            after,
            encodes: encodes_names(call)?,
            is_v2,
        })
    }

    fn roll_up(&self, key: &str) -> Option<String> {
        let rest = key.strip_prefix(&self.prefix)?;
        let at = rest.find(&self.delimiter).filter(|_| !self.delimiter.is_empty())?;
        Some(key[..self.prefix.len() + at + self.delimiter.len()].to_owned())
    }

    fn name(&self, name: &str) -> String {
        encoded_name(name, self.encodes)
    }
}

/// Whether names are to be percent-encoded.
pub(super) fn encodes_names(call: &Call) -> Outcome<bool> {
    match call.parameter("encoding-type") {
        None | Some("") => Ok(false),
        Some("url") => Ok(true),
        Some(other) => {
            let message = format!("encoding-type is not url: {other:?}");
            Err(refused_because(Code::InvalidArgument, message))
        }
    }
}

/// A name as a listing carries it.
pub(super) fn encoded_name(name: &str, encodes: bool) -> String {
    if !encodes {
        return name.to_owned();
    }
    let mut encoded = Vec::with_capacity(name.len());
    encode_path(name.as_bytes(), &mut encoded);
    String::from_utf8(encoded).expect("percent-encoding writes ASCII")
}

fn read_token(token: &str) -> Outcome<String> {
    let wrong =
        || refused_because(Code::InvalidArgument, "The continuation token provided is incorrect");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// An object in a listing. Its file is closed again: a page holds a thousand.
#[derive(Debug)]
struct Listed {
    key: String,
    etag: String,
    bytes: u64,
    modified: UnixMillis,
}

/// What is found.
#[derive(Debug, Default)]
struct Page {
    objects: Vec<Listed>,
    common_prefixes: Vec<String>,
    /// The last entry, where there are more.
    next: Option<String>,
}

impl Page {
    fn read(bucket: &Bucket, ask: &Ask) -> Outcome<Page> {
        let mut page = Page::default();
        if ask.entries_max == 0 {
            return Ok(page);
        }
        let mut walk = Walk::new(bucket, Wanted { prefix: &ask.prefix, after: &ask.after });
        // A page that ended with a common prefix goes on behind all that is rolled up in it.
        let mut passed =
            ask.roll_up(&ask.after).filter(|rolled| *rolled == ask.after).unwrap_or_default();
        let mut last = String::new();
        while let Some(key) = walk.next_key(&passed)? {
            if page.entries() == ask.entries_max as usize {
                page.next = Some(last);
                break;
            }
            match ask.roll_up(&key) {
                Some(rolled) => {
                    last.clone_from(&rolled);
                    passed.clone_from(&rolled);
                    page.common_prefixes.push(rolled);
                }
                None => {
                    // Deleted since its folder was read: no longer an entry.
                    let Some(object) = StoredObject::open(bucket, &key)? else { continue };
                    last.clone_from(&key);
                    let StoredObject { bytes, modified, sidecar, .. } = object;
                    page.objects.push(Listed { key, etag: sidecar.etag, bytes, modified });
                }
            }
        }
        Ok(page)
    }

    fn entries(&self) -> usize {
        self.objects.len() + self.common_prefixes.len()
    }
}

fn write_page(xml: &mut XmlWriter, call: &Call, ask: &Ask, page: &Page) {
    xml.text("Name", &call.bucket_name);
    xml.text("Prefix", &ask.name(&ask.prefix));
    if ask.is_v2 {
        write_v2_head(xml, call, ask, page);
    } else {
        xml.text("Marker", &ask.name(&ask.after));
        let next = page.next.as_deref().filter(|_| !ask.delimiter.is_empty());
        xml.optional("NextMarker", next.map(|next| ask.name(next)).as_deref());
    }
    xml.text("MaxKeys", &ask.entries_max.to_string());
    if !ask.delimiter.is_empty() {
        xml.text("Delimiter", &ask.name(&ask.delimiter));
    }
    xml.text("IsTruncated", if page.next.is_some() { "true" } else { "false" });
    xml.optional("EncodingType", ask.encodes.then_some("url"));
    let with_owner = !ask.is_v2 || call.parameter("fetch-owner") == Some("true");
    for object in &page.objects {
        xml.group("Contents", |xml| write_object(xml, ask, object, with_owner));
    }
    for prefix in &page.common_prefixes {
        xml.group("CommonPrefixes", |xml| xml.text("Prefix", &ask.name(prefix)));
    }
}

fn write_v2_head(xml: &mut XmlWriter, call: &Call, ask: &Ask, page: &Page) {
    xml.optional("ContinuationToken", call.parameter("continuation-token"));
    let start_after = call.parameter("start-after").map(|after| ask.name(after));
    xml.optional("StartAfter", start_after.as_deref());
    let next = page.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next));
    xml.optional("NextContinuationToken", next.as_deref());
    xml.text("KeyCount", &page.entries().to_string());
}

fn write_object(xml: &mut XmlWriter, ask: &Ask, object: &Listed, with_owner: bool) {
    xml.text("Key", &ask.name(&object.key));
    xml.text("LastModified", &iso(object.modified));
    xml.text("ETag", &format!("\"{}\"", object.etag));
    xml.text("Size", &object.bytes.to_string());
    if with_owner {
        write_owner(xml);
    }
    xml.text("StorageClass", "STANDARD");
}

/// The one owner that a directory has.
pub(super) fn write_owner(xml: &mut XmlWriter) {
    xml.group("Owner", |xml| {
        xml.text("ID", "local");
        xml.text("DisplayName", "local");
    });
}

/// A time as XML carries it.
pub(super) fn iso(time: UnixMillis) -> String {
    String::from_utf8_lossy(&iso_date(time)).into_owned()
}
