//! Rules that fields of many kinds share.

use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;
use evenkeel_scalars::formats::parse_ip;
use evenkeel_scalars::go_regex;

pub(super) const IMMUTABLE: &str = "field is immutable";
/// The characters of a URL path.
const HTTP_PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
const NEGATIVE: &str = "must be greater than or equal to 0";

/// Adds an error for each message about a name.
pub(super) fn named(path: &Path<'_>, text: &str, wrong: Vec<String>, errors: &mut Vec<FieldError>) {
    errors.extend(wrong.into_iter().map(|message| FieldError::invalid(path, text, message)));
}

pub(super) fn label(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    named(path, text, names::dns1123_label(text), errors);
}

pub(super) fn subdomain(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    named(path, text, names::dns1123_subdomain(text), errors);
}

pub(super) fn qualified(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    named(path, text, names::qualified_name(text), errors);
}

/// Validates a required field with a list of allowed values.
pub(super) fn one_of(path: &Path<'_>, text: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        supported(path, text, allowed, errors);
    }
}

/// Validates a required field with a list of allowed values, which tells an empty text from an absent one.
pub(super) fn required_one_of(
    object: &Value,
    path: &Path<'_>,
    field: &str,
    allowed: &[&str],
    errors: &mut Vec<FieldError>,
) {
    match object.at(field) {
        None => errors.push(FieldError::required(path.child(field), "")),
        Some(_) => supported(&path.child(field), object.str(field), allowed, errors),
    }
}

pub(super) fn supported(path: &Path<'_>, text: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if !allowed.contains(&text) {
        errors.push(FieldError::not_supported(path, text, allowed));
    }
}

/// Validates an optional field with a list of allowed values.
pub(super) fn optional_one_of(
    object: &Value,
    path: &Path<'_>,
    field: &str,
    allowed: &[&str],
    errors: &mut Vec<FieldError>,
) {
    if let Some(text) = object.at(field).and_then(Value::as_str) {
        supported(&path.child(field), text, allowed, errors);
    }
}

/// Validates that an optional number is not negative.
pub(super) fn non_negative(object: &Value, path: &Path<'_>, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(value) = object.int(field).filter(|value| *value < 0) {
        errors.push(FieldError::invalid(path.child(field), value, NEGATIVE));
    }
}

pub(super) fn required(object: &Value, path: &Path<'_>, field: &str, errors: &mut Vec<FieldError>) {
    if object.str(field).is_empty() {
        errors.push(FieldError::required(path.child(field), ""));
    }
}

/// Validates that an update does not change a field.
pub(super) fn immutable(
    path: &Path<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    if new != old {
        let value = match new {
            Some(value) => BadValue::Value(value.clone()),
            None => BadValue::Value(Value::Null),
        };
        errors.push(FieldError::invalid(path, value, IMMUTABLE));
    }
}

pub(super) fn port(path: &Path<'_>, number: i64, errors: &mut Vec<FieldError>) {
    errors.extend(names::port_number(number).into_iter().map(|text| FieldError::invalid(path, number, text)));
}

/// Validates a port number or port name.
pub(super) fn port_or_name(path: &Path<'_>, value: Option<&Value>, errors: &mut Vec<FieldError>) {
    match value {
        Some(Value::String(name)) => named(path, name, names::port_name(name), errors),
        value => port(path, value.and_then(Value::as_i64).unwrap_or_default(), errors),
    }
}

/// Validates an IP address in its canonical form. Older servers accepted others.
pub(super) fn ip(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    match parse_ip(text) {
        None => errors.push(FieldError::invalid(
            path,
            text,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )),
        Some(_) if !text.contains(':') && text.parse::<std::net::IpAddr>().is_err() => {
            errors.push(FieldError::invalid(path, text, "must not have leading 0s"));
        }
        Some(std::net::IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            errors.push(FieldError::invalid(path, text, "must not be an IPv4-mapped IPv6 address"));
        }
        Some(_) => {}
    }
}

/// Validates a domain and a path with a slash between them, such as `acme.io/foo`.
pub(super) fn domain_prefixed_path(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let parts = text.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty());
    let Some((domain, rest)) = parts else {
        let detail = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
        errors.push(FieldError::invalid(path, text, detail));
        return;
    };
    subdomain(path, domain, errors);
    if !go_regex::is_match(&format!("^{HTTP_PATH}$"), rest) {
        errors.push(FieldError::invalid(path, rest, names::regex_error("Invalid path", HTTP_PATH, &[])));
    }
}

/// Validates a relative path without `..`.
pub(super) fn local_path(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    if text.starts_with('/') {
        errors.push(FieldError::invalid(path, text, "must be a relative path"));
    }
    no_backsteps(path, text, errors);
}

pub(super) fn no_backsteps(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    if text.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, text, "must not contain '..'"));
    }
}

pub(super) fn local_non_reserved_path(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    local_path(path, text, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.push(FieldError::invalid(path, text, "must not start with '..'"));
    }
}

/// Validates a file mode.
pub(super) fn file_mode(object: &Value, path: &Path<'_>, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(mode) = object.int(field).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(path.child(field), mode, detail));
    }
}

/// The names seen so far, to find duplicates.
#[derive(Default)]
pub(super) struct Seen<'a>(Vec<&'a str>);

impl<'a> Seen<'a> {
    /// Adds a name. Returns whether it is new.
    pub(super) fn insert(&mut self, name: &'a str) -> bool {
        let new = !self.0.contains(&name);
        if new {
            self.0.push(name);
        }
        new
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}
