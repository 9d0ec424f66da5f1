//! The status of a ResourceClaim: its allocation, its users and its devices.

use std::net::IpAddr;

use evenkeel_scalars::formats;

use super::super::conditions;
use super::super::field_rules::{label, required, supported};
use super::super::scheduling;
use super::super::volume;
use super::{
    binding_conditions, configuration, each, parameters, reference, references, request_names, slice, unique,
};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;

const RESULTS_MAX: usize = 32;
/// Those of a claim, and those of a class.
const CONFIGURATIONS_MAX: usize = 2 * super::CONFIGURATIONS_MAX;
const USERS_MAX: usize = 256;
const CONDITIONS_MAX: usize = 8;
const INTERFACE_NAME_MAX: usize = 256;
const HARDWARE_ADDRESS_MAX: usize = 128;
const ADDRESSES_MAX: usize = 16;
const USER_FIELDS: [&str; 3] = ["resource", "name", "uid"];

/// Validates the new status of a claim.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    let (status, before) = (new.at("status").unwrap_or(&Value::Null), old.at("status"));
    users(&path.child("reservedFor"), status, errors);
    devices(&path.child("devices"), status, errors);
    let at = path.child("reservedFor");
    if !status.list("reservedFor").is_empty() {
        let added = status.list("reservedFor").iter().any(|user| !before.list("reservedFor").contains(user));
        if !status.has("allocation") {
            errors.push(FieldError::forbidden(at, "may not be specified when `allocated` is not set"));
        } else if new.at("metadata").has("deletionTimestamp") && added {
            let detail =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(FieldError::forbidden(at, detail));
        }
    }
    allocation(&path.child("allocation"), new, before, errors);
}

fn users(path: &Path<'_>, status: &Value, errors: &mut Vec<FieldError>) {
    let users = status.list("reservedFor");
    let fits = each(path, users, USERS_MAX, errors, |at, user, errors| {
        USER_FIELDS.iter().for_each(|field| required(user, at, field, errors));
    });
    if fits {
        unique(path, users, |user| user.str("uid").to_owned(), errors);
    }
}

fn devices(path: &Path<'_>, status: &Value, errors: &mut Vec<FieldError>) {
    let allocated = status.at("allocation").at("devices").list("results");
    let fields = ["driver", "pool", "device", "shareID"];
    let devices = status.list("devices");
    for (index, device) in devices.iter().enumerate() {
        let at = path.index(index);
        volume::driver_name(&at.child("driver"), device.str("driver"), errors);
        slice::pool_name(&at.child("pool"), device.str("pool"), errors);
        label(&at.child("device"), device.str("device"), errors);
        if let Some(share) = device.at("shareID").and_then(Value::as_str) {
            uid(&at.child("shareID"), share, errors);
        }
        let same = |other: &Value| fields.iter().all(|field| other.str(field) == device.str(field));
        if !allocated.iter().any(same) {
            let detail = "must be an allocated device in the claim";
            errors.push(FieldError::invalid(at, slice::shared_id(device), detail));
        }
        let list = device.list("conditions");
        if list.len() > CONDITIONS_MAX {
            errors.push(FieldError::too_many(at.child("conditions"), list.len(), CONDITIONS_MAX));
        }
        conditions::check(&at.child("conditions"), list, errors);
        if device.has("data") {
            parameters(&at.child("data"), device.at("data"), errors);
        }
        network(&at.child("networkData"), device.at("networkData"), errors);
    }
    for (index, device) in devices.iter().enumerate() {
        let same = |other: &Value| fields.iter().all(|field| other.str(field) == device.str(field));
        if devices[..index].iter().any(same) {
            errors.push(FieldError::duplicate(path.index(index), slice::shared_id(device)));
        }
    }
}

/// Validates what a driver reports of a network device.
fn network(path: &Path<'_>, data: Option<&Value>, errors: &mut Vec<FieldError>) {
    for (field, max) in [("interfaceName", INTERFACE_NAME_MAX), ("hardwareAddress", HARDWARE_ADDRESS_MAX)] {
        if data.str(field).len() > max {
            errors.push(FieldError::too_long(path.child(field), max));
        }
    }
    let (list, addresses) = (path.child("ips"), data.list("ips"));
    let text = |address: &Value| address.as_str().unwrap_or_default().to_owned();
    if each(&list, addresses, ADDRESSES_MAX, errors, |at, it, errors| {
        interface_address(at, &text(it), errors)
    }) {
        unique(&list, addresses, text, errors);
    }
}

