//! The values a property can have, and what an entity may be: the eight Edm types, exact, their order, and the limits.
//!
//! 1. A value has one type; values of two types are neither equal nor ordered, not even 1 and 1.0.
//! 2. A value that was checked here is stored and given back bit for bit.
//! 3. Strings sort by code point, which is the order of their bytes in UTF-8 and so the order of keys in storage.

use std::cmp::Ordering;
use std::fmt;

use contract::limits::{
    ENTITY_BYTES_MAX, ENTITY_KEY_UNITS_MAX, ENTITY_PROPERTIES_MAX, PROPERTY_NAME_CHARS_MAX, PROPERTY_VALUE_BYTES_MAX,
};
use contract::{ErrorCode, Refusal};
use env::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EdmType {
    String,
    Binary,
    Boolean,
    Int32,
    Int64,
    Double,
    DateTime,
    Guid,
}

impl EdmType {
    pub const ALL: [EdmType; 8] = [
        EdmType::String,
        EdmType::Binary,
        EdmType::Boolean,
        EdmType::Int32,
        EdmType::Int64,
        EdmType::Double,
        EdmType::DateTime,
        EdmType::Guid,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            EdmType::String => "Edm.String",
            EdmType::Binary => "Edm.Binary",
            EdmType::Boolean => "Edm.Boolean",
            EdmType::Int32 => "Edm.Int32",
            EdmType::Int64 => "Edm.Int64",
            EdmType::Double => "Edm.Double",
            EdmType::DateTime => "Edm.DateTime",
            EdmType::Guid => "Edm.Guid",
        }
    }

    pub fn parse(name: &str) -> Option<EdmType> {
        Self::ALL.into_iter().find(|of| of.name() == name)
    }
}

/// A value on its own.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    String(String),
    Binary(Vec<u8>),
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    DateTime(Timestamp),
    Guid(u128),
}

/// A value where it lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ValueRef<'a> {
    String(&'a str),
    Binary(&'a [u8]),
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    DateTime(Timestamp),
    Guid(u128),
}

impl Value {
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::String(text) => ValueRef::String(text),
            Value::Binary(bytes) => ValueRef::Binary(bytes),
            Value::Boolean(value) => ValueRef::Boolean(*value),
            Value::Int32(value) => ValueRef::Int32(*value),
            Value::Int64(value) => ValueRef::Int64(*value),
            Value::Double(value) => ValueRef::Double(*value),
            Value::DateTime(value) => ValueRef::DateTime(*value),
            Value::Guid(value) => ValueRef::Guid(*value),
        }
    }
}

