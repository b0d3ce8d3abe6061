//! Requests byte for byte, signed with the account's key as clients sign them; and what of such a request its signature speaks for. It
//! shares nothing with the server's code: where the two disagree, one of them is wrong.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use contract::Service;

use crate::request::{ACCOUNT, KEY, sign};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    SharedKey,
    SharedKeyLite,
}

/// How a client sorts the names of its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By the weights that current clients carry.
    Weights,
    /// By bytes, as older clients do.
    Bytes,
}

#[derive(Clone, Debug)]
pub struct Raw {
    pub service: Service,
    pub form: Form,
    pub order: Order,
    pub method: String,
    /// Path and query as they are sent.
    pub target: String,
    /// The path that is signed, where it is not the one that is sent.
    pub signed_path: Option<String>,
    /// Names and values as they are sent; all but Authorization.
    pub headers: Vec<(String, String)>,
    /// Before which of the headers Authorization stands.
    pub authorization_at: usize,
    pub body: Vec<u8>,
}

impl Raw {
    pub fn bytes(&self) -> Vec<u8> {
        let signature = sign(KEY, &self.string_to_sign());
        self.bytes_with(&format!("{} {ACCOUNT}:{signature}", self.form.scheme()))
    }

    pub fn bytes_with(&self, authorization: &str) -> Vec<u8> {
        let mut lines: Vec<String> = self.headers.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        lines.insert(self.authorization_at.min(lines.len()), format!("Authorization: {authorization}"));
        let head = format!("{} {} HTTP/1.1\r\n{}\r\n\r\n", self.method, self.target, lines.join("\r\n"));
        [head.as_bytes(), &self.body].concat()
    }

    pub fn string_to_sign(&self) -> String {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let path = self.signed_path.as_deref().unwrap_or(if path.is_empty() { "/" } else { path });
        let query = grouped(&pairs(query).unwrap_or_default());
        let header = |wanted: &str| {
            let mut found = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.next().map_or("", |(_, value)| blank_trimmed(value))
        };
        let comp = query.get("comp").map(|value| format!("?comp={value}")).unwrap_or_default();
        let short_resource = format!("/{ACCOUNT}{path}{comp}");
        let date = header("x-ms-date");
        if self.service == Service::Table {
            let date = if date.is_empty() { header("date") } else { date };
            return match self.form {
                Form::SharedKeyLite => format!("{date}\n{short_resource}"),
                Form::SharedKey => {
                    [&self.method, header("content-md5"), header("content-type"), date, &short_resource].join("\n")
                }
            };
        }
        let date = if date.is_empty() { header("date") } else { "" };
        let version = version(&self.headers, &query);
        let ours: String = self.ours(&version).iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        match self.form {
            Form::SharedKeyLite => {
                let (md5, kind) = (header("content-md5"), header("content-type"));
                format!("{}\n{md5}\n{kind}\n{date}\n{ours}{short_resource}", self.method)
            }
            Form::SharedKey => {
                let mut text = format!("{}\n", self.method);
                for name in STANDARD_LINES {
                    let value = match name {
                        "content-length" if header(name) == "0" && version.as_str() >= "2015-02-21" => "",
                        "date" => date,
                        name => header(name),
                    };
                    text += &format!("{value}\n");
                }
                text += &format!("{ours}/{ACCOUNT}{path}");
                for (name, value) in &query {
                    text += &format!("\n{name}:{value}");
                }
                text
            }
        }
    }

    /// The x-ms- headers as they are signed: empty ones only from 2016-05-31 on.
    fn ours(&self, version: &str) -> Vec<(String, String)> {
        let mut ours = our_headers(&self.headers, version);
        match self.order {
            Order::Weights => ours.sort_by(|(a, _), (b, _)| by_weight(a.as_bytes(), b.as_bytes())),
            Order::Bytes => ours.sort_by(|(a, _), (b, _)| a.cmp(b)),
        }
        ours
    }

