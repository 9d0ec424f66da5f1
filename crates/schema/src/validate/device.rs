//! Dynamic resource allocation: DeviceClasses, ResourceClaims, ResourceClaimTemplates and ResourceSlices.

mod capacity;
mod slice;
mod status;

use super::field_rules::{IMMUTABLE, label, named, subdomain};
use super::volume;
use crate::admission;
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::resource_names::is_extended;

const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const ONE_KIND: &str = "exactly one of `exactly` or `firstAvailable` is required";
const MODES: [&str; 2] = ["All", "ExactCount"];
const REQUESTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const CONSTRAINTS_MAX: usize = 32;
const CONFIGURATIONS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const CONDITIONS_MAX: usize = 4;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

/// Validates a new object.
pub(super) fn create(kind: &str, object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, namespaced, NameRule::Subdomain);
    let path = Path::new("spec");
    let spec = object.at("spec");
    match kind {
        "ResourceClaim" => claim(&path.child("devices"), spec.at("devices"), &mut errors),
        "ResourceClaimTemplate" => {
            let inner = path.child("spec");
            if let Some(meta) = spec.at("metadata") {
                volume::template_meta(&path.child("metadata"), meta, &mut errors);
            }
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
    each(&path.child("config"), spec.list("config"), CONFIGURATIONS_MAX, errors, configuration);
    if let Some(name) = spec.at("extendedResourceName").and_then(Value::as_str)
        && !is_extended(name)
    {
        let detail = "must be a valid extended resource name";
        errors.push(FieldError::invalid(path.child("extendedResourceName"), name, detail));
    }
}

fn claim(path: &Path<'_>, devices: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (list, requests) = (path.child("requests"), devices.list("requests"));
    if each(&list, requests, REQUESTS_MAX, errors, request) {
        unique(&list, requests, |request| request.str("name").to_owned(), errors);
    }
    let known = request_names(devices);
    each(
        &path.child("constraints"),
        devices.list("constraints"),
        CONSTRAINTS_MAX,
        errors,
        |at, it, errors| {
            constraint(at, it, &known, errors);
        },
    );
    each(&path.child("config"), devices.list("config"), CONFIGURATIONS_MAX, errors, |at, it, errors| {
        references(&at.child("requests"), it, &known, errors);
        configuration(at, it, errors);
    });
}

/// Validates each item of a list. A list that is too long gets no other error. Returns whether it is short enough.
fn each(
    path: &Path<'_>,
    items: &[Value],
    max: usize,
    errors: &mut Vec<FieldError>,
    mut check: impl FnMut(&Path<'_>, &Value, &mut Vec<FieldError>),
) -> bool {
    if items.len() > max {
        errors.push(FieldError::too_many(path, items.len(), max));
        return false;
    }
    for (index, item) in items.iter().enumerate() {
        check(&path.index(index), item, errors);
    }
    true
}

/// Refuses items whose key an earlier item has.
fn unique(path: &Path<'_>, items: &[Value], key: impl Fn(&Value) -> String, errors: &mut Vec<FieldError>) {
    let keys: Vec<String> = items.iter().map(key).collect();
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            errors.push(FieldError::duplicate(path.index(index), key.as_str()));
        }
    }
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

fn constraint(path: &Path<'_>, constraint: &Value, known: &[String], errors: &mut Vec<FieldError>) {
    references(&path.child("requests"), constraint, known, errors);
    let field = ["matchAttribute", "distinctAttribute"].into_iter().find(|field| constraint.has(field));
    let Some(field) = field else {
        let detail = r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#;
        errors.push(FieldError::required(path, detail));
        return;
    };
    let (place, name) = (path.child(field), constraint.str(field));
    slice::qualified_name(&place, name, errors);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(place, name, detail));
    }
}

/// Validates the references of a constraint or a configuration to requests.
fn references(path: &Path<'_>, owner: &Value, known: &[String], errors: &mut Vec<FieldError>) {
    let names = owner.list("requests");
    if each(path, names, REQUESTS_MAX, errors, |at, it, errors| {
        reference(at, it.as_str().unwrap_or_default(), known, errors);
    }) {
        unique(path, names, |name| name.as_str().unwrap_or_default().to_owned(), errors);
    }
}

