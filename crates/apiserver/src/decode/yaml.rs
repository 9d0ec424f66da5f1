//! YAML bodies.

use evenkeel_schema::depth::DEPTH_MAX;
use evenkeel_schema::json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{Decoded, Oddities};
use crate::status::quote;

/// The message about a second colon in a line.
const MAPPING_VALUE: &str = "mapping values are not allowed in this context";

/// Parses a YAML body.
///
/// JSON is valid YAML and most clients send it, so a body that looks like JSON is tried with the faster JSON
/// parser first. If it has duplicate keys, the YAML parser reads it again, so that the warning is worded as
/// for YAML.
pub(crate) fn parse(body: &[u8], strict: bool) -> Result<Decoded, String> {
    if body.first() == Some(&b'{')
        && let Ok(Decoded { object, oddities }) = super::json::parse(body, true)
        && oddities.0.is_empty()
    {
        return Ok(Decoded { object, oddities });
    }
    parse_yaml(body, strict)
}

/// Parses YAML. With `strict`, a duplicate key is reported; the last value wins, as in Go.
fn parse_yaml(body: &[u8], strict: bool) -> Result<Decoded, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let text = first_document(text);
    let mut oddities = Oddities::default();
    if strict && let Err(error) = read(text, DuplicateKeyPolicy::Error) {
        oddities.0.extend(repeat(&error));
    }
    let object = read(text, DuplicateKeyPolicy::LastWins).map_err(|error| refusal(&error))?;
    Ok(Decoded { object, oddities })
}

fn read(text: &str, duplicates: DuplicateKeyPolicy) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        duplicate_keys: duplicates,
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Returns the first document of a stream, which is the only one that Kubernetes reads. Errors within it are left to
/// the parser.
fn first_document(text: &str) -> &str {
    let Err(error) = read(text, DuplicateKeyPolicy::LastWins) else { return text };
    let serde_saphyr::Error::MultipleDocuments { location, .. } = error.without_snippet() else {
        return text;
    };
    let starts = text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    });
    let before = usize::try_from(location.line()).unwrap_or(usize::MAX);
    let ends = starts.take(before).filter(|(at, line)| *at > 0 && line.starts_with("---"));
    ends.last().map_or(text, |(at, _)| &text[..at])
}

/// Returns the error message for a text, worded as in Go's parser as far as possible.
fn refusal(error: &serde_saphyr::Error) -> String {
    let error = error.without_snippet();
    if let serde_saphyr::Error::Budget { breach: BudgetBreach::Depth { .. }, .. } = error {
        return format!("yaml: exceeded max depth of {DEPTH_MAX}");
    }
    let text = error.to_string();
    let line = error.location().map_or(0, |location| location.line());
    // Go counts lines from zero here, and omits line zero.
    let at = if line > 1 { format!("line {line}: ") } else { String::new() };
    if text.starts_with(MAPPING_VALUE) {
        format!("yaml: {at}{MAPPING_VALUE}")
    } else if text.starts_with("unclosed bracket") {
        format!("yaml: line {}: did not find expected node content", line.max(1))
    } else {
        format!("yaml: {text}")
    }
}

/// Returns strict decoding's message for a duplicate key.
fn repeat(error: &serde_saphyr::Error) -> Option<String> {
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => {
            let key = quote(key.as_deref().unwrap_or_default());
            let line = location.line();
            Some(format!("yaml: unmarshal errors:\n  line {line}: key {key} already set in map"))
        }
        _ => None,
    }
}
