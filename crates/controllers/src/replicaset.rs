//! ReplicaSets and ReplicationControllers: they keep a number of pods.
//!
//! The adapter claims the pods of the set, does what [`plan`] says, and writes the status. No pod is created twice: the
//! next reconcile of the set waits until the cache shows the writes of this one, and lists the pods from the API server if
//! the cache stays behind.

pub(crate) mod plan;
mod ranking;
pub(crate) mod status;

pub(crate) use plan::{BURST, Pods};

use std::borrow::Cow;
use std::sync::Arc;

use evenkeel_runtime::{
    Action, ContextError, Controller, Ctx, Index, Object, Request, Result, ResultExt, Source,
};
use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::core::params::ListParams;
use plan::Scale;
use serde_json::Value;
use status::Failure;

use crate::adoption::{self, claim};
use crate::controller_ref::{controller_of, controller_reference};
use crate::openapi_compat::{HasSpec as _, into_field};
use crate::{MANAGER, api_error, clock, pod_template};

/// How many sets are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of ReplicaSets.
pub(crate) fn controller() -> Controller<ReplicaSet> {
    replicated("replicaset-controller").index(Index::by_owner())
}

/// The controller of ReplicationControllers.
pub(crate) fn replication_controllers() -> Controller<ReplicationController> {
    replicated("replication-controller")
}

fn replicated<K: Replicated>(name: &str) -> Controller<K> {
    let selector = |set: &K| set.as_set().spec().map(|spec| spec.selector.clone());
    Controller::new(name, reconcile::<K>)
        .owns_with(Source::<Pod>::new().index(adoption::orphans()))
        .watches_indexed(adoption::selects(selector), |pod: &Pod| adoption::orphan_keys(&pod.metadata))
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

/// A kind that keeps a number of pods.
trait Replicated: Object<DynamicType = ()> {
    /// The object as a ReplicaSet.
    fn as_set(&self) -> Cow<'_, ReplicaSet>;

    /// Converts the status of a ReplicaSet to the status of this kind.
    fn status_of(status: ReplicaSetStatus) -> Value {
        serde_json::to_value(status).unwrap_or_default()
    }
}

impl Replicated for ReplicaSet {
    fn as_set(&self) -> Cow<'_, ReplicaSet> {
        Cow::Borrowed(self)
    }
}

impl Replicated for ReplicationController {
    fn as_set(&self) -> Cow<'_, ReplicaSet> {
        let spec = self.spec.clone().unwrap_or_default();
        let status = self.status.as_ref().and_then(|status| serde_json::to_value(status).ok());
        Cow::Owned(ReplicaSet {
            metadata: self.metadata.clone(),
            spec: into_field(ReplicaSetSpec {
                replicas: spec.replicas,
                min_ready_seconds: spec.min_ready_seconds,
                selector: LabelSelector { match_labels: spec.selector, match_expressions: None },
                template: spec.template,
            }),
            status: status.and_then(|status| serde_json::from_value(status).ok()),
        })
    }

    fn status_of(status: ReplicaSetStatus) -> Value {
        let mut status = serde_json::to_value(status).unwrap_or_default();
        if let Some(fields) = status.as_object_mut() {
            fields.remove("terminatingReplicas");
        }
        status
    }
}

async fn reconcile<K: Replicated>(object: Arc<K>, ctx: Ctx) -> Result<Action> {
    let set = object.as_set();
    let Some(spec) = set.spec() else { return Ok(Action::await_change()) };
    let owned =
        if ctx.is_behind() { live(&ctx, &set).await? } else { claim(&ctx, &*object, &spec.selector).await? };
    let pods = Pods::of(owned);
    let now = clock::seconds(ctx.now());
    let scale = match set.metadata.deletion_timestamp {
        Some(_) => Scale::Enough,
        None => plan::scale(
            spec.replicas.unwrap_or(1),
            &pods.active,
            || related(&ctx, &set).unwrap_or_else(|| pods.active.clone()),
            now,
        ),
    };
    let outcome = match scale {
        Scale::Enough => Ok(()),
        Scale::Create(count) => create(&ctx, &*object, &set, count).await,
        Scale::Delete(victims) => delete(&ctx, &*object, &victims).await,
    };
    let failure = outcome.as_ref().err().map(|(failure, _)| failure);
    let status = K::status_of(status::status(&set, &pods, failure, now));
    ctx.status(&object, status).await.ignore_not_found()?;
    if let Err((_, error)) = outcome {
        return Err(error.into());
    }
    Ok(status::next_available(&set, &pods, now).map_or_else(Action::await_change, Action::requeue))
}

/// Lists the pods of the set from the API server, for a cache that does not show our own writes yet.
async fn live(ctx: &Ctx, set: &ReplicaSet) -> Result<Vec<Arc<Pod>>> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let pods = Api::<Pod>::namespaced(ctx.client().clone(), namespace).list(&ListParams::default()).await?;
    let ours =
        |pod: &Pod| crate::controller_ref::is_controlled_by(&pod.metadata, set.metadata.uid.as_deref());
    Ok(pods.items.into_iter().filter(ours).map(Arc::new).collect())
}

/// Returns the pods of all ReplicaSets of the same Deployment; `None` if the set has no controller.
fn related(ctx: &Ctx, set: &ReplicaSet) -> Option<Vec<Arc<Pod>>> {
    let owner = controller_of(&set.metadata)?;
    let pods = ctx.cache::<Pod>().ok()?;
    let mut related = Vec::new();
    for sibling in ctx.cache::<ReplicaSet>().ok()?.owned_by(&owner.uid).ok()? {
        related.extend(pods.owned_by(sibling.metadata.uid.as_deref().unwrap_or_default()).ok()?);
    }
    Some(related)
}

type Outcome = std::result::Result<(), (Failure, ContextError)>;

async fn create<K: Replicated>(ctx: &Ctx, owner: &K, set: &ReplicaSet, count: usize) -> Outcome {
    let pod_template = set.spec().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    for batch in plan::batches(count) {
        let pod = || pod_template::pod(&pod_template, namespace, controller_reference(owner));
        let mut failed = None;
        for made in join_all((0..batch).map(|_| ctx.create(pod()))).await {
            match made {
                Ok(pod) => {
                    let name = pod.metadata.name.unwrap_or_default();
                    ctx.event(owner, "SuccessfulCreate", format!("Created pod: {name}"));
                }
                // The API server rejects new pods here, and deletes the existing ones.
                Err(error) if api_error::namespace_is_terminating(&error) => return Ok(()),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            let message = api_error::message(&error);
            ctx.warning(owner, "FailedCreate", format!("Error creating: {message}"));
            return Err((Failure { reason: "FailedCreate", message }, error));
        }
    }
    Ok(())
}

async fn delete<K: Replicated>(ctx: &Ctx, owner: &K, victims: &[Arc<Pod>]) -> Outcome {
    let mut outcome = Ok(());
    for (pod, gone) in victims.iter().zip(join_all(victims.iter().map(|pod| ctx.delete(pod))).await) {
        match gone {
            Ok(_) => {
                let name = Request::of(&**pod).name;
                ctx.event(owner, "SuccessfulDelete", format!("Deleted pod: {name}"));
            }
            Err(error) => {
                let message = api_error::message(&error);
                ctx.warning(owner, "FailedDelete", format!("Error deleting: {message}"));
                outcome = Err((Failure { reason: "FailedDelete", message }, error));
            }
        }
    }
    outcome
}
