//! A container or share that was deleted and is kept for a while.

use bytes::Bytes;
use engine::Fault;
use env::Timestamp;

use super::{FieldReader, FieldWriter, corrupt, read_u64};
use crate::directory::Named;

const SHAPE: u8 = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptHead<H> {
    /// As it was when it was deleted; it still names the group of what it holds.
    pub head: H,
    pub deleted: Timestamp,
    /// From here on it is gone, whether or not it has been swept.
    pub expires: Timestamp,
}

mod tag {
    pub const HEAD: u8 = 1;
    pub const DELETED: u8 = 2;
    pub const EXPIRES: u8 = 3;
}

impl<H: Named> KeptHead<H> {
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }

    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(SHAPE);
        fields.bytes(tag::HEAD, &self.head.encode());
        fields.u64(tag::DELETED, self.deleted.ticks());
        fields.u64(tag::EXPIRES, self.expires.ticks());
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<KeptHead<H>, Fault> {
        Self::read(value).ok_or_else(|| corrupt("something that is kept after its deletion", value))
    }

    fn read(value: &[u8]) -> Option<KeptHead<H>> {
        let mut fields = FieldReader::new(SHAPE, value)?;
        let (mut head, mut deleted, mut expires) = (None, None, None);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                tag::HEAD => head = Some(H::decode(value).ok()?),
                tag::DELETED => deleted = Some(Timestamp::from_ticks(read_u64(value)?)),
                tag::EXPIRES => expires = Some(Timestamp::from_ticks(read_u64(value)?)),
                _ => return None,
            }
        }
        Some(KeptHead { head: head?, deleted: deleted?, expires: expires? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etag::ETag;
    use crate::record::ContainerHead;
    use contract::names::Metadata;
    use env::Id;

    #[test]
    fn the_shape_round_trips_and_damage_is_a_fault() {
        let kept = KeptHead {
            head: ContainerHead {
                incarnation: Id(7),
                etag: ETag(1),
                last_modified: Timestamp::from_ticks(2),
                metadata: Metadata::from_stored(vec![("a".into(), "b".into())]),
                public_access: Default::default(),
                policies: Vec::new(),
                lease: None,
            },
            deleted: Timestamp::from_ticks(3),
            expires: Timestamp::from_ticks(4),
        };
        let decode = KeptHead::<ContainerHead>::decode;
        let whole = kept.encode();
        assert_eq!(decode(&whole).expect("what was written"), kept);
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = decode(&bytes);
            let _ = decode(&whole[..at]);
        }
        assert!(decode(b"").is_err());
        assert!(!kept.is_expired(Timestamp::from_ticks(3)) && kept.is_expired(Timestamp::from_ticks(4)));
    }
}