impl ValueRef<'_> {
    pub fn edm_type(&self) -> EdmType {
        match self {
            ValueRef::String(_) => EdmType::String,
            ValueRef::Binary(_) => EdmType::Binary,
            ValueRef::Boolean(_) => EdmType::Boolean,
            ValueRef::Int32(_) => EdmType::Int32,
            ValueRef::Int64(_) => EdmType::Int64,
            ValueRef::Double(_) => EdmType::Double,
            ValueRef::DateTime(_) => EdmType::DateTime,
            ValueRef::Guid(_) => EdmType::Guid,
        }
    }

    /// `None` between two types, and where a NaN is one of the two.
    pub fn compare(&self, other: &ValueRef<'_>) -> Option<Ordering> {
        match (self, other) {
            (ValueRef::String(a), ValueRef::String(b)) => Some(a.cmp(b)),
            (ValueRef::Binary(a), ValueRef::Binary(b)) => Some(a.cmp(b)),
            (ValueRef::Boolean(a), ValueRef::Boolean(b)) => Some(a.cmp(b)),
            (ValueRef::Int32(a), ValueRef::Int32(b)) => Some(a.cmp(b)),
            (ValueRef::Int64(a), ValueRef::Int64(b)) => Some(a.cmp(b)),
            (ValueRef::Double(a), ValueRef::Double(b)) => a.partial_cmp(b),
            (ValueRef::DateTime(a), ValueRef::DateTime(b)) => Some(a.cmp(b)),
            (ValueRef::Guid(a), ValueRef::Guid(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// What it adds to the size of its entity.
    fn bytes(&self) -> usize {
        match self {
            ValueRef::String(text) => 2 * utf16_units(text) + 4,
            ValueRef::Binary(bytes) => bytes.len() + 4,
            ValueRef::Boolean(_) => 1,
            ValueRef::Int32(_) => 4,
            ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::DateTime(_) => 8,
            ValueRef::Guid(_) => 16,
        }
    }

    fn check(&self) -> Result<(), Refusal> {
        match self {
            ValueRef::String(text) if 2 * utf16_units(text) > PROPERTY_VALUE_BYTES_MAX => {
                Err(ErrorCode::PropertyValueTooLarge.into())
            }
            ValueRef::Binary(bytes) if bytes.len() > PROPERTY_VALUE_BYTES_MAX => {
                Err(ErrorCode::PropertyValueTooLarge.into())
            }
            ValueRef::DateTime(moment) if !(DATE_TIME_MIN..=Timestamp::MAX).contains(moment) => {
                Err(ErrorCode::OutOfRangeInput.into())
            }
            _ => Ok(()),
        }
    }
}

/// 1601-01-01T00:00:00Z, the first moment an Edm.DateTime can name.
pub const DATE_TIME_MIN: Timestamp = Timestamp::from_ticks(504_911_232_000_000_000);

fn utf16_units(text: &str) -> usize {
    // Most text is ASCII, and then the bytes need no decoding.
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// A PartitionKey or a RowKey: at most 1 KiB in UTF-16, none of the characters that addresses and XML cannot carry. May be empty.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EntityKey(String);

impl EntityKey {
    pub fn parse(text: &str) -> Result<EntityKey, Refusal> {
        let forbidden = |c: char| matches!(c, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}');
        if text.contains(forbidden) {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        if utf16_units(text) > ENTITY_KEY_UNITS_MAX {
            return Err(ErrorCode::PropertyValueTooLarge.into());
        }
        Ok(EntityKey(text.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The properties of an entity beside its keys and its Timestamp, checked: names once each, no value too large.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Properties(Vec<(String, Value)>);

impl Properties {
    /// In the order given. The keys count into the entity's size, so the whole is checked with `check_entity`.
    pub fn parse(properties: Vec<(String, Value)>) -> Result<Properties, Refusal> {
        if properties.len() > ENTITY_PROPERTIES_MAX {
            return Err(ErrorCode::TooManyProperties.into());
        }
        let mut names: Vec<&str> = Vec::with_capacity(properties.len());
        for (name, value) in &properties {
            check_property_name(name)?;
            value.as_ref().check()?;
            names.push(name);
        }
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(ErrorCode::DuplicatePropertiesSpecified.into());
        }
        Ok(Properties(properties))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, ValueRef<'_>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A C# identifier. Names that only look like annotations never come here.
fn check_property_name(name: &str) -> Result<(), Refusal> {
    if name.chars().count() > PROPERTY_NAME_CHARS_MAX {
        return Err(ErrorCode::PropertyNameTooLong.into());
    }
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if !first || !chars.all(|c| c.is_alphanumeric() || c == '_') {
        return Err(Refusal::from(ErrorCode::PropertyNameInvalid).with("PropertyName", name));
    }
    Ok(())
}

/// The entity as a whole: how many properties, how many bytes.
pub fn check_entity<'a>(
    partition_key: &str,
    row_key: &str,
    properties: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
) -> Result<(), Refusal> {
    let mut bytes = 4 + 2 * (utf16_units(partition_key) + utf16_units(row_key));
    let mut count = 0;
    for (name, value) in properties {
        bytes += 8 + 2 * utf16_units(name) + value.bytes();
        count += 1;
    }
    if count > ENTITY_PROPERTIES_MAX {
        return Err(ErrorCode::TooManyProperties.into());
    }
    if bytes > ENTITY_BYTES_MAX {
        return Err(ErrorCode::EntityTooLarge.into());
    }
    Ok(())
}

/// A moment as Edm.DateTime is written: `2017-11-10T02:43:35.846Z`, no zeros at the end of the fraction.
pub struct EdmDateTime(pub Timestamp);

impl fmt::Display for EdmDateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.iso8601();
        f.write_str(text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.'))?;
        f.write_str("Z")
    }
}

/// Reads what clients write: with a zone or without one (then UTC), any fraction, of which 100 ns are kept.
pub fn parse_date_time(text: &str) -> Option<Timestamp> {
    if !text.is_ascii() {
        return None;
    }
    let zone_at = text.get(10..)?.find(['Z', 'z', '+', '-']).map_or(text.len(), |at| at + 10);
    let (moment, zone) = text.split_at(zone_at);
    let moment = match moment.split_once('.') {
        Some((seconds, fraction)) if fraction.len() > 7 && fraction.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{seconds}.{}", &fraction[..7])
        }
        _ => moment.to_string(),
    };
    let zone = match zone {
        "" if moment.len() > 10 => "Z",
        "z" => "Z",
        zone => zone,
    };
    Timestamp::parse_iso8601(&format!("{moment}{zone}"))
}

/// 8-4-4-4-12 digits, or 32 of them.
pub fn parse_guid(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    let hyphens = match bytes.len() {
        32 => false,
        36 => true,
        _ => return None,
    };
    let mut number = 0u128;
    for (at, byte) in bytes.iter().enumerate() {
        if hyphens && matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        number = number << 4 | u128::from((*byte as char).to_digit(16)?);
    }
    Some(number)
}

/// Infinity and NaN have names; every other double has digits.
pub fn parse_double(text: &str) -> Option<f64> {
    match text {
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        _ if text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E')) => {
            text.parse().ok().filter(|value: &f64| value.is_finite())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (text, expected) in [
            ("2017-11-10T02:43:35.8460923Z", "2017-11-10T02:43:35.8460923Z"),
            ("2017-11-10T02:43:35.8460000Z", "2017-11-10T02:43:35.846Z"),
            ("2017-11-10T02:43:35.0Z", "2017-11-10T02:43:35Z"),
            ("2017-11-10T02:43:30Z", "2017-11-10T02:43:30Z"),
            ("2017-11-10T02:43:30", "2017-11-10T02:43:30Z"),
            ("2017-11-10T02:43:30.5", "2017-11-10T02:43:30.5Z"),
            ("2017-11-10T02:43Z", "2017-11-10T02:43:00Z"),
            ("2017-11-10", "2017-11-10T00:00:00Z"),
            ("2017-11-10T02:43:35.846092399Z", "2017-11-10T02:43:35.8460923Z"),
            ("2017-11-10T02:43:30+02:00", "2017-11-10T00:43:30Z"),
            ("2017-11-10T02:43:30-02:00", "2017-11-10T04:43:30Z"),
            ("1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
            ("", "-"),
            ("yesterday", "-"),
            ("2017-13-10T02:43:30Z", "-"),
            ("2017-11-10T02:43:30.Z", "-"),
            ("2017-11-10T02:43:30.12345678xZ", "-"),
            ("2017-11-10 02:43:30Z", "-"),
            ("2017-11-10T02:43:30\u{e9}", "-"),
        ] {
            let got = parse_date_time(text).map_or("-".into(), |moment| EdmDateTime(moment).to_string());
            assert_eq!(got, expected, "{text}");
        }
        assert_eq!(EdmDateTime(DATE_TIME_MIN).to_string(), "1601-01-01T00:00:00Z");
    }

    #[test]
    fn guids_and_doubles() {
        let guid = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
        assert_eq!(parse_guid("01234567-89ab-cdef-0123-456789ABCDEF"), Some(guid));
        assert_eq!(parse_guid("0123456789abcdef0123456789abcdef"), Some(guid));
        for text in ["", "0123", "01234567-89ab-cdef-0123-456789abcdeg", "0123456-789ab-cdef-0123-456789abcdef"] {
            assert_eq!(parse_guid(text), None, "{text}");
        }
        for (text, expected) in [
            ("1", Some(1.0)),
            ("-1.5e300", Some(-1.5e300)),
            ("1e400", None),
            ("Infinity", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("inf", None),
            ("nan", None),
            ("0x10", None),
            ("", None),
            ("1.5.2", None),
        ] {
            assert_eq!(parse_double(text), expected, "{text}");
        }
        assert!(parse_double("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn keys() {
        for (key, expected) in [
            ("", "ok"),
            ("a b'c%+", "ok"),
            ("\u{1f600}", "ok"),
            ("a/b", "OutOfRangeInput"),
            ("a\\b", "OutOfRangeInput"),
            ("a#b", "OutOfRangeInput"),
            ("a?b", "OutOfRangeInput"),
            ("a\tb", "OutOfRangeInput"),
            ("a\u{85}b", "OutOfRangeInput"),
            (&"\u{e9}".repeat(512), "ok"),
            (&"x".repeat(513), "PropertyValueTooLarge"),
            (&"\u{1f600}".repeat(257), "PropertyValueTooLarge"),
        ] {
            let got = EntityKey::parse(key).map_or_else(|refusal| refusal.code.name(), |_| "ok");
            assert_eq!(got, expected, "{key}");
        }
    }

    #[test]
    fn limits() {
        let check = |properties: Vec<(String, Value)>| {
            let parsed = Properties::parse(properties)
                .and_then(|properties| check_entity("p", "r", properties.iter()).map(|()| properties));
            parsed.map_or_else(|refusal| refusal.code.name(), |_| "ok")
        };
        let one = |name: &str, value: Value| vec![(name.to_string(), value)];
        let many = |count: usize| (0..count).map(|n| (format!("p{n}"), Value::Int32(1))).collect::<Vec<_>>();
        assert_eq!(check(many(252)), "ok");
        assert_eq!(check(many(253)), "TooManyProperties");
        for (name, expected) in [
            ("a", "ok"),
            ("_a1", "ok"),
            ("\u{e9}t\u{e9}", "ok"),
            ("", "PropertyNameInvalid"),
            ("1a", "PropertyNameInvalid"),
            ("a-b", "PropertyNameInvalid"),
            ("a b", "PropertyNameInvalid"),
            ("a.b", "PropertyNameInvalid"),
            (&"a".repeat(255), "ok"),
            (&"a".repeat(256), "PropertyNameTooLong"),
        ] {
            assert_eq!(check(one(name, Value::Int32(1))), expected, "{name}");
        }
        assert_eq!(check(one("a", Value::String("x".repeat(32 * 1024)))), "ok");
        assert_eq!(check(one("a", Value::String("x".repeat(32 * 1024 + 1)))), "PropertyValueTooLarge");
        assert_eq!(check(one("a", Value::String("\u{1f600}".repeat(16 * 1024 + 1)))), "PropertyValueTooLarge");
        assert_eq!(check(one("a", Value::Binary(vec![0; 64 * 1024]))), "ok");
        assert_eq!(check(one("a", Value::Binary(vec![0; 64 * 1024 + 1]))), "PropertyValueTooLarge");
        assert_eq!(check(one("a", Value::DateTime(Timestamp::from_ticks(0)))), "OutOfRangeInput");
        let mut twice = one("a", Value::Int32(1));
        twice.extend(one("a", Value::Int32(2)));
        assert_eq!(check(twice), "DuplicatePropertiesSpecified");
        let mut cases_differ = one("a", Value::Int32(1));
        cases_differ.extend(one("A", Value::Int32(2)));
        assert_eq!(check(cases_differ), "ok");
        let large = |count: usize| {
            (0..count).map(|n| (format!("p{n:02}"), Value::Binary(vec![0; 64 * 1024]))).collect::<Vec<_>>()
        };
        assert_eq!(check(large(15)), "ok");
        assert_eq!(check(large(16)), "EntityTooLarge");
    }

    #[test]
    fn types_do_not_mix() {
        let values = [
            Value::String("1".into()),
            Value::Binary(vec![1]),
            Value::Boolean(true),
            Value::Int32(1),
            Value::Int64(1),
            Value::Double(1.0),
            Value::DateTime(Timestamp::from_ticks(1)),
            Value::Guid(1),
        ];
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                let expected = (i == j).then_some(Ordering::Equal);
                assert_eq!(a.as_ref().compare(&b.as_ref()), expected, "{a:?} {b:?}");
            }
            assert_eq!(EdmType::parse(a.as_ref().edm_type().name()), Some(a.as_ref().edm_type()));
        }
        assert_eq!(EdmType::parse("Edm.Float"), None);
        let nan = ValueRef::Double(f64::NAN);
        assert_eq!(nan.compare(&nan), None);
    }
}
