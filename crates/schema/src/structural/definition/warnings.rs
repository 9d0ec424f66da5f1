//! Warnings for definitions that are valid, but most likely not what their author meant.

use evenkeel_scalars::{formats, go};

use super::keywords::children;
use super::shared_form;
use crate::json::Value;
use crate::read::Read;

/// The warnings for a definition that is created, or updated from `old`. Warnings that `old` also has are dropped.
pub(crate) fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(of).unwrap_or_default();
    of(definition).into_iter().filter(|warning| !known.contains(warning)).collect()
}

fn of(definition: &Value) -> Vec<String> {
    let spec = shared_form(definition.at("spec").unwrap_or(&Value::Null));
    let shared = spec.at("validation").at("openAPIV3Schema").into_iter();
    let own = spec.list("versions").iter().filter_map(|version| version.at("schema").at("openAPIV3Schema"));
    let mut warnings = Vec::new();
    shared.chain(own).for_each(|schema| visit(schema, &mut warnings));
    warnings
}

fn visit(schema: &Value, warnings: &mut Vec<String>) {
    let (kind, format) = (schema.str("type"), schema.str("format"));
    let recognized = match kind {
        "" | "string" => formats::is_known(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !format.is_empty() && !recognized {
        let warning = format!("unrecognized format {}", go::quote(format));
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    for child in children(schema) {
        visit(child, warnings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn what_was_there_before_is_not_told_again() {
        let with = |format: &str| {
            let schema = json!({"type": "object", "properties": {"a": {"type": "string", "format": format}}});
            json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
        };
        assert_eq!(warnings(&with("nosuch"), None), [r#"unrecognized format "nosuch""#]);
        assert!(warnings(&with("nosuch"), Some(&with("nosuch"))).is_empty());
        assert!(warnings(&with("date-time"), None).is_empty());
    }
}
