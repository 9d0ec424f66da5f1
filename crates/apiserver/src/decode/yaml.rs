//! YAML bodies.

use evenkeel_schema::depth::DEPTH_MAX;
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{Decoded, Oddities};
use crate::status::quote;

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

/// Returns the error message for a text; excessive nesting is worded as in Go's parser.
fn refusal(error: &serde_saphyr::Error) -> String {
    match error.without_snippet() {
        serde_saphyr::Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            format!("yaml: exceeded max depth of {DEPTH_MAX}")
        }
        error => format!("yaml: {error}"),
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
