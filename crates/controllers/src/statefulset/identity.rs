//! The identity of a StatefulSet's pods: ordinals, names, claims.

use evenkeel_tree::{Tree, tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::controller_ref::controller_reference;
use crate::kinds::{POD, PersistentVolumeClaim, Pod, STATEFUL_SET, StatefulSet};
use crate::object::Fields;
use crate::{controller_history, pod_template};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The wanted ordinals: `count` of them, beginning with `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordinals {
    pub(crate) start: i32,
    pub(crate) count: i32,
}

impl Ordinals {
    pub(crate) fn of(set: &StatefulSet) -> Self {
        let start = set.i32("spec/ordinals/start").unwrap_or(0);
        Self { start, count: set.i32("spec/replicas").unwrap_or(1).max(0) }
    }

    pub(crate) fn contains(self, ordinal: i32) -> bool {
        ordinal >= self.start && ordinal - self.start < self.count
    }

    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = i32> {
        self.skipping(0)
    }

    /// Returns the ordinals without the first `skipped` ones.
    pub(crate) fn skipping(self, skipped: i32) -> impl DoubleEndedIterator<Item = i32> {
        self.start.saturating_add(skipped.max(0))..self.start.saturating_add(self.count)
    }
}

/// Returns the ordinal of a pod; `None` if its name is not that of a pod of the set.
pub(crate) fn ordinal(set: &str, pod: &Pod) -> Option<i32> {
    let (parent, digits) = pod.name().rsplit_once('-')?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (parent == set && plain).then(|| digits.parse().ok())?
}

/// Returns the pod of an ordinal, with this template and revision.
pub(crate) fn pod(set: &StatefulSet, template: &Tree, revision: &str, ordinal: i32) -> Pod {
    let name = format!("{}-{ordinal}", set.name());
    let mut pod = pod_template::pod(template, set.in_namespace(), controller_reference(&STATEFUL_SET, set));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name.clone());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(controller_history::POD_REVISION.to_owned(), revision.to_owned());
    pod.set("spec/hostname", &name);
    pod.set("spec/subdomain", set.str("spec/serviceName").filter(|name| !name.is_empty()));
    pod.metadata.name = Some(name);
    let mut volumes = volumes(set, ordinal);
    let is_claimed = |volume: &&Tree| volumes.iter().any(|claimed| claimed.at("name") == volume.at("name"));
    let own: Vec<_> = pod.list("spec/volumes").iter().filter(|volume| !is_claimed(volume)).cloned().collect();
    volumes.extend(own);
    pod.set("spec/volumes", (!volumes.is_empty()).then_some(volumes));
    pod
}

fn volumes(set: &StatefulSet, ordinal: i32) -> Vec<Tree> {
    let volume = |(template, claim): (String, PersistentVolumeClaim)| tree!({"name": template, "persistentVolumeClaim": tree!({"claimName": claim.name()})});
    claims(set, ordinal).into_iter().map(volume).collect()
}

/// Returns the claims of an ordinal, each with the name of its template.
pub(crate) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<(String, PersistentVolumeClaim)> {
    let claim = |template: &Tree| {
        let name = template.str("metadata/name").unwrap_or_default();
        let mut labels = template.text_map("metadata/labels");
        labels.extend(set.text_map("spec/selector/matchLabels"));
        let metadata = ObjectMeta {
            name: Some(format!("{name}-{}-{ordinal}", set.name())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            annotations: template
                .has("metadata/annotations")
                .then(|| template.text_map("metadata/annotations")),
            ..ObjectMeta::default()
        };
        (name.to_owned(), PersistentVolumeClaim::new(metadata, tree!({"spec": template.at("spec")})))
    };
    set.list("spec/volumeClaimTemplates").iter().map(claim).collect()
}

/// Returns whether claims are deleted with the set, and whether they are deleted with a pod that is scaled down.
fn retention(set: &StatefulSet) -> (bool, bool) {
    let policy = set.at("spec/persistentVolumeClaimRetentionPolicy");
    (policy.is("whenDeleted", "Delete"), policy.is("whenScaled", "Delete"))
}

/// Returns the owner references that a claim should have by the retention policy; `None` if it has them.
///
/// A claim that another controller owns is not changed, nor one whose owner is an earlier object with the same name.
pub(crate) fn claim_owners(
    set: &StatefulSet,
    pod: &Pod,
    scaled_away: bool,
    claim: &ObjectMeta,
) -> Option<Vec<OwnerReference>> {
    let present = claim.owner_references.clone().unwrap_or_default();
    let (set_reference, pod_reference) =
        (controller_reference(&STATEFUL_SET, set), controller_reference(&POD, pod));
    let same = |a: &OwnerReference, b: &OwnerReference| {
        a.kind == b.kind && a.api_version == b.api_version && a.name == b.name
    };
    let ours = |owner: &OwnerReference| same(owner, &set_reference) || same(owner, &pod_reference);
    let stale = |owner: &OwnerReference| {
        ours(owner) && owner.uid != set_reference.uid && owner.uid != pod_reference.uid
    };
    if present.iter().any(stale) {
        return None;
    }
    let (with_set, with_pod) = retention(set);
    let foreign = present.iter().any(|owner| !ours(owner) && owner.controller == Some(true));
    let mut wanted: Vec<_> = present.iter().filter(|owner| !ours(owner)).cloned().collect();
    if !(foreign && (with_set || with_pod)) {
        if with_pod && scaled_away {
            wanted.push(pod_reference);
        } else if with_set {
            wanted.push(set_reference);
        }
    }
    (wanted != present).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(extra: serde_json::Value) -> StatefulSet {
        let mut spec = json!({
            "replicas": 2, "serviceName": "dbs", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [], "volumes": [{"name": "data"}, {"name": "tmp"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
        });
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        crate::object::object(
            json!({"metadata": {"name": "db", "namespace": "default", "uid": "s"}, "spec": spec}),
        )
    }

    #[test]
    fn a_pod_carries_its_identity_and_its_claims() {
        let set = set(json!({}));
        let pod = pod(&set, set.at("spec/template"), "db-1", 1);
        let value = serde_json::to_value(&pod).unwrap();
        assert_eq!(value.pointer("/metadata/name"), Some(&json!("db-1")));
        assert_eq!(value.pointer("/metadata/labels/apps.kubernetes.io~1pod-index"), Some(&json!("1")));
        assert_eq!(value.pointer("/spec/subdomain"), Some(&json!("dbs")));
        assert_eq!(
            value.pointer("/spec/volumes"),
            Some(
                &json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}, {"name": "tmp"}])
            )
        );
        let (_, claim) = claims(&set, 1).remove(0);
        assert_eq!(claim.metadata.labels, Some([("app".to_owned(), "db".to_owned())].into()));
    }

    #[test]
    fn ordinals_are_read_from_names() {
        let named = |name: &str| crate::object::object(json!({"metadata": {"name": name}}));
        assert_eq!(ordinal("db", &named("db-12")), Some(12));
        assert_eq!(ordinal("db", &named("db-x-1")), None);
        assert_eq!(ordinal("db", &named("db-+1")), None);
        assert_eq!(ordinal("db", &named("other-1")), None);
    }

    #[test]
    fn claims_are_owned_as_the_retention_policy_says() {
        let retain = set(json!({}));
        let with_set = set(
            json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}),
        );
        let both = set(
            json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}),
        );
        let mut pod = pod(&retain, retain.at("spec/template"), "db-1", 1);
        pod.metadata.uid = Some("p".to_owned());
        let free = ObjectMeta::default();
        let kinds = |owners: Option<Vec<OwnerReference>>| {
            owners.map(|owners| owners.into_iter().map(|owner| owner.kind).collect::<Vec<_>>())
        };
        assert_eq!(claim_owners(&retain, &pod, false, &free), None);
        assert_eq!(kinds(claim_owners(&with_set, &pod, false, &free)), Some(vec!["StatefulSet".to_owned()]));
        assert_eq!(kinds(claim_owners(&both, &pod, true, &free)), Some(vec!["Pod".to_owned()]));
        let owned = ObjectMeta {
            owner_references: claim_owners(&with_set, &pod, false, &free),
            ..ObjectMeta::default()
        };
        assert_eq!(claim_owners(&with_set, &pod, false, &owned), None);
        assert_eq!(claim_owners(&retain, &pod, false, &owned), Some(vec![]));
    }
}
