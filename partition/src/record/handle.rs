//! What is stored of a handle that outlives the program: a persistent one, for its client to come back to.

use bytes::Bytes;
use engine::Fault;
use env::Id;

use super::{FieldReader, FieldWriter, FileId, corrupt, read_text, read_u64};

const HANDLE_SHAPE: u8 = 0x38;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptHandle {
    pub share: String,
    /// Of the share: another of the same name is another.
    pub incarnation: Id,
    pub path: String,
    pub file: FileId,
    pub mask: u32,
    /// What others may have: read 1, write 2, delete 4.
    pub shares: u8,
    pub deletes_on_close: bool,
    /// What of its options is told, and whether every write is on disk at once.
    pub mode: u32,
    pub is_through: bool,
    pub client: [u8; 16],
    /// The client's name for its creation.
    pub create: [u8; 16],
    pub kept_milliseconds: u32,
    pub caching: KeptCaching,
    pub locks: Vec<KeptLock>,
}

/// What its client was caching. The rights: read 1, handle 2, write 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptCaching {
    Nothing,
    Oplock { rights: u8 },
    Lease { key: [u8; 16], rights: u8, epoch: Option<u16> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptLock {
    pub offset: u64,
    pub length: u64,
    pub is_exclusive: bool,
}

mod tag {
    pub const SHARE: u8 = 1;
    pub const INCARNATION: u8 = 2;
    pub const PATH: u8 = 3;
    pub const FILE: u8 = 4;
    pub const RIGHTS: u8 = 5;
    pub const DELETES_ON_CLOSE: u8 = 6;
    pub const MODE: u8 = 7;
    pub const IS_THROUGH: u8 = 8;
    pub const CLIENT: u8 = 9;
    pub const CREATE: u8 = 10;
    pub const KEPT: u8 = 11;
    pub const OPLOCK: u8 = 12;
    pub const LEASE: u8 = 13;
    pub const EPOCH: u8 = 14;
    pub const LOCK: u8 = 15;
}

impl KeptHandle {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(HANDLE_SHAPE);
        fields.text(tag::SHARE, Some(&self.share));
        fields.bytes(tag::INCARNATION, &self.incarnation.0.to_be_bytes());
        fields.text(tag::PATH, Some(&self.path));
        fields.u64(tag::FILE, self.file.0);
        let mut rights = self.mask.to_be_bytes().to_vec();
        rights.push(self.shares);
        fields.bytes(tag::RIGHTS, &rights);
        if self.deletes_on_close {
            fields.bytes(tag::DELETES_ON_CLOSE, &[]);
        }
        fields.bytes(tag::MODE, &self.mode.to_be_bytes());
        if self.is_through {
            fields.bytes(tag::IS_THROUGH, &[]);
        }
        fields.bytes(tag::CLIENT, &self.client);
        fields.bytes(tag::CREATE, &self.create);
        fields.bytes(tag::KEPT, &self.kept_milliseconds.to_be_bytes());
        match &self.caching {
            KeptCaching::Nothing => {}
            KeptCaching::Oplock { rights } => fields.bytes(tag::OPLOCK, &[*rights]),
            KeptCaching::Lease { key, rights, epoch } => {
                let mut lease = key.to_vec();
                lease.push(*rights);
                fields.bytes(tag::LEASE, &lease);
                if let Some(epoch) = epoch {
                    fields.bytes(tag::EPOCH, &epoch.to_be_bytes());
                }
            }
        }
        for lock in &self.locks {
            let mut bytes = Vec::with_capacity(17);
            bytes.extend(lock.offset.to_be_bytes());
            bytes.extend(lock.length.to_be_bytes());
            bytes.push(u8::from(lock.is_exclusive));
            fields.bytes(tag::LOCK, &bytes);
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<KeptHandle, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a handle", value))
    }

    fn read(value: &[u8]) -> Option<KeptHandle> {
        let mut fields = FieldReader::new(HANDLE_SHAPE, value)?;
        let (mut share, mut incarnation, mut path, mut file, mut rights) = (None, None, None, None, None);
        let (mut deletes_on_close, mut mode, mut is_through) = (false, None, false);
        let (mut client, mut create, mut kept_milliseconds) = (None, None, None);
        let (mut caching, mut locks) = (KeptCaching::Nothing, Vec::new());
        while let Some((tag, value)) = fields.next()? {
            match tag {
                tag::SHARE => share = Some(read_text(value)?),
                tag::INCARNATION => incarnation = Some(Id(u128::from_be_bytes(value.try_into().ok()?))),
                tag::PATH => path = Some(read_text(value)?),
                tag::FILE => file = Some(FileId(read_u64(value)?)),
                tag::RIGHTS => {
                    let (mask, shares) = value.split_at_checked(4)?;
                    rights = Some((u32::from_be_bytes(mask.try_into().ok()?), *shares.first()?));
                }
                tag::DELETES_ON_CLOSE => deletes_on_close = true,
                tag::MODE => mode = Some(u32::from_be_bytes(value.try_into().ok()?)),
                tag::IS_THROUGH => is_through = true,
                tag::CLIENT => client = Some(value.try_into().ok()?),
                tag::CREATE => create = Some(value.try_into().ok()?),
                tag::KEPT => kept_milliseconds = Some(u32::from_be_bytes(value.try_into().ok()?)),
                tag::OPLOCK => caching = KeptCaching::Oplock { rights: *value.first()? },
                tag::LEASE => {
                    let (key, rights) = value.split_at_checked(16)?;
                    let (key, rights) = (key.try_into().ok()?, *rights.first()?);
                    caching = KeptCaching::Lease { key, rights, epoch: None };
                }
                tag::EPOCH => match &mut caching {
                    KeptCaching::Lease { epoch, .. } => *epoch = Some(u16::from_be_bytes(value.try_into().ok()?)),
                    _ => return None,
                },
                tag::LOCK => {
                    let (offset, rest) = value.split_at_checked(8)?;
                    let (length, exclusive) = rest.split_at_checked(8)?;
                    locks.push(KeptLock {
                        offset: read_u64(offset)?,
                        length: read_u64(length)?,
                        is_exclusive: *exclusive.first()? != 0,
                    });
                }
                _ => return None,
            }
        }
        let (mask, shares) = rights?;
        Some(KeptHandle {
            share: share?,
            incarnation: incarnation?,
            path: path?,
            file: file?,
            mask,
            shares,
            deletes_on_close,
            mode: mode?,
            is_through,
            client: client?,
            create: create?,
            kept_milliseconds: kept_milliseconds?,
            caching,
            locks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_as_they_were_written() {
        let handle = KeptHandle {
            share: "work".to_owned(),
            incarnation: Id(7),
            path: "a/b".to_owned(),
            file: FileId(9),
            mask: 0x12_019F,
            shares: 5,
            deletes_on_close: true,
            mode: 2,
            is_through: true,
            client: [1; 16],
            create: [2; 16],
            kept_milliseconds: 60_000,
            caching: KeptCaching::Lease { key: [3; 16], rights: 7, epoch: Some(4) },
            locks: vec![KeptLock { offset: 1, length: 2, is_exclusive: true }],
        };
        let bytes = handle.encode();
        assert_eq!(KeptHandle::decode(&bytes).expect("well formed"), handle);
        let plain = KeptHandle { caching: KeptCaching::Oplock { rights: 5 }, locks: Vec::new(), ..handle.clone() };
        assert_eq!(KeptHandle::decode(&plain.encode()).expect("well formed"), plain);
        // Caching and locks come last and may be missing; nothing else may.
        let least = KeptHandle { caching: KeptCaching::Nothing, locks: Vec::new(), ..handle }.encode();
        for shorter in 0..least.len() {
            assert!(KeptHandle::decode(&bytes[..shorter]).is_err(), "{shorter}");
        }
    }
}
