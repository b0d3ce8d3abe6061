//! `Authorization: SharedKey account:signature`, and its Lite form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::limits::DATE_SKEW_SECONDS_MAX;
use contract::{ErrorCode, Refusal, Service};
use env::Timestamp;

use super::failed;
use super::strings::{HeaderOrder, Signed, Variant, without_secrets};
use crate::request::Request;
use crate::wire::Names;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Full,
    Lite,
}

/// The readings of the rules that clients in use have, the common one first.
pub const VARIANTS: [Variant; 4] = [
    Variant { header_order: HeaderOrder::Culture, language_first: false },
    Variant { header_order: HeaderOrder::Bytes, language_first: false },
    Variant { header_order: HeaderOrder::Culture, language_first: true },
    Variant { header_order: HeaderOrder::Bytes, language_first: true },
];

/// Headers that stand in the string on lines of their own; twice would make it ambiguous.
const SIGNED_ONCE: Names<11> = Names::new([
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
    "x-ms-date",
]);

pub fn verify(request: &Request<'_>, value: &str, form: Form) -> Result<(), Refusal> {
    let (account, signature) = value.split_once(':').ok_or(ErrorCode::InvalidAuthenticationInfo)?;
    let signature = STANDARD.decode(signature).map_err(|_| Refusal::from(ErrorCode::InvalidAuthenticationInfo))?;
    if account != request.account.name.as_str() {
        return Err(failed("The account in the Authorization header is not the account of the address."));
    }
    check_date(request)?;
    if let Some(name) = request.head.repeated(&SIGNED_ONCE) {
        return Err(Refusal::bad_header("Authorization", format!("{name} is sent twice")));
    }

    if form == Form::Full && request.service != Service::Table && request.query.all().iter().any(reads_as_several) {
        return Err(failed("A parameter of the query reads as several in the string to sign."));
    }

    let headers: Vec<(&str, &str)> = request.head.all_headers().collect();
    let signed = signed(request, &headers);
    let string = |signed: &Signed<'_>, variant| match form {
        Form::Full => signed.full(variant),
        Form::Lite => signed.lite(variant),
    };
    let verifies = |text: &str| request.account.keys.iter().any(|key| key.verifies(text, &signature));

    let first = string(&signed, VARIANTS[0]);
    if verifies(&first) {
        return Ok(());
    }
    // The other readings are only tried where they differ, so a wrong signature usually costs one look.
    let mut tried = vec![first];
    // A secondary address may have been signed as it was sent, or without the suffix.
    let plain_path = request.address.raw_path.strip_prefix(format!("/{}-secondary", signed.account).as_str());
    // Only the account's own segment: a container may be called like it.
    let is_account = |rest: &&str| request.address.is_path_style && (rest.is_empty() || rest.starts_with('/'));
    let plain_path = plain_path.filter(is_account).map(|rest| format!("/{}{rest}", signed.account));
    for path in [Some(request.address.raw_path.as_str()), plain_path.as_deref()].into_iter().flatten() {
        for variant in VARIANTS {
            let text = string(&Signed { raw_path: path, ..signed_again(&signed) }, variant);
            if tried.contains(&text) {
                continue;
            }
            if verifies(&text) {
                return Ok(());
            }
            tried.push(text);
        }
    }
    let shown = without_secrets(&tried[0]);
    tracing::debug!(request = %request.id, string_to_sign = ?shown, "the signature did not match");
    Err(failed(format!(
        "The MAC signature found in the HTTP request is not the same as any computed signature. Server used following string to sign: '{shown}'."
    )))
}

fn signed<'a>(request: &'a Request<'_>, headers: &'a [(&'a str, &'a str)]) -> Signed<'a> {
    Signed {
        service: request.service,
        verb: request.head.method(),
        headers,
        account: request.account.name.as_str(),
        raw_path: &request.address.raw_path,
        query: request.query.all(),
        version: request.version,
    }
}

/// What would be signed, by the common reading of the rules.
pub fn string_to_sign(request: &Request<'_>, form: Form) -> String {
    let headers: Vec<(&str, &str)> = request.head.all_headers().collect();
    let signed = signed(request, &headers);
    match form {
        Form::Full => signed.full(VARIANTS[0]),
        Form::Lite => signed.lite(VARIANTS[0]),
    }
}

/// Each parameter is signed as a line `name:value`. One that has such a line inside, or a colon in its name, has the string of other
/// parameters, so that a signature of the one would be good for the other. No operation takes any.
fn reads_as_several((name, value): &(String, String)) -> bool {
    name.contains([':', '\n']) || value.split('\n').skip(1).any(|line| line.contains(':'))
}

fn signed_again<'a>(signed: &Signed<'a>) -> Signed<'a> {
    Signed { ..*signed }
}

fn check_date(request: &Request<'_>) -> Result<(), Refusal> {
    let text = request.header("x-ms-date").or_else(|| request.header("date"));
    let text = text.ok_or_else(|| failed("Neither x-ms-date nor Date is sent."))?;
    let date =
        Timestamp::parse_http_date(text).ok_or_else(|| failed(format!("The date header is not a date: '{text}'")))?;
    if date < request.now.minus_seconds(DATE_SKEW_SECONDS_MAX) {
        return Err(failed(format!("Request date header too old: '{text}'")));
    }
    if date > request.now.plus_seconds(DATE_SKEW_SECONDS_MAX) {
        return Err(failed(format!("Request date header too far in the future: '{text}'")));
    }
    Ok(())
}
