//! How long a pod tolerates the taints of its node.

use std::time::Duration;

use evenkeel_tree::Tree;

use crate::scheduler::affinity::tolerates;

/// How long a pod may stay on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tolerance {
    /// The pod tolerates all taints of the node for as long as they exist.
    Forever,
    /// The pod must go at once.
    None,
    /// The pod may stay for this time.
    For(Duration),
}

/// Returns how long a pod with this spec tolerates all of these taints: of the tolerations that are used, the one that ends
/// first counts.
pub(super) fn of(spec: &Tree, taints: &[&Tree]) -> Tolerance {
    let mut least: Option<i64> = None;
    for taint in taints {
        let mut tolerations = spec.list("tolerations").iter();
        let Some(used) = tolerations.find(|toleration| tolerates(toleration, taint)) else {
            return Tolerance::None;
        };
        if let Some(seconds) = used.i64("tolerationSeconds") {
            least = Some(least.map_or(seconds, |known| known.min(seconds)));
        }
    }
    match least.map(|seconds| u64::try_from(seconds).unwrap_or(0)) {
        None => Tolerance::Forever,
        Some(0) => Tolerance::None,
        Some(seconds) => Tolerance::For(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn tolerance(tolerations: Value, keys: &[&str]) -> Tolerance {
        let taints: Vec<Tree> =
            keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"}).into()).collect();
        of(&json!({ "tolerations": tolerations }).into(), &taints.iter().collect::<Vec<_>>())
    }

    #[test]
    fn every_taint_must_be_tolerated() {
        let one = json!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]);
        assert_eq!(tolerance(one.clone(), &[]), Tolerance::Forever);
        assert_eq!(tolerance(one.clone(), &["a"]), Tolerance::Forever);
        assert_eq!(tolerance(one, &["a", "b"]), Tolerance::None);
        assert_eq!(tolerance(json!(null), &["a"]), Tolerance::None);
        let other = json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]);
        assert_eq!(tolerance(other, &["a"]), Tolerance::None);
    }

    #[test]
    fn the_shortest_time_counts() {
        let both = |a: i64, b: i64| {
            json!([{"key": "a", "operator": "Exists", "tolerationSeconds": a}, {"key": "b", "operator": "Exists", "tolerationSeconds": b},
                {"operator": "Exists"}])
        };
        let seconds = |seconds| Tolerance::For(Duration::from_secs(seconds));
        assert_eq!(tolerance(both(9, 5), &["a", "b"]), seconds(5));
        assert_eq!(tolerance(both(9, 5), &["a", "c"]), seconds(9));
        assert_eq!(tolerance(both(9, 0), &["a", "b"]), Tolerance::None);
        assert_eq!(tolerance(both(9, -1), &["b"]), Tolerance::None);
        assert_eq!(tolerance(both(i64::MAX, 5), &["a"]), seconds(i64::MAX.unsigned_abs()));
    }
}
