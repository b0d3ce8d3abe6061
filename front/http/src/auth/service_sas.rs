//! Service SAS: a token for one container, blob, queue, table, share or file.

use contract::names::TableName;
use contract::operations::{Letters, Operation};
use contract::{ApiVersion, ErrorCode, Refusal, Service};
use env::Timestamp;
use partition::blob::container;
use partition::file::share;
use partition::queue;
use partition::record::StoredPolicy;
use partition::table::plan::Keys;
use partition::table::tables;
use partition::{Failure, Shell};

use super::sas::{Restrictions, check_letters, check_signature, field, resource_name, signed_version, snapshot};
use super::{Grant, failed};
use crate::request::Request;

/// A token whose signature and restrictions have been checked. What it is for is in its signature: the name of the resource is signed, so
/// a token of another one does not verify.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSas {
    permissions: String,
    /// Not in the oldest version of blobs, which does not sign them.
    signs_overrides: bool,
    /// A table is named by a field of the token and not by the signed path: what the request asks for is held against it.
    pub table: Option<TableScope>,
}

/// The table and the keys in it that a token is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableScope {
    pub name: TableName,
    pub keys: Keys,
}

impl TableScope {
    fn parse(request: &Request<'_>) -> Result<Option<TableScope>, Refusal> {
        if request.service != Service::Table {
            return Ok(None);
        }
        let bound = |partition: &str, row: &str| match (request.query.get(partition), request.query.get(row)) {
            (None, Some(_)) => Err(failed(format!("{row} needs {partition}"))),
            bound => Ok(bound),
        };
        let mut keys = Keys::all();
        if let (Some(partition_key), row_key) = bound("spk", "srk")? {
            keys = keys.and(&Keys::from(partition_key, row_key.unwrap_or_default()));
        }
        if let (Some(partition_key), row_key) = bound("epk", "erk")? {
            keys = keys.and(&Keys::up_to(partition_key, row_key));
        }
        let name = TableName::parse(field(request, "tn")).map_err(|_| failed("tn is not the name of a table"))?;
        Ok(Some(TableScope { name, keys }))
    }
}

pub async fn verify(shell: &Shell, request: &Request<'_>) -> Result<ServiceSas, Failure> {
    // The signature first: who cannot sign learns nothing of policies.
    check_signature(request, &string_to_sign(request)?, request.account.keys.iter())?;
    let policy = match request.query.get("si") {
        None => None,
        Some(id) => Some(stored_policy(shell, request, id).await?),
    };
    Ok(ServiceSas::accept(request, policy.as_ref())?)
}

pub fn string_to_sign(request: &Request<'_>) -> Result<String, Refusal> {
    let version = signed_version(request, ApiVersion::SERVICE_SAS)?;
    let signed = Signed {
        service: request.service,
        version,
        account: request.account.name.as_str(),
        name: &resource_name(request)?,
        snapshot: snapshot(request, version)?,
        field: &|name| field(request, name),
    };
    Ok(signed.string())
}

impl ServiceSas {
    /// A token whose signature holds, with the policy it names.
    pub fn accept(request: &Request<'_>, policy: Option<&StoredPolicy>) -> Result<ServiceSas, Refusal> {
        let given = Terms {
            start: request.query.get("st").map(str::to_string),
            expiry: request.query.get("se").map(str::to_string),
            permissions: request.query.get("sp").map(str::to_string),
        };
        let Terms { start, expiry, permissions } = given.with(policy)?;
        let (expiry, permissions) =
            expiry.zip(permissions).ok_or_else(|| failed("se and sp are mandatory. Cannot be empty"))?;
        check_letters("sp", &permissions, "racwdxyltfmeopiu")?;
        Restrictions::parse(start.as_deref(), &expiry, request.query.get("sip"), field(request, "spr"))?.check(
            request.now,
            request.client,
            request.tls,
        )?;
        if !field(request, "ses").is_empty() {
            return Err(failed("Encryption scopes are not supported by this server."));
        }
        let version = signed_version(request, ApiVersion::SERVICE_SAS)?;
        let signs_overrides = version >= ApiVersion::SAS_OVERRIDES_HEADERS;
        Ok(ServiceSas { permissions, signs_overrides, table: TableScope::parse(request)? })
    }

    pub fn authorize(&self, row: &Operation) -> Result<Grant, Refusal> {
        match row.service_sas {
            Letters::Never => Err(ErrorCode::AuthorizationFailure.into()),
            needed if !needed.allow(&self.permissions) => Err(ErrorCode::AuthorizationPermissionMismatch.into()),
            needed => {
                let may_overwrite = needed.allow_overwrite(&self.permissions);
                Ok(Grant { may_overwrite, overrides_headers: self.signs_overrides })
            }
        }
    }
}

