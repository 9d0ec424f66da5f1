//! Dynamic resource allocation: DeviceClasses, ResourceClaims, ResourceClaimTemplates and ResourceSlices.

mod slice;
mod status;

use super::field_rules::{IMMUTABLE, label, subdomain};
use super::volume;
use crate::admission;
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::resource_names::is_extended;

const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const ONE_KIND: &str = "exactly one of `exactly` or `firstAvailable` is required";
const MODES: [&str; 2] = ["All", "ExactCount"];

/// Validates a new object.
pub(super) fn create(kind: &str, object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, namespaced, NameRule::Subdomain);
    let path = Path::new("spec");
    let spec = object.at("spec");
    match kind {
        "ResourceClaim" => claim(&path.child("devices"), spec.at("devices"), &mut errors),
        "ResourceClaimTemplate" => {
            let inner = path.child("spec");
            claim(&inner.child("devices"), spec.at("spec").at("devices"), &mut errors);
        }
        "DeviceClass" => class(&path, spec, &mut errors),
        "ResourceSlice" => slice::spec(&path, spec.unwrap_or(&Value::Null), None, &mut errors),
        _ => {}
    }
    errors
}

/// Validates an update.
pub(super) fn update(kind: &str, new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let path = Path::new("spec");
    let fixed = |kind: &str, errors: &mut Vec<FieldError>| {
        if spec != before {
            errors.push(FieldError::invalid(path, internal_structs::bad_value(kind, spec), IMMUTABLE));
        }
    };
    let mut errors = match (kind, subresource) {
        ("ResourceClaim" | "DeviceClass", "") => {
            object_meta::create_builtin(new, kind == "ResourceClaim", NameRule::Subdomain)
        }
        ("ResourceClaimTemplate", "") => create(kind, new, true),
        _ => Vec::new(),
    };
    errors.extend(object_meta::update_builtin(new, old));
    match (kind, subresource) {
        ("ResourceClaim", "") => fixed("resource.ResourceClaimSpec", &mut errors),
        ("ResourceClaim", _) => status::update(new, old, &mut errors),
        ("ResourceClaimTemplate", _) => fixed("resource.ResourceClaimTemplateSpec", &mut errors),
        ("DeviceClass", _) => class(&path, spec, &mut errors),
        ("ResourceSlice", _) => slice::spec(&path, spec.unwrap_or(&Value::Null), before, &mut errors),
        _ => {}
    }
    errors
}

fn class(path: &Path<'_>, spec: Option<&Value>, errors: &mut Vec<FieldError>) {
    selectors(&path.child("selectors"), spec.list("selectors"), errors);
    configurations(&path.child("config"), spec.list("config"), errors);
    if let Some(name) = spec.at("extendedResourceName").and_then(Value::as_str)
        && !is_extended(name)
    {
        let detail = "must be a valid extended resource name";
        errors.push(FieldError::invalid(path.child("extendedResourceName"), name, detail));
    }
}

fn claim(path: &Path<'_>, devices: Option<&Value>, errors: &mut Vec<FieldError>) {
    let requests = path.child("requests");
    for (index, item) in devices.list("requests").iter().enumerate() {
        request(&requests.index(index), item, errors);
    }
    repeated_names(&requests, devices.list("requests"), errors);
    let known = request_names(devices);
    constraints(&path.child("constraints"), devices.list("constraints"), &known, errors);
    let list = path.child("config");
    for (index, config) in devices.list("config").iter().enumerate() {
        references(&list.index(index).child("requests"), config, &known, errors);
    }
    configurations(&path.child("config"), devices.list("config"), errors);
}

/// Returns the names by which constraints and configurations refer to the requests of a claim.
fn request_names(devices: Option<&Value>) -> Vec<String> {
    let mut names = Vec::new();
    for request in devices.list("requests") {
        names.push(request.str("name").to_owned());
        let parts = request.list("firstAvailable").iter();
        names.extend(parts.map(|part| format!("{}/{}", request.str("name"), part.str("name"))));
    }
    names
}

fn constraints(path: &Path<'_>, constraints: &[Value], known: &[String], errors: &mut Vec<FieldError>) {
    for (index, constraint) in constraints.iter().enumerate() {
        let at = path.index(index);
        references(&at.child("requests"), constraint, known, errors);
        let field = ["matchAttribute", "distinctAttribute"].into_iter().find(|field| constraint.has(field));
        let Some(field) = field else {
            let detail = r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#;
            errors.push(FieldError::required(at, detail));
            continue;
        };
        let (place, name) = (at.child(field), constraint.str(field));
        slice::qualified_name(&place, name, errors);
        if !name.contains('/') {
            let detail = "a fully qualified name must be a domain and a name separated by a slash";
            errors.push(FieldError::invalid(place, name, detail));
        }
    }
}

/// Validates the references of a constraint or a configuration to requests.
fn references(path: &Path<'_>, owner: &Value, known: &[String], errors: &mut Vec<FieldError>) {
    let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let names = owner.strs("requests");
    for (index, name) in names.iter().enumerate() {
        let at = path.index(index);
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() <= 2 {
            parts.iter().for_each(|part| label(&at, part, errors));
        }
        if !known.iter().any(|known| known == name) {
            errors.push(FieldError::invalid(at, *name, detail));
        }
        if names[..index].contains(name) {
            errors.push(FieldError::duplicate(at, *name));
        }
    }
}

