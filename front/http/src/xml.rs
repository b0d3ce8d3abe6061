//! XML as the services write it: a byte order mark, a declaration, no line breaks. `read` takes it in.

pub mod read;

use std::fmt::Write;

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

    /// Nothing if there is no value.
    pub fn optional(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        if let Some(value) = value {
            self.element(name, value);
        }
        self
    }

    pub fn text(&mut self, value: &str) -> &mut Self {
        for c in value.chars() {
            match c {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                // A reader would turn a bare carriage return into a line feed.
                '\r' => self.0.push_str("&#xD;"),
                // XML 1.0 has no way to write these at all.
                c if c.is_control() && c != '\n' && c != '\t' || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    self.0.push('\u{fffd}')
                }
                c => self.0.push(c),
            }
        }
        self
    }

    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_escapes() {
        let mut xml = XmlWriter::new();
        xml.open_with("A", &[("b", "x\"<")])
            .element("C", "a<b>&\r\u{1}")
            .element("D", "")
            .optional("E", None)
            .close("A");
        let expected = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <A b=\"x&quot;&lt;\"><C>a&lt;b&gt;&amp;&#xD;\u{fffd}</C><D /></A>";
        assert_eq!(xml.finish(), expected);
    }
}
