//! Converts Cloud Foundry's `VCAP_SERVICES` from JSON to the data of one Secret for each service.
//!
//! ```json
//! { "postgresql": [ { "name": "orders-db", "credentials": { "uri": "postgres://…", "port": 5432 } } ] }
//! ```
//! No error message contains a value, because messages go to a status, which more people may read than the Secret.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The credentials of each service by the service's name, as the data of a Secret.
pub type Services = BTreeMap<String, BTreeMap<String, String>>;

/// A text is not a valid `VCAP_SERVICES`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VcapError {
    /// The text is not JSON.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// A value has the wrong type.
    #[error("{path} is not {wanted}")]
    Type {
        /// The path of the value.
        path: String,
        /// The expected type.
        wanted: &'static str,
    },
    /// The name of a service cannot be converted to the name of a Secret.
    #[error("{path} has no letter or digit in it")]
    Name {
        /// The path of the value.
        path: String,
    },
    /// Two services, or two keys of one service, are converted to the same name.
    #[error("{path} comes twice, or differs from another only in characters that Kubernetes does not take")]
    Twice {
        /// The path of the second one.
        path: String,
    },
}

/// Reads the services of a `VCAP_SERVICES` text.
///
/// ```
/// let text = r#"{"redis": [{"name": "My Cache", "credentials": {"host": "h", "port": 1}}]}"#;
/// let services = vcap_services_converter::vcap::parse(text)?;
/// assert_eq!(services["my-cache"]["port"], "1");
/// # Ok::<_, vcap_services_converter::vcap::VcapError>(())
/// ```
///
/// # Errors
/// Fails if the text is not JSON, or does not have the structure of `VCAP_SERVICES`.
pub fn parse(text: &str) -> Result<Services, VcapError> {
    // serde describes a syntax error by its position and what is expected there. It does not quote the text.
    let json: Value = serde_json::from_str(text).map_err(|error| VcapError::Json(error.to_string()))?;
    let mut services = Services::new();
    for (label, bindings) in object(&json, "VCAP_SERVICES")? {
        let bindings = bindings.as_array().ok_or_else(|| mistyped(label.clone(), "a list"))?;
        for (at, binding) in bindings.iter().enumerate() {
            let path = format!("{label}[{at}]");
            let (name, data) = service(binding, &path)?;
            if services.insert(name, data).is_some() {
                return Err(VcapError::Twice { path: format!("{path}.name") });
            }
        }
    }
    Ok(services)
}

fn service(binding: &Value, path: &str) -> Result<(String, BTreeMap<String, String>), VcapError> {
    let binding = object(binding, path)?;
    let named = || mistyped(format!("{path}.name"), "a text");
    let name = binding.get("name").and_then(Value::as_str).ok_or_else(named)?;
    let name = secret_name(name).ok_or_else(|| VcapError::Name { path: format!("{path}.name") })?;
    let path = format!("{path}.credentials");
    let mut data = BTreeMap::new();
    for (key, value) in object(binding.get("credentials").unwrap_or(&Value::Null), &path)? {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if data.insert(secret_key(key), value).is_some() {
            return Err(VcapError::Twice { path: format!("{path}.{key}") });
        }
    }
    Ok((name, data))
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, VcapError> {
    value.as_object().ok_or_else(|| mistyped(path.to_owned(), "an object"))
}

fn mistyped(path: String, wanted: &'static str) -> VcapError {
    VcapError::Type { path, wanted }
}

/// Converts the name of a service to a part of a Kubernetes name: lower case, with dashes for invalid characters.
fn secret_name(name: &str) -> Option<String> {
    let lower = name.chars().flat_map(char::to_lowercase);
    let dashed: String = lower.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Some(dashed.trim_matches('-').to_owned()).filter(|name| !name.is_empty())
}

/// Converts the name of a credential to a key of a Secret, with underscores for invalid characters.
fn secret_key(key: &str) -> String {
    let taken = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let key: String = key.chars().map(|c| if taken(c) { c } else { '_' }).collect();
    match key.as_str() {
        "" | "." | ".." => "_".to_owned(),
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_becomes_the_data_of_a_secret() {
        let text = r#"{"sql": [{"name": "Orders_DB", "credentials": {"uri": "u", "port": 5, "tls key": {"a": null}}}],
                       "none": []}"#;
        let services = parse(text).unwrap();
        let data = &services["orders-db"];
        assert_eq!(services.len(), 1);
        assert_eq!(data["uri"], "u");
        assert_eq!(data["port"], "5");
        assert_eq!(data["tls_key"], r#"{"a":null}"#);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_values() {
        let check = |text: &str, wanted: &str| assert_eq!(parse(text).unwrap_err().to_string(), wanted);
        check("{\"a\": hunter2", "it is not JSON: expected value at line 1 column 7");
        check("\"hunter2\"", "VCAP_SERVICES is not an object");
        check(r#"{"a": "hunter2"}"#, "a is not a list");
        check(r#"{"a": [{"name": 1}]}"#, "a[0].name is not a text");
        check(r#"{"a": [{"name": "x", "credentials": "hunter2"}]}"#, "a[0].credentials is not an object");
        check(r#"{"a": [{"name": "…", "credentials": {}}]}"#, "a[0].name has no letter or digit in it");
        let twice = r#"{"a": [{"name": "x y", "credentials": {}}, {"name": "X-Y", "credentials": {}}]}"#;
        assert_eq!(parse(twice), Err(VcapError::Twice { path: "a[1].name".into() }));
    }
}
