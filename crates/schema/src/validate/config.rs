//! Secrets and ConfigMaps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::field_rules::named;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

/// The most bytes of all values together.
const SIZE_MAX: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, true, NameRule::Subdomain);
    if kind == "Secret" {
        secret(object, &mut errors)
    } else {
        config_map(object, &mut errors)
    }
    errors
}

pub(super) fn update(kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    if kind == "Secret" && new.str("type") != old.str("type") {
        errors.push(FieldError::invalid("type", new.str("type"), "field is immutable"));
    }
    if old.bool("immutable") {
        if !new.bool("immutable") {
            errors.push(FieldError::forbidden("immutable", FROZEN));
        }
        for field in ["data", "binaryData"] {
            if new.at(field) != old.at(field) {
                errors.push(FieldError::forbidden(field, FROZEN));
            }
        }
    }
    errors.extend(create(kind, new));
    errors
}

fn keys(path: &Path<'_>, object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, _) in object.map(field).into_iter().flatten() {
        named(&path.key(key), key, names::config_map_key(key), errors);
        if field == "data" && object.at("binaryData").has(key) {
            let detail = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(path.key(key), key.as_str(), detail));
        }
    }
}

fn decoded_length(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn config_map(object: &Value, errors: &mut Vec<FieldError>) {
    keys(&Path::new("data"), object, "data", errors);
    keys(&Path::new("binaryData"), object, "binaryData", errors);
    let texts: usize = object.pairs("data").iter().map(|(_, value)| value.len()).sum();
    let bytes: usize = object.pairs("binaryData").iter().map(|(_, value)| decoded_length(value)).sum();
    if texts + bytes > SIZE_MAX {
        // Kubernetes' error has an empty path here, which prints as brackets.
        errors.push(FieldError::too_long("[]", SIZE_MAX));
    }
}

fn secret(object: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("data");
    for (key, _) in object.map("data").into_iter().flatten() {
        named(&path.key(key), key, names::config_map_key(key), errors);
    }
    let bytes: usize = object.pairs("data").iter().map(|(_, value)| decoded_length(value)).sum();
    if bytes > SIZE_MAX {
        errors.push(FieldError::too_long(path, SIZE_MAX));
    }
    let data = object.at("data");
    let mut require = |keys: &[&str]| {
        for key in keys.iter().filter(|key| data.at(key).is_none()) {
            errors.push(FieldError::required(path.key(key), ""));
        }
    };
    match object.str("type") {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if object.at("metadata").at("annotations").str(annotation).is_empty() {
                errors.push(FieldError::required(format!("metadata.annotations[{annotation}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => json_key(&path, data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => json_key(&path, data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if data.at("username").is_none() && data.at("password").is_none() => {
            require(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if data.str("ssh-privatekey").is_empty() => {
            errors.push(FieldError::required(path.key("ssh-privatekey"), ""));
        }
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"]),
        _ => {}
    }
}

/// The error of Go's decoder for the most common values that are not a JSON object.
fn go_json_error(bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return Some("unexpected end of JSON input".into());
    }
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => Some(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            crate::json::go_kind(&other)
        )),
        Err(error) if error.is_eof() => Some("unexpected end of JSON input".into()),
        Err(_) => {
            let first =
                char::from(bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace()).unwrap_or(b' '));
            Some(format!("invalid character '{first}' looking for beginning of value"))
        }
    }
}

fn json_key(path: &Path<'_>, data: Option<&Value>, key: &str, errors: &mut Vec<FieldError>) {
    let Some(text) = data.at(key).and_then(Value::as_str) else {
        errors.push(FieldError::required(path.key(key), ""));
        return;
    };
    let bytes = STANDARD.decode(text).unwrap_or_default();
    if let Some(error) = go_json_error(&bytes) {
        errors.push(FieldError::invalid(path.key(key), "<secret contents redacted>", error));
    }
}
