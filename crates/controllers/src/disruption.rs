//! PodDisruptionBudgets: how many pods may be evicted.

mod budget;

use std::sync::Arc;

use budget::Observed;
use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, ResultExt};
use evenkeel_tree::Tree;
use kube::ResourceExt;
use kube::core::SelectorExt;

use crate::clock::{self, Reminders};
use crate::controller_ref::{controller_of, controller_of_kind};
use crate::kinds::{
    DEPLOYMENT, POD, POD_DISRUPTION_BUDGET, Pod, PodDisruptionBudget, REPLICA_SET, REPLICATION_CONTROLLER,
    ReplicaSet, STATEFUL_SET,
};
use crate::object::{Fields, Object, OfKind, selector, write_status};
use crate::{MANAGER, counts, label_index, pod};

/// The controller of PodDisruptionBudgets.
pub(crate) fn controller() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    let by_selector = Index::new("selector", |budget: &PodDisruptionBudget| vec![selector_key(budget)]);
    Controller::new_with("disruption-controller", POD_DISRUPTION_BUDGET.source(), reconcile)
        .watches_indexed_with(POD.source(), by_selector, |pod: &Pod| label_index::keys(&pod.metadata))
        .reads_with(POD.source().index(label_index::by_label()))
        .reads_with(REPLICA_SET.source())
        .reads_with(DEPLOYMENT.source())
        .reads_with(STATEFUL_SET.source())
        .reads_with(REPLICATION_CONTROLLER.source())
        .stream("disrupted pod", due)
        .field_manager(MANAGER)
        .event_source("controllermanager")
        .state(reminders)
}

/// Returns the key in the label index under which the pods of a budget are found.
fn selector_key(budget: &PodDisruptionBudget) -> String {
    let labels = budget.text_map("spec/selector/matchLabels");
    label_index::selector_key(budget.in_namespace(), Some(&labels))
}

async fn reconcile(budget: Arc<PodDisruptionBudget>, ctx: Ctx<Reminders>) -> Result<Action> {
    let selector = budget.label_selector("spec/selector").and_then(selector);
    let candidates = ctx.kind(&POD).cache()?.by_index(label_index::INDEX, &selector_key(&budget))?;
    let selected = |pod: &Arc<Pod>| selector.as_ref().is_some_and(|selector| selector.matches(pod.labels()));
    let mut pods: Vec<_> = candidates.into_iter().filter(selected).collect();
    tell_pods(&ctx, &budget, &pods);
    pods.retain(|pod| !pod::is_finished(pod));
    let scale = scale(&ctx, &pods)?;
    let observed = Observed { budget: budget.clone(), pods, scale };
    let now = clock::seconds(ctx.now());
    for pod in budget::not_deleted(&observed, now) {
        let namespace = budget.in_namespace();
        // The second part is the namespace too, as in Kubernetes.
        let note = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        ctx.kind(&POD).warning(&**pod, "NotDeleted", note);
    }
    let (status, look_again) = budget::status(&observed, now);
    ctx.state().set(ctx.request(), look_again);
    write_status(&ctx, &POD_DISRUPTION_BUDGET, &budget, &status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

/// Records that a budget selects no pods, or pods whose number cannot be known.
fn tell_pods(ctx: &Ctx<Reminders>, budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) {
    let budgets = ctx.kind(&POD_DISRUPTION_BUDGET);
    if pods.is_empty() {
        return budgets.event(budget, "NoPods", "No matching pods found");
    }
    let counted = budget.has("spec/maxUnavailable") || budget.str("spec/minAvailable").is_some();
    if counted && pods.iter().any(|pod| controller_of(&pod.metadata).is_none()) {
        let note = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status \
             of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods \
             please set \".spec.minAvailable\" field of the PDB to an integer value.",
            printed(budget.at("spec/selector"))
        );
        budgets.warning(budget, "UnmanagedPods", note);
    }
}

/// Returns a label selector as Kubernetes prints it in events.
fn printed(selector: &Tree) -> String {
    let text = |tree: &Tree| tree.as_str().unwrap_or_default().to_owned();
    let labels = selector.entries("matchLabels").map(|(key, value)| format!("{key}: {},", text(value)));
    let labels: String = labels.collect();
    let expressions = selector.list("matchExpressions").iter().map(|it| {
        let values: Vec<_> = it.texts("values").collect();
        let (key, operator) = (text(it.at("key")), text(it.at("operator")));
        format!("{{{key} {operator} [{}]}},", values.join(" "))
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// Returns how many pods the controllers of these pods want together.
fn scale(ctx: &Ctx<Reminders>, pods: &[Arc<Pod>]) -> Result<i32> {
    let mut seen = std::collections::BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else { continue };
        let kinds = [&REPLICA_SET, &STATEFUL_SET, &REPLICATION_CONTROLLER];
        let Some(kind) = kinds.into_iter().find(|kind| kind.is_of(owner)) else { continue };
        let key = Request::new(pod.metadata.namespace.as_deref(), owner.name.as_str());
        let Some(set) = ctx.kind(kind).get(&key)? else { continue };
        let (uid, wanted) = match *kind == REPLICA_SET {
            true => scale_of_set(ctx, &set)?,
            false => (owner.uid.clone(), set.i32("spec/replicas").unwrap_or(1)),
        };
        seen.insert(uid, wanted);
    }
    Ok(counts::sum(seen.into_values()))
}

/// Returns uid and wanted size of a ReplicaSet, or of the Deployment that controls it.
fn scale_of_set(ctx: &Ctx<Reminders>, set: &ReplicaSet) -> Result<(String, i32)> {
    let own = set.i32("spec/replicas").unwrap_or(1);
    let Some(owner) = controller_of_kind(&set.metadata, &DEPLOYMENT) else {
        return Ok((set.uid().unwrap_or_default(), own));
    };
    let key = Request::new(set.metadata.namespace.as_deref(), owner.name.as_str());
    let deployment = ctx.kind(&DEPLOYMENT).get(&key)?;
    let wanted = deployment.and_then(|deployment| deployment.i32("spec/replicas")).unwrap_or(own);
    Ok((owner.uid.clone(), wanted))
}
