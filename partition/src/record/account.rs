//! An account as it is kept in the engine, where several processes serve it: its keys and its settings.

use std::fmt;

use bytes::Bytes;
use engine::Fault;

use super::{FieldReader, FieldWriter, corrupt, read_text, read_u64};

const SHAPE: u8 = 0x40;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredAccount {
    /// Either signs.
    pub keys: [Secret; 2],
    pub settings: AccountSettings,
    /// It is being deleted and not served any more.
    pub is_closing: bool,
}

/// A key as it was given. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// What an account does that no request can set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccountSettings {
    /// What is overwritten or deleted stays as an earlier version.
    pub versioning: bool,
    /// Blobs may have immutability policies and legal holds.
    pub immutable_storage: bool,
    /// When each blob was read last is kept, to a day.
    pub track_last_access: bool,
    /// How long a blob takes to leave the archive.
    pub archive_rehydration_seconds: Option<u64>,
    /// For how many days a deleted container can be restored.
    pub container_retention_days: Option<u16>,
    /// For how many days a deleted share can be restored.
    pub share_retention_days: Option<u16>,
}

mod tag {
    pub const KEY1: u8 = 1;
    pub const KEY2: u8 = 2;
    pub const CLOSING: u8 = 3;
    pub const VERSIONING: u8 = 4;
    pub const IMMUTABLE_STORAGE: u8 = 5;
    pub const TRACK_LAST_ACCESS: u8 = 6;
    pub const REHYDRATION_SECONDS: u8 = 7;
    pub const CONTAINER_RETENTION_DAYS: u8 = 8;
    pub const SHARE_RETENTION_DAYS: u8 = 9;
}

impl StoredAccount {
    pub fn encode(&self) -> Bytes {
        let StoredAccount { keys: [key1, key2], settings, is_closing } = self;
        let mut fields = FieldWriter::new(SHAPE);
        fields.text(tag::KEY1, Some(key1.reveal()));
        fields.text(tag::KEY2, Some(key2.reveal()));
        for (tag, is_on) in [
            (tag::CLOSING, *is_closing),
            (tag::VERSIONING, settings.versioning),
            (tag::IMMUTABLE_STORAGE, settings.immutable_storage),
            (tag::TRACK_LAST_ACCESS, settings.track_last_access),
        ] {
            if is_on {
                fields.bytes(tag, &[]);
            }
        }
        for (tag, number) in [
            (tag::REHYDRATION_SECONDS, settings.archive_rehydration_seconds),
            (tag::CONTAINER_RETENTION_DAYS, settings.container_retention_days.map(u64::from)),
            (tag::SHARE_RETENTION_DAYS, settings.share_retention_days.map(u64::from)),
        ] {
            if let Some(number) = number {
                fields.u64(tag, number);
            }
        }
        fields.finish()
    }

    /// Damage is told without what is in the record.
    pub fn decode(value: &[u8]) -> Result<StoredAccount, Fault> {
        Self::read(value).ok_or_else(|| corrupt("an account", value))
    }

    fn read(value: &[u8]) -> Option<StoredAccount> {
        let mut fields = FieldReader::new(SHAPE, value)?;
        let (mut key1, mut key2, mut is_closing) = (None, None, false);
        let mut settings = AccountSettings::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                tag::KEY1 => key1 = Some(Secret(read_text(value)?)),
                tag::KEY2 => key2 = Some(Secret(read_text(value)?)),
                tag::CLOSING => is_closing = true,
                tag::VERSIONING => settings.versioning = true,
                tag::IMMUTABLE_STORAGE => settings.immutable_storage = true,
                tag::TRACK_LAST_ACCESS => settings.track_last_access = true,
                tag::REHYDRATION_SECONDS => settings.archive_rehydration_seconds = Some(read_u64(value)?),
                tag::CONTAINER_RETENTION_DAYS => settings.container_retention_days = Some(read_days(value)?),
                tag::SHARE_RETENTION_DAYS => settings.share_retention_days = Some(read_days(value)?),
                _ => return None,
            }
        }
        Some(StoredAccount { keys: [key1?, key2?], settings, is_closing })
    }
}

fn read_days(value: &[u8]) -> Option<u16> {
    u16::try_from(read_u64(value)?).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn account(key1: &str, key2: &str) -> StoredAccount {
        let keys = [Secret::new(key1), Secret::new(key2)];
        StoredAccount { keys, settings: AccountSettings::default(), is_closing: false }
    }

    #[test]
    fn shapes_round_trip() {
        let plain = account("a2V5", "a2V6");
        let full = StoredAccount {
            settings: AccountSettings {
                versioning: true,
                immutable_storage: true,
                track_last_access: true,
                archive_rehydration_seconds: Some(7),
                container_retention_days: Some(1),
                share_retention_days: Some(365),
            },
            is_closing: true,
            ..plain.clone()
        };
        for account in [plain, full] {
            let value = account.encode();
            assert_eq!(StoredAccount::decode(&value).expect("readable"), account);
            for end in 0..value.len() {
                let _ = StoredAccount::decode(&value[..end]); // damage is an error, never a panic
            }
        }
    }

    #[test]
    fn keys_are_not_printed() {
        let text = format!("{:?}", account("a2V5", "a2V6"));
        assert!(text.contains("hidden") && !text.contains("a2V"), "{text}");
    }
}
