//! The options of a query: `$filter`, `$select`, `$top`, `$format`, and where to go on.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::limits::{QUERY_ENTITIES_MAX, SELECT_NAMES_MAX};
use contract::{ErrorCode, Refusal};
use partition::table::filter::Filter;

use super::json::Select;
use super::media::{self, Level};
use crate::query::query_decode;
use crate::request::Request;

#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    pub level: Level,
    pub filter: Option<Filter>,
    pub select: Option<Select>,
    pub results_max: usize,
    pub next_table: Option<String>,
    pub next_partition_key: Option<String>,
    pub next_row_key: Option<String>,
}

impl Options {
    pub fn parse(request: &Request<'_>) -> Result<Options, Refusal> {
        let mut options = Options {
            level: Level::Minimal,
            filter: None,
            select: None,
            results_max: QUERY_ENTITIES_MAX,
            next_table: None,
            next_partition_key: None,
            next_row_key: None,
        };
        let mut format = None;
        let mut seen = std::collections::HashSet::new();
        let query = request.head.target().split_once('?').map_or("", |(_, query)| query);
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| query_decode(text).ok_or(ErrorCode::RequestUrlFailedToParse);
            let (name, value) = (decode(name)?.to_ascii_lowercase(), decode(value)?);
            if (name.starts_with('$') || name.starts_with("next")) && !seen.insert(name.clone()) {
                let what = format!("The query option '{name}' is given twice.");
                return Err(Refusal::from(ErrorCode::InvalidInput).saying(what));
            }
            match name.as_str() {
                "$filter" if value.trim().is_empty() => {}
                "$filter" => options.filter = Some(Filter::parse(&value)?),
                "$select" => options.select = Some(select(value)?),
                "$top" if value.is_empty() => {}
                "$top" => options.results_max = top(&value)?,
                "$format" if value.is_empty() => {}
                "$format" => format = Some(value),
                "nexttablename" => options.next_table = token("NextTableName", &value)?,
                "nextpartitionkey" => options.next_partition_key = token("NextPartitionKey", &value)?,
                "nextrowkey" => options.next_row_key = token("NextRowKey", &value)?,
                "$orderby" | "$skip" | "$expand" | "$inlinecount" | "$count" | "$apply" | "$search" | "$skiptoken" => {
                    let what = format!("The query option '{name}' is not supported.");
                    return Err(Refusal::from(ErrorCode::NotImplemented).saying(what));
                }
                name if name.starts_with('$') => {
                    let what = format!("The query option '{name}' is not known.");
                    return Err(Refusal::from(ErrorCode::InvalidInput).saying(what));
                }
                _ => {}
            }
        }
        options.level = media::answer_level(format.as_deref(), request.header("accept"), super::version(request))?;
        Ok(options)
    }
}

fn select(written: String) -> Result<Select, Refusal> {
    let names: Vec<String> =
        written.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect();
    if names.len() > SELECT_NAMES_MAX {
        return Err(Refusal::from(ErrorCode::InvalidInput).saying("$select names more than 255 properties."));
    }
    let all = names.is_empty() || names.iter().any(|name| name == "*");
    Ok(Select { written, names: (!all).then_some(names) })
}

fn top(value: &str) -> Result<usize, Refusal> {
    match value.trim().parse::<usize>() {
        Ok(top) if (1..=QUERY_ENTITIES_MAX).contains(&top) => Ok(top),
        _ => {
            Err(Refusal::from(ErrorCode::InvalidInput)
                .saying(format!("$top is a number from 1 to 1000, not '{value}'.")))
        }
    }
}

/// Where to go on, as text that may stand in a header and in an address: a version, how long the rest is, and the name in Base64.
pub fn write_token(key: &str) -> String {
    let encoded = URL_SAFE_NO_PAD.encode(key);
    format!("1!{}!{encoded}", encoded.len())
}

fn token(name: &'static str, value: &str) -> Result<Option<String>, Refusal> {
    if value.is_empty() {
        return Ok(None);
    }
    let read = || {
        let (length, encoded) = value.strip_prefix("1!")?.split_once('!')?;
        let right = length.parse() == Ok(encoded.len());
        String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok().filter(|_| right)?).ok()
    };
    read().map(Some).ok_or_else(|| Refusal::bad_query(name, value, "Not a continuation token of this service."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for key in ["", "Smith", "it's \u{1f600}", "a+b/c=d&e"] {
            let written = write_token(key);
            assert!(written.bytes().all(|b| b.is_ascii_alphanumeric() || b"!-_".contains(&b)), "{written}");
            assert_eq!(token("t", &written), Ok(Some(key.to_string())), "{written}");
        }
        assert_eq!(token("t", ""), Ok(None));
        for bad in ["Smith", "1!", "1!4!U21pdGg", "1!7!U21pdG", "2!7!U21pdGg", "1!2!_w", "1!3!***"] {
            assert!(token("t", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tops_and_selects() {
        for (text, expected) in
            [("1", Some(1)), ("1000", Some(1000)), ("0", None), ("1001", None), ("x", None), ("-1", None)]
        {
            assert_eq!(top(text).ok(), expected, "{text}");
        }
        assert_eq!(select("a, b".into()).expect("right").names, Some(vec!["a".into(), "b".into()]));
        assert_eq!(select("".into()).expect("right").names, None);
        assert_eq!(select("a,*".into()).expect("right").names, None);
        assert!(select(vec!["a"; 256].join(",")).is_err());
    }
}
