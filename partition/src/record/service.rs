//! The settings of one service of one account, as they are stored.

use bytes::Bytes;
use engine::Fault;

use super::{FieldReader, FieldWriter, corrupt, read_text};

const SHAPE: u8 = 10;

/// What Set Service Properties keeps. Logging and metrics are kept and given back; no analytics are written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceProperties {
    pub logging: Logging,
    pub hour_metrics: Metrics,
    pub minute_metrics: Metrics,
    pub cors: Vec<CorsRule>,
    /// Blob: the version of requests that name none.
    pub default_version: Option<String>,
    /// Blob: deleted blobs are kept for a while; `None` if the policy is off.
    pub delete_retention: Option<DeleteRetention>,
    /// Blob: `$web` is served as a website; `None` if it is not.
    pub website: Option<StaticWebsite>,
    /// File: what clients of SMB and NFS may or must do.
    pub protocols: ProtocolSettings,
}

/// Each as it was set, if it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProtocolSettings {
    pub smb_multichannel: Option<bool>,
    pub smb_encryption_required: Option<bool>,
    pub nfs_encryption_required: Option<bool>,
}

/// How long deleted blobs are kept, and whether they may be deleted for good before that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeleteRetention {
    pub days: u16,
    pub allow_permanent: bool,
}

/// What a website shows where no blob is named, or none is there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StaticWebsite {
    /// A name, looked for in every directory.
    pub index_document: Option<String>,
    /// One document for all paths that have none of their own; never together with the former.
    pub default_index_path: Option<String>,
    pub error_path: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Logging {
    pub version: String,
    pub read: bool,
    pub write: bool,
    pub delete: bool,
    /// `None` if the policy is off.
    pub retention_days: Option<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metrics {
    pub version: String,
    pub enabled: bool,
    pub include_apis: bool,
    pub retention_days: Option<u16>,
}

impl Default for Logging {
    fn default() -> Self {
        Logging { version: "1.0".into(), read: false, write: false, delete: false, retention_days: None }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { version: "1.0".into(), enabled: false, include_apis: false, retention_days: None }
    }
}

/// Which pages of which origins may ask what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CorsRule {
    pub origins: Vec<String>,
    pub methods: Vec<String>,
    pub allowed_headers: Vec<String>,
    pub exposed_headers: Vec<String>,
    pub max_age_seconds: u32,
}

mod tag {
    pub const LOGGING: u8 = 1;
    pub const HOUR_METRICS: u8 = 2;
    pub const MINUTE_METRICS: u8 = 3;
    pub const DEFAULT_VERSION: u8 = 4;
    /// Begins a rule; those after it belong to it.
    pub const CORS_MAX_AGE: u8 = 5;
    pub const CORS_ORIGIN: u8 = 6;
    pub const CORS_METHOD: u8 = 7;
    pub const CORS_ALLOWED_HEADER: u8 = 8;
    pub const CORS_EXPOSED_HEADER: u8 = 9;
    pub const DELETE_RETENTION: u8 = 10;
    /// There is a website; those after it belong to it.
    pub const WEBSITE: u8 = 11;
    pub const INDEX_DOCUMENT: u8 = 12;
    pub const DEFAULT_INDEX_PATH: u8 = 13;
    pub const ERROR_PATH: u8 = 14;
    pub const PROTOCOLS: u8 = 15;
}

impl ServiceProperties {
    pub fn encode(&self) -> Bytes {
        let mut fields = FieldWriter::new(SHAPE);
        let Logging { version, read, write, delete, retention_days } = &self.logging;
        fields.bytes(tag::LOGGING, &packed([*read, *write, *delete], *retention_days, version));
        for (tag, metrics) in [(tag::HOUR_METRICS, &self.hour_metrics), (tag::MINUTE_METRICS, &self.minute_metrics)] {
            let Metrics { version, enabled, include_apis, retention_days } = metrics;
            fields.bytes(tag, &packed([*enabled, *include_apis, false], *retention_days, version));
        }
        fields.text(tag::DEFAULT_VERSION, self.default_version.as_deref());
        for rule in &self.cors {
            fields.bytes(tag::CORS_MAX_AGE, &rule.max_age_seconds.to_be_bytes());
            for (tag, values) in [
                (tag::CORS_ORIGIN, &rule.origins),
                (tag::CORS_METHOD, &rule.methods),
                (tag::CORS_ALLOWED_HEADER, &rule.allowed_headers),
                (tag::CORS_EXPOSED_HEADER, &rule.exposed_headers),
            ] {
                values.iter().for_each(|value| fields.bytes(tag, value.as_bytes()));
            }
        }
        if let Some(DeleteRetention { days, allow_permanent }) = self.delete_retention {
            let [high, low] = days.to_be_bytes();
            fields.bytes(tag::DELETE_RETENTION, &[high, low, u8::from(allow_permanent)]);
        }
        if let Some(website) = &self.website {
            fields.bytes(tag::WEBSITE, &[]);
            fields.text(tag::INDEX_DOCUMENT, website.index_document.as_deref());
            fields.text(tag::DEFAULT_INDEX_PATH, website.default_index_path.as_deref());
            fields.text(tag::ERROR_PATH, website.error_path.as_deref());
        }
        if self.protocols != ProtocolSettings::default() {
            let ProtocolSettings { smb_multichannel, smb_encryption_required, nfs_encryption_required } =
                self.protocols;
            let settings = [smb_multichannel, smb_encryption_required, nfs_encryption_required];
            fields.bytes(tag::PROTOCOLS, &settings.map(|setting| setting.map_or(0, |on| 1 + u8::from(on))));
        }
        fields.finish()
    }

