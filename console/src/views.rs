//! What goes on in the session's account: requests, leases, open files, hidden messages.

use std::collections::HashSet;

use contract::names::QueueName;
use http::wire::{Head, Response};
use partition::Failure;
use partition::file::opens::{LockKind, OpenNow, Oplock, Rights, ShareMode};
use partition::look::{self, hidden, leases};
use serde_json::{Value, json};

use crate::sessions::Visitor;
use crate::{Guest, answers};

const REQUESTS_LISTED_MAX: usize = 1000;
const OPENS_MAX: usize = 500;

/// The parameters of a view, decoded.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// `None` if they cannot be read, or there are others than `known`.
    fn read(head: &Head, known: &[&str]) -> Result<Parameters, Response> {
        let query = head.target().split_once('?').map_or("", |(_, query)| query);
        let mut read = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = http::percent_decode(value);
            match (known.contains(&name), value) {
                (true, Some(value)) => read.push((name.to_string(), value)),
                _ => return Err(answers::error(400, &format!("This view takes: {}.", known.join(", ")))),
            }
        }
        Ok(Parameters(read))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Response> {
        let words = || answers::error(400, &format!("{name} is a number."));
        self.get(name).map(|text| text.parse().map_err(|_| words())).transpose()
    }
}

impl Guest {
    pub(crate) async fn view(&self, visitor: &Visitor, view: &str, head: &Head) -> Response {
        let viewed = match view {
            "requests" => self.view_requests(visitor, head),
            "leases" => self.view_leases(visitor, head).await,
            "opens" => self.view_opens(visitor, head).await,
            "hidden" => self.view_hidden(visitor, head).await,
            _ => Err(answers::error(404, "There is no such view.")),
        };
        viewed.map_or_else(
            |response| response,
            |mut value| {
                // A gateway of a cluster knows what came to it; another may know more.
                if self.console.program.is_one_of_many() {
                    value["scope"] = "gateway".into();
                }
                answers::json(200, &value)
            },
        )
    }

    fn view_requests(&self, visitor: &Visitor, head: &Head) -> Result<Value, Response> {
        let parameters = Parameters::read(head, &["after", "refused", "limit"])?;
        let limit = parameters.number("limit")?.map_or(200, |limit| limit.min(REQUESTS_LISTED_MAX as u64) as usize);
        let refused = parameters.get("refused") == Some("1");
        let after = parameters.number("after")?;
        let (next, requests) = self.console.watch.rings.list(visitor.account.name.as_str(), after, refused, limit);
        Ok(json!({ "next": next, "requests": requests }))
    }

    async fn view_leases(&self, visitor: &Visitor, head: &Head) -> Result<Value, Response> {
        let parameters = Parameters::read(head, &["marker"])?;
        let shell = &self.console.app.shell;
        let looked = leases::leases(shell, &visitor.account.name, parameters.get("marker")).await;
        let found = looked.map_err(failed)?.ok_or_else(bad_marker)?;
        let shown = found.leases.iter().map(|lease| {
            let kind = match lease.on {
                leases::Leased::Container => "container",
                leases::Leased::Blob => "blob",
                leases::Leased::Share => "share",
                leases::Leased::File => "file",
            };
            json!({
                "kind": kind,
                "name": lease.name,
                "id": lease.id,
                "state": if lease.is_breaking { "breaking" } else { "leased" },
                "seconds_left": lease.seconds_left,
            })
        });
        Ok(json!({ "leases": shown.collect::<Value>(), "next": found.next, "looked_at": found.looked_at }))
    }

    async fn view_opens(&self, visitor: &Visitor, head: &Head) -> Result<Value, Response> {
        Parameters::read(head, &[])?;
        let (shell, account) = (&self.console.app.shell, &visitor.account.name);
        let (opens, is_all) = shell.open_files.look(account, OPENS_MAX);
        let groups: HashSet<_> = opens.iter().map(|open| open.share.clone()).collect();
        let names = look::share_names(shell, account, groups).await.map_err(failed)?;
        let shown = opens.iter().map(|open| show_open(open, names.get(&open.share).map(String::as_str)));
        Ok(json!({ "opens": shown.collect::<Value>(), "truncated": !is_all }))
    }

    async fn view_hidden(&self, visitor: &Visitor, head: &Head) -> Result<Value, Response> {
        let parameters = Parameters::read(head, &["queue", "marker"])?;
        let queue = parameters.get("queue").map(QueueName::parse).transpose();
        let queue = queue.map_err(|_| answers::error(400, "This is no name of a queue."))?;
        let (shell, account) = (&self.console.app.shell, &visitor.account.name);
        let looked = hidden::hidden(shell, account, queue.as_ref(), parameters.get("marker")).await;
        let found = looked.map_err(failed)?.ok_or_else(bad_marker)?;
        let shown = found.messages.iter().map(|message| {
            json!({
                "queue": message.queue,
                "id": message.id.to_string(),
                "inserted": message.inserted.iso8601(),
                "visible": message.visible.iso8601(),
                "expires": message.expires.iso8601(),
                "dequeue_count": message.dequeue_count,
            })
        });
        Ok(json!({ "messages": shown.collect::<Value>(), "next": found.next }))
    }
}

fn show_open(open: &OpenNow, share: Option<&str>) -> Value {
    let opening = &open.handle.opening;
    let caching = match open.caching {
        None => "none".to_string(),
        Some((true, rights)) => format!("lease {}", letters(rights)),
        Some((false, rights)) => match Oplock::of(rights) {
            Oplock::None => "none",
            Oplock::LevelII => "level II",
            Oplock::Exclusive => "exclusive",
            Oplock::Batch => "batch",
        }
        .to_string(),
    };
    let locks = open.locks.iter().map(|(range, kind)| {
        json!({ "offset": range.offset, "length": range.length, "exclusive": *kind == LockKind::Exclusive })
    });
    json!({
        "share": share,
        "path": opening.path,
        // As text: a script's numbers are not that long.
        "handle": open.handle.id.0.to_string(),
        "session": opening.session.to_string(),
        "client": opening.client_address,
        "opened": opening.opened.iso8601(),
        "access": opening.claim.access.shown(),
        "sharing": if opening.claim.share == ShareMode::NONE { "none".to_string() } else { opening.claim.share.shown() },
        "caching": caching,
        "directory": opening.is_directory,
        "delete_pending": open.is_delete_pending,
        "locks": locks.collect::<Value>(),
    })
}

fn letters(rights: Rights) -> String {
    let letters = [(rights.read, 'R'), (rights.write, 'W'), (rights.handle, 'H')];
    let held: String = letters.into_iter().filter(|(has, _)| *has).map(|(_, letter)| letter).collect();
    if held.is_empty() { "of nothing".to_string() } else { held }
}

fn bad_marker() -> Response {
    answers::error(400, "This is no marker of this view.")
}

/// A look that failed: what was asked for is not there, or storage did not answer.
fn failed(failure: Failure) -> Response {
    match failure {
        Failure::Refused(refusal) => answers::error(refusal.status, refusal.message()),
        Failure::Gone => answers::error(404, "It was deleted just now."),
        Failure::Waits(_) => answers::error(503, "Somebody has to be waited for."),
        Failure::Fault(fault) => {
            tracing::error!(%fault, "a view could not be read");
            answers::error(503, "Storage does not answer; the server's log tells why.")
        }
    }
}
