//! The rolling update of a DaemonSet: which pods of an older template make way for new ones.
//!
//! Without surge, an old pod is deleted before the new one is created, and no more nodes are without an available pod than
//! `maxUnavailable` allows. With surge, the new pod is created beside the old one, on no more nodes at once than `maxSurge`
//! allows, and the old one is deleted when the new one is available. An old pod that is not available may be replaced
//! beyond both limits.

use std::sync::Arc;

use super::plan::{Age, Limits, OnNode};
use crate::kinds::Pod;

/// The nodes on which to create a pod, and the pods to delete.
type Steps = (Vec<String>, Vec<Arc<Pod>>);

/// The pods of one node, as an update sees them.
enum Pair<'a> {
    /// There are several pods of one template. They are being sorted out.
    Excess,
    Nothing,
    New(&'a Arc<Pod>),
    Old(&'a Arc<Pod>),
    Both {
        new: &'a Arc<Pod>,
        old: &'a Arc<Pod>,
    },
}

impl<'a> Pair<'a> {
    fn of(node: &'a OnNode, is_new: &dyn Fn(&Pod) -> bool) -> Self {
        let (mut new, mut old) = (None, None);
        for pod in node.pods.iter().filter(|pod| !pod.is_deleting()) {
            let place = if is_new(pod) { &mut new } else { &mut old };
            if place.replace(pod).is_some() {
                return Self::Excess;
            }
        }
        match (new, old) {
            (None, None) => Self::Nothing,
            (Some(new), None) => Self::New(new),
            (None, Some(old)) => Self::Old(old),
            (Some(new), Some(old)) => Self::Both { new, old },
        }
    }
}

/// Returns the next steps of an update.
pub(super) fn next(nodes: &[OnNode], limits: Limits, age: Age, is_new: &dyn Fn(&Pod) -> bool) -> Steps {
    let concerned = nodes.iter().filter(|node| node.should_run || !node.pods.is_empty());
    let pairs: Vec<_> = concerned.map(|node| (node, Pair::of(node, is_new))).collect();
    match limits.surge > 0 {
        true => surge(&pairs, limits, age),
        false => (Vec::new(), replace(&pairs, limits, age)),
    }
}

/// Returns the old pods to delete so that new ones can take their place.
fn replace(pairs: &[(&OnNode, Pair<'_>)], limits: Limits, age: Age) -> Vec<Arc<Pod>> {
    let mut unavailable = 0;
    let (mut broken, mut candidates) = (Vec::new(), Vec::new());
    for (_, pair) in pairs {
        match pair {
            Pair::New(new) => unavailable += i32::from(!age.is_available(new)),
            Pair::Old(old) if age.is_available(old) => candidates.push(Arc::clone(old)),
            Pair::Old(old) => {
                unavailable += 1;
                broken.push(Arc::clone(old));
            }
            Pair::Nothing | Pair::Both { .. } | Pair::Excess => unavailable += 1,
        }
    }
    broken.extend(candidates.into_iter().take(budget(limits.unavailable, unavailable)));
    broken
}

/// Returns the nodes that get a new pod beside the old one, and the old pods that are replaced by then.
fn surge(pairs: &[(&OnNode, Pair<'_>)], limits: Limits, age: Age) -> Steps {
    let (mut surging, mut available) = (0, 0);
    let (mut create, mut candidates) = (Vec::new(), Vec::new());
    let (mut delete, mut misplaced) = (Vec::new(), Vec::new());
    for (node, pair) in pairs {
        if let Pair::Old(pod) | Pair::New(pod) | Pair::Both { old: pod, .. } = pair {
            available += i32::from(age.is_available(pod));
        }
        match pair {
            Pair::Excess => surging += 1,
            Pair::Nothing | Pair::New(_) => {}
            Pair::Both { new, old } if age.is_available(new) => delete.push(Arc::clone(old)),
            Pair::Both { .. } => surging += 1,
            Pair::Old(old) => match (age.is_available(old), node.should_run) {
                (true, true) => candidates.push(node.name.clone()),
                (false, true) => create.push(node.name.clone()),
                (true, false) => misplaced.push(Arc::clone(old)),
                (false, false) => delete.push(Arc::clone(old)),
            },
        }
    }
    // A pod that is no longer wanted on its node stays as long as the set would otherwise lack available pods.
    delete.extend(misplaced.into_iter().take(budget(available, limits.desired)));
    create.extend(candidates.into_iter().take(budget(limits.surge, surging)));
    (create, delete)
}

/// Returns how many are left of a limit.
fn budget(limit: i32, used: i32) -> usize {
    usize::try_from(limit.saturating_sub(used)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod_of(name: &str, ready: bool) -> Arc<Pod> {
        Arc::new(crate::pod::tests::pod(json!({
            "metadata": {"name": name}, "spec": {"nodeName": "n", "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })))
    }

    /// Reads nodes from words: `o` is an old pod and `n` a new one, in capitals if it is available. A node whose word ends
    /// with `!` should run no pod.
    fn nodes(words: &str) -> Vec<OnNode> {
        let node = |(at, word): (usize, &str)| OnNode {
            name: format!("{at}"),
            should_run: !word.ends_with('!'),
            pods: word
                .chars()
                .filter(|it| it.is_alphabetic())
                .map(|it| pod_of(&format!("{at}{it}"), it.is_uppercase()))
                .collect(),
        };
        words.split_whitespace().enumerate().map(node).collect()
    }

    /// Returns the nodes that get a pod, and the pods that are deleted.
    fn steps(words: &str, surge: i32, unavailable: i32) -> String {
        let nodes = nodes(words);
        let desired = i32::try_from(nodes.iter().filter(|node| node.should_run).count()).unwrap();
        let age = Age { min_ready_seconds: 0, now: "2026-01-01T01:00:00Z".parse().unwrap() };
        let limits = Limits { surge, unavailable, desired };
        let (create, delete) = next(&nodes, limits, age, &|pod| pod.name().to_lowercase().ends_with('n'));
        let delete: Vec<_> = delete.iter().map(|pod| pod.name()).collect();
        format!("+{} -{}", create.join(","), delete.join(","))
    }

    #[test]
    fn without_surge_old_pods_make_way() {
        assert_eq!(steps("O O O", 0, 1), "+ -0O");
        assert_eq!(steps("n O O", 0, 1), "+ -");
        assert_eq!(steps("N O O", 0, 2), "+ -1O,2O");
        assert_eq!(steps("- O O", 0, 1), "+ -", "a pod is being created");
        assert_eq!(steps("o O O", 0, 1), "+ -0o", "an old pod that is not available is replaced first");
        assert_eq!(steps("o o O", 0, 3), "+ -0o,1o,2O");
        assert_eq!(
            steps("o o n", 0, 1),
            "+ -0o,1o",
            "those that are not available are replaced beyond the limit"
        );
    }

    #[test]
    fn with_surge_new_pods_come_first() {
        assert_eq!(steps("O O O", 1, 0), "+0 -");
        assert_eq!(steps("On O O", 1, 0), "+ -");
        assert_eq!(steps("ON O O", 1, 0), "+1 -0O");
        assert_eq!(steps("O O O", 2, 0), "+0,1 -");
        assert_eq!(steps("o O O", 1, 0), "+0,1 -", "an old pod that is not available needs no surge");
        assert_eq!(steps("O! N O", 1, 0), "+2 -0O", "enough others are available");
        assert_eq!(steps("O! n O", 1, 0), "+2 -", "the old one is still needed");
        assert_eq!(steps("o! N N", 1, 0), "+ -0o");
    }
}
