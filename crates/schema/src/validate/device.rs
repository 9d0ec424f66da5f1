//! Dynamic resource allocation: DeviceClasses, ResourceClaims and ResourceClaimTemplates.

use evenkeel_scalars::go;

use super::field_rules::{IMMUTABLE, label, subdomain};
use crate::admission;
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

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
        _ => {}
    }
    errors
}

/// Validates an update.
pub(super) fn update(kind: &str, new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    let path = Path::new("spec");
    match kind {
        "ResourceClaim" if subresource.is_empty() && new.at("spec") != old.at("spec") => {
            let printed = BadValue::Printed(print_spec(new.at("spec")));
            errors.push(FieldError::invalid(path, printed, IMMUTABLE));
        }
        "DeviceClass" => class(&path, new.at("spec"), &mut errors),
        _ => {}
    }
    errors
}

fn class(path: &Path<'_>, spec: Option<&Value>, errors: &mut Vec<FieldError>) {
    selectors(&path.child("selectors"), spec.list("selectors"), errors);
    configurations(&path.child("config"), spec.list("config"), errors);
}

fn claim(path: &Path<'_>, devices: Option<&Value>, errors: &mut Vec<FieldError>) {
    let requests = path.child("requests");
    for (index, item) in devices.list("requests").iter().enumerate() {
        request(&requests.index(index), item, errors);
    }
    repeated_names(&requests, devices.list("requests"), errors);
    configurations(&path.child("config"), devices.list("config"), errors);
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
        } else if let Err(why) = admission::check_expression(text, &["device"], admission::Expected::Anything)
        {
            errors.push(FieldError::invalid(place, text, why));
        }
    }
}

fn configurations(path: &Path<'_>, items: &[Value], errors: &mut Vec<FieldError>) {
    for (index, item) in items.iter().enumerate() {
        if item.at("opaque").is_none() {
            errors.push(FieldError::required(path.index(index).child("opaque"), ""));
        }
    }
}

/// Prints a claim's spec as Go prints its struct.
fn print_spec(spec: Option<&Value>) -> String {
    let devices = spec.at("devices");
    let requests = print_list(devices.list("requests"), |it| {
        let exactly = it.at("exactly").map_or("null".to_owned(), |it| {
            format!(
                "{{{},\"AdminAccess\":{},{}}}",
                print_device(it),
                print(it, "adminAccess"),
                print_rest(it)
            )
        });
        let alternatives = print_list(it.list("firstAvailable"), |it| {
            format!("{{\"Name\":{},{},{}}}", text(it, "name"), print_device(it), print_rest(it))
        });
        format!("{{\"Name\":{},\"Exactly\":{exactly},\"FirstAvailable\":{alternatives}}}", text(it, "name"))
    });
    let constraints = print_list(devices.list("constraints"), |it| {
        format!(
            "{{\"Requests\":{},\"MatchAttribute\":{},\"DistinctAttribute\":{}}}",
            print(it, "requests"),
            print(it, "matchAttribute"),
            print(it, "distinctAttribute")
        )
    });
    let config = print_list(devices.list("config"), |it| {
        let opaque = it.at("opaque").map_or("null".to_owned(), |it| {
            format!("{{\"Driver\":{},\"Parameters\":{}}}", text(it, "driver"), print(it, "parameters"))
        });
        format!("{{\"Requests\":{},\"Opaque\":{opaque}}}", print(it, "requests"))
    });
    format!("{{\"Devices\":{{\"Requests\":{requests},\"Constraints\":{constraints},\"Config\":{config}}}}}")
}

fn print_device(request: &Value) -> String {
    let selectors = print_list(request.list("selectors"), |it| {
        let cel = it
            .at("cel")
            .map_or("null".to_owned(), |it| format!("{{\"Expression\":{}}}", text(it, "expression")));
        format!("{{\"CEL\":{cel}}}")
    });
    format!(
        "\"DeviceClassName\":{},\"Selectors\":{selectors},\"AllocationMode\":{},\"Count\":{}",
        text(request, "deviceClassName"),
        text(request, "allocationMode"),
        request.int("count").unwrap_or_default()
    )
}

fn print_rest(request: &Value) -> String {
    let tolerations = print_list(request.list("tolerations"), |it| {
        format!(
            "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{}}}",
            text(it, "key"),
            text(it, "operator"),
            text(it, "value"),
            text(it, "effect"),
            print(it, "tolerationSeconds")
        )
    });
    let capacity = request
        .at("capacity")
        .map_or("null".to_owned(), |it| format!("{{\"Requests\":{}}}", print(it, "requests")));
    format!("\"Tolerations\":{tolerations},\"Capacity\":{capacity}")
}

fn print_list(items: &[Value], item: impl Fn(&Value) -> String) -> String {
    match items {
        [] => "null".to_owned(),
        items => format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(",")),
    }
}

fn print(value: &Value, field: &str) -> String {
    value.at(field).map_or("null".to_owned(), go::json)
}

fn text(value: &Value, field: &str) -> String {
    go::json(&Value::from(value.str(field)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
