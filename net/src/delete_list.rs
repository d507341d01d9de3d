//! The request body of DeleteObjects: which objects it names. Elements that are not known are read past;
//! the body itself goes to the origin as it came.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::{Code, S3Error};

/// Objects that one request may name: S3's limit.
pub const KEYS_MAX: usize = 1000;
/// Bytes of the body: a thousand of the longest keys, escaped where escaping is likely, and their tags.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a DeleteObjects request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteList {
    /// In order.
    pub objects: Vec<ListedObject>,
    /// Whether only failures are to be reported.
    pub quiet: bool,
}

/// One object to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedObject {
    /// Its key.
    pub key: String,
    /// A version of it, if one is named.
    pub version_id: Option<String>,
}

/// Parses the body.
pub fn parse_delete_list(body: &[u8]) -> Result<DeleteList, S3Error> {
    if body.len() > BODY_BYTES_MAX {
        return Err(S3Error::new(Code::MaxMessageLengthExceeded)
            .with("MaxMessageLengthBytes", BODY_BYTES_MAX.to_string()));
    }
    let text = std::str::from_utf8(body).map_err(|_| malformed())?;
    let mut reader = Reader::from_str(text);
    let mut walk = Walk::default();
    loop {
        match reader.read_event().map_err(|_| malformed())? {
            Event::Start(start) => walk.open(start.local_name().as_ref())?,
            Event::Empty(start) => {
                walk.open(start.local_name().as_ref())?;
                walk.close()?;
            }
            Event::End(_) => walk.close()?,
            Event::Text(text) => {
                walk.text.push_str(&text.xml10_content().map_err(|_| malformed())?)
            }
            Event::CData(data) => walk.text.push_str(&data.decode().map_err(|_| malformed())?),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(|_| malformed())?;
                let name = reference.decode().map_err(|_| malformed())?;
                walk.text.push(character.or_else(|| entity(&name)).ok_or_else(malformed)?);
            }
            Event::Eof => break,
            // Entities could be defined there.
            Event::DocType(_) => return Err(malformed()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
    walk.finish()
}

fn malformed() -> S3Error {
    S3Error::new(Code::MalformedXML)
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

/// How deep elements may nest; S3's own go to three.
const DEPTH_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Delete,
    Object,
    Key,
    VersionId,
    Quiet,
    Other,
}

#[derive(Default)]
struct Walk {
    open: Vec<Element>,
    seen_root: bool,
    text: String,
    key: Option<String>,
    version_id: Option<String>,
    list: DeleteList,
}

impl Walk {
    fn open(&mut self, name: &[u8]) -> Result<(), S3Error> {
        let element = match (self.open.last(), name) {
            (None, b"Delete") if !self.seen_root => Element::Delete,
            (None, _) => return Err(malformed()),
            (Some(Element::Delete), b"Object") => Element::Object,
            (Some(Element::Delete), b"Quiet") => Element::Quiet,
            (Some(Element::Object), b"Key") => Element::Key,
            (Some(Element::Object), b"VersionId") => Element::VersionId,
            (Some(_), _) => Element::Other,
        };
        if self.open.len() == DEPTH_MAX {
            return Err(malformed());
        }
        self.seen_root = true;
        self.open.push(element);
        self.text.clear();
        Ok(())
    }

    fn close(&mut self) -> Result<(), S3Error> {
        match self.open.pop().ok_or_else(malformed)? {
            // Of two keys, nobody knows which is meant.
            Element::Key if self.key.is_some() => return Err(malformed()),
            Element::Key => self.key = Some(std::mem::take(&mut self.text)),
            Element::VersionId => self.version_id = Some(std::mem::take(&mut self.text)),
            Element::Quiet => self.list.quiet = self.text.trim() == "true",
            Element::Object => self.end_object()?,
            Element::Delete | Element::Other => {}
        }
        Ok(())
    }

    fn end_object(&mut self) -> Result<(), S3Error> {
        let key = self.key.take().filter(|key| !key.is_empty()).ok_or_else(malformed)?;
        if self.list.objects.len() == KEYS_MAX {
            return Err(malformed());
        }
        let version_id = self.version_id.take().filter(|version| !version.is_empty());
        self.list.objects.push(ListedObject { key, version_id });
        Ok(())
    }

    fn finish(self) -> Result<DeleteList, S3Error> {
        let is_whole = self.seen_root && self.open.is_empty() && !self.list.objects.is_empty();
        if is_whole { Ok(self.list) } else { Err(malformed()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_through_their_escapes() {
        let body = "<?xml version=\"1.0\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n\
            <Object><Key>a&amp;b &#x20;c&#10;</Key></Object><Object><Key><![CDATA[<x>]]></Key>\
            <VersionId>v1</VersionId><ETag>e</ETag></Object><Quiet>true</Quiet></Delete>";
        let list = parse_delete_list(body.as_bytes()).expect("well formed");
        assert!(list.quiet);
        let found: Vec<_> = list
            .objects
            .iter()
            .map(|object| (object.key.as_str(), object.version_id.as_deref()))
            .collect();
        assert_eq!(found, [("a&b  c\n", None), ("<x>", Some("v1"))]);
    }

    #[test]
    fn malformed_bodies_are_refused() {
        let object = "<Object><Key>k</Key></Object>";
        let many = format!("<Delete>{}</Delete>", object.repeat(KEYS_MAX + 1));
        let deep = format!("<Delete>{object}{}", "<a>".repeat(20));
        for body in [
            "",
            "text",
            "<Delete>",
            "<Delete></Delete>",
            "<Delete/>",
            "<Other><Object><Key>k</Key></Object></Other>",
            "<Delete><Object></Object></Delete>",
            "<Delete><Object><Key></Key></Object></Delete>",
            "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
            "<Delete><Object><Key>k</Object></Key></Delete>",
            "<Delete><Object><Key>&unknown;</Key></Object></Delete>",
            "<Delete><Object><Key>&#xD800;</Key></Object></Delete>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><Delete><Object><Key>&b;</Key></Object></Delete>",
            "<Delete><Object><Key>k</Key></Object></Delete><Delete></Delete>",
            &many,
            &deep,
        ] {
            assert_eq!(
                parse_delete_list(body.as_bytes()).expect_err(body).code,
                Code::MalformedXML
            );
        }
        assert_eq!(parse_delete_list(b"\xff").expect_err("not UTF-8").code, Code::MalformedXML);
        let huge = vec![b' '; BODY_BYTES_MAX + 1];
        assert_eq!(
            parse_delete_list(&huge).expect_err("too big").code,
            Code::MaxMessageLengthExceeded
        );
    }

    #[test]
    fn a_thousand_keys_are_accepted() {
        let body = format!("<Delete>{}</Delete>", "<Object><Key>k</Key></Object>".repeat(KEYS_MAX));
        assert_eq!(
            parse_delete_list(body.as_bytes()).expect("within the limit").objects.len(),
            KEYS_MAX
        );
    }
}
