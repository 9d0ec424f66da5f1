//! The claims of a pod, which must be bound to volumes before the pod is bound to a node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Request, Result};
use tokio::time::Instant;

use crate::kinds::{PersistentVolumeClaim, Pod};

/// How long a pod waits for its unbound claims before it counts as unschedulable: a provisioner that works needs a moment.
const PATIENCE: Duration = Duration::from_millis(100);

/// The annotation of a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// Why the claims of a pod keep it from being placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The reason, in kube-scheduler's words.
    pub(super) why: String,
    /// Whether a claim is only not bound yet.
    unbound: bool,
}

/// Returns why the claims of a pod keep it from being placed; `None` if they do not. `get` looks up a claim.
pub(super) fn trouble(
    pod: &Pod,
    get: impl Fn(&Request) -> Result<Option<Arc<PersistentVolumeClaim>>>,
) -> Result<Option<Trouble>> {
    let mut unbound = false;
    let names = pod.list("spec/volumes").iter().filter_map(|it| it.str("persistentVolumeClaim/claimName"));
    for name in names {
        let Some(claim) = get(&Request::new(pod.metadata.namespace.as_deref(), name))? else {
            let why = format!("persistentvolumeclaim {name:?} not found");
            return Ok(Some(Trouble { why, unbound: false }));
        };
        if let Some(why) = refusal(&claim) {
            return Ok(Some(Trouble { why, unbound: false }));
        }
        let named = claim.str("spec/volumeName").is_some_and(|volume| !volume.is_empty());
        unbound |= !named || claim.annotation(BIND_COMPLETED).is_none();
    }
    let why = "pod has unbound immediate PersistentVolumeClaims".to_owned();
    Ok(unbound.then_some(Trouble { why, unbound }))
}

/// Returns why no pod can use a claim, if so.
fn refusal(claim: &PersistentVolumeClaim) -> Option<String> {
    let name = claim.name();
    if claim.is("status/phase", "Lost") {
        let volume = claim.str("spec/volumeName").unwrap_or_default();
        return Some(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        ));
    }
    claim.is_deleting().then(|| format!("persistentvolumeclaim {name:?} is being deleted"))
}

/// The wait of one pod for its claims.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    /// Whether it was reported that the pod is unschedulable.
    told: bool,
}

/// The pods that wait for their claims.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pods: BTreeMap<Request, Wait>,
}

impl Waiting {
    /// Notes that a pod waits. Returns whether it should go on waiting silently.
    pub(super) fn is_patient(&mut self, pod: &Request, trouble: &Trouble) -> bool {
        let now = Instant::now();
        let wait = self.pods.entry(pod.clone()).or_insert(Wait { since: now, told: false });
        let patient = trouble.unbound && now.saturating_duration_since(wait.since) < PATIENCE;
        wait.told = !patient;
        patient
    }

    /// Forgets a pod that no longer waits.
    pub(super) fn forget(&mut self, pod: &Request) {
        self.pods.remove(pod);
    }

    fn silent(&self) -> impl Iterator<Item = (&Request, Instant)> {
        self.pods.iter().filter(|(_, wait)| !wait.told).map(|(pod, wait)| (pod, wait.since + PATIENCE))
    }

    /// Returns when the patience of the next pod ends.
    pub(super) fn ends_in(&self) -> Option<Duration> {
        let now = Instant::now();
        self.silent().map(|(_, end)| end.saturating_duration_since(now)).min()
    }

    /// Returns the pods whose patience has ended.
    pub(super) fn ended(&self) -> Vec<Request> {
        let now = Instant::now();
        self.silent().filter(|(_, end)| *end <= now).map(|(pod, _)| pod.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns why a pod with the claim `c` is not placed.
    fn why(claim: Option<Value>) -> Option<(String, bool)> {
        let spec = json!({"containers": [], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]});
        let pod: Pod =
            crate::object::object(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}));
        let claim = claim.map(|it| Arc::new(crate::object::object(it)));
        trouble(&pod, |_| Ok(claim.clone())).unwrap().map(|it| (it.why, it.unbound))
    }

    #[test]
    fn a_claim_must_be_bound() {
        let said = |why: &str, unbound| Some((why.to_owned(), unbound));
        assert_eq!(why(None), said("persistentvolumeclaim \"c\" not found", false));
        let unbound = "pod has unbound immediate PersistentVolumeClaims";
        assert_eq!(why(Some(json!({"metadata": {"name": "c"}}))), said(unbound, true));
        let named = json!({"metadata": {"name": "c"}, "spec": {"volumeName": "v"}});
        assert_eq!(why(Some(named)), said(unbound, true), "the volume may belong to another claim");
        let bound = json!({"metadata": {"name": "c", "annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": "v"}});
        assert_eq!(why(Some(bound.clone())), None);
        let mut lost = bound.clone();
        lost["status"] = json!({"phase": "Lost"});
        let gone = "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\"";
        assert_eq!(why(Some(lost)), said(gone, false));
        let mut deleting = bound;
        deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(why(Some(deleting)), said("persistentvolumeclaim \"c\" is being deleted", false));
    }
}
