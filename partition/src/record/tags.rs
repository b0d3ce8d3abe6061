//! The tags of a blob once more, apart from it, where searches find them.

use bytes::Bytes;
use engine::Fault;

use super::{FieldReader, FieldWriter, corrupt, read_pair};
use crate::tags::Tags;

const SHAPE: u8 = 17;
const TAG: u8 = 1;

pub fn encode(tags: &[(String, String)]) -> Bytes {
    let mut fields = FieldWriter::new(SHAPE);
    tags.iter().for_each(|(key, value)| fields.pair(TAG, key, value));
    fields.finish()
}

pub fn decode(value: &[u8]) -> Result<Tags, Fault> {
    read(value).ok_or_else(|| corrupt("tags", value))
}

fn read(value: &[u8]) -> Option<Tags> {
    let mut fields = FieldReader::new(SHAPE, value)?;
    let mut tags = Tags::new();
    while let Some((tag, value)) = fields.next()? {
        tags.push(read_pair(value).filter(|_| tag == TAG)?);
    }
    Some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_round_trip_and_damage_is_a_fault() {
        let tags: Tags = vec![("a".into(), String::new()), ("b".into(), "x".repeat(256))];
        let whole = encode(&tags);
        assert_eq!(decode(&whole).expect("what was written"), tags);
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = decode(&bytes);
            let _ = decode(&whole[..at]);
        }
        assert!(decode(b"").is_err());
    }
}
