//! Revisions: which ReplicaSet is the new one, how it is created, and the annotations with its history.

use evenkeel_tree::tree;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::controller_ref::controller_reference;
use crate::kinds::{DEPLOYMENT, Deployment, ReplicaSet};
use crate::object::Fields;
use crate::pod_template;

/// The annotation with the revision of a ReplicaSet, or with the newest revision of a Deployment.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// The annotations that are not copied from a Deployment to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// The longest value of the history annotation, in characters: some hundred revisions.
const HISTORY_MAX: usize = 2000;

/// The longest name of an object.
const NAME_MAX: usize = 253;

/// Returns the revision of a ReplicaSet, zero if it has none.
pub(super) fn number(set: &ReplicaSet) -> i64 {
    set.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns how many replicas the Deployment wanted when it last wrote this ReplicaSet.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    set.annotation(DESIRED)?.parse().ok().filter(|number| *number >= 0)
}

/// Returns how many pods the Deployment allowed, surge included, when it last wrote this ReplicaSet.
pub(super) fn max(set: &ReplicaSet) -> Option<i32> {
    set.annotation(MAX)?.parse().ok().filter(|number| *number >= 0)
}

/// Writes the annotations with the replicas that the Deployment wants and allows now.
pub(super) fn note_size(set: &mut ReplicaSet, replicas: i32, surge: i32) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED.to_owned(), replicas.to_string());
    annotations.insert(MAX.to_owned(), replicas.saturating_add(surge).to_string());
}

/// Copies the Deployment's annotations and raises the revision to `revision`. An earlier revision number moves to the
/// history annotation.
pub(super) fn note_revision(set: &mut ReplicaSet, deployment: &Deployment, revision: i64) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let old = annotations.get(REVISION).cloned();
    match old.as_deref().map(str::parse::<i64>) {
        Some(Err(_)) => {}
        Some(Ok(number)) if number >= revision => {}
        _ => {
            annotations.insert(REVISION.to_owned(), revision.to_string());
            if let Some(old) = old {
                let history = lengthened(annotations.get(HISTORY).map_or("", String::as_str), &old);
                annotations.insert(HISTORY.to_owned(), history);
            }
        }
    }
}

/// Appends a revision to the history, and drops the oldest ones if the history becomes too long.
fn lengthened(history: &str, revision: &str) -> String {
    let mut numbers: Vec<&str> = history.split(',').filter(|number| !number.is_empty()).collect();
    numbers.push(revision);
    let length = |numbers: &[&str]| numbers.iter().map(|number| number.len() + 1).sum::<usize>() - 1;
    while numbers.len() > 1 && length(&numbers) > HISTORY_MAX {
        numbers.remove(0);
    }
    numbers.join(",")
}

/// Returns a ReplicaSet for the Deployment's present template, without replicas.
pub(super) fn create(deployment: &Deployment) -> ReplicaSet {
    let mut template = pod_template::without_hash(deployment.at("spec/template"));
    let hash = pod_template::hash(&template, deployment.i32("status/collisionCount"));
    template.set(pod_template::TEMPLATE_HASH, &hash);
    let mut selector = deployment.at("spec/selector").clone();
    selector.set("matchLabels/pod-template-hash", &hash);
    let metadata = ObjectMeta {
        name: Some(name(deployment.name(), &hash)),
        namespace: deployment.metadata.namespace.clone(),
        labels: Some(template.text_map("metadata/labels")),
        owner_references: Some(vec![controller_reference(&DEPLOYMENT, deployment)]),
        ..ObjectMeta::default()
    };
    let spec = tree!({
        "replicas": 0, "minReadySeconds": deployment.at("spec/minReadySeconds"),
        "selector": selector, "template": template,
    });
    ReplicaSet::new(metadata, tree!({"spec": spec}))
}

fn name(deployment: &str, hash: &str) -> String {
    let room = NAME_MAX - 1 - hash.len();
    let end = deployment.len().min(room);
    format!("{}-{hash}", &deployment[..end])
}

/// Whether the ReplicaSet has the Deployment's present template.
pub(super) fn is_new(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let (wanted, present) = (deployment.at("spec/template"), set.at("spec/template"));
    !present.is_null() && pod_template::equal_but_for_hash(wanted, present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_drops_its_oldest() {
        assert_eq!(lengthened("", "1"), "1");
        assert_eq!(lengthened("1,3", "5"), "1,3,5");
        let long = vec!["1234"; 400].join(",");
        assert!(lengthened(&long, "77").len() <= HISTORY_MAX);
        assert!(lengthened(&long, "77").ends_with(",77"));
    }

    #[test]
    fn a_long_name_leaves_room_for_the_hash() {
        assert_eq!(name("web", "abc"), "web-abc");
        assert_eq!(name(&"x".repeat(253), "abc").len(), NAME_MAX);
    }
}
