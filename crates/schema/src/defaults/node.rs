//! Nodes: everything is allocatable unless the kubelet says otherwise; the one network and the list of networks agree.

use super::{Object, is_absent};
use crate::json::Value;

/// The single network leads; a list says the same first.
pub(super) fn spec(spec: &mut Object) {
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)).and_then(Value::as_str).map(str::to_owned);
    let single = spec.get("podCIDR").and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned);
    match (single, first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            spec.insert("podCIDRs".to_owned(), Value::from(vec![single]));
        }
        (None, Some(first)) => drop(spec.insert("podCIDR".to_owned(), first.into())),
        _ => {}
    }
}

pub(super) fn status(status: &mut Object) {
    if is_absent(status, "allocatable")
        && let Some(capacity) = status.get("capacity").cloned().filter(|capacity| !capacity.is_null())
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}
