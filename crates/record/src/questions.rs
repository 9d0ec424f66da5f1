//! Questions over a record, as pure functions.

mod frequency;
mod loops;
mod stuck;

pub use frequency::{Activity, ControllerActivity, controllers, most_frequent, slowest};
pub use loops::{Loop, loops};
pub use stuck::{Quiet, Stuck, failing, not_reconciled, stuck};

use crate::entry::Entry;
use crate::record::{Key, Record};

/// Returns the history of one object: its reconciles, the reconciles that it caused, and the requests for it, in order
/// of time. Requests name the plural of a kind, so without `resource`, such as `pods`, they are left out.
pub fn life<'r>(record: &'r Record, key: &Key, resource: Option<&str>) -> Vec<&'r Entry> {
    record.entries.iter().filter(|entry| is_about(entry, key, resource)).collect()
}

fn is_about(entry: &Entry, key: &Key, resource: Option<&str>) -> bool {
    let addressed = |sent: &crate::Sent| {
        resource.is_some_and(|resource| sent.resource == resource)
            && sent.name == key.name
            && sent.namespace == key.namespace
    };
    match entry {
        Entry::Reconcile(reconcile) => {
            let caused =
                |cause: &crate::Cause| cause.is_about(&key.kind, key.namespace.as_deref(), &key.name);
            key.is_of(reconcile)
                || reconcile.causes.iter().any(caused)
                || reconcile.requests.iter().any(addressed)
        }
        Entry::Request(sent) => addressed(sent),
        _ => false,
    }
}
