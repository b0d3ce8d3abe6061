//! The static website of an account: what is in `$web`, to everybody who asks, and nothing else.
//!
//! It is asked for by name, `{account}.web.<anything>`, on the port of the Blob service or on a port of its own; on the latter also by
//! path, `/{account}/…`, for whoever has no such names. Queries are not looked at, so nothing but a blob's content can be asked for.

use std::net::IpAddr;
use std::sync::Arc;

use contract::operations::{Operation, OperationId};
use contract::{ApiVersion, ErrorCode, Refusal, Service};
use env::{Id, Timestamp};
use partition::Failure;
use partition::record::service::{ServiceProperties, StaticWebsite};

use crate::account::Account;
use crate::address::{Address, host_account};
use crate::app::App;
use crate::auth::Grant;
use crate::blob::read;
use crate::query::{Query, percent_decode};
use crate::request::Request;
use crate::respond::Context;
use crate::wire::{Head, Response};

/// The label of a website's host name where a service has its own name.
const LABEL: &str = "web";

/// All that a visitor can say beside the path; what else the Blob service would listen to, such as conditions on tags, is its owner's.
const HEADERS: [&str; 5] = ["range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];

/// The account whose website the host names, if there is such an account.
pub fn named(app: &App, head: &Head) -> Option<Arc<Account>> {
    host_account(LABEL, head.header("host").unwrap_or_default()).and_then(|(name, _)| app.account(name))
}

/// One visit. `account` is the one that the host named; otherwise it is the path's first segment.
pub async fn answer(app: &App, account: Option<Arc<Account>>, client: IpAddr, tls: bool, head: &Head) -> Response {
    let (id, now) = (app.shell.ids.next(), app.shell.clock.now());
    let mut context = Context::new(Service::Blob, Some(head), id, now);
    context.version = Some(ApiVersion::NEWEST_KNOWN);
    context.account.clone_from(&account);
    let visit = async {
        let target = head.target().split(['?', '#']).next().unwrap_or_default();
        let path = target.strip_prefix('/').ok_or(ErrorCode::InvalidUri)?;
        let (account, path) = match account {
            Some(account) => (account, path),
            None => {
                let (name, path) = path.split_once('/').unwrap_or((path, ""));
                (app.account(name).ok_or(ErrorCode::WebContentNotFound)?, path)
            }
        };
        let path = percent_decode(path).ok_or(ErrorCode::InvalidUri)?;
        let settings = app.settings.of(&app.shell, &account.name, Service::Blob, now).await?;
        let website = settings.website.clone().ok_or(ErrorCode::WebContentNotFound)?;
        Visit { app, account, settings, client, tls, head, id, now }.answer(&website, &path).await
    };
    let response = match visit.await {
        Ok(response) => context.finish(response),
        Err(failure) => context.failure(failure),
    };
    app.observe(&context, Some(client), 0, &response);
    response
}

struct Visit<'a> {
    app: &'a App,
    account: Arc<Account>,
    settings: Arc<ServiceProperties>,
    client: IpAddr,
    tls: bool,
    head: &'a Head,
    id: Id,
    now: Timestamp,
}

impl Visit<'_> {
    async fn answer(&self, website: &StaticWebsite, path: &str) -> Result<Response, Failure> {
        if !["GET", "HEAD"].contains(&self.head.method()) {
            return Err(Refusal::from(ErrorCode::UnsupportedHttpVerb).header("Allow", "GET, HEAD").into());
        }
        let asked = self.with_headers(&HEADERS)?;
        if let Some(name) = document(website, path)
            && let Some(found) = self.read(&asked, &name).await?
        {
            return Ok(found);
        }
        if let Some(name) = &website.default_index_path
            && let Some(found) = self.read(&asked, in_container(name)).await?
        {
            return Ok(found);
        }
        // Whole, whatever part of what is missing was asked for, and on whatever condition.
        if let Some(name) = &website.error_path
            && let Some(mut found) = self.read(&self.with_headers(&[])?, in_container(name)).await?
        {
            found.status = ErrorCode::WebContentNotFound.status();
            found.reason = ErrorCode::WebContentNotFound.message().into();
            return Ok(found);
        }
        Err(ErrorCode::WebContentNotFound.into())
    }

    /// The request with these of its headers and no others.
    fn with_headers(&self, names: &[&str]) -> Result<Head, Refusal> {
        let mut text = format!("{} / HTTP/1.1\r\nHost: {LABEL}\r\n", self.head.method());
        for (name, value) in self.head.all_headers() {
            if names.iter().any(|kept| name.eq_ignore_ascii_case(kept)) {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        text.push_str("\r\n");
        match Head::parse(text.as_bytes()) {
            Ok(Some((head, _))) => Ok(head),
            _ => Err(ErrorCode::InvalidInput.into()),
        }
    }

    /// A blob of `$web`; `None` if it is not there.
    async fn read(&self, head: &Head, name: &str) -> Result<Option<Response>, Failure> {
        let address = Address {
            account: self.account.name.as_str().to_string(),
            secondary: false,
            is_path_style: false,
            raw_path: String::new(),
            first: contract::names::ContainerName::web().as_str().to_string(),
            rest: Some(name.to_string()),
            endpoint: String::new(),
        };
        let request = Request {
            service: Service::Blob,
            head,
            address,
            query: Query::default(),
            account: self.account.clone(),
            settings: self.settings.clone(),
            version: ApiVersion::NEWEST_KNOWN,
            client: self.client,
            tls: self.tls,
            is_forwarded: false,
            id: self.id,
            now: self.now,
        };
        let (shell, grant) = (&self.app.shell, Grant { may_overwrite: false, overrides_headers: false });
        let read = match head.method() {
            "HEAD" => read::properties(shell, &request, row(OperationId::GetBlobProperties)?, grant).await,
            _ => read::get(shell, &request, row(OperationId::GetBlob)?, grant).await,
        };
        match read {
            Ok(response) => Ok(Some(response)),
            Err(Failure::Refused(refusal)) if is_missing(refusal.code) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn row(id: OperationId) -> Result<&'static Operation, Refusal> {
    Service::Blob.rows().iter().find(|row| row.id == id).ok_or_else(|| ErrorCode::InternalError.into())
}

/// What no blob can be called is not there, either.
fn is_missing(code: ErrorCode) -> bool {
    use ErrorCode::*;
    matches!(code, BlobNotFound | ContainerNotFound | InvalidUri | OutOfRangeInput | InvalidResourceName)
}

/// The blob that a path names: a directory's is its index.
fn document(website: &StaticWebsite, path: &str) -> Option<String> {
    if !path.is_empty() && !path.ends_with('/') {
        return Some(path.to_string());
    }
    website.index_document.as_ref().map(|index| format!("{path}{index}"))
}

/// Documents may be named with the slash that they have in a URL.
fn in_container(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_names() {
        let website = StaticWebsite { index_document: Some("i.html".into()), ..StaticWebsite::default() };
        for (path, expected) in [
            ("", "i.html"),
            ("a/", "a/i.html"),
            ("a", "a"),
            ("a/b.css", "a/b.css"),
            ("/", "/i.html"),
            ("a//", "a//i.html"),
        ] {
            assert_eq!(document(&website, path).as_deref(), Some(expected), "{path}");
        }
        let bare = StaticWebsite::default();
        assert_eq!(
            (document(&bare, ""), document(&bare, "a/"), document(&bare, "a").as_deref()),
            (None, None, Some("a"))
        );
    }
}
