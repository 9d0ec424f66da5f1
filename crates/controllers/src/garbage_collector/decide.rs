//! Decides about one object, given the states of its owners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::{FOREGROUND, Node, ORPHAN};

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerState {
    /// The owner exists.
    Solid,
    /// The owner does not exist: it was deleted, another object has its name, or it is in another namespace.
    Absent,
    /// The owner is being deleted in the foreground and waits for its dependents.
    Waiting,
    /// The kind is unknown, or cannot own an object of this scope.
    Unknown,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// Keep the object.
    Keep,
    /// Keep the object with these owner references, and drop those to absent or waiting owners.
    Disown(Vec<OwnerReference>),
    /// Delete the object with this propagation policy.
    Delete(Propagation),
}

/// The propagation policy of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Decides about an object. `has_dependents` tells whether another object names it as an owner.
pub(crate) fn decide(node: &Node, states: &[OwnerState], has_dependents: bool) -> Decision {
    if node.deleting || node.owners.is_empty() || states.contains(&OwnerState::Unknown) {
        return Decision::Keep;
    }
    let any = |state| states.contains(&state);
    if any(OwnerState::Solid) {
        if !any(OwnerState::Absent) && !any(OwnerState::Waiting) {
            return Decision::Keep;
        }
        let solid = node.owners.iter().zip(states).filter(|(_, state)| **state == OwnerState::Solid);
        return Decision::Disown(solid.map(|(owner, _)| owner.clone()).collect());
    }
    if any(OwnerState::Waiting) && has_dependents {
        // An owner that waits for this object waits for its dependents too.
        return Decision::Delete(Propagation::Foreground);
    }
    let has = |finalizer: &str| node.finalizers.iter().any(|present| present == finalizer);
    Decision::Delete(match () {
        () if has(ORPHAN) => Propagation::Orphan,
        () if has(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    })
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::{deleting, node};
    use super::*;
    use OwnerState::{Absent, Solid, Unknown, Waiting};

    #[test]
    fn one_solid_owner_is_enough() {
        let two = node("c", &[("a", false), ("b", false)]);
        assert_eq!(decide(&two, &[Solid, Solid], false), Decision::Keep);
        assert_eq!(decide(&two, &[Absent, Solid], false), Decision::Disown(vec![two.owners[1].clone()]));
        assert_eq!(decide(&two, &[Absent, Absent], false), Decision::Delete(Propagation::Background));
        assert_eq!(decide(&two, &[Absent, Unknown], false), Decision::Keep);
    }

    #[test]
    fn foreground_is_passed_down() {
        let one = node("b", &[("a", true)]);
        assert_eq!(decide(&one, &[Waiting], true), Decision::Delete(Propagation::Foreground));
        assert_eq!(decide(&one, &[Waiting], false), Decision::Delete(Propagation::Background));
        assert_eq!(decide(&deleting(one, &[]), &[Waiting], true), Decision::Keep);
    }

    #[test]
    fn what_has_no_owner_is_no_garbage() {
        assert_eq!(decide(&node("a", &[]), &[], false), Decision::Keep);
    }
}
