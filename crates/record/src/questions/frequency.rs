//! How often keys are reconciled, and how long that takes.

use std::collections::BTreeMap;

use crate::entry::Reconcile;
use crate::record::Record;

/// What one controller did for one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// The name of the controller.
    pub controller: String,
    /// The key, with its namespace.
    pub key: String,
    /// The number of reconciles.
    pub reconciles: usize,
    /// How many of the reconciles failed.
    pub failures: usize,
    /// The total duration of the reconciles, in microseconds.
    pub took: u64,
    /// The total time that the key was ready in the queue, in microseconds.
    pub waited: u64,
    /// How many writes the reconciles made.
    pub writes: usize,
}

/// What one controller did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControllerActivity {
    /// The name of the controller.
    pub controller: String,
    /// The number of reconciles in the record.
    pub reconciles: usize,
    /// Reconciles a second, over the time that the record covers for this controller.
    pub rate: f64,
    /// How many failed.
    pub failures: usize,
    /// How many were retries.
    pub retries: usize,
    /// The duration of reconciles in microseconds: the median, and the ninetieth and ninety-ninth percentile.
    pub took: [u64; 3],
    /// The wait in the queue in microseconds: the median, and the ninetieth and ninety-ninth percentile.
    pub waited: [u64; 3],
}

/// The keys that are reconciled most often, the most frequent first.
pub fn most_frequent(record: &Record, most: usize) -> Vec<Activity> {
    let mut by_key: BTreeMap<(&str, String), Activity> = BTreeMap::new();
    for reconcile in record.reconciles() {
        let key = reconcile.key();
        let activity = by_key.entry((&reconcile.controller, key.clone())).or_insert_with(|| Activity {
            controller: reconcile.controller.clone(),
            key,
            ..Activity::default()
        });
        activity.reconciles += 1;
        activity.failures += usize::from(reconcile.outcome.is_failure());
        activity.took = activity.took.saturating_add(reconcile.took);
        activity.waited = activity.waited.saturating_add(reconcile.wait);
        activity.writes += reconcile.requests.iter().filter(|sent| sent.is_write()).count();
    }
    let mut all: Vec<Activity> = by_key.into_values().collect();
    all.sort_by(|a, b| b.reconciles.cmp(&a.reconciles).then_with(|| a.key.cmp(&b.key)));
    all.truncate(most);
    all
}

/// The reconciles that took longest, the slowest first.
pub fn slowest(record: &Record, most: usize) -> Vec<&Reconcile> {
    let mut all: Vec<&Reconcile> = record.reconciles().collect();
    all.sort_by(|a, b| b.took.cmp(&a.took).then_with(|| a.at.cmp(&b.at)));
    all.truncate(most);
    all
}

/// What each controller did, by name.
pub fn controllers(record: &Record) -> Vec<ControllerActivity> {
    let mut by_name: BTreeMap<&str, Vec<&Reconcile>> = BTreeMap::new();
    for reconcile in record.reconciles() {
        by_name.entry(&reconcile.controller).or_default().push(reconcile);
    }
    by_name.into_iter().map(|(name, all)| activity_of(name, &all, record.taken)).collect()
}

fn activity_of(name: &str, all: &[&Reconcile], taken: u64) -> ControllerActivity {
    let first = all.iter().map(|reconcile| reconcile.at).min().unwrap_or_default();
    let seconds = (taken.saturating_sub(first).max(1_000)) as f64 / 1e6;
    ControllerActivity {
        controller: name.to_owned(),
        reconciles: all.len(),
        rate: all.len() as f64 / seconds,
        failures: all.iter().filter(|reconcile| reconcile.outcome.is_failure()).count(),
        retries: all.iter().filter(|reconcile| reconcile.attempt > 0).count(),
        took: percentiles(all.iter().map(|reconcile| reconcile.took).collect()),
        waited: percentiles(all.iter().map(|reconcile| reconcile.wait).collect()),
    }
}

/// The median, and the ninetieth and ninety-ninth percentile, by the nearest rank.
fn percentiles(mut all: Vec<u64>) -> [u64; 3] {
    all.sort_unstable();
    let rank = |percent: usize| (all.len() * percent).div_ceil(100).max(1) - 1;
    [50, 90, 99].map(|percent| all.get(rank(percent)).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, Outcome};

    fn reconcile(controller: &str, name: &str, at: u64, took: u64, outcome: Outcome) -> Entry {
        let (controller, name) = (controller.into(), name.into());
        Entry::Reconcile(Box::new(Reconcile { controller, name, at, took, outcome, ..Reconcile::default() }))
    }

    #[test]
    fn keys_and_controllers_are_counted() {
        let mut entries: Vec<Entry> =
            (1..=100).map(|at| reconcile("site", "web", at * 1000, at, Outcome::Done)).collect();
        entries.push(reconcile("site", "other", 0, 5000, Outcome::Failed));
        let record = Record { entries, taken: 101_000, ..Record::default() };
        let top = most_frequent(&record, 1);
        assert_eq!((top[0].key.as_str(), top[0].reconciles, top[0].took), ("web", 100, 5050));
        assert_eq!(slowest(&record, 1)[0].name, "other");
        let of_all = controllers(&record);
        assert_eq!((of_all[0].reconciles, of_all[0].failures), (101, 1));
        assert_eq!(of_all[0].took, [51, 91, 100]);
        assert!((of_all[0].rate - 1000.0).abs() < 1.0, "{}", of_all[0].rate);
    }
}
