//! Query parameters, and the options that they carry.

use evenkeel_schema::selector::{FieldSelector, LabelSelector};

use super::path::percent_decode;
use crate::status::{Result, Status, quote};

/// The query parameters of a request, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=b&c=d`. Like Go, it drops parameters with malformed escapes or semicolons.
    pub(crate) fn parse(text: &str) -> Self {
        // Most requests have no query.
        if text.is_empty() {
            return Self::default();
        }
        let pairs = text.split('&').filter(|it| !it.is_empty() && !it.contains(';')).filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter; empty if the parameter is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A parameter as an integer. Errors are worded as in Go's parser; an empty value is an error.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(Status::bad_request(format!(
                    "strconv.ParseInt: parsing {}: {}",
                    quote(text),
                    number_error(text)
                ))),
            },
        }
    }

    /// A parameter as a boolean. As in Kubernetes, every value is true except `0` and `false` in any case.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
    }

    /// Whether a list request is a watch.
    pub(crate) fn wants_watch(&self) -> bool {
        self.flag("watch").unwrap_or(false)
    }
}

/// The reason in the errors of Go's number parsers.
fn number_error(text: &str) -> &'static str {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    if is_number { "value out of range" } else { "invalid syntax" }
}

fn decode(text: &str) -> Option<String> {
    let decoded = match text.contains('+') {
        true => percent_decode(&text.replace('+', " "))?.into_owned(),
        false => percent_decode(text)?.into_owned(),
    };
    Some(decoded)
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
    pub(crate) fn parse(query: &Query) -> Result<Self> {
        // Checked in Kubernetes' order: the numbers in the order of ListOptions' fields, then the selectors.
        let timeout_seconds = query.number("timeoutSeconds")?;
        let limit = query.number("limit")?.unwrap_or(0);
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
    fn parameters_are_read_as_go_reads_them() {
        let query = Query::parse("a=1%202&b&c=x+y&a=3&watch");
        assert_eq!(query.get("a"), Some("1 2"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1 2", "3"]);
        assert_eq!(query.text("c"), "x y");
        assert!(query.wants_watch());
        assert!(!Query::parse("watch=0").wants_watch());
        assert!(Query::parse("limit=two").number("limit").is_err());
        assert!(Query::parse("limit=").number("limit").is_err());
        let query = Query::parse("a=%zz&b=1;c=2&%+5=1&d=4;&e=5");
        assert_eq!(query.0, [("e".to_owned(), "5".to_owned())]);
        assert_eq!(parse_version("-5").unwrap_err(), "strconv.ParseUint: parsing \"-5\": invalid syntax");
    }
}
