//! The head of a request: its line and its headers, kept as they were sent.

use std::mem::MaybeUninit;
use std::ops::Range;

/// The most headers a request may have.
const HEADERS_MAX: usize = 160;
/// The longest target: the longest name, every character of it escaped, and a filter of a table behind it.
const TARGET_BYTES_MAX: usize = 32 * 1024;

/// A parsed head. Text is UTF-8; names keep their case and are compared without it.
#[derive(Clone, Debug)]
pub struct Head {
    text: String,
    method: Range<usize>,
    target: Range<usize>,
    headers: Vec<(Range<usize>, Range<usize>)>,
    /// A bit for each name that is there, by `bit`: most of the names that are asked for are not, and are not looked for then.
    names: u64,
    /// The bits that two of the headers have.
    repeated: u64,
    /// HTTP/1.0 closes unless asked not to, and knows no 100-continue.
    pub is_http_1_0: bool,
    pub body: BodyKind,
}

/// How the body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyKind {
    /// Neither Content-Length nor Transfer-Encoding: there is none.
    Absent,
    Length(u64),
    Chunked,
}

/// Why a head was not taken. The connection cannot go on after any of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// Not HTTP, or not in the form we accept.
    Malformed,
    /// The target or a header is not UTF-8.
    NotText,
    /// Too many of them, or too long.
    TooManyHeaders,
    TargetTooLong,
    /// Body framing that could be read in two ways.
    AmbiguousLength,
    UnsupportedTransferEncoding,
    MissingHost,
}

impl Head {
    /// `Ok(None)` if more bytes are needed; otherwise the head and how many bytes it took.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
        // Not filled in first: that would cost more than the parsing.
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(bytes, &mut headers) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooManyHeaders),
            Err(_) => return Err(HeadError::Malformed),
        };
        let start = bytes.as_ptr() as usize;
        // Others on the way may see no end of a line where there is a line feed alone. Every line ends before a name, or at the end.
        let is_ended = |name: &str| bytes[..name.as_ptr() as usize - start].ends_with(b"\r\n");
        let begins_at = request.method.map_or(0, |method| method.as_ptr() as usize - start);
        if begins_at > 0
            || !bytes[..length].ends_with(b"\r\n\r\n")
            || !request.headers.iter().all(|header| is_ended(header.name))
        {
            return Err(HeadError::Malformed);
        }
        let place = |part: &[u8]| {
            let at = part.as_ptr() as usize - start;
            at..at + part.len()
        };
        let text = std::str::from_utf8(&bytes[..length]).map_err(|_| HeadError::NotText)?.to_string();
        let (names, repeated) = request.headers.iter().fold((0, 0), |(names, repeated), header| {
            let bit = bit(header.name);
            (names | bit, repeated | (names & bit))
        });
        let mut head = Head {
            text,
            method: place(request.method.unwrap_or_default().as_bytes()),
            target: place(request.path.unwrap_or_default().as_bytes()),
            headers: request.headers.iter().map(|h| (place(h.name.as_bytes()), place(trim(h.value)))).collect(),
            names,
            repeated,
            is_http_1_0: request.version == Some(0),
            body: BodyKind::Absent,
        };
        if head.target.len() > TARGET_BYTES_MAX {
            return Err(HeadError::TargetTooLong);
        }
        head.body = head.framing()?;
        if !head.is_http_1_0 && head.headers("host").count() != 1 {
            return Err(HeadError::MissingHost);
        }
        Ok(Some((head, length)))
    }

    fn framing(&self) -> Result<BodyKind, HeadError> {
        let mut lengths = self.headers("content-length");
        let length = lengths.next();
        if lengths.next().is_some() {
            return Err(HeadError::AmbiguousLength);
        }
        let mut encodings = self.headers("transfer-encoding");
        match (encodings.next(), encodings.next(), length) {
            (None, _, None) => Ok(BodyKind::Absent),
            (None, _, Some(digits)) => {
                // Digits alone: a sign, a blank or a list means that somebody on the way may read it differently.
                let right = !digits.is_empty() && digits.len() <= 19 && digits.bytes().all(|b| b.is_ascii_digit());
                let length = right.then(|| digits.parse().ok()).flatten();
                length.map(BodyKind::Length).ok_or(HeadError::AmbiguousLength)
            }
            (Some(coding), None, None) if coding.eq_ignore_ascii_case("chunked") && !self.is_http_1_0 => {
                Ok(BodyKind::Chunked)
            }
            (Some(_), None, None) => Err(HeadError::UnsupportedTransferEncoding),
            _ => Err(HeadError::AmbiguousLength),
        }
    }

    pub fn method(&self) -> &str {
        &self.text[self.method.clone()]
    }

    /// The target as it was sent.
    pub fn target(&self) -> &str {
        &self.text[self.target.clone()]
    }

    /// All values of a header, in order.
    #[inline]
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let headers = if self.may_have(name) { self.headers.as_slice() } else { &[] };
        headers.iter().filter(move |(other, _)| self.is_named(other, name)).map(|(_, value)| &self.text[value.clone()])
    }

    /// The first value of a header. Inlined, so that the bit of a name that stands in the program is known before it runs.
    #[inline]
    pub fn header(&self, name: &str) -> Option<&str> {
        if self.may_have(name) { self.find(name) } else { None }
    }

    /// Those of the names that are there, with the first value of each.
    pub fn sent<const N: usize>(&self, names: &Names<N>) -> impl Iterator<Item = (&'static str, &str)> {
        names
            .with_bits()
            .filter(|(_, bit)| self.names & bit != 0)
            .filter_map(|(name, _)| Some((name, self.find(name)?)))
    }

    /// The first of the names that is there more than once.
    pub fn repeated<const N: usize>(&self, names: &Names<N>) -> Option<&'static str> {
        let mut may_be = names.with_bits().filter(|(_, bit)| self.repeated & bit != 0);
        may_be.find(|(name, _)| self.headers(name).count() > 1).map(|(name, _)| name)
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| self.is_named(other, name)).map(|(_, value)| &self.text[value.clone()])
    }

    #[inline]
    fn may_have(&self, name: &str) -> bool {
        self.names & bit(name) != 0
    }

    /// Lengths first: most names differ in them, and are then not looked at. And as it is written before without case: that is
    /// one comparison, and most clients write our names as we do.
    fn is_named(&self, other: &Range<usize>, name: &str) -> bool {
        if other.len() != name.len() {
            return false;
        }
        let other = &self.text.as_bytes()[other.clone()];
        other == name.as_bytes() || other.eq_ignore_ascii_case(name.as_bytes())
    }

    pub fn all_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&self.text[name.clone()], &self.text[value.clone()]))
    }

    /// Does a header's comma list have this word?
    pub fn has_word(&self, name: &str, word: &str) -> bool {
        self.headers(name).flat_map(|value| value.split(',')).any(|w| w.trim().eq_ignore_ascii_case(word))
    }

    pub fn keeps_alive(&self) -> bool {
        if self.is_http_1_0 { self.has_word("connection", "keep-alive") } else { !self.has_word("connection", "close") }
    }

    pub fn expects_continue(&self) -> bool {
        !self.is_http_1_0 && self.body != BodyKind::Absent && self.has_word("expect", "100-continue")
    }
}

