//! Request to row: the only reader of method, `restype`, `comp` and the headers that tell operations apart.

use contract::operations::{HeaderTest, Method, Operation, Resource};
use contract::{ErrorCode, Refusal};

use crate::request::Request;

pub fn route(request: &Request<'_>) -> Result<&'static Operation, Refusal> {
    let method = Method::parse(request.head.method()).ok_or(ErrorCode::UnsupportedHttpVerb)?;
    let on = request.resource();
    let (restype, comp) = (request.query.get("restype"), request.query.get("comp"));
    let same = |wanted: Option<&str>, given: Option<&str>| match (wanted, given) {
        (None, None) => true,
        (Some(wanted), Some(given)) => wanted.eq_ignore_ascii_case(given),
        _ => false,
    };
    let here = request
        .service
        .rows()
        .iter()
        .filter(|row| row.on == on && same(row.chosen_by.restype, restype) && same(row.chosen_by.comp, comp));
    let mut wanted_header = None;
    let mut other_method = false;
    for row in here {
        if !row.methods.contains(&method) {
            other_method = true;
            continue;
        }
        match row.chosen_by.header {
            HeaderTest::Any => return Ok(row),
            HeaderTest::Is(name, value) => match request.header(name) {
                Some(given) if given.eq_ignore_ascii_case(value) => return Ok(row),
                given => wanted_header = Some((name, given)),
            },
        }
    }
    Err(match (wanted_header, other_method) {
        (Some(("x-ms-blob-type", Some(kind))), _) if ["PageBlob", "AppendBlob"].contains(&kind) => {
            Refusal::from(ErrorCode::NotImplemented).with("HeaderName", "x-ms-blob-type").with("HeaderValue", kind)
        }
        (Some((name, Some(given))), _) => Refusal::bad_header(name, given),
        (Some((name, None)), _) => Refusal::missing_header(name),
        // The rows of the other services and operations are yet to come.
        (None, _) if comp.is_some() || restype.is_some_and(|restype| restype != "container") => {
            ErrorCode::NotImplemented.into()
        }
        (None, true) => ErrorCode::UnsupportedHttpVerb.into(),
        (None, false) if on == Resource::Account => {
            Refusal::bad_query("comp", "", "The account itself can only be asked with comp.")
        }
        (None, false) => ErrorCode::NotImplemented.into(),
    })
}
