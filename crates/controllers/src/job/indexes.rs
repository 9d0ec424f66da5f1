//! Completion indexes of an indexed Job.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_tree::{Tree, tree};

use crate::kinds::{Job, Pod};

/// The annotation and label of a pod with its completion index.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Whether the Job is indexed.
pub(super) fn is_indexed(job: &Job) -> bool {
    job.is("spec/completionMode", "Indexed")
}

/// Returns the completion index of a pod.
pub(super) fn of(pod: &Pod) -> Option<i32> {
    pod.annotation(INDEX)?.parse().ok()
}

/// A set of completion indexes, stored as ranges: a user can write a range of two billion into a status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    /// From the first to the last index of each range. Ranges neither overlap nor touch.
    ranges: BTreeMap<i32, i32>,
}

impl Indexes {
    /// Parses a list such as `0,2-4`. Invalid parts are skipped.
    pub(super) fn parse(text: &str) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse(), last.parse()) {
                indexes.insert_range(first, last);
            }
        }
        indexes
    }

    pub(super) fn insert(&mut self, index: i32) {
        self.insert_range(index, index);
    }

    fn insert_range(&mut self, first: i32, last: i32) {
        if first > last {
            return;
        }
        // Ranges that overlap or touch the new one are merged with it.
        let joined: Vec<(i32, i32)> = self
            .ranges
            .range(..=last.saturating_add(1))
            .rev()
            .map(|(first, last)| (*first, *last))
            .take_while(|(_, end)| *end >= first.saturating_sub(1))
            .collect();
        let (mut first, mut last) = (first, last);
        for (start, end) in joined {
            self.ranges.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.ranges.insert(first, last);
    }

    /// Returns the number of indexes.
    pub(super) fn len(&self) -> i64 {
        self.ranges.iter().map(|(first, last)| i64::from(*last) - i64::from(*first) + 1).sum()
    }

    /// Whether an index is in the set.
    pub(super) fn contains(&self, index: i32) -> bool {
        self.ranges.range(..=index).next_back().is_some_and(|(_, last)| index <= *last)
    }

    /// Returns how many indexes are in both sets.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let overlap = |first: i32, last: i32| {
            let theirs = other.ranges.iter().map(|(start, end)| (first.max(*start), last.min(*end)));
            theirs.map(|(start, end)| (i64::from(end) - i64::from(start) + 1).max(0)).sum::<i64>()
        };
        self.ranges.iter().map(|(first, last)| overlap(*first, *last)).sum()
    }

    /// Adds the indexes of another set.
    pub(super) fn merge(&mut self, other: &Self) {
        other.ranges.iter().for_each(|(first, last)| self.insert_range(*first, *last));
    }

    /// Returns the indexes from zero to below `end` that are not in the set.
    pub(super) fn missing(&self, end: i32) -> impl Iterator<Item = i32> {
        let after = |last: &i32| last.saturating_add(1);
        let firsts = std::iter::once(0).chain(self.ranges.values().map(after));
        let ends = self.ranges.keys().copied().chain(std::iter::once(end));
        firsts.zip(ends).flat_map(move |(first, next)| first.max(0)..next.min(end))
    }
}

/// Writes the set as a status shows it, such as `0,2-4`. Two in a row are listed, more are a range.
impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match i64::from(*last) - i64::from(*first) {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// The annotations of a pod with the number of failures of its index that count, and the number that the failure policy
/// ignores.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The failures of one index before its current pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexFailures {
    pub(crate) counted: i32,
    pub(crate) ignored: i32,
}

impl IndexFailures {
    /// Reads the previous failures of its index from the annotations of a pod.
    pub(super) fn before(pod: &Pod) -> Self {
        let number = |key: &str| pod.annotation(key).and_then(|text| text.parse().ok()).unwrap_or(0);
        Self { counted: number(FAILURES), ignored: number(IGNORED_FAILURES) }
    }

    /// Writes the previous failures of its index into the annotations of a new pod.
    pub(super) fn give(self, pod: &mut Pod) {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(FAILURES.to_owned(), self.counted.to_string());
        if self.ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), self.ignored.to_string());
        }
    }
}

/// Gives a pod its index: in the name, annotations, labels, host name and environment.
pub(super) fn give(pod: &mut Pod, job: &str, index: i32) {
    pod.metadata.generate_name = Some(format!("{job}-{index}-"));
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    if pod.at("spec").is_null() {
        return;
    }
    pod.set("spec/hostname", format!("{job}-{index}"));
    for list in ["spec/containers", "spec/initContainers"] {
        let containers: Vec<_> = pod.list(list).iter().map(tell).collect();
        if !containers.is_empty() {
            pod.set(list, containers);
        }
    }
}

/// Returns a container with its completion index in the environment.
fn tell(container: &Tree) -> Tree {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let mut container = container.clone();
    if container.list("env").iter().all(|variable| !variable.is("name", NAME)) {
        let field = tree!({"fieldPath": format!("metadata.labels['{INDEX}']")});
        container.push("env", tree!({"name": NAME, "valueFrom": tree!({"fieldRef": field})}));
    }
    container
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_in_ranges() {
        let mut set = Indexes::default();
        for index in [0, 9, 2, 6, 5, 3, 7, 6] {
            set.insert(index);
        }
        assert_eq!(set.to_string(), "0,2,3,5-7,9");
        assert_eq!(Indexes::parse("0,2,3,5-7,9"), set);
        assert_eq!(set.len(), 7);
        assert_eq!(set.missing(12).collect::<Vec<_>>(), [1, 4, 8, 10, 11]);
        assert_eq!(set.missing(2).collect::<Vec<_>>(), [1]);
        assert_eq!(Indexes::parse(""), Indexes::default());
        assert_eq!(Indexes::default().missing(2).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_range_of_everything_costs_nothing() {
        let all = Indexes::parse("0-2147483647");
        assert_eq!((all.len(), all.missing(i32::MAX).next()), (1 << 31, None));
        assert_eq!(Indexes::parse("3-1,x,-2147483648-5").to_string(), "");
        let mut ends = Indexes::parse("0-5,2147483647");
        ends.insert(i32::MIN);
        ends.insert_range(3, i32::MAX - 1);
        assert_eq!(ends.to_string(), "-2147483648,0-2147483647");
    }
}