fn request(path: &Path<'_>, request: &Value, errors: &mut Vec<FieldError>) {
    label(&path.child("name"), request.str("name"), errors);
    let alternatives = request.list("firstAvailable");
    match (request.at("exactly"), alternatives.is_empty()) {
        (None, true) => errors.push(FieldError::required(path, ONE_KIND)),
        (Some(_), false) => {
            let detail = format!("{ONE_KIND}, but multiple fields are set");
            errors.push(FieldError::invalid(path, Value::Null, detail));
        }
        (Some(exactly), true) => device(&path.child("exactly"), exactly, errors),
        (None, false) => {
            let path = path.child("firstAvailable");
            for (index, item) in alternatives.iter().enumerate() {
                let path = path.index(index);
                label(&path.child("name"), item.str("name"), errors);
                device(&path, item, errors);
            }
            repeated_names(&path, alternatives, errors);
        }
    }
}

/// Validates the class, the selectors and the number of requested devices.
fn device(path: &Path<'_>, request: &Value, errors: &mut Vec<FieldError>) {
    let class = path.child("deviceClassName");
    match request.str("deviceClassName") {
        "" => errors.push(FieldError::required(class, "")),
        name => subdomain(&class, name, errors),
    }
    selectors(&path.child("selectors"), request.list("selectors"), errors);
    let (mode, count) = (request.str("allocationMode"), request.int("count").unwrap_or_default());
    let place = path.child("count");
    match mode {
        "All" if count != 0 => {
            errors.push(FieldError::invalid(
                place,
                count,
                "must not be specified when allocationMode is 'All'",
            ));
        }
        "ExactCount" if count <= 0 => {
            errors.push(FieldError::invalid(place, count, "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        other => errors.push(FieldError::not_supported(path.child("allocationMode"), other, &MODES)),
    }
    slice::tolerations(&path.child("tolerations"), request.list("tolerations"), errors);
}

fn repeated_names(path: &Path<'_>, items: &[Value], errors: &mut Vec<FieldError>) {
    for (index, item) in items.iter().enumerate() {
        let name = item.str("name");
        if items[..index].iter().any(|it| it.str("name") == name) {
            errors.push(FieldError::duplicate(path.index(index).child("name"), name));
        }
    }
}

fn selectors(path: &Path<'_>, selectors: &[Value], errors: &mut Vec<FieldError>) {
    let environment = admission::Environment::of_devices();
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        let cel = path.child("cel");
        let Some(value) = selector.at("cel") else {
            errors.push(FieldError::required(cel, ""));
            continue;
        };
        let (place, text) = (cel.child("expression"), value.str("expression"));
        if text.len() > EXPRESSION_BYTES_MAX {
            errors.push(FieldError::too_long(place, EXPRESSION_BYTES_MAX));
        } else if let Err(why) =
            admission::check_expression(text, &environment, admission::Expected::Anything)
        {
            errors.push(FieldError::invalid(place, text, why));
        }
    }
}

fn configurations(path: &Path<'_>, items: &[Value], errors: &mut Vec<FieldError>) {
    for (index, item) in items.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("opaque");
        let Some(opaque) = item.at("opaque") else {
            errors.push(FieldError::required(at, ""));
            continue;
        };
        volume::driver_name(&at.child("driver"), opaque.str("driver"), errors);
        slice::parameters(&at.child("parameters"), opaque.at("parameters"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn told(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn claim(request: Value) -> Value {
        json!({"metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"}, "spec": {"devices": {"requests": [request]}}})
    }

    #[test]
    fn a_request_asks_for_one_thing_of_a_class() {
        let created = |request: Value| told(&create("ResourceClaim", &claim(request), true));
        let good = json!({"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}});
        assert_eq!(created(good), [""; 0]);
        assert_eq!(
            created(json!({"name": "r"})),
            [
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
            ]
        );
        assert_eq!(
            created(json!({"name": "r", "exactly": {"allocationMode": "All", "count": 1}})),
            [
                "spec.devices.requests[0].exactly.deviceClassName: Required value",
                "spec.devices.requests[0].exactly.count: Invalid value: 1: must not be specified when allocationMode is \
                 'All'"
            ]
        );
    }

    #[test]
    fn a_claim_does_not_change() {
        let exactly = |count: i64| {
            claim(json!({"name": "r",
                "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": count}}))
        };
        assert_eq!(
            told(&update("ResourceClaim", &exactly(2), &exactly(1), "")),
            [concat!(
                r#"spec: Invalid value: {"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"c","#,
                r#""Selectors":null,"AllocationMode":"ExactCount","Count":2,"AdminAccess":null,"Tolerations":null,"#,
                r#""Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}: field is immutable"#
            )]
        );
        assert!(update("ResourceClaim", &exactly(2), &exactly(1), "status").is_empty());
    }

    #[test]
    fn selectors_are_compiled() {
        let class = |selector: Value| {
            let class = json!({"metadata": {"name": "c"}, "spec": {"selectors": [selector]}});
            told(&create("DeviceClass", &class, false))
        };
        assert_eq!(class(json!({"cel": {"expression": "device.driver == 'x'"}})), [""; 0]);
        assert_eq!(class(json!({})), ["spec.selectors[0].cel: Required value"]);
        assert!(class(json!({"cel": {"expression": "Foo"}}))[0].contains("undeclared reference to 'Foo'"));
    }
}
