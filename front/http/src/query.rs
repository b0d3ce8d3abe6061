//! The query of a request, decoded once.

use contract::limits::QUERY_PARAMETERS_MAX;
use contract::{ErrorCode, Refusal};

/// Names in lower case, names and values URL-decoded; `+` is a blank, as .NET and Go write it in tokens and the service reads it in signed
/// requests, too (Azurite issue 1696). A name stands here once: several values of it are one, sorted and joined with commas, because so they
/// are signed. Read in any other way, a request could be turned into another one with the same signature.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Result<Query, Refusal> {
        let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let decode = |text| query_decode(text).ok_or(ErrorCode::RequestUrlFailedToParse);
            let (name, value) = (decode(name)?.to_ascii_lowercase(), decode(value)?);
            let known = pairs.iter().position(|(other, _)| *other == name);
            match known {
                Some(at) => pairs[at].1.push(value),
                // No operation has a tenth of this; a stranger's thousands would each be compared with all before.
                None if pairs.len() >= QUERY_PARAMETERS_MAX => return Err(ErrorCode::RequestUrlFailedToParse.into()),
                None => pairs.push((name, vec![value])),
            }
        }
        let joined = pairs.into_iter().map(|(name, mut values)| {
            values.sort_unstable();
            (name, values.join(","))
        });
        Ok(Query(joined.collect()))
    }

    /// The value. An empty one counts as absent, as the services treat `comp=`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub fn all(&self) -> &[(String, String)] {
        &self.0
    }

    /// The values of a name, which commas part.
    pub fn words<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.get(name).unwrap_or_default().split(',').filter(|word| !word.is_empty())
    }
}

/// `None` if an escape is broken or the result is not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_string());
    }
    decode(text, b'+')
}

/// A name or a value as queries and forms have it: `+` is a blank.
pub fn query_decode(text: &str) -> Option<String> {
    if !text.contains(['%', '+']) {
        return Some(text.to_string());
    }
    decode(text, b' ')
}

fn decode(text: &str, plus: u8) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digit = |i: usize| bytes.get(i).and_then(|b| (*b as char).to_digit(16));
                decoded.push((digit(at + 1)? * 16 + digit(at + 2)?) as u8);
                at += 2;
            }
            b'+' => decoded.push(plus),
            byte => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).ok()
}

/// Everything but letters, digits, `-._~` and `also` as escapes.
pub fn percent_encode(text: &str, also: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte as char {
            plain if plain.is_ascii_alphanumeric() || "-._~".contains(plain) || also.contains(plain) => {
                encoded.push(plain)
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let query = Query::parse("Comp=list&prefix=a%2Bb+c%20d&include=x,y&include=z&flag&empty=").expect("right");
        assert_eq!(query.get("comp"), Some("list"));
        assert_eq!(query.get("prefix"), Some("a+b c d"));
        assert_eq!(query.words("include").collect::<Vec<_>>(), ["x", "y", "z"]);
        assert_eq!((query.get("flag"), query.get("empty")), (None, None));
        assert_eq!(query.all().len(), 5);
        assert_eq!(Query::parse("a+b=+"), Query::parse("a%20b=%20"));
        for (text, path, query) in [("a+b", "a+b", "a b"), ("a+%2B%20", "a++ ", "a + "), ("a%2bb", "a+b", "a+b")] {
            assert_eq!(
                (percent_decode(text).as_deref(), query_decode(text).as_deref()),
                (Some(path), Some(query)),
                "{text}"
            );
        }
        let several = Query::parse("prefix=b&Prefix=a,c&x=1").expect("right");
        assert_eq!(several, Query::parse("prefix=a,c,b&x=1").expect("right"));
        let many = |count: usize| (0..count).map(|n| format!("p{n}=1")).collect::<Vec<_>>().join("&");
        assert!(Query::parse(&many(QUERY_PARAMETERS_MAX)).is_ok());
        assert!(Query::parse(&many(QUERY_PARAMETERS_MAX + 1)).is_err());
        for bad in ["a=%", "a=%4", "a=%zz", "a=%ff", "%C3=1"] {
            assert_eq!(Query::parse(bad).err().map(|r| r.code), Some(ErrorCode::RequestUrlFailedToParse), "{bad}");
        }
    }
}
