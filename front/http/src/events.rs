//! Events for those who are subscribed: who wants which, what they look like, how and when they are sent. docs/events.md
//!
//! What is to be sent lies in records (`partition::events`); nothing here is needed to find it again. Where a webhook is stays between the
//! operator and the webhook: its address is never written to the log beyond its host, for it may hold a secret.

mod deliver;
mod retry;
mod schema;
mod send;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::names::{AccountName, BlobName, ContainerName, QueueName};
use env::Timestamp;
use partition::Shell;
use partition::events::{Announcement, Subscribers};
use partition::record::event::{Api, EventKind};
use partition::record::note::Asked;
use serde::Deserialize;

pub use deliver::{deliver_due, run};

use crate::request::Request;
use crate::source::SourceUrl;

/// `[[events]]`, in the words of the file.
#[derive(Deserialize, Clone, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SubscriptionSettings {
    pub name: String,
    /// `None` is every account.
    pub account: Option<String>,
    pub to: String,
    /// `None` is every type.
    pub types: Option<Vec<String>>,
    #[serde(default)]
    pub subject_begins_with: String,
    #[serde(default)]
    pub subject_ends_with: String,
    /// A container of the event's account.
    pub dead_letter: Option<String>,
}

impl fmt::Debug for SubscriptionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "events {:?}", self.name)
    }
}

/// Where events go.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Of the event's own account.
    Queue(QueueName),
    Webhook(SourceUrl),
}

/// One that is subscribed.
pub struct Subscription {
    name: String,
    account: Option<AccountName>,
    to: Destination,
    kinds: Vec<EventKind>,
    begins: String,
    ends: String,
    dead_letter: Option<ContainerName>,
    /// The webhook said that it wants them.
    is_validated: AtomicBool,
    /// When it was last asked in vain. Held while it is asked.
    refused: tokio::sync::Mutex<Option<Timestamp>>,
}

/// Longer names make longer keys.
const NAME_BYTES_MAX: usize = 64;

impl Subscription {
    fn parse(settings: &SubscriptionSettings) -> Result<Subscription, String> {
        let SubscriptionSettings { name, account, to, types, .. } = settings;
        let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_right) {
            return Err(format!("name = \"{name}\": a name is 1 to {NAME_BYTES_MAX} letters, digits and hyphens"));
        }
        let account = match account {
            None => None,
            Some(text) => {
                Some(AccountName::parse(text).ok_or_else(|| format!("account = \"{text}\" is no account's name"))?)
            }
        };
        let kinds = match types {
            None => vec![EventKind::Created, EventKind::Deleted],
            Some(types) if types.is_empty() => return Err("types = [] asks for nothing; leave it out for all".into()),
            Some(types) => types.iter().map(|text| schema::parse_type(text)).collect::<Result<_, _>>()?,
        };
        let dead_letter = settings.dead_letter.as_ref().map(|text| {
            ContainerName::parse(text).map_err(|_| format!("dead-letter = \"{text}\" is no container's name"))
        });
        Ok(Subscription {
            name: name.clone(),
            account,
            to: Destination::parse(to)?,
            kinds,
            begins: settings.subject_begins_with.to_lowercase(),
            ends: settings.subject_ends_with.to_lowercase(),
            dead_letter: dead_letter.transpose()?,
            is_validated: AtomicBool::new(false),
            refused: tokio::sync::Mutex::default(),
        })
    }

    /// As Event Grid does by default, without regard to case.
    fn wants(&self, account: &AccountName, subject: &str, kind: EventKind) -> bool {
        self.account.as_ref().is_none_or(|own| own == account)
            && self.kinds.contains(&kind)
            && subject.starts_with(&self.begins)
            && subject.ends_with(&self.ends)
    }
}

impl Destination {
    fn parse(text: &str) -> Result<Destination, String> {
        if let Some(name) = text.strip_prefix("queue:") {
            let queue =
                QueueName::parse(name).map_err(|_| format!("to = \"queue:{name}\": this is no queue's name"))?;
            return Ok(Destination::Queue(queue));
        }
        const HINT: &str = "to is \"queue:NAME\", \"https://…\", or \"http://…\" on this machine";
        let authority = text.split_once("://").map(|(_, rest)| rest);
        let with_path = match authority {
            Some(rest) if !rest.contains('/') && !rest.contains('?') => format!("{text}/"),
            _ => text.to_string(),
        };
        // Not what was written: it may hold a secret.
        let url = SourceUrl::parse(&with_path).map_err(|_| format!("{HINT}; it is none of them"))?;
        let is_here = url.host == "localhost" || url.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        if !url.https && !is_here {
            return Err(format!("{HINT}; http to {} would tell its secrets to everybody on the way", url.host));
        }
        Ok(Destination::Webhook(url))
    }
}

