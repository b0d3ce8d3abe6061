//! If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since against a resource (promises B2, B3).
//!
//! Reads take any combination: `If-Match AND If-Unmodified-Since AND (If-None-Match OR If-Modified-Since)`; a false first part is
//! 412, a false second part 304. Writes take one header, or one of two pairs of which only the ETag is judged; false is 412.
//! Dates compare in whole seconds.

use contract::{ApiVersion, ErrorCode, Refusal};
use env::Timestamp;

use crate::etag::ETag;
use crate::gate::Held;
use crate::lease::Lease;
use crate::tags::TagExpression;

/// The conditional headers of one request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    pub if_match: Option<EtagTest>,
    pub if_none_match: Option<EtagTest>,
    pub if_modified_since: Option<Timestamp>,
    pub if_unmodified_since: Option<Timestamp>,
    /// Judged after the others; see `checks.rs`.
    pub if_tags: Option<TagExpression>,
}

/// What stands in If-Match or If-None-Match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EtagTest {
    /// `*`
    Any,
    /// ETags without their quotes. One that is no ETag of ours simply equals none.
    OneOf(Vec<String>),
}

impl EtagTest {
    /// A comma list, quotes optional; `None` if there is nothing in it.
    pub fn parse(text: &str) -> Option<EtagTest> {
        if text.trim() == "*" {
            return Some(EtagTest::Any);
        }
        let tags: Vec<String> =
            text.split(',').map(|tag| tag.trim().trim_matches('"').to_string()).filter(|tag| !tag.is_empty()).collect();
        (!tags.is_empty()).then_some(EtagTest::OneOf(tags))
    }

    fn matches(&self, etag: ETag) -> bool {
        match self {
            EtagTest::Any => true,
            EtagTest::OneOf(tags) => {
                let etag = etag.to_string();
                tags.contains(&etag)
            }
        }
    }

    /// As it was asked for.
    fn shown(&self) -> String {
        match self {
            EtagTest::Any => "*".to_string(),
            EtagTest::OneOf(tags) => tags.iter().map(|tag| format!("\"{tag}\"")).collect::<Vec<_>>().join(", "),
        }
    }

    fn is_several(&self) -> bool {
        matches!(self, EtagTest::OneOf(tags) if tags.len() > 1)
    }
}

/// What a condition is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Current<'a> {
    pub etag: ETag,
    pub last_modified: Timestamp,
    pub lease: Option<&'a Lease>,
    pub tags: &'a [(String, String)],
    pub held: Held,
}

impl Conditions {
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }

    /// What is asked for, and what is there.
    fn against(&self, current: Option<Current<'_>>) -> String {
        let etags = [("If-Match", &self.if_match), ("If-None-Match", &self.if_none_match)];
        let dates = [("If-Modified-Since", self.if_modified_since), ("If-Unmodified-Since", self.if_unmodified_since)];
        let etags = etags.into_iter().filter_map(|(name, test)| Some(format!("{name}: {}", test.as_ref()?.shown())));
        let dates = dates.into_iter().filter_map(|(name, date)| Some(format!("{name}: {}", date?.http_date())));
        let asked: Vec<String> = etags.chain(dates).collect();
        let there = match current {
            Some(current) => {
                format!(
                    "the ETag there is {}, last modified {}",
                    current.etag.quoted(),
                    current.last_modified.http_date()
                )
            }
            None => "there is nothing of that name".to_string(),
        };
        format!("{} was asked for; {there}.", asked.join(" and "))
    }

    fn count(&self) -> usize {
        [
            self.if_match.is_some(),
            self.if_none_match.is_some(),
            self.if_modified_since.is_some(),
            self.if_unmodified_since.is_some(),
        ]
        .into_iter()
        .filter(|given| *given)
        .count()
    }
}

/// A read of something that is there.
pub fn judge_read(conditions: &Conditions, version: ApiVersion, current: Current<'_>) -> Result<(), Refusal> {
    // Quirk: `If-None-Match: *` on a read can never hold; the service calls it an error, and ignored it in old versions.
    let mut none_match = conditions.if_none_match.as_ref();
    if none_match == Some(&EtagTest::Any) {
        if version >= ApiVersion::NONE_MATCH_ANY_REFUSED_ON_READ {
            return Err(ErrorCode::UnsatisfiableCondition.into());
        }
        none_match = None;
    }
    let failed_412 = conditions.if_match.as_ref().is_some_and(|test| !test.matches(current.etag))
        || conditions.if_unmodified_since.is_some_and(|date| current.last_modified.seconds() > date.seconds());
    if failed_412 {
        return Err(ErrorCode::ConditionNotMet.because(conditions.against(Some(current))));
    }
    let changed_by_etag = none_match.map(|test| !test.matches(current.etag));
    let changed_by_date = conditions.if_modified_since.map(|date| current.last_modified.seconds() > date.seconds());
    match (changed_by_etag, changed_by_date) {
        (None, None) | (Some(true), _) | (_, Some(true)) => Ok(()),
        _ => Err(Refusal::not_modified()),
    }
}

/// A write, of something that is there or not. `already_exists` is the refusal for `If-None-Match: *` on what is there, for the
/// operations that create; others take that header as holding.
pub fn judge_write(
    conditions: &Conditions,
    current: Option<Current<'_>>,
    already_exists: Option<ErrorCode>,
) -> Result<(), Refusal> {
    let several = [&conditions.if_match, &conditions.if_none_match].into_iter().flatten().any(EtagTest::is_several);
    let pair = (conditions.if_none_match.is_some() && conditions.if_modified_since.is_some())
        || (conditions.if_match.is_some() && conditions.if_unmodified_since.is_some());
    if several || conditions.count() > 2 || (conditions.count() == 2 && !pair) {
        return Err(ErrorCode::MultipleConditionHeadersNotSupported.into());
    }
    let holds = if let Some(test) = &conditions.if_match {
        current.is_some_and(|current| test.matches(current.etag))
    } else if let Some(test) = &conditions.if_none_match {
        match (test, current, already_exists) {
            (_, None, _) | (EtagTest::Any, Some(_), None) => true,
            (EtagTest::Any, Some(_), Some(code)) => return Err(code.because(conditions.against(current))),
            (test, Some(current), _) => !test.matches(current.etag),
        }
    } else if let (Some(date), Some(current)) = (conditions.if_modified_since, current) {
        current.last_modified.seconds() > date.seconds()
    } else if let (Some(date), Some(current)) = (conditions.if_unmodified_since, current) {
        current.last_modified.seconds() <= date.seconds()
    } else {
        true
    };
    if holds { Ok(()) } else { Err(ErrorCode::ConditionNotMet.because(conditions.against(current))) }
}

#[cfg(test)]
mod tests;
