//! Which objects a controller owns: it adopts orphans that match its selector, and releases objects that no longer do.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::core::{Selector, SelectorExt};

use crate::object::{Kind, Object};

/// What to do with one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The claimant controls the candidate and keeps it.
    Ours,
    /// The candidate matches and has no controller: adopt it.
    Adopt,
    /// The claimant controls the candidate, which no longer matches: release it.
    Release,
    /// The candidate does not concern the claimant.
    Foreign,
}

/// The object that claims others: its uid, whether it is being deleted, and its selector.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    uid: String,
    deleting: bool,
    selector: Option<Selector>,
}

impl Claimant {
    /// A claimant with this selector. An invalid or empty selector selects nothing.
    pub(crate) fn new(metadata: &ObjectMeta, selector: Option<&LabelSelector>) -> Self {
        let selector = selector.and_then(|selector| Selector::try_from(selector.clone()).ok());
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            selector: selector.filter(|selector| !selector.selects_all()),
        }
    }

    /// Decides about a candidate. One that is being deleted is never adopted.
    pub(crate) fn claim(&self, candidate: &ObjectMeta) -> Claim {
        let matches = self.matches(candidate);
        match controller_of(candidate) {
            Some(owner) if owner.uid != self.uid => Claim::Foreign,
            Some(_) if matches => Claim::Ours,
            Some(_) if self.deleting => Claim::Foreign,
            Some(_) => Claim::Release,
            None if !matches || self.deleting || candidate.deletion_timestamp.is_some() => Claim::Foreign,
            None => Claim::Adopt,
        }
    }

    /// Whether the selector matches the candidate's labels.
    pub(crate) fn matches(&self, candidate: &ObjectMeta) -> bool {
        let empty = Default::default();
        let labels = candidate.labels.as_ref().unwrap_or(&empty);
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

/// Returns the owner reference of the controller, if there is one.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// Returns the owner reference of the controller, if that is an object of this kind.
pub(crate) fn controller_of_kind<'a>(metadata: &'a ObjectMeta, kind: &Kind) -> Option<&'a OwnerReference> {
    controller_of(metadata).filter(|owner| kind.is_of(owner))
}

/// Whether the object with this uid is the controller.
pub(crate) fn is_controlled_by(metadata: &ObjectMeta, uid: Option<&str>) -> bool {
    uid.is_some() && controller_of(metadata).map(|owner| owner.uid.as_str()) == uid
}

/// Returns an owner reference that makes `owner` the controller and blocks its foreground deletion.
pub(crate) fn controller_reference(kind: &'static Kind, owner: &Object) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        name: owner.name().to_owned(),
        uid: owner.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{JOB, POD};
    use serde_json::json;

    fn metadata(value: serde_json::Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn candidates_are_adopted_released_or_left_alone() {
        let selector = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        let claimant = Claimant::new(&metadata(json!({"uid": "u"})), Some(&selector));
        let owned = |uid: &str| json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": uid, "controller": true}]);
        let check = |value, expected| assert_eq!(claimant.claim(&metadata(value)), expected);
        check(json!({"labels": {"app": "web"}}), Claim::Adopt);
        check(json!({"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}), Claim::Foreign);
        check(json!({"labels": {"app": "web"}, "ownerReferences": owned("u")}), Claim::Ours);
        check(json!({"labels": {"app": "web"}, "ownerReferences": owned("v")}), Claim::Foreign);
        check(json!({"labels": {"app": "api"}, "ownerReferences": owned("u")}), Claim::Release);
        check(json!({"labels": {"app": "api"}}), Claim::Foreign);
    }

    /// A custom resource `Job` of another group owned pods, which the controller of Jobs took for its own.
    #[test]
    fn a_kind_of_another_group_is_another_kind() {
        let owned = |version: &str| {
            let owner =
                json!([{"apiVersion": version, "kind": "Job", "name": "n", "uid": "u", "controller": true}]);
            metadata(json!({"ownerReferences": owner}))
        };
        assert!(controller_of_kind(&owned("batch/v1"), &JOB).is_some());
        assert!(controller_of_kind(&owned("batch/v1beta1"), &JOB).is_some(), "the version does not matter");
        assert!(controller_of_kind(&owned("batch.example.com/v1"), &JOB).is_none());
        assert!(controller_of_kind(&owned("v1"), &JOB).is_none());
        assert!(controller_of_kind(&owned("batch/v1"), &POD).is_none());
    }

    #[test]
    fn an_empty_selector_claims_nothing() {
        let claimant = Claimant::new(&metadata(json!({"uid": "u"})), Some(&LabelSelector::default()));
        assert_eq!(claimant.claim(&metadata(json!({"labels": {"app": "web"}}))), Claim::Foreign);
    }
}
