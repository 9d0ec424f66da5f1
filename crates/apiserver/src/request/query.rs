//! Query parameters, and the options that they carry.

use evenkeel_request_info::Query;
use evenkeel_schema::selector::{FieldSelector, LabelSelector};

use crate::status::{Result, Status, quote};

/// A parameter as an integer. Errors are worded as in Go's parser; an empty value is an error.
pub(crate) fn number(query: &Query<'_>, name: &str) -> Result<Option<i64>> {
    let Some(text) = query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {}", quote(text), number_error(text)))
    })
}

/// The reason in the errors of Go's number parsers.
fn number_error(text: &str) -> &'static str {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    if is_number { "value out of range" } else { "invalid syntax" }
}

/// Parses a resource version. Errors are worded as in Go's parser.
pub(crate) fn parse_version(text: &str) -> std::result::Result<u64, String> {
    match text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok()).flatten() {
        Some(number) => Ok(number),
        None => {
            let why = if text.starts_with(['-', '+']) { "invalid syntax" } else { number_error(text) };
            Err(format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
        }
    }
}

/// What to do about unknown fields and duplicate keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteQuery {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// For an apply patch only: take over fields that other managers own.
    pub(crate) force: Option<bool>,
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) labels: String,
    pub(crate) fields: String,
    pub(crate) limit: usize,
    pub(crate) token: String,
    pub(crate) version: String,
    pub(crate) version_match: String,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<i64>,
}

impl ListQuery {
    /// Parses the options. Whether they can be combined is checked later.
    pub(crate) fn parse(query: &Query<'_>) -> Result<Self> {
        // Checked in Kubernetes' order: the numbers in the order of ListOptions' fields, then the selectors.
        let timeout_seconds = number(query, "timeoutSeconds")?;
        let limit = number(query, "limit")?.unwrap_or(0);
        LabelSelector::parse(query.text("labelSelector")).map_err(Status::bad_request)?;
        FieldSelector::parse(query.text("fieldSelector")).map_err(Status::bad_request)?;
        Ok(Self {
            labels: query.text("labelSelector").to_owned(),
            fields: query.text("fieldSelector").to_owned(),
            // A negative limit means no limit.
            limit: usize::try_from(limit).unwrap_or(0),
            token: query.text("continue").to_owned(),
            version: query.text("resourceVersion").to_owned(),
            version_match: query.text("resourceVersionMatch").to_owned(),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            initial_events: query.flag("sendInitialEvents"),
            timeout_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_refused_in_the_words_of_go() {
        let limit = |text| number(&Query::parse(text), "limit");
        assert_eq!(limit("limit=2").unwrap(), Some(2));
        assert_eq!(limit("").unwrap(), None);
        assert!(limit("limit=two").is_err());
        assert!(limit("limit=").is_err());
        assert_eq!(parse_version("-5").unwrap_err(), "strconv.ParseUint: parsing \"-5\": invalid syntax");
    }
}