    pub fn decode(value: &[u8]) -> Result<ServiceProperties, Fault> {
        Self::read(value).ok_or_else(|| corrupt("the properties of a service", value))
    }

    fn read(value: &[u8]) -> Option<ServiceProperties> {
        let mut fields = FieldReader::new(SHAPE, value)?;
        let mut properties = ServiceProperties::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                tag::LOGGING => {
                    let ([read, write, delete], retention_days, version) = unpacked(value)?;
                    properties.logging = Logging { version, read, write, delete, retention_days };
                }
                tag::HOUR_METRICS | tag::MINUTE_METRICS => {
                    let ([enabled, include_apis, _], retention_days, version) = unpacked(value)?;
                    let metrics = Metrics { version, enabled, include_apis, retention_days };
                    match tag {
                        tag::HOUR_METRICS => properties.hour_metrics = metrics,
                        _ => properties.minute_metrics = metrics,
                    }
                }
                tag::DEFAULT_VERSION => properties.default_version = Some(read_text(value)?),
                tag::CORS_MAX_AGE => {
                    let max_age_seconds = u32::from_be_bytes(value.try_into().ok()?);
                    properties.cors.push(CorsRule { max_age_seconds, ..CorsRule::default() });
                }
                tag::CORS_ORIGIN => properties.cors.last_mut()?.origins.push(read_text(value)?),
                tag::CORS_METHOD => properties.cors.last_mut()?.methods.push(read_text(value)?),
                tag::CORS_ALLOWED_HEADER => properties.cors.last_mut()?.allowed_headers.push(read_text(value)?),
                tag::CORS_EXPOSED_HEADER => properties.cors.last_mut()?.exposed_headers.push(read_text(value)?),
                tag::DELETE_RETENTION => {
                    let [high, low, allow_permanent] = value else { return None };
                    let days = u16::from_be_bytes([*high, *low]);
                    properties.delete_retention =
                        Some(DeleteRetention { days, allow_permanent: *allow_permanent == 1 });
                }
                tag::WEBSITE => properties.website = Some(StaticWebsite::default()),
                tag::INDEX_DOCUMENT => properties.website.as_mut()?.index_document = Some(read_text(value)?),
                tag::DEFAULT_INDEX_PATH => properties.website.as_mut()?.default_index_path = Some(read_text(value)?),
                tag::ERROR_PATH => properties.website.as_mut()?.error_path = Some(read_text(value)?),
                tag::PROTOCOLS => {
                    let settings: [u8; 3] = value.try_into().ok()?;
                    let [smb_multichannel, smb_encryption_required, nfs_encryption_required] =
                        settings.map(|byte| (byte > 0).then_some(byte > 1));
                    properties.protocols =
                        ProtocolSettings { smb_multichannel, smb_encryption_required, nfs_encryption_required };
                }
                _ => return None,
            }
        }
        Some(properties)
    }
}

/// Three flags, two bytes of days (0 for off), and the version's text.
fn packed(flags: [bool; 3], days: Option<u16>, version: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = flags.map(u8::from).to_vec();
    bytes.extend_from_slice(&days.unwrap_or(0).to_be_bytes());
    bytes.extend_from_slice(version.as_bytes());
    bytes
}

fn unpacked(value: &[u8]) -> Option<([bool; 3], Option<u16>, String)> {
    let [a, b, c, days_high, days_low, version @ ..] = value else { return None };
    let days = u16::from_be_bytes([*days_high, *days_low]);
    Some(([*a == 1, *b == 1, *c == 1], (days != 0).then_some(days), read_text(version)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_round_trips_and_damage_is_a_fault() {
        let full = ServiceProperties {
            logging: Logging {
                version: "2.0".into(),
                read: true,
                write: false,
                delete: true,
                retention_days: Some(365),
            },
            hour_metrics: Metrics { version: "1.0".into(), enabled: true, include_apis: true, retention_days: Some(1) },
            minute_metrics: Metrics::default(),
            cors: vec![
                CorsRule {
                    origins: vec!["*".into()],
                    methods: vec!["GET".into(), "PUT".into()],
                    allowed_headers: vec!["x-ms-meta-*".into()],
                    exposed_headers: Vec::new(),
                    max_age_seconds: 500,
                },
                CorsRule { origins: vec!["http://a".into()], ..CorsRule::default() },
            ],
            default_version: Some("2019-12-12".into()),
            delete_retention: Some(DeleteRetention { days: 365, allow_permanent: true }),
            website: Some(StaticWebsite {
                index_document: Some("index.html".into()),
                default_index_path: Some("a/b.html".into()),
                error_path: Some("404.html".into()),
            }),
            protocols: ProtocolSettings {
                smb_multichannel: Some(true),
                smb_encryption_required: Some(false),
                nfs_encryption_required: None,
            },
        };
        let bare = ServiceProperties { website: Some(StaticWebsite::default()), ..ServiceProperties::default() };
        for properties in [full.clone(), bare, ServiceProperties::default()] {
            assert_eq!(ServiceProperties::decode(&properties.encode()).expect("what was written"), properties);
        }
        let whole = full.encode();
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = ServiceProperties::decode(&bytes);
            let _ = ServiceProperties::decode(&whole[..at]);
        }
        assert!(ServiceProperties::decode(b"").is_err());
    }
}
