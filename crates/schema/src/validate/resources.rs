//! The resource requests and limits of containers.

use super::field_rules::qualified;
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::quantity::Quantity;
use crate::read::Read;
use crate::resource_names::{is_compute, is_extended, is_integer, is_native, is_standard, may_overcommit};

/// Validates a resource name.
pub(super) fn resource_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    qualified(path, name, errors);
    if errors.len() == before && !name.contains('/') && !is_standard(name) {
        errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
}

pub(super) fn container_resource_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    resource_name(path, name, errors);
    if !name.contains('/') && !is_compute(name) {
        errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
    } else if name.contains('/') && !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(path, name, "doesn't follow extended resource name standard"));
    }
}

/// Validates an amount, which must not be negative, and must be an integer for some resources.
pub(super) fn resource_value(path: &Path<'_>, name: &str, quantity: &Quantity, errors: &mut Vec<FieldError>) {
    let text = quantity.to_string();
    if quantity.is_negative() {
        errors.push(FieldError::invalid(path, text.as_str(), "must be greater than or equal to 0"));
    }
    if is_integer(name) && !quantity.counts_as_whole() {
        errors.push(FieldError::invalid(
            path,
            BadValue::Printed(Value::from(text).to_string()),
            "must be an integer",
        ));
    }
}

/// Whether the resources include cpu or memory, and huge pages.
#[derive(Default)]
struct Found {
    compute: bool,
    huge_pages: bool,
}

/// Validates the resources of one container.
pub(super) fn requirements(
    path: &Path<'_>,
    resources: Option<&Value>,
    claims: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let Some(resources) = resources else { return };
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let mut found = Found::default();
    for (name, limit) in quantities(resources, "limits") {
        let at = limits_path.key(name);
        amount(&at, name, &limit, &mut found, errors);
    }
    for (name, request) in quantities(resources, "requests") {
        let at = requests_path.key(name);
        container_resource_name(&at, name, errors);
        resource_value(&at, name, &request, errors);
        let limit = resources.at("limits").at(name).and_then(|limit| Quantity::from_json(limit).ok());
        against_limit(&requests_path, &limits_path, name, &request, limit.as_ref(), errors);
        note(&at, name, &request, &mut found, errors);
    }
    if found.huge_pages && !found.compute {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    claim_names(&path.child("claims"), resources.list("claims"), claims, errors);
}

fn quantities<'a>(resources: &'a Value, list: &str) -> impl Iterator<Item = (&'a str, Quantity)> {
    let entries = resources.map(list).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.as_str(), Quantity::from_json(value).ok()?)))
}

fn amount(path: &Path<'_>, name: &str, quantity: &Quantity, found: &mut Found, errors: &mut Vec<FieldError>) {
    container_resource_name(path, name, errors);
    resource_value(path, name, quantity, errors);
    note(path, name, quantity, found, errors);
}

fn note(path: &Path<'_>, name: &str, quantity: &Quantity, found: &mut Found, errors: &mut Vec<FieldError>) {
    found.compute |= matches!(name, "cpu" | "memory");
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    found.huge_pages = true;
    let size = Quantity::parse(size).map(|size| size.value()).unwrap_or_default();
    if size > 0 && quantity.value() % size != 0 {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errors.push(FieldError::invalid(path, quantity.to_string(), detail));
    }
}

fn against_limit(
    requests: &Path<'_>,
    limits: &Path<'_>,
    name: &str,
    request: &Quantity,
    limit: Option<&Quantity>,
    errors: &mut Vec<FieldError>,
) {
    let Some(limit) = limit else {
        if !may_overcommit(name) {
            errors.push(FieldError::required(limits, "Limit must be set for non overcommitable resources"));
        }
        return;
    };
    let text = request.to_string();
    if request != limit && !may_overcommit(name) {
        let detail = format!("must be equal to {name} limit of {limit}");
        errors.push(FieldError::invalid(requests, text, detail));
    } else if request > limit {
        let detail = format!("must be less than or equal to {name} limit of {limit}");
        errors.push(FieldError::invalid(requests, text, detail));
    }
}

fn claim_names(path: &Path<'_>, claims: &[Value], known: &[&str], errors: &mut Vec<FieldError>) {
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let name = claim.str("name");
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !known.contains(&name) {
            errors.push(FieldError::not_found(path.child("name"), name));
        }
    }
}