    /// A head and its body taken apart; `None` if it is no request. Lines may end in LF alone (RFC 9112 2.2).
    pub fn parse(service: Service, bytes: &[u8]) -> Option<(Raw, Option<String>)> {
        let mut rest = bytes;
        let mut lines: Vec<&str> = Vec::new();
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            rest = &rest[end + 1..];
            if line.is_empty() && !lines.is_empty() {
                break;
            }
            if !line.is_empty() {
                lines.push(std::str::from_utf8(line).ok()?);
            }
        }
        let mut words = lines[0].split(' ');
        let (method, target) = (words.next()?, words.next()?);
        if !matches!(words.next(), Some("HTTP/1.1" | "HTTP/1.0")) || words.next().is_some() {
            return None;
        }
        let mut headers = Vec::new();
        let (mut authorization, mut authorization_at) = (None, 0);
        for line in &lines[1..] {
            let (name, value) = line.split_once(':')?;
            let value = blank_trimmed(value).to_string();
            if name.is_empty()
                || !name.bytes().all(is_token)
                || value.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f)
            {
                return None;
            }
            if name.eq_ignore_ascii_case("authorization") && authorization.is_none() {
                (authorization, authorization_at) = (Some(value), headers.len());
            } else {
                headers.push((name.to_string(), value));
            }
        }
        let form = match authorization.as_deref().and_then(|value| value.split_once(' ')) {
            Some(("SharedKeyLite", _)) => Form::SharedKeyLite,
            _ => Form::SharedKey,
        };
        let (method, target, body) = (method.to_string(), target.to_string(), rest.to_vec());
        let order = Order::Weights;
        Some((
            Raw { service, form, order, method, target, signed_path: None, headers, authorization_at, body },
            authorization,
        ))
    }

    /// What the signature of the request speaks for. Two requests with one meaning may have one signature; no others may.
    pub fn meaning(service: Service, bytes: &[u8]) -> Option<Meaning> {
        let (raw, authorization) = Raw::parse(service, bytes)?;
        let authorization = authorization?;
        // Blanks between scheme and value do not count.
        let (scheme, value) = authorization.split_once(' ')?;
        let (full, table) = (raw.form == Form::SharedKey, service == Service::Table);
        // A target in absolute form names the host, which is not signed.
        let target = match raw.target.split_once("://") {
            Some((scheme, rest)) if ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) => {
                rest.find(['/', '?']).map_or("/", |at| &rest[at..])
            }
            _ => &raw.target,
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        // Escapes and case of names do not count in a query; a name that comes several times is one with several values.
        let mut query = grouped(&pairs(query)?);
        let version = version(&raw.headers, &query);
        if !full || table {
            // Of the query only comp is signed.
            query.retain(|name, _| name == "comp");
        }
        let header = |wanted: &str| {
            let mut found = raw.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.next().map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let has_own_date = !header("x-ms-date").is_empty();
        let date = match (has_own_date, table) {
            (false, _) => header("date"),
            (true, true) => header("x-ms-date"),
            // It is among the x-ms- headers, and Date is not looked at.
            (true, false) => String::new(),
        };
        let standard: Vec<String> = match (full, table) {
            (_, true) if !full => Vec::new(),
            (true, false) => {
                // The length of nothing is nothing.
                let length = |name: &str, value: &str| {
                    name == "content-length" && value == "0" && version.as_str() >= "2015-02-21"
                };
                let lines = STANDARD_LINES.iter().filter(|name| **name != "date").map(|name| (*name, header(name)));
                lines.map(|(name, value)| if length(name, &value) { String::new() } else { value }).collect()
            }
            _ => ["content-md5", "content-type"].map(header).to_vec(),
        };
        let mut ours = if table { Vec::new() } else { our_headers(&raw.headers, &version) };
        // The order of one name's values counts, that of the names does not.
        ours.sort_by(|(a, _), (b, _)| a.cmp(b));
        Some(Meaning {
            scheme: scheme.to_string(),
            credential: value.trim().to_string(),
            method: if table && !full { String::new() } else { raw.method },
            path: if path.is_empty() { "/".into() } else { path.to_string() },
            query,
            date,
            standard,
            ours,
        })
    }
}

/// The signed part of a request. What is not here, Host above all, the protocol leaves unsigned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meaning {
    scheme: String,
    credential: String,
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    date: String,
    standard: Vec<String>,
    ours: Vec<(String, String)>,
}

impl Meaning {
    /// The same, or what the server takes for the same because clients differ: Content-Language before Content-Encoding, and a path
    /// signed without the `-secondary` of its account.
    pub fn covers(&self, sent: &Meaning) -> bool {
        let mut swapped = self.clone();
        if swapped.standard.len() > 2 {
            swapped.standard.swap(0, 1);
        }
        let mut primary = sent.clone();
        if let Some(rest) = sent.path.strip_prefix(&format!("/{ACCOUNT}-secondary"))
            && (rest.is_empty() || rest.starts_with('/'))
        {
            primary.path = format!("/{ACCOUNT}{rest}");
        }
        [self, &swapped].iter().any(|signed| *signed == sent || **signed == primary)
    }
}

impl Form {
    pub fn scheme(self) -> &'static str {
        match self {
            Form::SharedKey => "SharedKey",
            Form::SharedKeyLite => "SharedKeyLite",
        }
    }
}

const STANDARD_LINES: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

