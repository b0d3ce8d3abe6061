//! A pending copy as it is noted, to be found again after a restart; and by its destination, if that is a file.

use bytes::Bytes;
use engine::{Fault, GroupId};
use env::{Id, Timestamp};

use super::{FieldReader, FieldWriter, FileId, corrupt, read_text, read_u64};

const SHAPE: u8 = 15;
const COPYING_SHAPE: u8 = 0x35;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingCopy {
    /// The container or share of the destination, as it was when the copy began.
    pub group: GroupId,
    /// The blob that is copied to. `None` for a file, which its share knows by the copy's id: its path may change meanwhile.
    pub blob: Option<String>,
    /// With all that it takes to read it.
    pub source: String,
    /// The source's, when the copy began; it must stay.
    pub etag: Option<String>,
    pub started: Timestamp,
    /// When somebody last said that it is being made.
    pub tended: Timestamp,
    /// Who asked for it, for those who are told when it is done; of a copy to a blob.
    pub asked: Option<Asked>,
}

/// The request that began a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub container: String,
    /// Of the destination, as the client named it.
    pub url: String,
    pub request: Id,
    pub client_request: Option<String>,
}

mod tag {
    pub const GROUP: u8 = 1;
    pub const BLOB: u8 = 2;
    pub const SOURCE: u8 = 3;
    pub const ETAG: u8 = 4;
    pub const STARTED: u8 = 5;
    pub const TENDED: u8 = 6;
    pub const CONTAINER: u8 = 7;
    pub const URL: u8 = 8;
    pub const REQUEST: u8 = 9;
    pub const CLIENT_REQUEST: u8 = 10;
}

impl PendingCopy {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(SHAPE);
        fields.bytes(tag::GROUP, &self.group.0);
        fields.text(tag::BLOB, self.blob.as_deref());
        fields.text(tag::SOURCE, Some(&self.source));
        fields.text(tag::ETAG, self.etag.as_deref());
        fields.u64(tag::STARTED, self.started.ticks());
        if self.tended != self.started {
            fields.u64(tag::TENDED, self.tended.ticks());
        }
        if let Some(asked) = &self.asked {
            fields.text(tag::CONTAINER, Some(&asked.container));
            fields.text(tag::URL, Some(&asked.url));
            fields.bytes(tag::REQUEST, &asked.request.0.to_be_bytes());
            fields.text(tag::CLIENT_REQUEST, asked.client_request.as_deref());
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<PendingCopy, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a note on a copy", value))
    }

    fn read(value: &[u8]) -> Option<PendingCopy> {
        let mut fields = FieldReader::new(SHAPE, value)?;
        let (mut group, mut blob, mut source, mut etag, mut started, mut tended) = Default::default();
        let (mut container, mut url, mut request, mut client_request) = Default::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                tag::GROUP => group = Some(GroupId(Bytes::copy_from_slice(value))),
                tag::BLOB => blob = Some(read_text(value)?),
                tag::SOURCE => source = Some(read_text(value)?),
                tag::ETAG => etag = Some(read_text(value)?),
                tag::STARTED => started = Some(Timestamp::from_ticks(read_u64(value)?)),
                tag::TENDED => tended = Some(Timestamp::from_ticks(read_u64(value)?)),
                tag::CONTAINER => container = Some(read_text(value)?),
                tag::URL => url = Some(read_text(value)?),
                tag::REQUEST => request = Some(Id(u128::from_be_bytes(value.try_into().ok()?))),
                tag::CLIENT_REQUEST => client_request = Some(read_text(value)?),
                _ => return None,
            }
        }
        let (started, tended): (Timestamp, _) = (started?, tended);
        let (group, source, tended) = (group?, source?, tended.unwrap_or(started));
        let asked = match (container, url, request) {
            (Some(container), Some(url), Some(request)) => Some(Asked { container, url, request, client_request }),
            (None, None, None) => None,
            _ => return None,
        };
        Some(PendingCopy { group, blob, source, etag, started, tended, asked })
    }
}

/// The file that a copy is made to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copying {
    pub file: FileId,
    /// Of its share, when the copy began.
    pub quota_gib: u32,
}

mod copying_tag {
    pub const FILE: u8 = 1;
    pub const QUOTA_GIB: u8 = 2;
}

impl Copying {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(COPYING_SHAPE);
        fields.u64(copying_tag::FILE, self.file.0);
        fields.u64(copying_tag::QUOTA_GIB, self.quota_gib.into());
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<Copying, Fault> {
        Self::read(value).ok_or_else(|| corrupt("a copy to a file", value))
    }

    fn read(value: &[u8]) -> Option<Copying> {
        let mut fields = FieldReader::new(COPYING_SHAPE, value)?;
        let (mut file, mut quota_gib) = (None, None);
        while let Some((tag, value)) = fields.next()? {
            match tag {
                copying_tag::FILE => file = Some(FileId(read_u64(value)?)),
                copying_tag::QUOTA_GIB => quota_gib = Some(u32::try_from(read_u64(value)?).ok()?),
                _ => return None,
            }
        }
        Some(Copying { file: file?, quota_gib: quota_gib? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_round_trip_and_damage_is_a_fault() {
        let note = PendingCopy {
            group: GroupId(Bytes::from_static(b"b\0\xff")),
            blob: Some("a/b".into()),
            source: "https://example.org/".repeat(100),
            etag: Some("\"e\"".into()),
            started: Timestamp::from_ticks(7),
            tended: Timestamp::from_ticks(8),
            asked: Some(Asked {
                container: "c".into(),
                url: "http://here/c/a/b".into(),
                request: Id(5),
                client_request: Some("mine".into()),
            }),
        };
        let bare = PendingCopy { blob: None, etag: None, tended: note.started, asked: None, ..note.clone() };
        for note in [&note, &bare] {
            assert_eq!(PendingCopy::decode(&note.encode()).expect("what was written"), *note);
        }
        let whole = note.encode();
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = PendingCopy::decode(&bytes);
            let _ = PendingCopy::decode(&whole[..at]);
        }
        assert!(PendingCopy::decode(b"").is_err());
        let copying = Copying { file: FileId(u64::MAX), quota_gib: u32::MAX };
        assert_eq!(Copying::decode(&copying.encode()).expect("what was written"), copying);
        assert!(Copying::decode(&whole).is_err());
    }
}
