//! The services' own API for whoever is signed in: the request goes on under the session's key, the answer comes back with a fence around
//! it. What is stored is a stranger's: it is shown as text or image by our own pages, or saved, and never run.

use contract::Service;
use http::OnBehalf;
use http::wire::{Body, Head, Response};

use crate::sessions::Visitor;
use crate::{Guest, answers, guard};

const AGENT: &str = concat!("lazuli-console/", env!("CARGO_PKG_VERSION"));

/// What a browser wants an answer for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// A script of our page reads it, or our page shows it as an image.
    ByPage,
    /// Opened or saved by a person; or the browser does not tell.
    BySomebody,
    /// Anything that would run it: a script, a worker, a frame, a style.
    Run,
}

impl Use {
    fn of(head: &Head) -> Use {
        match head.header("sec-fetch-dest") {
            _ if head.header("service-worker").is_some() => Use::Run,
            Some("empty" | "image") => Use::ByPage,
            Some("document") => Use::BySomebody,
            Some(_) => Use::Run,
            None if guard::is_by_our_page(head) => Use::ByPage,
            None => Use::BySomebody,
        }
    }
}

impl Guest {
    pub(crate) async fn data(&self, visitor: &Visitor, service: Service, head: &Head, body: &mut Body<'_>) -> Response {
        let used = Use::of(head);
        if used == Use::Run {
            return answers::error(403, "What is stored is read or saved here, never run.");
        }
        // Receiving messages hides them, although it is a GET: an image on another page must not do that.
        if service == Service::Queue && !guard::is_by_our_page(head) {
            return answers::error(403, "Queues are read with the header `x-lazuli-console: 1`.");
        }
        let Some((_, address)) = self.console.services.iter().find(|(served, _)| *served == service) else {
            return answers::error(404, &format!("The {} service is not served.", service.name()));
        };
        // `/api/blob/account/...` without what is ours of it.
        let target = &head.target()["/api/".len() + service.name().len()..];
        let account = visitor.account.name.as_str();
        let is_own = target.strip_prefix('/').and_then(|rest| rest.strip_prefix(account));
        if !is_own.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?'])) {
            return answers::error(403, &format!("This session is of the account {account}, and sees no other."));
        }
        let host = address.to_string();
        let asking = OnBehalf {
            account: &visitor.account,
            key: &visitor.key,
            host: &host,
            agent: AGENT,
            now: self.console.app.shell.clock.now(),
        };
        let Some(signed) = asking.sign(service, head, target) else {
            return answers::error(400, "This cannot be a request to the service.");
        };
        let response = self.console.app.answer(service, self.client, self.tls, &signed, body).await;
        sandboxed(response, used)
    }
}

/// Headers that a browser would act upon are ours; where they say something of what is stored, that is told beside them.
fn sandboxed(mut response: Response, used: Use) -> Response {
    let mut take = |name: &str| {
        let at = response.headers.iter().position(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(response.headers.swap_remove(at).1)
    };
    let (kept, disposition, content_type) = (take("cache-control"), take("content-disposition"), take("content-type"));
    for ours in
        ["content-security-policy", "set-cookie", "server", "access-control-allow-origin", "x-content-type-options"]
    {
        while take(ours).is_some() {}
    }
    response.header("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'");
    response.header("Cache-Control", "no-store");
    if let Some(kept) = kept {
        response.header("x-lazuli-cache-control", kept);
    }
    let is_saved = used == Use::BySomebody;
    if let Some(content_type) = content_type {
        // Without a word from the browser it may be for a script's sake: nothing but an image is told to be what it says.
        let is_image = content_type.trim_start().get(..6).is_some_and(|start| start.eq_ignore_ascii_case("image/"));
        let shown = if is_saved && !is_image { "application/octet-stream".into() } else { content_type.clone() };
        response.header("Content-Type", shown).header("x-lazuli-content-type", content_type);
    }
    if is_saved {
        // Its file name may stay, if saving is what it asks for.
        let asks = disposition.as_deref().filter(|text| is_attachment(text));
        response.header("Content-Disposition", asks.unwrap_or("attachment").to_string());
    }
    if let Some(disposition) = disposition {
        response.header("x-lazuli-content-disposition", disposition);
    }
    response
}

fn is_attachment(disposition: &str) -> bool {
    let kind = disposition.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("attachment")
}
