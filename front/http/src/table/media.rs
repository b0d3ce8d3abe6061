//! Which of the three levels of metadata is asked for, and what is asked for that this service does not speak.

use contract::{ApiVersion, ErrorCode, Refusal};

/// How much of the types and addresses a JSON answer tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    No,
    Minimal,
    Full,
}

impl Level {
    pub const fn content_type(self) -> &'static str {
        match self {
            Level::No => "application/json;odata=nometadata;streaming=true;charset=utf-8",
            Level::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
            Level::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
        }
    }
}

/// What one media type asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asks {
    Json(Level),
    Atom,
    Unknown,
}

fn asks(media_type: &str) -> Asks {
    let mut parts = media_type.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let level = parts
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("odata"))
        .map(|(_, value)| value.trim().trim_matches('"').to_ascii_lowercase());
    match (name.as_str(), level.as_deref()) {
        ("application/json" | "json", Some("nometadata")) => Asks::Json(Level::No),
        ("application/json" | "json", Some("minimalmetadata") | None) => Asks::Json(Level::Minimal),
        ("application/json" | "json", Some("fullmetadata")) => Asks::Json(Level::Full),
        ("*/*" | "application/*", _) => Asks::Json(Level::Minimal),
        ("application/atom+xml" | "application/xml" | "text/xml" | "atom", _) => Asks::Atom,
        _ => Asks::Unknown,
    }
}

/// The level of an answer: `$format`, else `Accept`. `version` is what the client said, if it did.
pub fn answer_level(format: Option<&str>, accept: Option<&str>, version: Option<ApiVersion>) -> Result<Level, Refusal> {
    let wanted = format.or(accept);
    let found = match wanted {
        None if version.is_some_and(|version| version < ApiVersion::TABLES_SPEAK_JSON_ALONE) => Asks::Atom,
        None => Asks::Json(Level::Minimal),
        Some(list) => {
            let all = || list.split(',').map(asks);
            all()
                .find(|asks| matches!(asks, Asks::Json(_)))
                .or_else(|| all().find(|asks| *asks == Asks::Atom))
                .unwrap_or(Asks::Unknown)
        }
    };
    match found {
        Asks::Json(level) => json_spoken(version).map(|()| level),
        Asks::Atom => Err(ErrorCode::AtomFormatNotSupported.into()),
        Asks::Unknown => Err(match format {
            Some(format) => Refusal::bad_query("$format", format, "The format is not supported."),
            None => Refusal::bad_header("Accept", wanted.unwrap_or_default()),
        }),
    }
}

/// What a body is written in. Clients that do not say mean JSON.
pub fn check_body(content_type: Option<&str>, version: Option<ApiVersion>) -> Result<(), Refusal> {
    match content_type.map(asks) {
        None | Some(Asks::Json(_)) => json_spoken(version),
        Some(Asks::Atom) => Err(ErrorCode::AtomFormatNotSupported.into()),
        Some(Asks::Unknown) => Err(Refusal::bad_header("Content-Type", content_type.unwrap_or_default())),
    }
}

fn json_spoken(version: Option<ApiVersion>) -> Result<(), Refusal> {
    match version {
        Some(version) if version < ApiVersion::TABLES_SPEAK_JSON => Err(ErrorCode::JsonFormatNotSupported.into()),
        _ => Ok(()),
    }
}

/// Does the client understand JSON, as far as it says?
pub fn reads_json(accept: Option<&str>) -> bool {
    accept.is_none_or(|list| list.split(',').any(|one| asks(one) != Asks::Atom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        for (format, accept, version, expected) in [
            ("", "application/json;odata=nometadata", "2019-02-02", "No"),
            ("", "application/json; odata=minimalmetadata", "2019-02-02", "Minimal"),
            ("", "application/json;odata=fullmetadata;charset=utf-8", "2019-02-02", "Full"),
            ("", "application/json", "2019-02-02", "Minimal"),
            ("", "*/*", "2019-02-02", "Minimal"),
            ("", "", "2019-02-02", "Minimal"),
            ("", "", "", "Minimal"),
            ("", "", "2013-08-15", "AtomFormatNotSupported"),
            ("", "application/json;odata=fullmetadata", "2013-08-15", "Full"),
            ("", "application/json", "2012-02-12", "JsonFormatNotSupported"),
            ("", "application/atom+xml", "2019-02-02", "AtomFormatNotSupported"),
            ("", "application/atom+xml,application/xml", "2011-08-18", "AtomFormatNotSupported"),
            ("", "application/atom+xml,application/json;odata=nometadata", "2019-02-02", "No"),
            ("", "text/html", "2019-02-02", "InvalidHeaderValue"),
            ("", "application/json;odata=verbose", "2019-02-02", "InvalidHeaderValue"),
            ("application/json;odata=fullmetadata", "application/json;odata=nometadata", "2019-02-02", "Full"),
            ("json", "", "2019-02-02", "Minimal"),
            ("atom", "application/json", "2019-02-02", "AtomFormatNotSupported"),
            ("pdf", "application/json", "2019-02-02", "InvalidQueryParameterValue"),
        ] {
            let some = |text: &'static str| (!text.is_empty()).then_some(text);
            let version = some(version).and_then(ApiVersion::parse);
            let got = answer_level(some(format), some(accept), version)
                .map_or_else(|refusal| refusal.code.name().to_string(), |level| format!("{level:?}"));
            assert_eq!(got, expected, "{format} {accept} {version:?}");
        }
        let newest = Some(ApiVersion::NEWEST_KNOWN);
        assert!(
            check_body(None, newest).is_ok() && check_body(Some("application/json;odata=nometadata"), newest).is_ok()
        );
        let atom = check_body(Some("application/atom+xml;type=entry"), newest).expect_err("Atom");
        assert_eq!((atom.status, atom.code), (415, ErrorCode::AtomFormatNotSupported));
        assert!(check_body(Some("text/plain"), newest).is_err());
        assert!(
            reads_json(Some("*/*")) && reads_json(None) && !reads_json(Some("application/atom+xml,application/xml"))
        );
    }
}
