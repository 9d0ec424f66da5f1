//! Checks that the writes of one leader are not interleaved with those of another.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::Revision;

/// A write of an operator, in the order of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The revision of the write.
    pub revision: Revision,
    /// The identity of the process that wrote. A process that leads again after it lost the lease has another identity.
    pub by: String,
}

/// A write of an old leader that landed after the first write of a new leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The late write.
    pub late: Written,
    /// The first write of the new leader.
    pub after: Written,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { late, after } = self;
        write!(f, "{} wrote at revision {}, ", late.by, late.revision)?;
        write!(f, "after {} had written at revision {}", after.by, after.revision)
    }
}

/// Finds every write that landed after another leader had begun to write. The writes are in the order of the server.
pub fn check_terms(writes: &[Written]) -> Vec<Overlap> {
    // For each leader whose term is over, the write that ended the term.
    let mut ended: BTreeMap<&str, &Written> = BTreeMap::new();
    let mut leader: Option<&Written> = None;
    let mut overlaps = Vec::new();
    for write in writes {
        if let Some(after) = ended.get(write.by.as_str()) {
            overlaps.push(Overlap { late: write.clone(), after: (*after).clone() });
            continue;
        }
        if let Some(old) = leader.filter(|old| old.by != write.by) {
            ended.insert(&old.by, write);
        }
        leader = Some(write);
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(writers: &str) -> Vec<Revision> {
        let written = |(at, by): (usize, char)| Written { revision: at as u64, by: by.to_string() };
        let writes: Vec<_> = writers.chars().enumerate().map(written).collect();
        check_terms(&writes).into_iter().map(|overlap| overlap.late.revision).collect()
    }

    #[test]
    fn terms_follow_each_other() {
        assert!(late("").is_empty());
        assert!(late("aaabbbc").is_empty());
    }

    #[test]
    fn a_late_write_is_found_and_ends_nobodys_term() {
        assert_eq!(late("aabab"), [3]);
        assert_eq!(late("aabaabacca"), [3, 4, 6, 9]);
        assert_eq!(late("abcb"), [3]);
    }
}
