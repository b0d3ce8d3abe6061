//! Tables and entities as they are stored.
//!
//! An entity is read far more often than it is written, and a query reads many to show few. So its record is not taken apart when it is
//! loaded: it is checked once, and its properties are then read where they lie.

use bytes::Bytes;
use engine::Fault;
use env::{Id, Timestamp};

use super::container::{StoredPolicy, read_policy_field, write_policies};
use super::{FieldReader, FieldWriter, corrupt, put_length, read_text, read_u64, take_length};
use crate::table::value::ValueRef;

const TABLE_SHAPE: u8 = 0x20;
const ENTITY_SHAPE: u8 = 0x21;

/// A table, without its entities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableHead {
    pub incarnation: Id,
    /// As it was written when the table was created.
    pub name: String,
    pub policies: Vec<StoredPolicy>,
}

mod table_tag {
    pub const INCARNATION: u8 = 1;
    pub const NAME: u8 = 2;
    /// This one and the three after it.
    pub const POLICIES: u8 = 3;
}

impl TableHead {
    pub fn encode(&self) -> Bytes {
        use table_tag::*;
        let mut fields = FieldWriter::new(TABLE_SHAPE);
        fields.bytes(INCARNATION, &self.incarnation.0.to_be_bytes());
        fields.text(NAME, Some(&self.name));
        write_policies(&mut fields, POLICIES, &self.policies);
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<TableHead, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a table", value))
    }

    fn read(value: &[u8]) -> Option<TableHead> {
        use table_tag::*;
        let mut fields = FieldReader::new(TABLE_SHAPE, value)?;
        let (mut incarnation, mut name) = (None, None);
        let mut policies = Vec::new();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                INCARNATION => incarnation = Some(Id(u128::from_be_bytes(value.try_into().ok()?))),
                NAME => name = Some(read_text(value)?),
                _ => read_policy_field(&mut policies, tag.checked_sub(POLICIES)?, value)?,
            }
        }
        Some(TableHead { incarnation: incarnation?, name: name?, policies })
    }
}

mod entity_tag {
    pub const TIMESTAMP: u8 = 1;
    /// The length of the name, the name, the type, the value.
    pub const PROPERTY: u8 = 2;
}

mod type_tag {
    pub const STRING: u8 = 1;
    pub const BINARY: u8 = 2;
    pub const BOOLEAN: u8 = 3;
    pub const INT32: u8 = 4;
    pub const INT64: u8 = 5;
    pub const DOUBLE: u8 = 6;
    pub const DATE_TIME: u8 = 7;
    pub const GUID: u8 = 8;
}

/// An entity without its keys, which are the record's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredEntity {
    value: Bytes,
    timestamp: Timestamp,
}

impl StoredEntity {
    pub fn new<'a>(timestamp: Timestamp, properties: impl Iterator<Item = (&'a str, ValueRef<'a>)>) -> StoredEntity {
        let mut fields = FieldWriter::new(ENTITY_SHAPE);
        fields.u64(entity_tag::TIMESTAMP, timestamp.ticks());
        let mut property = Vec::new();
        for (name, value) in properties {
            property.clear();
            put_length(&mut property, name.len());
            property.extend_from_slice(name.as_bytes());
            put_value(&mut property, value);
            fields.bytes(entity_tag::PROPERTY, &property);
        }
        StoredEntity { value: fields.finish(), timestamp }
    }

    pub fn encode(&self) -> Bytes {
        self.value.clone()
    }

    pub fn decode(value: Bytes) -> Result<StoredEntity, Fault> {
        match Self::check(&value) {
            Some(timestamp) => Ok(StoredEntity { value, timestamp }),
            None => Err(corrupt("an entity", &value)),
        }
    }

    /// Everything in it can be read; its timestamp.
    fn check(value: &[u8]) -> Option<Timestamp> {
        let mut fields = FieldReader::new(ENTITY_SHAPE, value)?;
        let mut timestamp = None;
        while let Some((tag, value)) = fields.next()? {
            match tag {
                entity_tag::TIMESTAMP => timestamp = Some(Timestamp::from_ticks(read_u64(value)?)),
                entity_tag::PROPERTY => {
                    read_property(value)?;
                }
                _ => return None,
            }
        }
        timestamp
    }

    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// In the order they were stored.
    pub fn properties(&self) -> impl Iterator<Item = (&str, ValueRef<'_>)> {
        let mut fields = FieldReader::new(ENTITY_SHAPE, &self.value);
        std::iter::from_fn(move || {
            loop {
                match fields.as_mut()?.next()?? {
                    (entity_tag::PROPERTY, value) => return read_property(value),
                    _ => continue,
                }
            }
        })
    }

    pub fn property(&self, name: &str) -> Option<ValueRef<'_>> {
        self.properties().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    pub fn bytes(&self) -> usize {
        self.value.len()
    }
}

