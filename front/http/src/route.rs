//! Request to row: the only reader of method, `restype`, `comp` and whatever else tells operations apart.

use contract::operations::{Method, Operation, Resource, Selector, Test};
use contract::{ErrorCode, Refusal, Service};

use crate::request::Request;

pub fn route(request: &Request<'_>) -> Result<&'static Operation, Refusal> {
    let method = method(request)?;
    let on = request.resource();
    let rows = request.service.rows();
    if method == Method::Options {
        let preflight = rows.iter().find(|row| row.on == Resource::Anything);
        return preflight.ok_or_else(|| ErrorCode::UnsupportedHttpVerb.into());
    }
    let mut nearest: Option<&'static Selector> = None;
    let mut other_method = false;
    let named = named(request, on);
    for row in rows.iter().filter(|row| row.on == on && is_named_by(&row.chosen_by, named)) {
        if !row.methods.contains(&method) {
            other_method = true;
        } else if row.chosen_by.tests.iter().all(|test| holds(test, request)) {
            return Ok(row);
        } else {
            nearest = Some(&row.chosen_by);
        }
    }
    Err(match nearest {
        Some(selector) => unselected(selector, request),
        None if other_method => ErrorCode::UnsupportedHttpVerb.into(),
        None => unknown(request),
    })
}

/// The method, or the one that a POST to the Table service stands for because something on the way lets no other through.
fn method(request: &Request<'_>) -> Result<Method, Refusal> {
    let sent = Method::parse(request.head.method()).ok_or(ErrorCode::UnsupportedHttpVerb)?;
    let mut tunnelled = request.head.headers("x-http-method").filter(|_| request.service == Service::Table);
    match (tunnelled.next(), tunnelled.next()) {
        (None, _) => Ok(sent),
        (Some(_), Some(_)) => Err(ErrorCode::XMethodIncorrectCount.into()),
        (Some(_), None) if sent != Method::Post => Err(ErrorCode::XMethodNotUsingPost.into()),
        (Some(name), None) => match Method::parse(name) {
            Some(method @ (Method::Merge | Method::Put | Method::Delete | Method::Patch)) => Ok(method),
            _ => Err(ErrorCode::XMethodIncorrectValue.into()),
        },
    }
}

/// `restype` and `comp`, as rows are chosen by them.
fn named<'a>(request: &'a Request<'_>, on: Resource) -> [Option<&'a str>; 2] {
    let (restype, comp) = (request.query.get("restype"), request.query.get("comp"));
    // Quirk: in path style a client in wide use takes the account for a container when it sends a batch.
    let is_batch = request.service == Service::Blob && comp == Some("batch") && on == Resource::Account;
    [restype.filter(|_| !is_batch), comp]
}

/// Are `restype` and `comp` the row's?
fn is_named_by(selector: &Selector, [restype, comp]: [Option<&str>; 2]) -> bool {
    let same = |wanted: Option<&str>, given: Option<&str>| match (wanted, given) {
        (None, None) => true,
        (Some(wanted), Some(given)) => wanted.eq_ignore_ascii_case(given),
        _ => false,
    };
    same(selector.restype, restype) && same(selector.comp, comp)
}

fn holds(test: &Test, request: &Request<'_>) -> bool {
    let is = |given: Option<&str>, value: &str| given.is_some_and(|given| given.eq_ignore_ascii_case(value));
    match test {
        Test::HeaderIs(name, value) => is(request.header(name), value),
        Test::HeaderSent(name) => request.header(name).is_some(),
        Test::HeaderNotSent(name) => request.header(name).is_none(),
        Test::QueryIs(name, value) => is(request.query.get(name), value),
        Test::QueryIsNot(name, value) => !is(request.query.get(name), value),
        Test::QuerySent(name) => request.query.get(name).is_some(),
        Test::QueryNotSent(name) => request.query.get(name).is_none(),
    }
}

/// The place is right and a header that tells the operation is missing or wrong.
fn unselected(selector: &Selector, request: &Request<'_>) -> Refusal {
    let wanted = selector.tests.iter().find_map(|test| match test {
        Test::HeaderIs(name, _) | Test::HeaderSent(name) if !holds(test, request) => Some(*name),
        Test::HeaderNotSent("x-ms-blob-type") => Some("x-ms-blob-type"),
        _ => None,
    });
    match wanted {
        Some(name) => match request.header(name) {
            Some(given) => Refusal::bad_header(name, given),
            None => Refusal::missing_header(name),
        },
        None => ErrorCode::InvalidInput.into(),
    }
}

/// Nothing is at this place whatever the method.
fn unknown(request: &Request<'_>) -> Refusal {
    match (request.query.get("comp"), request.query.get("restype")) {
        (Some(comp), _) => Refusal::bad_query("comp", comp, "No operation of this resource has this value."),
        (None, Some(restype)) => {
            Refusal::bad_query("restype", restype, "No operation of this resource has this value.")
        }
        (None, None) => Refusal::bad_query("comp", "", "This resource can only be asked with comp."),
    }
}
