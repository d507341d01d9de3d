//! S3's errors: a code, a message that says what to change, and the XML that carries them.
//! Rooms have small error types of their own; each turns into an [`S3Error`] here, at the wire's edge.

mod code;

use std::borrow::Cow;

pub use code::Code;

use crate::Sink;

/// An error as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Error {
    /// The code; its status is the response's.
    pub code: Code,
    /// What went wrong and what to change.
    pub message: Cow<'static, str>,
    /// Further XML elements, in order: name and text.
    pub details: Vec<(&'static str, String)>,
}

impl S3Error {
    /// The code with its default message.
    pub fn new(code: Code) -> S3Error {
        S3Error { code, message: Cow::Borrowed(code.message()), details: Vec::new() }
    }

    /// The code with a message of its own.
    pub fn because(code: Code, message: impl Into<Cow<'static, str>>) -> S3Error {
        S3Error { code, message: message.into(), details: Vec::new() }
    }

    /// Adds an XML element.
    #[must_use]
    pub fn with(mut self, name: &'static str, text: impl Into<String>) -> S3Error {
        self.details.push((name, text.into()));
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.code.status()
    }

    /// Writes the XML body. `resource` is the path of the request.
    pub fn write_xml<S: Sink + ?Sized>(&self, resource: &str, request_id: &str, sink: &mut S) {
        sink.put(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
        put_element(sink, "Code", self.code.name());
        put_element(sink, "Message", &self.message);
        for (name, text) in &self.details {
            put_element(sink, name, text);
        }
        put_element(sink, "Resource", resource);
        put_element(sink, "RequestId", request_id);
        sink.put(b"</Error>");
    }
}

impl std::fmt::Display for S3Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for S3Error {}

/// Writes `<name>text</name>`, the text escaped.
pub fn put_element<S: Sink + ?Sized>(sink: &mut S, name: &str, text: &str) {
    sink.put(b"<");
    sink.put(name.as_bytes());
    sink.put(b">");
    put_escaped(sink, text);
    sink.put(b"</");
    sink.put(name.as_bytes());
    sink.put(b">");
}

/// Writes text for XML 1.0; characters that it cannot hold become U+FFFD.
pub fn put_escaped<S: Sink + ?Sized>(sink: &mut S, text: &str) {
    let mut plain_from = 0;
    for (at, character) in text.char_indices() {
        let escape: &[u8] = match character {
            '&' => b"&amp;",
            '<' => b"&lt;",
            '>' => b"&gt;",
            '"' => b"&quot;",
            '\'' => b"&apos;",
            '\r' => b"&#13;",
            '\t' | '\n' => continue,
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}".as_bytes(),
            _ => continue,
        };
        sink.put(&text.as_bytes()[plain_from..at]);
        sink.put(escape);
        plain_from = at + character.len_utf8();
    }
    sink.put(&text.as_bytes()[plain_from..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counted;

    #[test]
    fn an_error_is_the_xml_that_s3_sends() {
        let error = S3Error::new(Code::NoSuchKey).with("Key", "a&b");
        let mut xml = Vec::new();
        error.write_xml("/bucket/a&b", "R1", &mut xml);
        assert_eq!(
            std::str::from_utf8(&xml).expect("UTF-8"),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>\
             <Message>The specified key does not exist.</Message><Key>a&amp;b</Key>\
             <Resource>/bucket/a&amp;b</Resource><RequestId>R1</RequestId></Error>"
        );
        let mut counted = Counted::default();
        error.write_xml("/bucket/a&b", "R1", &mut counted);
        assert_eq!(counted.0, xml.len() as u64);
        assert_eq!(error.status(), 404);
    }

    #[test]
    fn no_text_breaks_the_xml() {
        let mut xml = Vec::new();
        put_escaped(&mut xml, "<a b='c' d=\"e\">\u{1}\r\n\0ü");
        assert_eq!(
            std::str::from_utf8(&xml).expect("UTF-8"),
            "&lt;a b=&apos;c&apos; d=&quot;e&quot;&gt;\u{fffd}&#13;\n\u{fffd}ü"
        );
    }
}
