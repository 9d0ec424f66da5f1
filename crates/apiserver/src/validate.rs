//! Whether an object may be stored, by the rules of its kind.

use evenkeel_schema::field::FieldError;
use evenkeel_schema::structural;
use evenkeel_schema::validate::metadata::{self, NameRule};
use serde_json::Value;

use crate::call::Call;
use crate::status::{Result, Status};

/// Refuses a new object that breaks the rules of its kind.
pub(crate) fn created(call: &Call<'_>, object: &Value, warnings: &mut Vec<String>) -> Result<()> {
    check(call, object, None, "", warnings)
}

/// Refuses a change that breaks the rules of the kind.
pub(crate) fn updated(
    call: &Call<'_>,
    object: &Value,
    old: &Value,
    subresource: &str,
    warnings: &mut Vec<String>,
) -> Result<()> {
    check(call, object, Some(old), subresource, warnings)
}

fn check(
    call: &Call<'_>,
    object: &Value,
    old: Option<&Value>,
    subresource: &str,
    _warnings: &mut Vec<String>,
) -> Result<()> {
    let info = &call.info;
    let errors = if info.is_custom() {
        custom(call, object, old, subresource)
    } else {
        let (group, version, kind) = (&info.group, &info.version, &info.kind);
        evenkeel_schema::validate::validate(group, version, kind, object, old, subresource)
    };
    if errors.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::invalid(&info.group, &info.kind, name, &errors))
}

fn custom(call: &Call<'_>, object: &Value, old: Option<&Value>, subresource: &str) -> Vec<FieldError> {
    let mut errors = match old {
        None => metadata::create(object, call.info.namespaced, NameRule::Subdomain),
        Some(old) => metadata::update(object, old),
    };
    if let Some(custom) = &call.info.custom {
        errors.extend(match subresource {
            "status" => structural::validate_status(&custom.schema, object, old),
            _ => structural::validate(&custom.schema, object, old),
        });
    }
    errors
}
