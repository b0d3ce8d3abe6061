//! SAS tokens as a client makes them, by code that shares nothing with the server's.

use contract::Service;
use env::Timestamp;

use crate::request::{ACCOUNT, KEY, VERSION, sign};

/// An account SAS to be made; every field may be spoiled by a test.
#[derive(Clone, Debug)]
pub struct AccountSas {
    pub services: String,
    pub resource_types: String,
    pub permissions: String,
    pub start: String,
    pub expiry: String,
    pub ip: String,
    pub protocol: String,
    pub key: String,
}

impl AccountSas {
    /// Everything, until an hour from `now`.
    pub fn all(now: Timestamp) -> AccountSas {
        AccountSas {
            services: "bqtf".into(),
            resource_types: "sco".into(),
            permissions: "rwdxylacuptfi".into(),
            start: String::new(),
            expiry: now.plus_seconds(3600).iso8601(),
            ip: String::new(),
            protocol: String::new(),
            key: KEY.into(),
        }
    }

    pub fn parameters(&self) -> Vec<(String, String)> {
        let signed = format!(
            "{ACCOUNT}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{VERSION}\n\n",
            self.permissions, self.services, self.resource_types, self.start, self.expiry, self.ip, self.protocol
        );
        let all = [
            ("sv", VERSION),
            ("ss", &self.services),
            ("srt", &self.resource_types),
            ("sp", &self.permissions),
            ("st", &self.start),
            ("se", &self.expiry),
            ("sip", &self.ip),
            ("spr", &self.protocol),
            ("sig", &sign(&self.key, &signed)),
        ];
        all.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }
}

/// A service SAS or, with a delegation key, a user delegation SAS; every field may be spoiled by a test.
#[derive(Clone, Debug)]
pub struct ServiceSas {
    pub service: Service,
    /// `sr`, where the service has it.
    pub kind: String,
    /// The container, blob, queue, table, share or file, as it is signed: `box/b`.
    pub name: String,
    pub permissions: String,
    pub start: String,
    pub expiry: String,
    pub policy: String,
    pub ip: String,
    pub protocol: String,
    pub key: String,
    pub delegation: Option<DelegationKey>,
    /// `sduoid`: the one user who may use it.
    pub user: String,
    /// `spk`, `srk`, `epk`, `erk`: the keys of a table it is for.
    pub range: [String; 4],
}

/// What Get User Delegation Key answered.
#[derive(Clone, Debug)]
pub struct DelegationKey {
    pub object: String,
    pub tenant: String,
    pub start: String,
    pub expiry: String,
    pub service: String,
    pub version: String,
    pub value: String,
}

impl DelegationKey {
    pub fn read(xml: &str) -> DelegationKey {
        let element = |name: &str| {
            let rest = xml.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("{name} in {xml}")).1;
            rest.split_once("</").expect("closed").0.to_string()
        };
        DelegationKey {
            object: element("SignedOid"),
            tenant: element("SignedTid"),
            start: element("SignedStart"),
            expiry: element("SignedExpiry"),
            service: element("SignedService"),
            version: element("SignedVersion"),
            value: element("Value"),
        }
    }
}

impl ServiceSas {
    /// Everything on the named resource, until an hour from `now`.
    pub fn all(service: Service, kind: &str, name: &str, now: Timestamp) -> ServiceSas {
        ServiceSas {
            service,
            kind: kind.into(),
            name: name.into(),
            permissions: "racwdxyltfmeopiu".into(),
            start: String::new(),
            expiry: now.plus_seconds(3600).iso8601(),
            policy: String::new(),
            ip: String::new(),
            protocol: String::new(),
            key: KEY.into(),
            delegation: None,
            user: String::new(),
            range: Default::default(),
        }
    }

    pub fn parameters(&self) -> Vec<(String, String)> {
        let resource = format!("/{}/{ACCOUNT}/{}", self.service.name(), self.name);
        let mut lines = vec![self.permissions.as_str(), &self.start, &self.expiry, &resource];
        let mut fields = vec![("sv", VERSION), ("sp", &self.permissions), ("st", &self.start), ("se", &self.expiry)];
        let mut key = &self.key;
        match &self.delegation {
            None => {
                lines.push(&self.policy);
                fields.push(("si", &self.policy));
            }
            Some(named) => {
                key = &named.value;
                let parts = [
                    ("skoid", &named.object),
                    ("sktid", &named.tenant),
                    ("skt", &named.start),
                    ("ske", &named.expiry),
                    ("sks", &named.service),
                    ("skv", &named.version),
                ];
                for (name, value) in parts {
                    lines.push(value);
                    fields.push((name, value));
                }
                if self.service == Service::Blob {
                    lines.extend(["", "", ""]);
                }
                lines.extend(["", &self.user]);
                fields.push(("sduoid", &self.user));
            }
        }
        lines.extend([self.ip.as_str(), &self.protocol, VERSION]);
        fields.extend([("sip", self.ip.as_str()), ("spr", &self.protocol)]);
        match self.service {
            Service::Blob => {
                lines.extend([self.kind.as_str(), "", ""]);
                if self.delegation.is_some() {
                    lines.extend(["", ""]);
                }
                lines.extend([""; 5]);
                fields.push(("sr", &self.kind));
            }
            Service::File => {
                lines.extend([""; 5]);
                fields.push(("sr", &self.kind));
            }
            Service::Table => {
                lines.extend(self.range.iter().map(String::as_str));
                fields.push(("tn", &self.name));
                fields.extend(["spk", "srk", "epk", "erk"].into_iter().zip(self.range.iter().map(String::as_str)));
            }
            Service::Queue => {}
        }
        let signature = sign(key, &lines.join("\n"));
        fields.push(("sig", &signature));
        fields.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }
}