/// The policy a token names, as it is now: changed or removed, it changes or revokes its tokens at once.
async fn stored_policy(shell: &Shell, request: &Request<'_>, id: &str) -> Result<StoredPolicy, Failure> {
    let unknown = || failed("The signed identifier is not found.");
    let account = &request.account.name;
    let policies = match request.service {
        Service::Blob => container::find(shell, account, &request.container()?).await.map(|found| found.head.policies),
        Service::Queue => queue::find(shell, account, &request.queue()?).await.map(|found| found.head.policies),
        Service::Table => {
            let name = TableName::parse(field(request, "tn")).map_err(|_| unknown())?;
            tables::find(shell, account, &name).await.map(|found| found.head.policies)
        }
        Service::File => share::find(shell, account, &request.share()?, None).await.map(|found| found.head.policies),
    };
    match policies {
        Ok(policies) => Ok(policies.into_iter().find(|policy| policy.id == id).ok_or_else(unknown)?),
        Err(Failure::Refused(_)) => Err(unknown().into()),
        Err(failure) => Err(failure),
    }
}

/// What a token or its policy says; each field from one of them, never from both.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Terms {
    start: Option<String>,
    expiry: Option<String>,
    permissions: Option<String>,
}

impl Terms {
    fn with(self, policy: Option<&StoredPolicy>) -> Result<Terms, Refusal> {
        let Some(policy) = policy else { return Ok(self) };
        let one = |name: &str, given: Option<String>, stored: Option<String>| match (given, stored) {
            (Some(_), Some(_)) => Err(failed(format!("{name} is given by the token and by its policy"))),
            (given, stored) => Ok(given.or(stored)),
        };
        Ok(Terms {
            start: one("st", self.start, policy.start.map(Timestamp::iso8601))?,
            expiry: one("se", self.expiry, policy.expiry.map(Timestamp::iso8601))?,
            permissions: one("sp", self.permissions, policy.permissions.clone())?,
        })
    }
}

/// What is signed.
struct Signed<'a> {
    service: Service,
    version: ApiVersion,
    account: &'a str,
    name: &'a str,
    snapshot: &'a str,
    field: &'a (dyn Fn(&str) -> &'a str + Sync),
}

