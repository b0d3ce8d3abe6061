//! The numbers that requests on messages carry: their defaults, their ranges, and what is said when they are outside.

use contract::{ApiVersion, Refusal, limits};
use partition::queue::message::TimeToLive;

const VISIBILITY: &str = "visibilitytimeout";
const TIME_TO_LIVE: &str = "messagettl";

fn number(name: &'static str, text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| Refusal::bad_query(name, text, "Not an integer."))
}

fn in_range(name: &'static str, text: &str, least: u64, most: u64) -> Result<u64, Refusal> {
    let value = u64::try_from(number(name, text)?).ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| Refusal::out_of_range(name, text, least, most))
}

/// Get Messages and Peek Messages: `numofmessages`.
pub fn messages_wanted(text: Option<&str>) -> Result<usize, Refusal> {
    match text {
        None => Ok(1),
        Some(text) => Ok(in_range("numofmessages", text, 1, limits::QUEUE_MESSAGES_MAX)? as usize),
    }
}

fn visibility_max(version: ApiVersion) -> u64 {
    match version >= ApiVersion::LARGE_MESSAGES {
        true => limits::QUEUE_VISIBILITY_SECONDS_MAX,
        false => limits::QUEUE_VISIBILITY_SECONDS_MAX_BEFORE_2011_08_18,
    }
}

pub fn get_visibility(text: Option<&str>, version: ApiVersion) -> Result<u64, Refusal> {
    match text {
        None => Ok(limits::QUEUE_VISIBILITY_SECONDS_DEFAULT),
        Some(text) => in_range(VISIBILITY, text, 1, visibility_max(version)),
    }
}

pub fn update_visibility(text: Option<&str>) -> Result<u64, Refusal> {
    let text = text.ok_or_else(|| Refusal::missing_query(VISIBILITY))?;
    in_range(VISIBILITY, text, 0, limits::QUEUE_VISIBILITY_SECONDS_MAX)
}

/// Put Message: how long the message is hidden at first, and how long it lives, which must be longer.
pub fn put_times(
    visibility: Option<&str>,
    time_to_live: Option<&str>,
    version: ApiVersion,
) -> Result<(u64, TimeToLive), Refusal> {
    let time_to_live = match time_to_live {
        None => TimeToLive::Seconds(limits::QUEUE_TIME_TO_LIVE_SECONDS_DEFAULT),
        Some(text) => parse_time_to_live(text, version)?,
    };
    let Some(text) = visibility else { return Ok((0, time_to_live)) };
    let seconds = in_range(VISIBILITY, text, 0, visibility_max(version))?;
    match time_to_live {
        TimeToLive::Seconds(life) if seconds >= life => {
            Err(Refusal::bad_query(VISIBILITY, text, "The message would expire before it is visible."))
        }
        _ => Ok((seconds, time_to_live)),
    }
}

