//! Keys whose reconciles keep failing, and keys that have not been reconciled for a long time.

use std::collections::BTreeMap;

use crate::entry::{Outcome, Reconcile};
use crate::record::Record;

/// How many failures in a row make a key count as stuck. With the default back-off, the third failure comes within 20
/// ms.
const FAILURES_MIN: u32 = 3;

/// A key whose reconciles keep failing, or whose last failure is final.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// The name of the controller.
    pub controller: String,
    /// The kind that the controller reconciles.
    pub kind: String,
    /// The key, with its namespace.
    pub key: String,
    /// How many attempts in a row have failed.
    pub failures: u32,
    /// Whether the last failure is final, so that the key is not retried.
    pub for_good: bool,
    /// The last error.
    pub error: String,
    /// When the last attempt was, in microseconds since the start of the record.
    pub last: u64,
}

/// A key that has not been reconciled for a long time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// The name of the controller.
    pub controller: String,
    /// The key, with its namespace.
    pub key: String,
    /// How long ago its last reconcile ended, in microseconds.
    pub since: u64,
}

/// Returns the keys whose last attempts failed, those with the most failures first.
pub fn stuck(record: &Record) -> Vec<Stuck> {
    let mut found: Vec<Stuck> = last_of_each(record).into_iter().filter_map(stuck_at).collect();
    found.sort_by(|a, b| b.failures.cmp(&a.failures).then_with(|| a.key.cmp(&b.key)));
    found
}

/// The last reconciles of the keys that are tried again after an error.
pub fn failing(record: &Record) -> Vec<&Reconcile> {
    let last = last_of_each(record).into_iter();
    last.filter(|reconcile| reconcile.outcome == Outcome::Failed).collect()
}

/// The keys whose last reconcile ended more than this many microseconds before the record was taken, the longest ago
/// first.
pub fn not_reconciled(record: &Record, longer_than: u64) -> Vec<Quiet> {
    let since = |reconcile: &Reconcile| record.taken.saturating_sub(reconcile.end());
    let quiet = last_of_each(record).into_iter().filter(|reconcile| since(reconcile) > longer_than);
    let mut found: Vec<Quiet> = quiet
        .map(|reconcile| Quiet {
            controller: reconcile.controller.clone(),
            key: reconcile.key(),
            since: since(reconcile),
        })
        .collect();
    found.sort_by(|a, b| b.since.cmp(&a.since).then_with(|| a.key.cmp(&b.key)));
    found
}

fn stuck_at(last: &Reconcile) -> Option<Stuck> {
    let for_good = last.outcome == Outcome::FailedForGood;
    let failures = last.attempts();
    let is_stuck = last.outcome.is_failure() && (for_good || failures >= FAILURES_MIN);
    is_stuck.then(|| Stuck {
        controller: last.controller.clone(),
        kind: last.kind.clone(),
        key: last.key(),
        failures,
        for_good,
        error: last.error.clone().unwrap_or_default(),
        last: last.at,
    })
}

fn last_of_each(record: &Record) -> Vec<&Reconcile> {
    let mut last: BTreeMap<(&str, &Option<String>, &str), &Reconcile> = BTreeMap::new();
    for reconcile in record.reconciles() {
        last.insert((&reconcile.controller, &reconcile.namespace, &reconcile.name), reconcile);
    }
    last.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;

    fn reconcile(name: &str, at: u64, attempt: u32, outcome: Outcome) -> Entry {
        let (name, controller) = (name.into(), "site".into());
        let error = outcome.is_failure().then(|| "no disk".into());
        Entry::Reconcile(Box::new(Reconcile {
            name,
            controller,
            at,
            attempt,
            outcome,
            error,
            ..Reconcile::default()
        }))
    }

    #[test]
    fn a_key_is_stuck_while_its_last_attempts_fail() {
        let record = Record {
            taken: 10_000,
            entries: vec![
                reconcile("healed", 1, 5, Outcome::Failed),
                reconcile("healed", 2, 6, Outcome::Done),
                reconcile("fresh", 3, 0, Outcome::Failed),
                reconcile("stuck", 4, 9, Outcome::Failed),
                reconcile("ended", 9_500, 0, Outcome::FailedForGood),
            ],
            ..Record::default()
        };
        let found = stuck(&record);
        let keys: Vec<_> = found.iter().map(|stuck| (stuck.key.as_str(), stuck.failures)).collect();
        assert_eq!(keys, [("stuck", 10), ("ended", 1)]);
        let quiet: Vec<_> = not_reconciled(&record, 5_000).into_iter().map(|quiet| quiet.key).collect();
        assert_eq!(quiet, ["healed", "fresh", "stuck"]);
    }
}