fn our_headers(headers: &[(String, String)], version: &str) -> Vec<(String, String)> {
    let lower = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), blank_trimmed(value).to_string()));
    lower.filter(|(name, value)| name.starts_with("x-ms-") && (!value.is_empty() || version >= "2016-05-31")).collect()
}

fn version(headers: &[(String, String)], query: &BTreeMap<String, String>) -> String {
    let header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-ms-version"));
    let parameter = |name: &str| query.get(name).filter(|value| !value.is_empty());
    let named = header
        .map(|(_, value)| blank_trimmed(value))
        .or(parameter("api-version").or(parameter("sv")).map(String::as_str));
    named.unwrap_or("2009-04-14").to_string()
}

/// Names in lower case and values, decoded, `+` as a blank; `None` if an escape is broken or not UTF-8.
pub fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if !part.is_empty() {
            let decode = |text: &str| unescape(&text.replace('+', " "));
            pairs.push((decode(name)?.to_ascii_lowercase(), decode(value)?));
        }
    }
    Some(pairs)
}

/// Each name once, its values sorted and joined with commas.
pub fn grouped(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, value) in pairs {
        values.entry(name.clone()).or_default().push(value);
    }
    values.iter_mut().for_each(|(_, values)| values.sort_unstable());
    values.into_iter().map(|(name, values)| (name, values.join(","))).collect()
}

pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

fn blank_trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// As the current clients compare names: by weight, passing over `'` and `-`; then by where those stand, `'` before `-`.
fn by_weight(a: &[u8], b: &[u8]) -> Ordering {
    const WEIGHTS: &[u8] = b"!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";
    let weight = |byte: &u8| WEIGHTS.iter().position(|other| other == byte);
    let weights = |name: &[u8]| name.iter().filter_map(weight).collect::<Vec<_>>();
    weights(a).cmp(&weights(b)).then_with(|| {
        let passed_over = |byte: &u8| [b'\'', b'-'].iter().position(|other| other == byte);
        for at in 0..a.len().max(b.len()) {
            match (a.get(at), b.get(at)) {
                (None, _) => return Ordering::Less,
                (_, None) => return Ordering::Greater,
                (Some(x), Some(y)) => match passed_over(x).cmp(&passed_over(y)) {
                    Ordering::Equal => {}
                    unequal => return unequal,
                },
            }
        }
        Ordering::Equal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A published string, so that the client is not only right about itself.
    #[test]
    fn the_string_of_a_client() {
        let raw = Raw {
            service: Service::Blob,
            form: Form::SharedKey,
            order: Order::Weights,
            method: "GET".into(),
            target: "/devstoreaccount1/c?comp=list&restype=container&include=snapshots&include=metadata&Prefix=a%2Bb+c"
                .into(),
            signed_path: None,
            headers: [("x-ms-version", " 2015-02-21"), ("X-Ms-Date", "D"), ("Range", "bytes=0-1"), ("x-ms-empty", "")]
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .to_vec(),
            authorization_at: 0,
            body: Vec::new(),
        };
        let expected = "GET\n\n\n\n\n\n\n\n\n\n\nbytes=0-1\nx-ms-date:D\nx-ms-version:2015-02-21\n\
            /devstoreaccount1/devstoreaccount1/c\ncomp:list\ninclude:metadata,snapshots\nprefix:a+b c\nrestype:container";
        assert_eq!(raw.string_to_sign(), expected);
        let bytes = raw.bytes();
        let (again, authorization) = Raw::parse(Service::Blob, &bytes).expect("a request");
        assert_eq!(again.string_to_sign(), expected);
        assert_eq!(again.bytes_with(&authorization.expect("signed")).len() + 1, bytes.len(), "one blank is not kept");
    }

    /// The weights of the published tables, in pairs.
    #[test]
    fn the_order_of_a_client() {
        for (a, b) in [
            ("x-ms-a", "x-ms-a1"),
            ("x-ms-a_", "x-ms-a1"),
            ("x-ms-_", "x-ms-`"),
            ("x-ms-`", "x-ms-|"),
            ("x-ms-~", "x-ms-+"),
            ("x-ms-`", "x-ms-0"),
            ("x-ms-ab", "x-ms-a-b"),
            ("x-ms-a'b", "x-ms-a-b"),
            ("x-ms-ab'", "x-ms-a'b"),
            ("x-ms-a-b", "x-ms-abc"),
        ] {
            assert_eq!(by_weight(a.as_bytes(), b.as_bytes()), Ordering::Less, "{a} {b}");
            assert_eq!(by_weight(b.as_bytes(), a.as_bytes()), Ordering::Greater, "{b} {a}");
        }
    }
}