impl Signed<'_> {
    /// The fields of each service and version, in their order; every one on a line of its own, the last without an end.
    fn string(&self) -> String {
        const OVERRIDES: [&str; 5] = ["rscc", "rscd", "rsce", "rscl", "rsct"];
        let from = |version: ApiVersion| self.version >= version;
        let resource = if from(ApiVersion::SAS_NAMES_SERVICE) {
            format!("/{}/{}/{}", self.service.name(), self.account, self.name)
        } else {
            format!("/{}/{}", self.account, self.name)
        };
        let mut lines: Vec<&str> =
            vec![(self.field)("sp"), (self.field)("st"), (self.field)("se"), &resource, (self.field)("si")];
        if from(ApiVersion::SAS_RESTRICTS_ADDRESS) {
            lines.extend([(self.field)("sip"), (self.field)("spr")]);
        }
        lines.push((self.field)("sv"));
        if self.service == Service::Blob && from(ApiVersion::SAS_SIGNS_RESOURCE_KIND) {
            lines.extend([(self.field)("sr"), self.snapshot]);
            if from(ApiVersion::SAS_SIGNS_ENCRYPTION_SCOPE) {
                lines.push((self.field)("ses"));
            }
        }
        match self.service {
            Service::Blob if from(ApiVersion::SAS_OVERRIDES_HEADERS) => lines.extend(OVERRIDES.map(self.field)),
            Service::File => lines.extend(OVERRIDES.map(self.field)),
            Service::Table => lines.extend(["spk", "srk", "epk", "erk"].map(self.field)),
            Service::Blob | Service::Queue => {}
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

    /// Known strings and their signatures with the development key.
    #[track_caller]
    fn check(service: Service, name: &str, snapshot: &str, fields: &[(&str, &str)], string: &str, signature: &str) {
        let version = fields.iter().find(|(name, _)| *name == "sv").expect("sv").1;
        let signed = Signed {
            service,
            version: ApiVersion::parse(version).expect("a version"),
            account: DEVELOPMENT_ACCOUNT,
            name,
            snapshot,
            field: &|name| fields.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value),
        };
        assert_eq!(signed.string(), string.replace("\\n", "\n"));
        assert_eq!(AccountKey::parse(DEVELOPMENT_KEY).expect("published").sign(&signed.string()), signature);
    }

    #[test]
    fn each_field_comes_from_the_token_or_from_its_policy() {
        let terms = |start: &str, expiry: &str, permissions: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
            Terms { start: some(start), expiry: some(expiry), permissions: some(permissions) }
        };
        let year = |year: &str| Timestamp::parse_iso8601(&format!("{year}-01-01"));
        let bare = StoredPolicy { id: "p".into(), ..StoredPolicy::default() };
        let full = StoredPolicy { expiry: year("2030"), permissions: Some("r".into()), ..bare.clone() };
        assert_eq!(terms("", "e", "w").with(None), Ok(terms("", "e", "w")));
        assert_eq!(terms("", "e", "w").with(Some(&bare)), Ok(terms("", "e", "w")));
        assert_eq!(terms("s", "", "").with(Some(&full)), Ok(terms("s", "2030-01-01T00:00:00.0000000Z", "r")));
        assert!(terms("", "e", "").with(Some(&full)).is_err());
        assert!(terms("", "", "w").with(Some(&full)).is_err());
    }

    const UNTIL: (&str, &str) = ("se", "2030-01-01T00:00:00Z");

    #[test]
    fn blobs() {
        let read = ("sp", "r");
        check(
            Service::Blob,
            "cont/b",
            "",
            &[read, UNTIL, ("sv", "2015-04-05"), ("sr", "b")],
            r"r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/cont/b\n\n\n\n2015-04-05\n\n\n\n\n",
            "YjpueYCXStpQBqEbbQEC5bXtWU/qG+eQlSj+4JBZ8iA=",
        );
        check(
            Service::Blob,
            "cont/b",
            "",
            &[read, UNTIL, ("sv", "2018-11-09"), ("sr", "b")],
            r"r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/cont/b\n\n\n\n2018-11-09\nb\n\n\n\n\n\n",
            "vzQ3Vo8smPRK7HbBQCWuxyQUhU4g/ZxGe9+9sHvlnsE=",
        );
        check(
            Service::Blob,
            "cont/dir/b 1.txt",
            "",
            &[read, UNTIL, ("sv", "2026-10-06"), ("sr", "b"), ("rsct", "text/plain")],
            r"r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/cont/dir/b 1.txt\n\n\n\n2026-10-06\nb\n\n\n\n\n\n\ntext/plain",
            "9CQhVOjWinBoSC4S/60SjmfQUJRg/hUbjd3QfQxZlyI=",
        );
        check(
            Service::Blob,
            "cont/b",
            "2024-01-02T03:04:05.0000000Z",
            &[read, UNTIL, ("sv", "2026-10-06"), ("sr", "bs")],
            r"r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/cont/b\n\n\n\n2026-10-06\nbs\n2024-01-02T03:04:05.0000000Z\n\n\n\n\n\n",
            "s0KUUzI24CIaE0tLTkaW7kNtsARxVL9FqflelX/PcVA=",
        );
        check(
            Service::Blob,
            "cont",
            "",
            &[("si", "pol1"), ("sv", "2026-10-06"), ("sr", "c")],
            r"\n\n\n/blob/devstoreaccount1/cont\npol1\n\n\n2026-10-06\nc\n\n\n\n\n\n\n",
            "YVO5SCIC6jbiBYmK7/UJDhORbFQjvhqRXAXz+yQbzu4=",
        );
    }

    #[test]
    fn the_other_services() {
        check(
            Service::Queue,
            "q1",
            "",
            &[("sp", "raup"), UNTIL, ("sv", "2026-10-06")],
            r"raup\n\n2030-01-01T00:00:00Z\n/queue/devstoreaccount1/q1\n\n\n\n2026-10-06",
            "wFeHGTBzUu4wxkB0ZtgaMXNMFlSkUMfJonIj+ZTocts=",
        );
        check(
            Service::File,
            "sh/d/f.txt",
            "",
            &[("sp", "r"), UNTIL, ("sv", "2026-10-06"), ("sr", "f")],
            r"r\n\n2030-01-01T00:00:00Z\n/file/devstoreaccount1/sh/d/f.txt\n\n\n\n2026-10-06\n\n\n\n\n",
            "58QiN5iWRE8vekEr8y5QdTUW2DfonbgzSkyw8WKRjXo=",
        );
        check(
            Service::Table,
            "mytable",
            "",
            &[("sp", "raud"), UNTIL, ("sv", "2019-02-02"), ("tn", "mytable")],
            r"raud\n\n2030-01-01T00:00:00Z\n/table/devstoreaccount1/mytable\n\n\n\n2019-02-02\n\n\n\n",
            "VH1kJ2dMcGJPJnFMefVZ3HMd1fedSci/031kWIgJz0w=",
        );
    }
}
