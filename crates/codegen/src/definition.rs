//! The names of a definition.

use evenkeel_schema::structural;
use serde_json::Value;

use crate::error::GenerateError;
use crate::plan::{list, text};

/// The names and the scope of a definition.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) definition: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
}

/// Reads the names of a definition.
pub(crate) fn names(definition: &Value) -> Result<Names, GenerateError> {
    let name =
        definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("the definition").to_owned();
    let api_version = text(definition, "apiVersion");
    if api_version != "apiextensions.k8s.io/v1" {
        return Err(GenerateError::ApiVersion { name, api_version: api_version.to_owned() });
    }
    let get = |pointer: &'static str| {
        let found = definition.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        found.map(str::to_owned).ok_or(GenerateError::Missing { name: name.clone(), field: pointer })
    };
    let texts = |keyword: &str| {
        let names = definition.pointer("/spec/names").unwrap_or(&Value::Null);
        list(names, keyword).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let kind = get("/spec/names/kind")?;
    let names = Names {
        group: get("/spec/group")?,
        plural: get("/spec/names/plural")?,
        singular: get("/spec/names/singular").unwrap_or_else(|_| kind.to_ascii_lowercase()),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: get("/spec/scope")? == "Namespaced",
        definition: name.clone(),
        kind,
    };
    if list(definition.get("spec").unwrap_or(&Value::Null), "versions").is_empty() {
        return Err(GenerateError::Missing { name, field: "/spec/versions" });
    }
    if let Some(error) = structural::definition::validate_names(&definition.into()).first() {
        return Err(GenerateError::Name { name, problem: error.to_string() });
    }
    Ok(names)
}