/// Validates a reference to a request.
fn reference(path: &Path<'_>, name: &str, known: &[String], errors: &mut Vec<FieldError>) {
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() <= 2 {
        parts.iter().for_each(|part| label(path, part, errors));
    }
    if !known.iter().any(|known| known == name) {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        errors.push(FieldError::invalid(path, name, detail));
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
            let fits = each(&path, alternatives, ALTERNATIVES_MAX, errors, |at, item, errors| {
                label(&at.child("name"), item.str("name"), errors);
                device(at, item, errors);
            });
            if fits {
                unique(&path, alternatives, |it| it.str("name").to_owned(), errors);
            }
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

fn selectors(path: &Path<'_>, selectors: &[Value], errors: &mut Vec<FieldError>) {
    let environment = admission::Environment::of_devices();
    each(path, selectors, SELECTORS_MAX, errors, |path, selector, errors| {
        let cel = path.child("cel");
        let Some(value) = selector.at("cel") else {
            errors.push(FieldError::required(cel, ""));
            return;
        };
        let (place, text) = (cel.child("expression"), value.str("expression"));
        if text.len() > EXPRESSION_BYTES_MAX {
            errors.push(FieldError::too_long(place, EXPRESSION_BYTES_MAX));
        } else if let Err(why) =
            admission::check_expression(text, &environment, admission::Expected::Anything)
        {
            errors.push(FieldError::invalid(place, text, why));
        }
    });
}

fn configuration(path: &Path<'_>, configuration: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("opaque");
    let Some(opaque) = configuration.at("opaque") else {
        errors.push(FieldError::required(at, ""));
        return;
    };
    volume::driver_name(&at.child("driver"), opaque.str("driver"), errors);
    parameters(&at.child("parameters"), opaque.at("parameters"), errors);
}

/// Validates the raw parameters of a driver, which must be an object.
fn parameters(path: &Path<'_>, parameters: Option<&Value>, errors: &mut Vec<FieldError>) {
    match parameters {
        None => errors.push(FieldError::required(path, "")),
        Some(value) if value.to_string().len() > PARAMETERS_BYTES_MAX => {
            errors.push(FieldError::too_long(path, PARAMETERS_BYTES_MAX));
        }
        Some(Value::Object(_)) => {}
        Some(_) => {
            errors.push(FieldError::invalid(path, "<value omitted>", "must be a valid JSON object"));
        }
    }
}

/// Validates the conditions under which a device is bound to a node, and those under which that has failed.
fn binding_conditions(path: &Path<'_>, device: &Value, errors: &mut Vec<FieldError>) {
    const BINDING: &str = "bindingConditions";
    const FAILURE: &str = "bindingFailureConditions";
    let (binding, failure) = (device.list(BINDING), device.list(FAILURE));
    for (field, names) in [(BINDING, binding), (FAILURE, failure)] {
        each(&path.child(field), names, CONDITIONS_MAX, errors, |at, name, errors| {
            let name = name.as_str().unwrap_or_default();
            named(at, name, names::qualified_name(name), errors);
        });
    }
    let text = |name: &Value| name.as_str().unwrap_or_default().to_owned();
    unique(&path.child(BINDING), binding, text, errors);
    let list = path.child(FAILURE);
    for (index, name) in failure.iter().enumerate() {
        if failure[..index].contains(name) {
            errors.push(FieldError::duplicate(list.index(index), name.clone()));
        }
        if binding.contains(name) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            errors.push(FieldError::invalid(list.index(index), name.clone(), detail));
        }
    }
    for (field, other) in [(BINDING, FAILURE), (FAILURE, BINDING)] {
        if device.list(field).is_empty() && !device.list(other).is_empty() {
            let shown = device.at(field).cloned().unwrap_or(Value::Null);
            let detail = format!("{field} are required to use {other}");
            errors.push(FieldError::invalid(path.child(field), shown, detail));
        }
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
