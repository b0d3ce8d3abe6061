//! The strings that are signed, as pure functions of what was sent.

use std::cmp::Ordering;

use contract::{ApiVersion, Service};

/// What of a request takes part in its signature.
pub struct Signed<'a> {
    pub service: Service,
    pub verb: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub account: &'a str,
    /// As encoded on the request line.
    pub raw_path: &'a str,
    /// Decoded, names in lower case, each once.
    pub query: &'a [(String, String)],
    pub version: ApiVersion,
}

/// Clients do not agree on everything; each variant is one reading that some client in use has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    pub header_order: HeaderOrder,
    /// One client puts Content-Language before Content-Encoding.
    pub language_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderOrder {
    /// As the service compares names; current clients imitate it.
    Culture,
    /// By bytes, as older clients do.
    Bytes,
}

impl Signed<'_> {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    /// SharedKey.
    pub fn full(&self, variant: Variant) -> String {
        let date = self.header("x-ms-date");
        if self.service == Service::Table {
            let date = if date.is_empty() { self.header("date") } else { date };
            return format!(
                "{}\n{}\n{}\n{date}\n{}",
                self.verb,
                self.header("content-md5"),
                self.header("content-type"),
                self.short_resource()
            );
        }
        let length = match self.header("content-length") {
            "0" if self.version >= ApiVersion::ZERO_LENGTH_SIGNED_EMPTY => "",
            length => length,
        };
        let (first, second) = if variant.language_first {
            ("content-language", "content-encoding")
        } else {
            ("content-encoding", "content-language")
        };
        let mut text = String::with_capacity(512);
        let standard = [
            self.verb,
            self.header(first),
            self.header(second),
            length,
            self.header("content-md5"),
            self.header("content-type"),
            if date.is_empty() { self.header("date") } else { "" },
            self.header("if-modified-since"),
            self.header("if-match"),
            self.header("if-none-match"),
            self.header("if-unmodified-since"),
            self.header("range"),
        ];
        for line in standard {
            text.push_str(line);
            text.push('\n');
        }
        self.push_headers(&mut text, variant.header_order);
        self.push_resource(&mut text);
        text
    }

    /// SharedKeyLite.
    pub fn lite(&self, variant: Variant) -> String {
        let date = self.header("x-ms-date");
        if self.service == Service::Table {
            let date = if date.is_empty() { self.header("date") } else { date };
            return format!("{date}\n{}", self.short_resource());
        }
        let date = if date.is_empty() { self.header("date") } else { "" };
        let mut text =
            format!("{}\n{}\n{}\n{date}\n", self.verb, self.header("content-md5"), self.header("content-type"));
        self.push_headers(&mut text, variant.header_order);
        text.push_str(&self.short_resource());
        text
    }

    /// `x-ms-*`, one line each, sorted by name.
    fn push_headers(&self, text: &mut String, order: HeaderOrder) {
        let is_ours = |name: &str| name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("x-ms-"));
        let signs_empty = self.version >= ApiVersion::EMPTY_HEADERS_SIGNED;
        let is_signed = |(name, value): &&(&str, &str)| is_ours(name) && (!value.is_empty() || signs_empty);
        let mut ours: Vec<&(&str, &str)> = self.headers.iter().filter(is_signed).collect();
        match order {
            HeaderOrder::Culture => ours.sort_by(|(a, _), (b, _)| culture_order(a, b)),
            HeaderOrder::Bytes => ours.sort_by(|(a, _), (b, _)| lower(a).cmp(lower(b))),
        }
        for (name, value) in ours {
            let start = text.len();
            text.push_str(name);
            text[start..].make_ascii_lowercase();
            text.push(':');
            text.push_str(value);
            text.push('\n');
        }
    }

    fn push_resource(&self, text: &mut String) {
        text.push('/');
        text.push_str(self.account);
        text.push_str(self.raw_path);
        let mut query: Vec<&(String, String)> = self.query.iter().collect();
        query.sort_unstable();
        for (name, value) in query {
            text.push('\n');
            text.push_str(name);
            text.push(':');
            text.push_str(value);
        }
    }

    fn short_resource(&self) -> String {
        let comp = self.query.iter().find(|(name, _)| name == "comp");
        let comp = comp.map(|(_, value)| format!("?comp={value}")).unwrap_or_default();
        format!("/{}{}{comp}", self.account, self.raw_path)
    }
}

/// The string as it may be shown: what clients send as secrets is left out.
pub fn without_secrets(string_to_sign: &str) -> String {
    const SECRET: [&str; 9] = [
        "x-ms-encryption-key:",
        "x-ms-source-encryption-key:",
        "x-ms-copy-source:",
        "x-ms-copy-source-authorization:",
        "x-ms-previous-snapshot-url:",
        "x-ms-file-rename-source:",
        "x-ms-file-rename-source-authorization:",
        "x-ms-rename-source:",
        "sig:",
    ];
    let shown = string_to_sign.split('\n').map(|line| match SECRET.iter().find(|name| line.starts_with(**name)) {
        Some(name) => format!("{name}(hidden)"),
        None => line.to_string(),
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn lower(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|c| c.to_ascii_lowercase())
}

/// How the service orders header names, in whatever case they are: without `-` and `'` first (punctuation, then digits, then letters), and
/// only then by where those are, `'` before `-`.
pub fn culture_order(a: &str, b: &str) -> Ordering {
    fn weight(c: u8) -> u16 {
        const PUNCTUATION: &[u8] = b"!#$%&*.^_`|~+";
        if c.is_ascii_alphanumeric() {
            return u16::from(c) + 100;
        }
        match PUNCTUATION.iter().position(|p| *p == c) {
            Some(at) => at as u16 + 1,
            None => u16::from(c) + 100,
        }
    }
    fn mark(c: u8) -> u8 {
        match c {
            b'-' => 2,
            b'\'' => 1,
            _ => 0,
        }
    }
    fn bare(name: &str) -> impl Iterator<Item = u16> {
        lower(name).filter(|c| mark(*c) == 0).map(weight)
    }
    bare(a).cmp(bare(b)).then_with(|| a.bytes().map(mark).cmp(b.bytes().map(mark)))
}

#[cfg(test)]
mod tests;
