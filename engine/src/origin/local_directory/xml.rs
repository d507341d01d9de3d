//! The XML that S3 answers with, written element by element. Reading is in `document`.

use std::fmt::Write;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A document in the making.
#[derive(Debug)]
pub(super) struct XmlWriter {
    text: String,
}

impl XmlWriter {
    /// The whole document: a root element in S3's namespace, filled by `content`.
    pub(super) fn document(root: &str, content: impl FnOnce(&mut XmlWriter)) -> String {
        let mut writer =
            XmlWriter { text: String::from(r#"<?xml version="1.0" encoding="UTF-8"?>"#) };
        write!(writer.text, "\n<{root} xmlns=\"{NAMESPACE}\">").expect("a string takes all text");
        content(&mut writer);
        write!(writer.text, "</{root}>").expect("a string takes all text");
        writer.text
    }

    /// An element of elements.
    pub(super) fn group(&mut self, name: &str, content: impl FnOnce(&mut XmlWriter)) {
        write!(self.text, "<{name}>").expect("a string takes all text");
        content(self);
        write!(self.text, "</{name}>").expect("a string takes all text");
    }

    /// An element of text.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        write!(self.text, "<{name}>").expect("a string takes all text");
        self.escape(value);
        write!(self.text, "</{name}>").expect("a string takes all text");
    }

    /// An element of text, where there is one.
    pub(super) fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn escape(&mut self, value: &str) {
        for character in value.chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                // As S3 does: not XML 1.0, which is why clients ask for `encoding-type=url`.
                '\0'..='\x1f' | '\x7f' => {
                    write!(self.text, "&#x{:X};", character as u32)
                        .expect("a string takes all text");
                }
                plain => self.text.push(plain),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let document = XmlWriter::document("Root", |xml| {
            xml.group("Contents", |xml| xml.text("Key", "a<&>\"\n.parquet"));
            xml.optional("Marker", None);
        });
        assert!(
            document.ends_with(
                "<Contents><Key>a&lt;&amp;&gt;&quot;&#xA;.parquet</Key></Contents></Root>"
            )
        );
    }
}