impl fmt::Display for Destination {
    /// As it may stand in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Queue(name) => write!(f, "queue {}", name.as_str()),
            Destination::Webhook(url) => {
                write!(f, "{}://{}", if url.https { "https" } else { "http" }, url.authority())
            }
        }
    }
}

/// All that are subscribed.
#[derive(Clone, Default)]
pub struct Subscriptions(Vec<Arc<Subscription>>);

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| format!("{} to {}", one.name, one.to))).finish()
    }
}

impl Subscriptions {
    pub fn parse(settings: &[SubscriptionSettings]) -> Result<Subscriptions, String> {
        let mut all: Vec<Arc<Subscription>> = Vec::new();
        for one in settings {
            let said = |error: String| format!("[[events]] {}: {error}", one.name);
            if all.iter().any(|other| other.name == one.name) {
                return Err(said("there are two of this name".into()));
            }
            all.push(Arc::new(Subscription::parse(one).map_err(said)?));
        }
        Ok(Subscriptions(all))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = Arc<Subscription>> {
        self.0.iter().cloned()
    }

    /// What is wrong with them beside these accounts.
    pub fn check<'a>(&self, served: impl Iterator<Item = &'a AccountName> + Clone) -> Result<(), String> {
        let missing = self.0.iter().find_map(|one| {
            let account = one.account.as_ref()?;
            (!served.clone().any(|name| name == account)).then_some((&one.name, account.as_str()))
        });
        match missing {
            Some((name, account)) => Err(format!("[[events]] {name}: there is no account {account}")),
            None => Ok(()),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Subscription>> {
        self.0.iter().find(|one| one.name == name).cloned()
    }

    /// Those that are as they were need not say again that they want events.
    pub(crate) fn replacing(self, before: &Subscriptions) -> Subscriptions {
        for one in &self.0 {
            let was = before.find(&one.name).is_some_and(|was| was.to == one.to && was.is_validated());
            one.is_validated.store(was, Ordering::Release);
        }
        self
    }
}

impl Subscription {
    fn is_validated(&self) -> bool {
        self.is_validated.load(Ordering::Acquire)
    }
}

/// What happens in them is told to nobody.
const SILENT: [&str; 2] = ["$logs", "$blobchangefeed"];

impl Subscribers for Subscriptions {
    fn wanting(&self, account: &AccountName, container: &str, blob: &str, kind: EventKind) -> Vec<String> {
        if self.0.is_empty() || SILENT.contains(&container) {
            return Vec::new();
        }
        let subject = schema::subject(container, blob).to_lowercase();
        let wanting = self.0.iter().filter(|one| one.wants(account, &subject, kind));
        wanting.map(|one| one.name.clone()).collect()
    }
}

/// What clients say of their requests may be as long as this to be repeated; longer is left out.
const CLIENT_REQUEST_BYTES_MAX: usize = 1024;

impl Request<'_> {
    /// What is told of this request if it is done; nothing where nobody wants to know.
    pub(crate) fn announcement(
        &self,
        shell: &Shell,
        container: &ContainerName,
        blob: &BlobName,
        api: Api,
    ) -> Option<Announcement> {
        let (account, container) = (&self.account.name, container.as_str());
        let subscriptions = shell.outbox.wanting(account, container, blob.as_str(), api.kind());
        if subscriptions.is_empty() {
            return None;
        }
        let asked = self.asked(container);
        Some(announcement(account, blob.as_str(), &asked, api, subscriptions))
    }

    /// Who asked, for what is told later.
    pub(crate) fn asked(&self, container: &str) -> Asked {
        let inside = &self.address.raw_path[1..];
        let inside =
            if self.address.is_path_style { inside.split_once('/').map_or("", |(_, rest)| rest) } else { inside };
        let client_request = self.header("x-ms-client-request-id");
        let client_request = client_request.filter(|id| id.len() <= CLIENT_REQUEST_BYTES_MAX);
        Asked {
            container: container.to_string(),
            url: format!("{}{inside}", self.address.endpoint),
            request: self.id,
            client_request: client_request.map(str::to_string),
        }
    }
}

/// What is told of a copy that was begun a while ago.
pub(crate) fn of_copy(shell: &Shell, account: &AccountName, blob: &str, asked: Option<&Asked>) -> Option<Announcement> {
    let (asked, api) = (asked?, Api::CopyBlob);
    let subscriptions = shell.outbox.wanting(account, &asked.container, blob, api.kind());
    (!subscriptions.is_empty()).then(|| announcement(account, blob, asked, api, subscriptions))
}

fn announcement(
    account: &AccountName,
    blob: &str,
    asked: &Asked,
    api: Api,
    subscriptions: Vec<String>,
) -> Announcement {
    let Asked { container, url, request, client_request } = asked.clone();
    let (account, blob) = (account.clone(), blob.to_string());
    Announcement { account, container, blob, url, api, request, client_request, subscriptions }
}
