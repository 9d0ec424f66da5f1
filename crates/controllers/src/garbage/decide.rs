//! What becomes of one object, once it is known how its owners are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::{FOREGROUND, Node, ORPHAN};

/// How an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerState {
    /// It is there.
    Solid,
    /// It is not there: gone, another object under its name, or in another namespace.
    Absent,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// Its kind is not known, or cannot be where it is looked for: nothing can be said.
    Unknown,
}

/// What to do with an object whose owners were looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// Leave it.
    Keep,
    /// Leave it, but without the owners that are absent or want it gone: these stay.
    Disown(Vec<OwnerReference>),
    /// Delete it, its own dependents as this policy says.
    Delete(Propagation),
}

/// What becomes of the dependents of what is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What to do with a node; `has_dependents` says whether anything names it as an owner.
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
        // An owner that waits for us waits for ours too.
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
