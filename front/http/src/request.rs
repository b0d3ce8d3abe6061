//! A request as the rest of the front end sees it: addressed, its query decoded, its version known.

use std::net::IpAddr;
use std::sync::Arc;

use contract::names::{BlobName, ContainerName, FilePath, LeaseId, Metadata, QueueName, ShareName};
use contract::operations::{Conditions as Rule, Operation, Resource};
use contract::{ApiVersion, ErrorCode, Refusal, Service};
use env::{Id, Timestamp};
use partition::blob::{Keeping, Which};
use partition::checks::Expectation;
use partition::record::service::ServiceProperties;
use partition::tags::{Dialect, TagExpression};
use partition::{Conditions, EtagTest};

use crate::account::Account;
use crate::address::Address;
use crate::query::Query;
use crate::wire::Head;

pub struct Request<'a> {
    pub service: Service,
    pub head: &'a Head,
    pub address: Address,
    pub query: Query,
    pub account: Arc<Account>,
    pub settings: Arc<ServiceProperties>,
    /// As it behaves; what the client sent is echoed from the head.
    pub version: ApiVersion,
    pub client: IpAddr,
    pub tls: bool,
    /// Another gateway passed it on.
    pub is_forwarded: bool,
    pub id: Id,
    pub now: Timestamp,
}

