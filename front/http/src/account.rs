//! Accounts and their keys.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::names::AccountName;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use partition::account::AccountSettings;
use sha2::Sha256;

/// The development account, whose key everybody knows.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An account: its name and the one or two keys that may sign for it.
#[derive(Clone, Debug)]
pub struct Account {
    pub name: AccountName,
    pub keys: Vec<AccountKey>,
    pub blob: BlobSettings,
    pub file: FileSettings,
}

/// What an account's shares do that no request of the File service can set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileSettings {
    /// For how many days a deleted share can be restored; `None`: not at all.
    pub share_retention_days: Option<u16>,
}

/// What an account's blobs do that no request of the Blob service can set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobSettings {
    /// What is overwritten or deleted stays as an earlier version.
    pub versioning: bool,
    /// Blobs may be held: nobody can change or delete them then.
    pub immutable_storage: bool,
    /// When each blob was read last is kept, to a day.
    pub track_last_access: bool,
    /// How long it takes to leave the archive.
    pub rehydration_seconds: u64,
    /// For how many days a deleted container can be restored; `None`: not at all.
    pub container_retention_days: Option<u16>,
}

impl Default for BlobSettings {
    fn default() -> BlobSettings {
        BlobSettings {
            versioning: false,
            immutable_storage: false,
            track_last_access: false,
            rehydration_seconds: 60,
            container_retention_days: None,
        }
    }
}

impl From<&AccountSettings> for BlobSettings {
    fn from(settings: &AccountSettings) -> BlobSettings {
        let default = BlobSettings::default();
        BlobSettings {
            versioning: settings.versioning,
            immutable_storage: settings.immutable_storage,
            track_last_access: settings.track_last_access,
            rehydration_seconds: settings.archive_rehydration_seconds.unwrap_or(default.rehydration_seconds),
            container_retention_days: settings.container_retention_days,
        }
    }
}

impl From<&AccountSettings> for FileSettings {
    fn from(settings: &AccountSettings) -> FileSettings {
        FileSettings { share_retention_days: settings.share_retention_days }
    }
}

/// A key, ready to sign with. Never printed.
#[derive(Clone)]
pub struct AccountKey {
    mac: Hmac<Sha256>,
    text: String,
}

/// A key derived from an account's, to be told to the one who asked for it.
pub struct DerivedKey {
    value: String,
    key: AccountKey,
}

impl DerivedKey {
    /// Its Base64: a secret.
    pub fn reveal(&self) -> &str {
        &self.value
    }

    pub fn key(&self) -> &AccountKey {
        &self.key
    }
}

impl AccountKey {
    /// From Base64; `None` if it is not, or is empty.
    pub fn parse(text: &str) -> Option<AccountKey> {
        let bytes = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())?;
        Some(AccountKey { mac: Hmac::new_from_slice(&bytes).ok()?, text: text.to_owned() })
    }

    /// Did this key make this signature? Takes the same time whether it is wrong at the first byte or at the last.
    pub fn verifies(&self, string_to_sign: &str, signature: &[u8]) -> bool {
        let mut mac = self.mac.clone();
        mac.update(string_to_sign.as_bytes());
        mac.verify_slice(signature).is_ok()
    }

    /// A key of its own for what `name` says; without this one nobody can tell its value.
    pub fn derive(&self, name: &str) -> DerivedKey {
        let mut mac = self.mac.clone();
        mac.update(name.as_bytes());
        let bytes = mac.finalize().into_bytes();
        let (mac, value) = (Hmac::new_from_slice(&bytes).expect("a key may have any length"), STANDARD.encode(bytes));
        DerivedKey { key: AccountKey { mac, text: value.clone() }, value }
    }

    /// As it was given: to SMB clients it is a password.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    pub fn sign(&self, string_to_sign: &str) -> String {
        let mut mac = self.mac.clone();
        mac.update(string_to_sign.as_bytes());
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(hidden)")
    }
}

/// Why an account cannot be used as it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccountError {
    NoKey,
    BadName,
    BadKey,
    TooManyKeys,
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccountError::NoKey => "an account is NAME:KEY1 or NAME:KEY1:KEY2",
            AccountError::BadName => "an account's name is 3 to 24 lower-case letters and digits",
            AccountError::BadKey => "an account's key is Base64",
            AccountError::TooManyKeys => "an account has at most two keys",
        })
    }
}

impl std::error::Error for AccountError {}

impl Account {
    pub fn development() -> Account {
        Account::new(DEVELOPMENT_ACCOUNT, &[DEVELOPMENT_KEY]).expect("the published name and key are well formed")
    }

    pub fn new(name: &str, keys: &[&str]) -> Result<Account, AccountError> {
        let name = AccountName::parse(name).ok_or(AccountError::BadName)?;
        if keys.is_empty() {
            return Err(AccountError::NoKey);
        }
        if keys.len() > 2 {
            return Err(AccountError::TooManyKeys);
        }
        let keys =
            keys.iter().map(|key| AccountKey::parse(key).ok_or(AccountError::BadKey)).collect::<Result<_, _>>()?;
        Ok(Account { name, keys, blob: BlobSettings::default(), file: FileSettings::default() })
    }

    pub fn with(self, settings: &AccountSettings) -> Account {
        Account { blob: settings.into(), file: settings.into(), ..self }
    }

    /// Is one of its keys the one that everybody knows?
    pub fn is_published(&self) -> bool {
        const PROBE: &str = "lazuli";
        let published = AccountKey::parse(DEVELOPMENT_KEY).map(|key| key.sign(PROBE));
        self.keys.iter().any(|key| Some(key.sign(PROBE)) == published)
    }

    /// `NAME:KEY1[:KEY2]`
    pub fn parse(text: &str) -> Result<Account, AccountError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let keys: Vec<&str> = parts.collect();
        Account::new(name, &keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_as_given_on_the_command_line() {
        for (text, expected) in [
            ("abc:a2V5", None),
            ("abc:a2V5:a2V6", None),
            ("abc", Some(AccountError::NoKey)),
            ("abc:", Some(AccountError::BadKey)),
            ("abc:***", Some(AccountError::BadKey)),
            ("ABC:a2V5", Some(AccountError::BadName)),
            ("abc:a2V5:a2V6:a2V7", Some(AccountError::TooManyKeys)),
        ] {
            assert_eq!(Account::parse(text).err(), expected, "{text}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        let text = format!("{:?}", Account::development());
        assert!(text.contains("hidden") && !text.contains("Eby8"));
    }
}
