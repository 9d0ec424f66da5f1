//! PodDisruptionBudgets: how many pods may be evicted.

mod budget;

use std::sync::Arc;

use budget::Observed;
use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, ResultExt, Source};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use crate::clock::{self, Reminders};
use crate::controller_ref::controller_of;
use crate::openapi_compat::HasSpec as _;
use crate::{MANAGER, counts, label_index};

/// The controller of PodDisruptionBudgets.
pub(crate) fn controller() -> Controller<PodDisruptionBudget> {
    let (reminders, due) = Reminders::channel();
    let by_selector = Index::new("selector", |budget: &PodDisruptionBudget| {
        let labels = budget
            .spec
            .as_ref()
            .and_then(|spec| spec.selector.as_ref())
            .and_then(|selector| selector.match_labels.as_ref());
        vec![label_index::selector_key(&budget.namespace().unwrap_or_default(), labels)]
    });
    Controller::new("disruption-controller", reconcile)
        .watches_indexed(by_selector, |pod: &Pod| label_index::keys(&pod.metadata))
        .reads_with(Source::<Pod>::new().index(label_index::by_label()))
        .reads::<ReplicaSet>()
        .reads::<Deployment>()
        .reads::<StatefulSet>()
        .reads::<ReplicationController>()
        .stream("disrupted pod", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn reconcile(budget: Arc<PodDisruptionBudget>, ctx: Ctx<Reminders>) -> Result<Action> {
    let spec = budget.spec.clone().unwrap_or_default();
    let labels = spec.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
    let key = label_index::selector_key(&budget.namespace().unwrap_or_default(), labels);
    let selector: Option<Selector> = spec.selector.clone().and_then(|selector| selector.try_into().ok());
    let candidates = ctx.cache::<Pod>()?.by_index(label_index::INDEX, &key)?;
    let selected = |pod: &Arc<Pod>| selector.as_ref().is_some_and(|selector| selector.matches(pod.labels()));
    let pods: Vec<_> =
        candidates.into_iter().filter(selected).filter(|pod| !crate::pod::is_finished(pod)).collect();
    let scale = scale(&ctx, &pods)?;
    let observed = Observed { budget: budget.clone(), pods, scale };
    let (status, look_again) = budget::status(&observed, clock::seconds(ctx.now()));
    ctx.state().set(ctx.request(), look_again);
    ctx.status(&budget, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

/// Returns how many pods the controllers of these pods want together.
fn scale(ctx: &Ctx<Reminders>, pods: &[Arc<Pod>]) -> Result<i32> {
    let mut seen = std::collections::BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else { continue };
        let namespace = pod.namespace();
        let key = |name: &str| Request::new(namespace.as_deref(), name);
        let (uid, wanted) = match owner.kind.as_str() {
            "ReplicaSet" => match ctx.get_at::<ReplicaSet>(&key(&owner.name))? {
                Some(set) => scale_of_set(ctx, &set)?,
                None => continue,
            },
            "StatefulSet" => match ctx.get_at::<StatefulSet>(&key(&owner.name))? {
                Some(set) => (owner.uid.clone(), set.spec().and_then(|spec| spec.replicas).unwrap_or(1)),
                None => continue,
            },
            "ReplicationController" => match ctx.get_at::<ReplicationController>(&key(&owner.name))? {
                Some(set) => {
                    (owner.uid.clone(), set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1))
                }
                None => continue,
            },
            _ => continue,
        };
        seen.insert(uid, wanted);
    }
    Ok(counts::sum(seen.into_values()))
}

/// Returns uid and wanted size of a ReplicaSet, or of the Deployment that controls it.
fn scale_of_set(ctx: &Ctx<Reminders>, set: &ReplicaSet) -> Result<(String, i32)> {
    let own = set.spec().and_then(|spec| spec.replicas).unwrap_or(1);
    let uid = set.uid().unwrap_or_default();
    let Some(owner) = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment") else {
        return Ok((uid, own));
    };
    let deployment =
        ctx.get_at::<Deployment>(&Request::new(set.namespace().as_deref(), owner.name.as_str()))?;
    let wanted = deployment.and_then(|deployment| deployment.spec()?.replicas).unwrap_or(own);
    Ok((owner.uid.clone(), wanted))
}
