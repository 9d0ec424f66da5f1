//! Counts the pods of a ReplicaSet by their state, without looking at every pod.
//!
//! An index of the pods' cache groups the pods of each controller by labels, and by what the controller's status
//! counts. All pods that a set creates have the labels of its template, so four numbers describe the set, however many
//! pods it has. If a pod has other labels, or becomes available only after a while, the pods are looked at one by one.

use std::collections::BTreeMap;

use evenkeel_runtime::{Cache, ContextError, Index};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::Pods;
use crate::adoption;
use crate::controller_ref::{Claimant, controller_of};
use crate::kinds::{Pod, ReplicaSet};
use crate::object::{Fields, Object};
use crate::pod;

/// The name of the index of pods by controller, state and labels.
const CENSUS: &str = "census";

/// The states of pods that a ReplicaSet's status distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Ready,
    Unready,
    Terminating,
    Finished,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Ready, Self::Unready, Self::Terminating, Self::Finished];

    fn of(pod: &Pod) -> Self {
        if pod::is_finished(pod) {
            Self::Finished
        } else if pod.is_deleting() {
            Self::Terminating
        } else if pod::is_ready(pod) {
            Self::Ready
        } else {
            Self::Unready
        }
    }
}

/// The numbers of pods in a ReplicaSet's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) active: usize,
    pub(crate) fully_labeled: usize,
    pub(crate) ready: usize,
    pub(crate) available: usize,
    pub(crate) terminating: usize,
}

/// The index that [`Census::indexed`] reads.
pub(crate) fn index() -> Index<Object> {
    Index::new(CENSUS, |pod: &Pod| {
        let owner = controller_of(&pod.metadata);
        let labels = pod.metadata.labels.iter().flatten();
        owner.map(|owner| key(&owner.uid, Sort::of(pod), labels)).into_iter().collect()
    })
}

/// Returns the index key of the pods of one controller, in one state and with these labels. Neither a uid nor a label
/// contains `|`.
fn key<'a>(owner: &str, sort: Sort, labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let mut text = format!("{owner}|{}", sort as u8);
    labels.into_iter().for_each(|(key, value)| text.extend(["|", key, "=", value]));
    text
}

impl Census {
    /// Counts pods one by one.
    pub(crate) fn of(set: &ReplicaSet, pods: &Pods, now: Timestamp) -> Self {
        let min_ready_seconds = set.i32("spec/minReadySeconds").unwrap_or(0);
        let fully_labeled = |pod: &Pod| {
            let mut wanted = set.entries("spec/template/metadata/labels");
            wanted.all(|(key, value)| pod.label(key) == value.as_str())
        };
        let count = |test: &dyn Fn(&Pod) -> bool| pods.active.iter().filter(|pod| test(pod)).count();
        Self {
            active: pods.active.len(),
            fully_labeled: count(&fully_labeled),
            ready: count(&pod::is_ready),
            available: count(&|pod| pod::is_available(pod, min_ready_seconds, now)),
            terminating: pods.terminating.len(),
        }
    }

    /// Reads the numbers from the index of a cache. Returns `None` if the pods must be looked at one by one: a pod has
    /// labels other than the template's, a pod may have to be adopted or released, or a ready pod is not available yet.
    pub(crate) fn indexed(
        cache: &Cache<Object>,
        set: &ReplicaSet,
        selector: &LabelSelector,
    ) -> Result<Option<Self>, ContextError> {
        let Some(uid) = set.metadata.uid.as_deref() else { return Ok(None) };
        if adoption::has_orphans(cache, set, selector)? {
            return Ok(None);
        }
        Self::counted(set, selector, cache.count_owned_by(uid)?, |value| cache.count_by_index(CENSUS, value))
    }

    /// Adds up the numbers of the index. `owned` is the total number of the set's pods.
    fn counted<E>(
        set: &ReplicaSet,
        selector: &LabelSelector,
        owned: usize,
        count: impl Fn(&str) -> Result<usize, E>,
    ) -> Result<Option<Self>, E> {
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let labels = set.text_map("spec/template/metadata/labels");
        let mut found = [0; Sort::ALL.len()];
        for sort in Sort::ALL {
            found[sort as usize] = count(&key(uid, sort, &labels))?;
        }
        let delayed = set.i32("spec/minReadySeconds").unwrap_or(0) > 0;
        if delayed || found.iter().sum::<usize>() != owned || !claims(set, selector, labels) {
            return Ok(None);
        }
        let [ready, unready, terminating, _] = found;
        let active = ready + unready;
        Ok(Some(Self { active, fully_labeled: active, ready, available: ready, terminating }))
    }
}

/// Whether the set would keep a pod with these labels.
fn claims(set: &ReplicaSet, selector: &LabelSelector, labels: BTreeMap<String, String>) -> bool {
    let pod = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
    Claimant::new(&set.metadata, Some(selector)).matches(&pod)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::object::object;

    fn set(min_ready_seconds: i32) -> ReplicaSet {
        object(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": {"replicas": 3, "minReadySeconds": min_ready_seconds,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}}},
        }))
    }

    /// Generates a pod of this set, or of another one.
    fn any_pod() -> impl Strategy<Value = Pod> {
        let labels = prop_oneof![
            8 => Just(json!({"app": "web", "tier": "front"})),
            1 => Just(json!({"app": "web"})),
            1 => Just(json!({"app": "other", "tier": "front"})),
        ];
        let owner = prop_oneof![8 => Just("u"), 1 => Just("v")];
        let phase = prop_oneof!["Pending", "Running", "Succeeded", "Failed"];
        (labels, owner, phase, any::<bool>(), any::<bool>()).prop_map(|(labels, owner, phase, ready, deleting)| {
            let ready = if ready { "True" } else { "False" };
            let deleted = deleting.then_some("2026-01-01T00:00:00Z");
            object(json!({
                "metadata": {"name": "p", "labels": labels, "deletionTimestamp": deleted, "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner, "controller": true}]},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
            }))
        })
    }

    proptest! {
        #[test]
        fn the_index_says_what_a_look_at_every_pod_says(
            pods in proptest::collection::vec(any_pod(), 0..12), delay in 0..2i32,
        ) {
            let set = set(delay);
            let selector = adoption::selector(&set).unwrap();
            let values: Vec<String> = pods.iter().flat_map(|pod| index().values(pod)).collect();
            let ours = |pod: &&Pod| controller_of(&pod.metadata).is_some_and(|owner| owner.uid == "u");
            let ours: Vec<Arc<Pod>> = pods.iter().filter(ours).cloned().map(Arc::new).collect();
            let count = |value: &str| Ok::<_, Infallible>(values.iter().filter(|it| *it == value).count());
            let Ok(counted) = Census::counted(&set, &selector, ours.len(), count);
            let alike = ours.iter().all(|pod| pod.metadata.labels.as_ref().is_some_and(|it| it.len() == 2)
                && pod.label("app") == Some("web"));
            prop_assert_eq!(counted.is_some(), alike && delay == 0);
            if let Some(counted) = counted {
                prop_assert_eq!(counted, Census::of(&set, &Pods::of(ours), Timestamp::UNIX_EPOCH));
            }
        }
    }

    #[test]
    fn a_set_that_no_longer_selects_its_pods_looks_at_them() {
        let selector = LabelSelector {
            match_labels: Some([("app".into(), "other".into())].into()),
            ..Default::default()
        };
        let Ok(counted) = Census::counted(&set(0), &selector, 0, |_| Ok::<_, Infallible>(0));
        assert_eq!(counted, None);
    }
}
