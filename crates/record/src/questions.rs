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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::{Evidence, why};

    /// A record is a file that anybody may have written, or the answer of an operator at an address.
    #[test]
    fn no_number_of_a_record_is_too_large() {
        let reconcile = |at: u64| {
            format!(
                r#"{{"type": "reconcile", "at": {at}, "controller": "c", "name": "n", "wait": {max}, "took": {max},
                "attempt": 4294967295, "moreCauses": {max}, "again": {max}, "outcome": "failed", "moreRequests": {max},
                "causes": [{{"what": "changed", "kind": "Site", "name": "n"}}], "requests": [{{"at": {max}, "verb": "patch",
                "resource": "sites", "name": "n", "code": 65535, "took": {max}, "revision": {max}, "moreChanges": {max}}}, {{
                "at": 1, "verb": "patch", "resource": "sites", "name": "n", "code": 200, "revision": 1}}]}}"#,
                max = u64::MAX
            )
        };
        let entries: Vec<String> =
            [0, u64::MAX, 1, u64::MAX, 2, u64::MAX - 1, 5, 5, 5, 5].map(reconcile).to_vec();
        for taken in [0, u64::MAX] {
            let json = format!(
                r#"{{"version": "evenkeel.dev/record/v1", "taken": {taken}, "bytes": {max}, "bytesMax": {max}, "dropped": {max},
                "watches": [{{"source": "s", "silent": {max}, "objects": {max}, "restarts": {max}}}],
                "controllers": [{{"name": "c", "workers": {max}, "ready": {max}}}], "entries": [{}]}}"#,
                entries.join(", "),
                max = u64::MAX
            );
            let mut record = Record::read(json.as_bytes()).unwrap();
            record.merge(record.clone());
            for micros in [i64::MIN, 0, i64::MAX] {
                record.shift(micros);
                let key = Key { kind: "Site".into(), namespace: None, name: "n".into() };
                let answers = (
                    (loops(&record), stuck(&record), not_reconciled(&record, 0)),
                    (most_frequent(&record, usize::MAX), slowest(&record, usize::MAX), controllers(&record)),
                    (record.timeline(), life(&record, &key, Some("sites")).len()),
                    why(&key, Evidence { record: Some(&record), ..Evidence::default() }),
                );
                assert!(format!("{answers:?}").contains("failed for n"), "{answers:?}");
            }
        }
    }
}