fn parse_time_to_live(text: &str, version: ApiVersion) -> Result<TimeToLive, Refusal> {
    let most = limits::QUEUE_TIME_TO_LIVE_SECONDS_MAX_BEFORE_2017_07_29;
    let long_lived = version >= ApiVersion::LONG_LIVED_MESSAGES;
    match number(TIME_TO_LIVE, text)? {
        -1 if long_lived => Ok(TimeToLive::Forever),
        seconds @ 1.. if long_lived || seconds as u64 <= most => Ok(TimeToLive::Seconds(seconds as u64)),
        1.. => Err(Refusal::out_of_range(TIME_TO_LIVE, text, 1, most)),
        _ => Err(Refusal::bad_query(TIME_TO_LIVE, text, "A message lives a second or longer, or for ever (-1).")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
        match result {
            Ok(value) => format!("{value:?}"),
            Err(refusal) => {
                let allowed: Vec<_> = refusal
                    .detail
                    .iter()
                    .filter(|(name, _)| name.ends_with("Allowed"))
                    .map(|(_, v)| v.as_str())
                    .collect();
                format!("{} {}", refusal.code.name(), allowed.join("..")).trim().to_string()
            }
        }
    }

    const BAD: &str = "InvalidQueryParameterValue";

    #[test]
    fn one_number() {
        let new = ApiVersion::NEWEST_KNOWN;
        let old = ApiVersion::parse("2009-09-19").expect("a version");
        let table: &[(&str, Result<u64, Refusal>, &str)] = &[
            ("get, none", get_visibility(None, new), "30"),
            ("get 1", get_visibility(Some("1"), new), "1"),
            ("get 0", get_visibility(Some("0"), new), "OutOfRangeQueryParameterValue 1..604800"),
            ("get -1", get_visibility(Some("-1"), new), "OutOfRangeQueryParameterValue 1..604800"),
            ("get max", get_visibility(Some("604800"), new), "604800"),
            ("get over", get_visibility(Some("604801"), new), "OutOfRangeQueryParameterValue 1..604800"),
            ("get over, old", get_visibility(Some("7201"), old), "OutOfRangeQueryParameterValue 1..7200"),
            ("get text", get_visibility(Some("soon"), new), BAD),
            ("get 1.5", get_visibility(Some("1.5"), new), BAD),
            ("get huge", get_visibility(Some("99999999999999999999"), new), BAD),
            ("update, none", update_visibility(None), "MissingRequiredQueryParameter"),
            ("update 0", update_visibility(Some("0")), "0"),
            ("update max", update_visibility(Some("604800")), "604800"),
            ("update over", update_visibility(Some("604801")), "OutOfRangeQueryParameterValue 0..604800"),
            ("count, none", messages_wanted(None).map(|n| n as u64), "1"),
            ("count 32", messages_wanted(Some("32")).map(|n| n as u64), "32"),
            ("count 33", messages_wanted(Some("33")).map(|n| n as u64), "OutOfRangeQueryParameterValue 1..32"),
            ("count 0", messages_wanted(Some("0")).map(|n| n as u64), "OutOfRangeQueryParameterValue 1..32"),
            ("count x", messages_wanted(Some("x")).map(|n| n as u64), BAD),
        ];
        for (case, result, expected) in table {
            assert_eq!(shown(result.clone()), *expected, "{case}");
        }
    }

    /// | visibilitytimeout | messagettl | version | what Put Message makes of them |
    #[test]
    fn visibility_against_time_to_live() {
        for (visibility, time_to_live, version, expected) in [
            ("", "", "2026-04-06", "(0, Seconds(604800))"),
            ("0", "1", "2026-04-06", "(0, Seconds(1))"),
            ("1", "1", "2026-04-06", BAD),
            ("1", "2", "2026-04-06", "(1, Seconds(2))"),
            ("604800", "", "2026-04-06", BAD),
            ("604799", "", "2026-04-06", "(604799, Seconds(604800))"),
            ("604800", "-1", "2026-04-06", "(604800, Forever)"),
            ("604801", "-1", "2026-04-06", "OutOfRangeQueryParameterValue 0..604800"),
            ("-1", "", "2026-04-06", "OutOfRangeQueryParameterValue 0..604800"),
            ("", "0", "2026-04-06", BAD),
            ("", "-2", "2026-04-06", BAD),
            ("", "x", "2026-04-06", BAD),
            ("", "604801", "2017-07-29", "(0, Seconds(604801))"),
            ("", "9223372036854775807", "2026-04-06", "(0, Seconds(9223372036854775807))"),
            ("", "604801", "2017-04-17", "OutOfRangeQueryParameterValue 1..604800"),
            ("", "-1", "2017-04-17", BAD),
        ] {
            let some = |text: &'static str| (!text.is_empty()).then_some(text);
            let version_read = ApiVersion::parse(version).expect("a version");
            let got = put_times(some(visibility), some(time_to_live), version_read);
            assert_eq!(shown(got), expected, "{visibility} {time_to_live} {version}");
        }
    }
}
