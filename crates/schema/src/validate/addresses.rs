//! IPAddresses and ServiceCIDRs, by which the API server allocates the addresses of Services.

use evenkeel_scalars::formats;

use super::field_rules::{IMMUTABLE, ip, named, subdomain};
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

/// Validates a new object.
pub(super) fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let spec = object.at("spec").unwrap_or(&Value::Null);
    if kind == "ServiceCIDR" {
        let mut errors = object_meta::create_builtin(object, false, NameRule::Subdomain);
        ranges(&path.child("cidrs"), spec, &mut errors);
        return errors;
    }
    let mut errors = object_meta::create_builtin(object, false, NameRule::PathSegment);
    let name = object.at("metadata").str("name");
    if !name.is_empty() {
        canonical_ip(&Path::new("metadata").child("name"), name, &mut errors);
    }
    parent(&path.child("parentRef"), spec, &mut errors);
    errors
}

/// Validates an update, or an update of the status.
pub(super) fn update(kind: &str, new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = match (kind, subresource) {
        ("IPAddress", "") => create(kind, new),
        _ => Vec::new(),
    };
    errors.extend(object_meta::update_builtin(new, old));
    let path = Path::new("spec");
    let (spec, before) = (new.at("spec").unwrap_or(&Value::Null), old.at("spec").unwrap_or(&Value::Null));
    match kind {
        _ if subresource == "status" => {}
        "ServiceCIDR" => ranges_update(&path.child("cidrs"), spec, before, &mut errors),
        _ if spec.at("parentRef") != before.at("parentRef") => {
            let shown = internal_structs::bad_value("*networking.ParentReference", spec.at("parentRef"));
            errors.push(FieldError::invalid(path.child("parentRef"), shown, IMMUTABLE));
        }
        _ => {}
    }
    errors
}

/// Validates that an address is in canonical form.
fn canonical_ip(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    ip(path, text, errors);
    let Some(address) = formats::parse_ip(text).filter(|_| errors.len() == before) else { return };
    let canonical = address.to_string();
    if canonical != text {
        let detail = format!("must be in canonical form ({canonical:?})");
        errors.push(FieldError::invalid(path, text, detail));
    }
}

/// Validates the object that an address belongs to.
fn parent(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(parent) = spec.at("parentRef") else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    let group = parent.str("group");
    if !group.is_empty() {
        subdomain(&path.child("group"), group, errors);
    }
    for (field, required) in [("resource", true), ("name", true), ("namespace", false)] {
        match parent.str(field) {
            "" if required => errors.push(FieldError::required(path.child(field), "")),
            "" => {}
            text => named(&path.child(field), text, names::path_segment(text), errors),
        }
    }
}

fn ranges(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let ranges = spec.strs("cidrs");
    if ranges.is_empty() {
        errors.push(FieldError::required(path, "at least one CIDR required"));
        return;
    }
    if ranges.len() > 2 {
        let shown = internal_structs::bad_value("networking.ServiceCIDRSpec", Some(spec));
        errors.push(FieldError::invalid(path, shown, "may only hold up to 2 values"));
        return;
    }
    for (index, range) in ranges.iter().enumerate() {
        canonical_range(&path.index(index), range, errors);
    }
    let is_v4 = |range: &str| {
        let address = range.split_once('/').filter(|_| formats::is_cidr(range))?.0;
        formats::parse_ip(address).map(|address| address.is_ipv4())
    };
    if let [first, second] = ranges[..]
        && is_v4(first).is_some()
        && is_v4(first) == is_v4(second)
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(path, Value::from(ranges), detail));
    }
}

/// Validates that an address range is in canonical form.
fn canonical_range(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    super::service::cidr(path, text, errors);
    if errors.len() != before {
        return;
    }
    let Some((address, length)) = text.split_once('/') else { return };
    let Some(address) = formats::parse_ip(address) else { return };
    let canonical = format!("{address}/{length}");
    if canonical != text {
        let detail = format!("must be in canonical form ({canonical:?})");
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn ranges_update(path: &Path<'_>, spec: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (ranges, before) = (spec.strs("cidrs"), old.strs("cidrs"));
    let mut frozen = |index: usize| {
        if ranges[index] != before[index] {
            errors.push(FieldError::invalid(path.index(index), ranges[index], IMMUTABLE));
        }
    };
    if ranges.len() == before.len() {
        (0..ranges.len()).for_each(frozen);
    } else if (before.len(), ranges.len()) == (1, 2) {
        frozen(0);
        self::ranges(path, spec, errors);
    } else {
        let shown = spec.at("cidrs").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path, shown, IMMUTABLE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn told(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_address_has_one_spelling_and_a_parent() {
        let address = |name: &str| json!({"metadata": {"name": name}, "spec": {"parentRef": {"resource": "services", "name": "s"}}});
        for name in ["10.0.0.1", "2001:db8::1", "fe80::42"] {
            assert_eq!(told(&create("IPAddress", &address(name))), [""; 0]);
        }
        assert_eq!(
            told(&create("IPAddress", &address("2001:DB8::0:1"))),
            [r#"metadata.name: Invalid value: "2001:DB8::0:1": must be in canonical form ("2001:db8::1")"#]
        );
        let orphan = json!({"metadata": {"name": "10.0.0.1"}, "spec": {}});
        assert_eq!(told(&create("IPAddress", &orphan)), ["spec.parentRef: Required value"]);
    }

    #[test]
    fn ranges_may_only_grow_to_both_families() {
        let of = |ranges: &[&str]| json!({"metadata": {"name": "r", "resourceVersion": "1"}, "spec": {"cidrs": ranges}});
        let one = of(&["10.0.0.0/24"]);
        assert_eq!(told(&update("ServiceCIDR", &of(&["10.0.0.0/24", "2001:db8::/64"]), &one, "")), [""; 0]);
        assert_eq!(
            told(&update("ServiceCIDR", &of(&["10.0.0.0/16"]), &one, "")),
            [r#"spec.cidrs[0]: Invalid value: "10.0.0.0/16": field is immutable"#]
        );
        assert_eq!(
            told(&create("ServiceCIDR", &of(&["10.0.0.1/24"]))),
            [
                r#"spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length"#
            ]
        );
    }
}
