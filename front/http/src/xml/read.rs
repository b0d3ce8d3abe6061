//! XML as clients send it, read into a small tree. No entities but the five that XML itself has, no document types, no depth that could
//! hurt; the size is bounded by the operation's row before anything is parsed.

use contract::{ErrorCode, Refusal};
use quick_xml::Reader;
use quick_xml::events::Event;

/// How deep elements may lie; the deepest document of the services has five levels.
const DEPTH_MAX: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Element {
    pub name: String,
    /// The text directly inside, as it stands.
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of a child that is there and not empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim()).filter(|text| !text.is_empty())
    }
}

pub fn invalid(reason: impl Into<String>) -> Refusal {
    Refusal::from(ErrorCode::InvalidXmlDocument)
        .with("LineNumber", "0")
        .with("LinePosition", "0")
        .with("Reason", reason)
}

/// The root element of a document.
pub fn parse(bytes: &[u8]) -> Result<Element, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("The document is not UTF-8."))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Element> = Vec::new();
    let mut root: Option<Element> = None;
    loop {
        let at = |reader: &Reader<&[u8]>, reason: &str| {
            let before = text.get(..reader.buffer_position() as usize).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let position = before.len() - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
            Refusal::from(ErrorCode::InvalidXmlDocument)
                .with("LineNumber", line.to_string())
                .with("LinePosition", position.to_string())
                .with("Reason", reason)
        };
        let event = reader.read_event().map_err(|error| at(&reader, &error.to_string()))?;
        let mut closed = None;
        match event {
            Event::Start(start) | Event::Empty(start) if root.is_some() && open.is_empty() => {
                let _ = start;
                return Err(at(&reader, "There is more than one root element."));
            }
            Event::Start(start) => {
                if open.len() >= DEPTH_MAX {
                    return Err(at(&reader, "The elements lie too deep."));
                }
                open.push(Element { name: name(start.local_name().as_ref()), ..Element::default() });
            }
            Event::Empty(start) => {
                closed = Some(Element { name: name(start.local_name().as_ref()), ..Element::default() })
            }
            Event::End(_) => closed = open.pop(),
            // As it was sent: XML would have line ends made alike, and a message's text comes back byte for byte.
            Event::Text(content) => add(&mut open, &content).map_err(|reason| at(&reader, reason))?,
            Event::CData(content) => add(&mut open, &content).map_err(|reason| at(&reader, reason))?,
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref() {
                    Ok(Some(character)) => Some(character.to_string()),
                    Ok(None) => match reference.as_ref() {
                        "lt" => Some("<".into()),
                        "gt" => Some(">".into()),
                        "amp" => Some("&".into()),
                        "quot" => Some("\"".into()),
                        "apos" => Some("'".into()),
                        _ => None,
                    },
                    Err(_) => None,
                };
                let character = character.ok_or_else(|| at(&reader, "An entity is not known."))?;
                add(&mut open, &character).map_err(|reason| at(&reader, reason))?;
            }
            Event::DocType(_) => return Err(at(&reader, "Document types are not allowed.")),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof if open.is_empty() => return root.ok_or_else(|| at(&reader, "There is no root element.")),
            Event::Eof => return Err(at(&reader, "The document ends early.")),
        }
        if let Some(element) = closed {
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => root = Some(element),
            }
        }
    }
}

fn name(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

fn add(open: &mut [Element], text: &str) -> Result<(), &'static str> {
    if !text.chars().all(super::is_legal) {
        return Err("A character is not allowed in XML.");
    }
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err("There is text outside the root element."),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents() {
        let root = parse(
            "\u{feff}<?xml version=\"1.0\"?>\n<A x='1'><B>a&lt;&#65;<![CDATA[<]]></B><C/><!-- c --></A>\n".as_bytes(),
        )
        .expect("right");
        assert_eq!(root.name, "A");
        assert_eq!(root.value("B"), Some("a<A<"));
        let text = " a\r\n\tb\r\u{85}\u{1f600} ";
        let root_of = |text: &str| parse(format!("<A>{text}</A>").as_bytes()).expect("right");
        assert_eq!(root_of(text).text, text);
        assert_eq!(root_of("a&#xD;&#10;").text, "a\r\n");
        assert_eq!(root.value("C"), None);
        assert!(root.child("C").is_some() && root.child("D").is_none());
    }

    #[test]
    fn what_is_refused() {
        let deep = "<a>".repeat(100);
        for text in [
            "",
            "text",
            "<A>",
            "<A></B>",
            "<A/><B/>",
            "<A/>text",
            "<A>&unknown;</A>",
            "<A>&#0;</A>",
            "<A>&#1;</A>",
            "<A>\u{b}</A>",
            "<A>\u{ffff}</A>",
            "<A><![CDATA[\u{0}]]></A>",
            "<A><B></A></B>",
            "<",
            "<A",
            "</A>",
            &deep,
            "<!DOCTYPE lolz [<!ENTITY lol \"lol\"><!ENTITY lol2 \"&lol;&lol;\">]><A>&lol2;</A>",
        ] {
            let refusal = parse(text.as_bytes()).expect_err(text);
            assert_eq!(refusal.code, ErrorCode::InvalidXmlDocument, "{text}");
        }
        assert!(parse(b"<A>\xff</A>").is_err());
    }
}
