//! XML as the services write it: a byte order mark, a declaration, no line breaks. `read` takes it in.

pub mod read;

use std::fmt::Write;

use crate::query::percent_encode;

pub struct XmlWriter(String);

impl XmlWriter {
    /// Listings begin with a byte order mark; error bodies do too.
    pub fn new() -> Self {
        let mut text = String::with_capacity(1024);
        text.push_str("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>");
        XmlWriter(text)
    }

    pub fn open(&mut self, name: &str) -> &mut Self {
        let _ = write!(self.0, "<{name}>");
        self
    }

    pub fn open_with(&mut self, name: &str, attributes: &[(&str, &str)]) -> &mut Self {
        let _ = write!(self.0, "<{name}");
        for (attribute, value) in attributes {
            let _ = write!(self.0, " {attribute}=\"");
            for part in value.split_inclusive('"') {
                self.text(part.trim_end_matches('"'));
                self.0.push_str(if part.ends_with('"') { "&quot;" } else { "" });
            }
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    pub fn close(&mut self, name: &str) -> &mut Self {
        let _ = write!(self.0, "</{name}>");
        self
    }

    pub fn element(&mut self, name: &str, value: &str) -> &mut Self {
        if value.is_empty() {
            let _ = write!(self.0, "<{name} />");
            return self;
        }
        self.open(name).text(value).close(name)
    }

    /// A name that somebody chose, or a part of one. What XML cannot hold travels percent-encoded, and clients are told so.
    pub fn name(&mut self, element: &str, value: &str) -> &mut Self {
        match encoded(value) {
            None => self.element(element, value),
            Some(encoded) => self.open_with(element, &[ENCODED]).text(&encoded).close(element),
        }
    }

    /// Nothing if there is no value.
    pub fn optional(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        if let Some(value) = value {
            self.element(name, value);
        }
        self
    }

    pub fn text(&mut self, value: &str) -> &mut Self {
        // Nearly all text stands as it is, and is told to by looking at many bytes a step.
        let is_plain = |b: u8| (b' '..=b'~').contains(&b) & (b != b'<') & (b != b'>') & (b != b'&') | (b == b'\n');
        if value.bytes().fold(true, |plain, b| plain & is_plain(b)) {
            self.0.push_str(value);
            return self;
        }
        for c in value.chars() {
            match c {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                // A reader would turn a bare carriage return into a line feed.
                '\r' => self.0.push_str("&#xD;"),
                c if is_legal(c) => self.0.push(c),
                // XML 1.0 has no way to write it at all.
                _ => self.0.push('\u{fffd}'),
            }
        }
        self
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// What says that a value is percent-encoded.
pub const ENCODED: (&str, &str) = ("Encoded", "true");

/// The value percent-encoded, if it has characters that cannot stand in XML.
pub fn encoded(value: &str) -> Option<String> {
    // Those that can are told by their bytes, nearly always: U+FFFE and U+FFFF begin with 0xEF.
    let is_legal = value.bytes().all(|b| (b' '..0xEF).contains(&b)) || value.chars().all(is_legal);
    (!is_legal).then(|| percent_encode(value, ""))
}

/// May the character stand in an XML 1.0 document (its section 2.2), in whatever form?
pub fn is_legal(c: char) -> bool {
    !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, expected) in [
            ("a<b", "<N>a&lt;b</N>"),
            ("", "<N />"),
            ("\u{1f600}\u{fffd}\t", "<N>\u{1f600}\u{fffd}\t</N>"),
            ("a%20b", "<N>a%20b</N>"),
            ("d 1/a%\u{ffff}<", "<N Encoded=\"true\">d%201%2Fa%25%EF%BF%BF%3C</N>"),
            ("\u{fffe}", "<N Encoded=\"true\">%EF%BF%BE</N>"),
            ("\u{1}", "<N Encoded=\"true\">%01</N>"),
        ] {
            let mut xml = XmlWriter(String::new());
            xml.name("N", name);
            assert_eq!(xml.finish(), expected);
        }
    }

    #[test]
    fn writes_and_escapes() {
        let mut xml = XmlWriter::new();
        xml.open_with("A", &[("b", "x\"<")])
            .element("C", "a<b>&\r\u{1}\u{85}")
            .element("D", "")
            .optional("E", None)
            .close("A");
        let expected = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <A b=\"x&quot;&lt;\"><C>a&lt;b&gt;&amp;&#xD;\u{fffd}\u{85}</C><D /></A>";
        assert_eq!(xml.finish(), expected);
    }
}
