//! Names and keys in addresses: `Tables('name')`, `name()`, `name(PartitionKey='…',RowKey='…')`, read and written.

use contract::names::TableName;
use contract::{ErrorCode, Refusal};
use partition::table::value::EntityKey;

/// `Tables('name')`: the name, undoubled.
pub fn parse_table(segment: &str) -> Result<TableName, Refusal> {
    let inner = segment.strip_prefix("Tables(").and_then(|rest| rest.strip_suffix(')')).ok_or(ErrorCode::InvalidUri)?;
    let (name, rest) = take_quoted(inner.trim()).ok_or(ErrorCode::InvalidUri)?;
    if !rest.is_empty() {
        return Err(ErrorCode::InvalidUri.into());
    }
    TableName::parse(&name)
}

/// `name` or `name()`.
pub fn parse_entities(segment: &str) -> Result<TableName, Refusal> {
    TableName::parse(segment.strip_suffix("()").unwrap_or(segment))
}

/// `name(PartitionKey='…',RowKey='…')`, already decoded; the keys in either order.
pub fn parse_entity(segment: &str) -> Result<(TableName, EntityKey, EntityKey), Refusal> {
    let bad = || Refusal::from(ErrorCode::InvalidUri);
    let (name, rest) = segment.split_once('(').ok_or_else(bad)?;
    let name = TableName::parse(name)?;
    let mut rest = rest.strip_suffix(')').ok_or_else(bad)?;
    let (mut partition_key, mut row_key) = (None, None);
    loop {
        let (key, after) = rest.trim_start().split_once('=').ok_or_else(bad)?;
        let (value, after) = take_quoted(after).ok_or_else(bad)?;
        let place = match key.trim_end() {
            "PartitionKey" => &mut partition_key,
            "RowKey" => &mut row_key,
            _ => return Err(bad()),
        };
        if place.replace(EntityKey::parse(&value)?).is_some() {
            return Err(bad());
        }
        rest = after.trim_start();
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(',').ok_or_else(bad)?;
    }
    match (partition_key, row_key) {
        (Some(partition_key), Some(row_key)) => Ok((name, partition_key, row_key)),
        _ => Err(bad()),
    }
}

/// A text in single quotes, each quote in it doubled; and what follows.
fn take_quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut value = String::new();
    loop {
        let quote = rest.find('\'')?;
        value.push_str(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None => return Some((value, rest)),
        }
    }
}

/// The address of an entity relative to the service: escaped, so that it may stand in a header.
pub fn entity_link(table: &str, partition_key: &str, row_key: &str) -> String {
    format!("{table}(PartitionKey='{}',RowKey='{}')", escape(partition_key), escape(row_key))
}

fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'\'' => escaped.push_str("''"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte as char),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::percent_decode;

    #[test]
    fn entities() {
        for (segment, expected) in [
            ("People(PartitionKey='a',RowKey='b')", "People|a|b"),
            ("People(PartitionKey='a', RowKey='b')", "People|a|b"),
            ("People(RowKey='b',PartitionKey='a')", "People|a|b"),
            ("People( PartitionKey = 'a' , RowKey='b' )", "InvalidUri"),
            ("People(PartitionKey='',RowKey='')", "People||"),
            ("People(PartitionKey='it''s',RowKey='''')", "People|it's|'"),
            ("People(PartitionKey='a,b)',RowKey='(=')", "People|a,b)|(="),
            ("People(PartitionKey='\u{e9} +%',RowKey='b')", "People|\u{e9} +%|b"),
            ("People(PartitionKey='a')", "InvalidUri"),
            ("People(PartitionKey='a',PartitionKey='b')", "InvalidUri"),
            ("People(PartitionKey='a',RowKey='b',Other='c')", "InvalidUri"),
            ("People(PartitionKey='a',RowKey='b'", "InvalidUri"),
            ("People(PartitionKey='a',RowKey='b')x", "InvalidUri"),
            ("People(PartitionKey='a' RowKey='b')", "InvalidUri"),
            ("People(PartitionKey=a,RowKey=b)", "InvalidUri"),
            ("People(PartitionKey='it's',RowKey='b')", "InvalidUri"),
            ("People('a')", "InvalidUri"),
            ("People(PartitionKey='a/b',RowKey='b')", "OutOfRangeInput"),
            ("P(PartitionKey='a',RowKey='b')", "OutOfRangeInput"),
            ("1eople(PartitionKey='a',RowKey='b')", "InvalidResourceName"),
        ] {
            let got = parse_entity(segment).map_or_else(
                |refusal| refusal.code.name().to_string(),
                |(table, pk, rk)| format!("{}|{}|{}", table.as_str(), pk.as_str(), rk.as_str()),
            );
            assert_eq!(got, expected, "{segment}");
        }
    }

    #[test]
    fn tables() {
        for (segment, expected) in [
            ("Tables('People')", "People"),
            ("Tables('')", "OutOfRangeInput"),
            ("Tables('a-b')", "InvalidResourceName"),
            ("Tables('People'", "InvalidUri"),
            ("Tables(People)", "InvalidUri"),
            ("Tables('People','b')", "InvalidUri"),
        ] {
            let got = parse_table(segment)
                .map_or_else(|refusal| refusal.code.name().to_string(), |table| table.as_str().to_string());
            assert_eq!(got, expected, "{segment}");
        }
        assert_eq!(parse_entities("People()").expect("right").as_str(), "People");
        assert_eq!(parse_entities("People").expect("right").as_str(), "People");
        assert!(parse_entities("People(").is_err());
    }

    /// Whatever the keys are, the link that is written is read back as them.
    #[test]
    fn links_round_trip() {
        for key in ["", "a", "it's", "''", "a b+c%20", "\u{1f600}", "=,()&;:@$", "'"] {
            let link = entity_link("People", key, key);
            assert!(link.bytes().all(|b| b.is_ascii_graphic()), "{link}");
            let decoded = percent_decode(&link).expect("well escaped");
            let (_, pk, rk) = parse_entity(&decoded).expect(&link);
            assert_eq!((pk.as_str(), rk.as_str()), (key, key));
        }
    }
}
