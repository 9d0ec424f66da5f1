//! The conflicts of an apply: fields that it can change only by force.

use std::collections::BTreeMap;
use std::fmt;

use super::entries::ManagerId;
use crate::fieldset::{FieldSet, Path};

/// A field that another manager owns with another value.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The manager that owns the field.
    pub manager: ManagerId,
    /// The field.
    pub path: Path,
}

impl Conflict {
    /// The message of the cause.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// All conflicts of an apply, by manager. They print as the message of the 409 response.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    pub(super) fn new(sets: BTreeMap<ManagerId, FieldSet>) -> Self {
        let of = |(manager, set): (ManagerId, FieldSet)| {
            let paths = set.paths();
            paths.into_iter().map(move |path| Conflict { manager: manager.clone(), path })
        };
        Self(sets.into_iter().flat_map(of).collect())
    }

    /// Whether there are no conflicts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", conflict.message(), conflict.path);
        }
        let mut by_manager: BTreeMap<&ManagerId, Vec<&Path>> = BTreeMap::new();
        for conflict in &self.0 {
            by_manager.entry(&conflict.manager).or_default().push(&conflict.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, (manager, paths)) in by_manager.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}conflicts with {manager}:")?;
            paths.iter().try_for_each(|path| write!(f, "\n- {path}"))?;
        }
        Ok(())
    }
}