/// Names that are looked for together, as a rule in vain; their bits are known before the program runs.
#[derive(Clone, Copy, Debug)]
pub struct Names<const N: usize> {
    names: [&'static str; N],
    bits: [u64; N],
}

impl<const N: usize> Names<N> {
    pub const fn new(names: [&'static str; N]) -> Self {
        let (mut bits, mut at) = ([0; N], 0);
        while at < N {
            bits[at] = bit(names[at]);
            at += 1;
        }
        Names { names, bits }
    }

    fn with_bits(&self) -> impl Iterator<Item = (&'static str, u64)> + use<N> {
        self.names.into_iter().zip(self.bits)
    }
}

/// Which bit stands for a name, in whatever case it is written.
#[inline]
const fn bit(name: &str) -> u64 {
    const fn of(name: &[u8], at: usize) -> u64 {
        if at < name.len() { name[at].to_ascii_lowercase() as u64 } else { 0 }
    }
    let (name, length) = (name.as_bytes(), name.len());
    let last = of(name, length.wrapping_sub(1));
    let mixed = (length as u64) ^ (last << 8) ^ (of(name, length / 2) << 16) ^ (of(name, 5) << 24);
    1 << (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

fn trim(value: &[u8]) -> &[u8] {
    let blank = |b: &u8| *b == b' ' || *b == b'\t';
    let start = value.iter().position(|b| !blank(b)).unwrap_or(value.len());
    let end = value.iter().rposition(|b| !blank(b)).map_or(start, |at| at + 1);
    &value[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(Head, usize)>, HeadError> {
        Head::parse(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn keeps_what_was_sent() {
        let (head, _) = parse("PUT /a%2fb?x=1 HTTP/1.1\nHost: h\nx-ms-meta-Hello:  W  d \nContent-Length: 7\n\n")
            .expect("right")
            .expect("whole");
        assert_eq!((head.method(), head.target()), ("PUT", "/a%2fb?x=1"));
        assert_eq!(head.all_headers().nth(1), Some(("x-ms-meta-Hello", "W  d")));
        assert_eq!(head.header("CONTENT-LENGTH"), Some("7"));
        assert_eq!(head.body, BodyKind::Length(7));
        assert!(head.keeps_alive() && !head.expects_continue());
    }

    #[test]
    fn heads_that_are_refused() {
        for (text, expected) in [
            ("GET / HTTP/1.1\n\n", HeadError::MissingHost),
            ("GET / HTTP/1.1\nHost: a\nHost: b\n\n", HeadError::MissingHost),
            ("GET / HTTP/2.0\nHost: a\n\n", HeadError::Malformed),
            ("GET  HTTP/1.1\nHost: a\n\n", HeadError::Malformed),
            ("G\u{1}T / HTTP/1.1\nHost: a\n\n", HeadError::Malformed),
            ("GET / HTTP/1.1\nHost: a\n folded\n\n", HeadError::Malformed),
            ("GET / HTTP/1.1\nHost: a\nbad name: 1\n\n", HeadError::Malformed),
            ("PUT / HTTP/1.1\nHost: a\nContent-Length: 1\nContent-Length: 1\n\n", HeadError::AmbiguousLength),
            ("PUT / HTTP/1.1\nHost: a\nContent-Length: +1\n\n", HeadError::AmbiguousLength),
            ("PUT / HTTP/1.1\nHost: a\nContent-Length: -1\n\n", HeadError::AmbiguousLength),
            ("PUT / HTTP/1.1\nHost: a\nContent-Length: 99999999999999999999\n\n", HeadError::AmbiguousLength),
            ("PUT / HTTP/1.1\nHost: a\nContent-Length: 1, 1\n\n", HeadError::AmbiguousLength),
            ("PUT / HTTP/1.1\nHost: a\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", HeadError::AmbiguousLength),
            ("PUT / HTTP/1.1\nHost: a\nTransfer-Encoding: gzip, chunked\n\n", HeadError::UnsupportedTransferEncoding),
            ("PUT / HTTP/1.0\nTransfer-Encoding: chunked\n\n", HeadError::UnsupportedTransferEncoding),
        ] {
            assert_eq!(parse(text).map(|_| ()), Err(expected), "{text}");
        }
        for text in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nb: c\r\n\r\n",
            "GET / HTTP/1.0\n\r\n",
            "GET / HTTP/1.0\r\n\n",
            "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(Head::parse(text.as_bytes()).map(|_| ()), Err(HeadError::Malformed), "{text:?}");
        }
        assert_eq!(Head::parse(b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n").map(|_| ()), Err(HeadError::NotText));
        let many = format!("GET / HTTP/1.1\nHost: a\n{}\n", "a: b\n".repeat(HEADERS_MAX));
        assert_eq!(parse(&many).map(|_| ()), Err(HeadError::TooManyHeaders));
        let target = |bytes: usize| format!("GET /{} HTTP/1.1\nHost: a\n\n", "x".repeat(bytes - 1));
        assert!(parse(&target(TARGET_BYTES_MAX)).is_ok_and(|head| head.is_some()));
        assert_eq!(parse(&target(TARGET_BYTES_MAX + 1)).map(|_| ()), Err(HeadError::TargetTooLong));
    }

    #[test]
    fn names_that_are_looked_for_together() {
        let parse = |headers: &str| {
            let (head, _) = parse(&format!("GET / HTTP/1.1\nHost: h\n{headers}\n")).expect("right").expect("whole");
            head
        };
        let names = Names::new(["range", "x-ms-date", "if-match"]);
        for (headers, there, repeated) in [
            ("", vec![], None),
            ("Range: a\nX-Ms-Date: b\n", vec!["range", "x-ms-date"], None),
            ("If-Match: a\nRange: b\nif-match: c\n", vec!["range", "if-match"], Some("if-match")),
            ("Accept: a\nAccept: b\n", vec![], None),
        ] {
            let head = parse(headers);
            let found: Vec<_> = head.sent(&names).map(|(name, _)| name).collect();
            assert_eq!((found, head.repeated(&names)), (there, repeated), "{headers}");
        }
    }

    #[test]
    fn half_a_head_is_none() {
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert!(matches!(Head::parse(&whole[..end]), Ok(None)), "{end}");
        }
    }
}