fn put_value(into: &mut Vec<u8>, value: ValueRef<'_>) {
    let mut put = |tag: u8, bytes: &[u8]| {
        into.push(tag);
        into.extend_from_slice(bytes);
    };
    match value {
        ValueRef::String(text) => put(type_tag::STRING, text.as_bytes()),
        ValueRef::Binary(bytes) => put(type_tag::BINARY, bytes),
        ValueRef::Boolean(value) => put(type_tag::BOOLEAN, &[u8::from(value)]),
        ValueRef::Int32(value) => put(type_tag::INT32, &value.to_be_bytes()),
        ValueRef::Int64(value) => put(type_tag::INT64, &value.to_be_bytes()),
        ValueRef::Double(value) => put(type_tag::DOUBLE, &value.to_bits().to_be_bytes()),
        ValueRef::DateTime(value) => put(type_tag::DATE_TIME, &value.ticks().to_be_bytes()),
        ValueRef::Guid(value) => put(type_tag::GUID, &value.to_be_bytes()),
    }
}

fn read_property(field: &[u8]) -> Option<(&str, ValueRef<'_>)> {
    let (length, rest) = take_length(field)?;
    let (name, rest) = rest.split_at_checked(length)?;
    let (tag, value) = rest.split_first()?;
    let value = match *tag {
        type_tag::STRING => ValueRef::String(std::str::from_utf8(value).ok()?),
        type_tag::BINARY => ValueRef::Binary(value),
        type_tag::BOOLEAN => match value {
            [0] => ValueRef::Boolean(false),
            [1] => ValueRef::Boolean(true),
            _ => return None,
        },
        type_tag::INT32 => ValueRef::Int32(i32::from_be_bytes(value.try_into().ok()?)),
        type_tag::INT64 => ValueRef::Int64(i64::from_be_bytes(value.try_into().ok()?)),
        type_tag::DOUBLE => ValueRef::Double(f64::from_bits(read_u64(value)?)),
        type_tag::DATE_TIME => ValueRef::DateTime(Timestamp::from_ticks(read_u64(value)?)),
        type_tag::GUID => ValueRef::Guid(u128::from_be_bytes(value.try_into().ok()?)),
        _ => return None,
    };
    Some((std::str::from_utf8(name).ok()?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity() -> StoredEntity {
        let properties = [
            ("Text", ValueRef::String("it's")),
            ("Empty", ValueRef::String("")),
            ("Raw", ValueRef::Binary(&[0, 255])),
            ("On", ValueRef::Boolean(true)),
            ("Small", ValueRef::Int32(i32::MIN)),
            ("Large", ValueRef::Int64(9_007_199_254_740_993)),
            ("Real", ValueRef::Double(-0.0)),
            ("When", ValueRef::DateTime(Timestamp::MAX)),
            ("Who", ValueRef::Guid(u128::MAX - 1)),
        ];
        StoredEntity::new(Timestamp::from_ticks(7), properties.into_iter())
    }

    #[test]
    fn shapes_round_trip() {
        let read = StoredEntity::decode(entity().encode()).expect("what was written");
        assert_eq!((read.timestamp(), read.properties().count()), (Timestamp::from_ticks(7), 9));
        assert!(read.properties().eq(entity().properties()));
        assert_eq!(read.property("Large"), Some(ValueRef::Int64(9_007_199_254_740_993)));
        assert_eq!(read.property("large"), None);
        let nan = f64::from_bits(0x7ff8_0000_dead_beef);
        let odd = StoredEntity::new(Timestamp::from_ticks(1), [("n", ValueRef::Double(nan))].into_iter());
        let Some(ValueRef::Double(back)) = odd.property("n") else { panic!("a double") };
        assert_eq!(back.to_bits(), nan.to_bits());
        let policy = StoredPolicy { id: "p".into(), permissions: Some("raud".into()), ..StoredPolicy::default() };
        for policies in [Vec::new(), vec![policy]] {
            let head = TableHead { incarnation: Id(5), name: "People".into(), policies };
            assert_eq!(TableHead::decode(&head.encode()).expect("what was written"), head);
        }
    }

    #[test]
    fn damage_is_a_fault_and_never_a_panic() {
        let whole = entity().encode();
        for end in 0..whole.len() {
            let _ = StoredEntity::decode(whole.slice(..end)).map(|entity| entity.properties().count());
        }
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = TableHead::decode(&bytes);
            let _ = StoredEntity::decode(bytes.into()).map(|entity| entity.properties().count());
        }
        assert!(StoredEntity::decode(Bytes::new()).is_err());
    }

    /// The bytes of this shape never change.
    #[test]
    fn shape_is_frozen() {
        let one = StoredEntity::new(Timestamp::from_ticks(258), [("ab", ValueRef::Int32(3))].into_iter());
        assert_eq!(one.encode().as_ref(), [0x21, 1, 8, 0, 0, 0, 0, 0, 0, 1, 2, 2, 8, 2, b'a', b'b', 4, 0, 0, 0, 3]);
    }
}
