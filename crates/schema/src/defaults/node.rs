//! Nodes: everything is allocatable unless the kubelet says otherwise.

use super::{Object, is_absent};

pub(super) fn status(status: &mut Object) {
    if is_absent(status, "allocatable")
        && let Some(capacity) = status.get("capacity").cloned().filter(|capacity| !capacity.is_null())
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}