/// Validates an address with the length of its prefix, which must be written as Go prints it.
fn interface_address(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    let parts = text.split_once('/').filter(|_| formats::is_cidr(text));
    let Some((Some(address), bits)) = parts.map(|(ip, bits)| (formats::parse_ip(ip), bits)) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        errors.push(FieldError::invalid(path, text, detail));
        return;
    };
    let bits: u32 = bits.parse().unwrap_or_default();
    let mapped = match address {
        IpAddr::V6(address) => address.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    let canonical = match mapped {
        Some(address) if bits > u32::BITS => format!("{address}/{}", bits - (u128::BITS - u32::BITS)),
        Some(address) => format!("{address}/{bits}"),
        None => format!("{address}/{bits}"),
    };
    if text != canonical {
        let detail = format!("must be in canonical form ({canonical:?})");
        errors.push(FieldError::invalid(path, text, detail));
    }
}

/// Validates that a UID is in canonical form.
fn uid(path: &Path<'_>, text: &str, errors: &mut Vec<FieldError>) {
    if !matches!(text.len(), 32 | 36 | 38 | 45) {
        let detail = format!("error validating uid: invalid UUID length: {}", text.len());
        errors.push(FieldError::invalid(path, text, detail));
        return;
    }
    let shape = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    if !text.bytes().enumerate().all(shape) {
        errors.push(FieldError::invalid(path, text, "error validating uid: invalid UUID format"));
    } else if text.len() != 36 || text != text.to_lowercase() {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        errors.push(FieldError::invalid(path, text, detail));
    }
}

/// Validates a new allocation. An existing one cannot change.
fn allocation(path: &Path<'_>, new: &Value, before: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(allocation) = new.at("status").at("allocation") else { return };
    if let Some(before) = before.at("allocation") {
        if allocation != before {
            let shown = crate::internal_structs::bad_value("*resource.AllocationResult", Some(allocation));
            errors.push(FieldError::invalid(path, shown, super::super::field_rules::IMMUTABLE));
        }
        return;
    }
    let known = request_names(new.at("spec").at("devices"));
    let devices = path.child("devices");
    let found = allocation.at("devices");
    each(&devices.child("results"), found.list("results"), RESULTS_MAX, errors, |at, result, errors| {
        reference(&at.child("request"), result.str("request"), &known, errors);
        volume::driver_name(&at.child("driver"), result.str("driver"), errors);
        slice::pool_name(&at.child("pool"), result.str("pool"), errors);
        label(&at.child("device"), result.str("device"), errors);
        binding_conditions(at, result, errors);
        if let Some(share) = result.at("shareID").and_then(Value::as_str) {
            uid(&at.child("shareID"), share, errors);
        }
    });
    each(&devices.child("config"), found.list("config"), CONFIGURATIONS_MAX, errors, |at, config, errors| {
        match config.str("source") {
            "" => errors.push(FieldError::required(at.child("source"), "")),
            source => supported(&at.child("source"), source, &["FromClaim", "FromClass"], errors),
        }
        references(&at.child("requests"), config, &known, errors);
        configuration(at, config, errors);
    });
    if let Some(selector) = allocation.at("nodeSelector") {
        scheduling::node_selector(&path.child("nodeSelector"), selector, errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn of(data: Value) -> Vec<String> {
        let mut errors = Vec::new();
        network(&Path::new("networkData"), Some(&data), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_of_network_devices_are_canonical_and_unique() {
        assert_eq!(
            of(json!({"ips": ["10.9.8.7/24", "2001:db8::1/64"], "interfaceName": "eth0"})),
            Vec::<String>::new()
        );
        assert_eq!(
            of(json!({"ips": ["x", "10.9.8.07/24", "2001:DB8::1/64", "10.9.8.7/24", "10.9.8.7/24"]})),
            [
                "networkData.ips[0]: Invalid value: \"x\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
                "networkData.ips[1]: Invalid value: \"10.9.8.07/24\": must be in canonical form (\"10.9.8.7/24\")",
                "networkData.ips[2]: Invalid value: \"2001:DB8::1/64\": must be in canonical form (\"2001:db8::1/64\")",
                "networkData.ips[4]: Duplicate value: \"10.9.8.7/24\"",
            ]
        );
        let long = json!({"interfaceName": "x".repeat(257), "hardwareAddress": "x".repeat(129)});
        assert_eq!(
            of(long),
            [
                "networkData.interfaceName: Too long: may not be more than 256 bytes",
                "networkData.hardwareAddress: Too long: may not be more than 128 bytes",
            ]
        );
    }
}