impl Request<'_> {
    #[inline]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name).filter(|value| !value.is_empty())
    }

    /// What the path and `restype` name.
    pub fn resource(&self) -> Resource {
        let (first, rest) = (self.address.first.as_str(), self.address.rest.as_deref());
        let restype = self.query.get("restype");
        if first.is_empty() && rest.is_none() {
            return Resource::Account;
        }
        match self.service {
            Service::Blob => match (rest, restype) {
                (None, Some(_)) => Resource::Container,
                // `/name` without `restype` is a blob of the root container.
                _ => Resource::Blob,
            },
            Service::Queue => match rest {
                None => Resource::Queue,
                Some("messages" | "messages/") => Resource::Messages,
                Some(_) => Resource::Message,
            },
            Service::Table => match first {
                "$batch" => Resource::TableBatch,
                "Tables" | "Tables()" => Resource::Tables,
                _ if first.starts_with("Tables(") => Resource::Table,
                _ if first.contains('(') && !first.ends_with("()") => Resource::Entity,
                _ => Resource::Entities,
            },
            Service::File => match (rest, restype) {
                (_, Some("directory")) => Resource::Directory,
                (None, Some("share")) => Resource::Share,
                (None, _) if self.query.get("comp") == Some("hardlinks") => Resource::Share,
                // Handles are asked for without `restype`: of a file, a directory or a share's root alike.
                _ => Resource::File,
            },
        }
    }

    /// The container, queue, table or share it is about, in which roles may be assigned; empty for the service itself.
    pub fn within(&self) -> String {
        let first = self.address.first.as_str();
        match (self.service, self.resource()) {
            (_, Resource::Account) => String::new(),
            (Service::Blob, Resource::Blob) if self.address.rest.is_none() => "$root".into(),
            (Service::Table, Resource::TableBatch | Resource::Tables) => String::new(),
            (Service::Table, Resource::Table) => {
                let name = first.strip_prefix("Tables('").and_then(|rest| rest.strip_suffix("')"));
                name.unwrap_or_default().to_ascii_lowercase()
            }
            (Service::Table, _) => first.split('(').next().unwrap_or_default().to_ascii_lowercase(),
            _ => first.to_string(),
        }
    }

    pub fn container(&self) -> Result<ContainerName, Refusal> {
        match &self.address.rest {
            None if self.resource() == Resource::Blob => Ok(ContainerName::root()),
            _ => ContainerName::parse(&self.address.first),
        }
    }

    pub fn blob(&self) -> Result<BlobName, Refusal> {
        BlobName::parse(self.address.rest.as_deref().unwrap_or(&self.address.first))
    }

    pub fn queue(&self) -> Result<QueueName, Refusal> {
        QueueName::parse(&self.address.first)
    }

    pub fn share(&self) -> Result<ShareName, Refusal> {
        ShareName::parse(&self.address.first)
    }

    /// What the path names in its share.
    pub fn file_path(&self) -> Result<FilePath, Refusal> {
        let path = self.address.rest.as_deref().unwrap_or_default();
        if path.ends_with('/') && self.resource() == Resource::File {
            return Err(ErrorCode::InvalidFileOrDirectoryPathName.into());
        }
        FilePath::parse(path, self.flag("x-ms-allow-trailing-dot")?)
    }

    /// A header that is `true` or `false`, and false if it is not sent.
    pub fn flag(&self, name: &'static str) -> Result<bool, Refusal> {
        match self.header(name) {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(Refusal::bad_header(name, value)),
        }
    }

    /// The snapshot that `sharesnapshot` names, by when it was taken.
    pub fn share_snapshot(&self) -> Result<Option<Timestamp>, Refusal> {
        self.moment("sharesnapshot")
    }

    /// A write is of what the share is now.
    pub fn refuse_share_snapshot(&self) -> Result<(), Refusal> {
        match self.share_snapshot()? {
            Some(_) => Err(ErrorCode::ShareSnapshotOperationNotSupported.into()),
            None => Ok(()),
        }
    }

    /// A parameter that names a snapshot or version by its moment.
    pub fn moment(&self, name: &'static str) -> Result<Option<Timestamp>, Refusal> {
        let Some(text) = self.query.get(name) else { return Ok(None) };
        let bad = || Refusal::bad_query(name, text, "Not a moment of the form 2026-01-02T03:04:05.1234567Z.");
        Timestamp::parse_iso8601(text).map(Some).ok_or_else(bad)
    }

    /// The state of the blob that `snapshot` or `versionid` names.
    pub fn which(&self) -> Result<Which, Refusal> {
        let ticks = |name: &'static str| self.moment(name).map(|moment| moment.map(Timestamp::ticks));
        match (ticks("snapshot")?, ticks("versionid")?) {
            (None, None) => Ok(Which::Current),
            (Some(ticks), None) => Ok(Which::Snapshot(ticks)),
            (None, Some(ticks)) => Ok(Which::Version(ticks)),
            (Some(_), Some(_)) => {
                let text = self.query.get("versionid").unwrap_or_default();
                Err(Refusal::bad_query("versionid", text, "A blob is named by its snapshot or its version, not both."))
            }
        }
    }

    /// A write is of what the blob is now.
    pub fn refuse_past(&self) -> Result<(), Refusal> {
        match ["snapshot", "versionid"].into_iter().find_map(|name| Some((name, self.query.get(name)?))) {
            Some((name, text)) => Err(Refusal::bad_query(name, text, "Snapshots and versions cannot be changed.")),
            None => Ok(()),
        }
    }

    /// What becomes of a state of a blob that this request overwrites or deletes.
    pub fn keeping(&self) -> Keeping {
        let deleted_days = self.settings.delete_retention.map(|retention| retention.days);
        Keeping { versions: self.account.blob.versioning, deleted_days }
    }

    /// `x-ms-meta-*`, names as they were sent.
    pub fn metadata(&self) -> Result<Metadata, Refusal> {
        const PREFIX: &str = "x-ms-meta-";
        let is_metadata = |name: &str| name.get(..PREFIX.len()).is_some_and(|p| p.eq_ignore_ascii_case(PREFIX));
        let headers = self.head.all_headers().filter(|(name, _)| is_metadata(name));
        Metadata::parse(headers.map(|(name, value)| (&name[PREFIX.len()..], value)))
    }

    /// The conditional headers and the lease id, to be held against what is there.
    pub fn expectation(&self, operation: &'static Operation) -> Result<Expectation, Refusal> {
        let lease_id = self.lease_id("x-ms-lease-id")?;
        let names = match operation.conditions {
            Rule::OnTags => None,
            Rule::OnTagsOrBlob => Some([
                "x-ms-blob-if-match",
                "x-ms-blob-if-none-match",
                "x-ms-blob-if-modified-since",
                "x-ms-blob-if-unmodified-since",
            ]),
            _ => Some(["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"]),
        };
        let (version, conditions) = (self.version, self.conditions(names)?);
        // An earlier version that is deleted is not kept as another.
        let is_past = ["snapshot", "versionid"].iter().any(|name| self.query.get(name).is_some());
        let keeps_versions = self.account.blob.versioning && !is_past;
        Ok(Expectation { operation, version, conditions, lease_id, keeps_versions })
    }

    pub fn lease_id(&self, name: &'static str) -> Result<Option<LeaseId>, Refusal> {
        let parse = |text| LeaseId::parse(text).ok_or_else(|| Refusal::bad_header(name, text));
        self.header(name).map(parse).transpose()
    }

    /// The four are read from the headers of these names; none are if there are no names.
    fn conditions(&self, names: Option<[&'static str; 4]>) -> Result<Conditions, Refusal> {
        self.conditions_named(names, "x-ms-if-tags")
    }

    /// The same, and the expression on tags from a header of its own.
    pub fn conditions_named(
        &self,
        names: Option<[&'static str; 4]>,
        of_tags: &'static str,
    ) -> Result<Conditions, Refusal> {
        let etag = |name: &'static str| {
            let values: Vec<&str> = self.head.headers(name).collect();
            if values.is_empty() {
                return Ok(None);
            }
            let joined = values.join(",");
            EtagTest::parse(&joined).map(Some).ok_or_else(|| Refusal::bad_header(name, joined))
        };
        let single = |name: &'static str| {
            let mut values = self.head.headers(name);
            match (values.next(), values.next()) {
                (Some(text), Some(_)) => Err(Refusal::bad_header(name, text)),
                (text, _) => Ok(text),
            }
        };
        let is_read = matches!(self.head.method(), "GET" | "HEAD");
        let date = |name: &'static str| {
            let Some(text) = single(name)? else { return Ok(None) };
            match Timestamp::parse_http_date(text) {
                // Quirk: reads leave aside what is no date (Azurite issue 2550; RFC 9110 13.1.3 asks for it). No write is done without its
                // condition. `testing/matrix/conditions.rs::dates_that_are_none`
                None if !is_read => Err(Refusal::bad_header(name, text)),
                date => Ok(date),
            }
        };
        let tags = |name: &'static str| {
            let parse = |text| {
                let expression = TagExpression::parse(text, Dialect::Condition);
                expression.map_err(|reason| Refusal::bad_header(name, text).with("Reason", reason))
            };
            single(name)?.map(parse).transpose()
        };
        let if_tags = tags(of_tags)?;
        let Some([matching, none_matching, modified, unmodified]) = names else {
            return Ok(Conditions { if_tags, ..Conditions::default() });
        };
        Ok(Conditions {
            if_match: etag(matching)?,
            if_none_match: etag(none_matching)?,
            if_modified_since: date(modified)?,
            if_unmodified_since: date(unmodified)?,
            if_tags,
        })
    }
}

/// A request made of its head, for tests of what only looks at it.
#[cfg(test)]
pub fn scripted<T>(service: Service, head: &str, look: impl FnOnce(&Request<'_>) -> T) -> T {
    let head = format!("{}\r\n\r\n", head.replace('\n', "\r\n"));
    let (head, _) = Head::parse(head.as_bytes()).expect("a head").expect("whole");
    let (address, query) = Address::parse(service, head.target(), "localhost", false, |_| true).expect("an address");
    let now = Timestamp::parse_iso8601("2029-12-31T00:00:00Z").expect("a time");
    let request = Request {
        service,
        head: &head,
        address,
        query: Query::parse(&query).expect("a query"),
        account: Arc::new(Account::development()),
        settings: Arc::default(),
        version: ApiVersion::NEWEST_KNOWN,
        client: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        tls: false,
        is_forwarded: false,
        id: Id(0),
        now,
    };
    look(&request)
}
