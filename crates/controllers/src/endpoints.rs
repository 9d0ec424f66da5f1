//! The addresses behind a Service: its Endpoints, and its EndpointSlices.

mod backends;
mod mirror;
mod slices;

pub(crate) use mirror::controller as mirroring;

use std::sync::Arc;

use backends::Backend;
use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, ResultExt, Source, Trigger};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::{MANAGER, labelled, refusal};

/// How many services are reconciled at once: as many as Kubernetes does by default.
const CONCURRENT: usize = 5;

/// The controller of Endpoints.
pub(crate) fn controller() -> Controller<Service> {
    Controller::requests("endpoint-controller", reconcile)
        .watches_indexed(by_selector(), |pod: &Pod| labelled::keys(&pod.metadata))
        .reads_with(Source::<Pod>::new().index(labelled::labelled()))
        .watches(Trigger::<Endpoints>::same())
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

/// The controller of EndpointSlices.
pub(crate) fn slice_controller() -> Controller<Service> {
    Controller::new("endpointslice-controller", reconcile_slices)
        .watches_indexed(by_selector(), |pod: &Pod| labelled::keys(&pod.metadata))
        .reads_with(Source::<Pod>::new().index(labelled::labelled()))
        .owns::<EndpointSlice>()
        .reads::<Node>()
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

/// Services by a label that all their pods carry.
fn by_selector() -> Index<Service> {
    Index::new("selector", |service: &Service| {
        let selector =
            service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|all| !all.is_empty());
        let namespace = service.namespace().unwrap_or_default();
        selector.map(|selector| labelled::selector_key(&namespace, Some(selector))).into_iter().collect()
    })
}

async fn reconcile(key: Request, ctx: Ctx) -> Result<Action> {
    let current = ctx.get_at::<Endpoints>(&key)?;
    let Some(service) = ctx.get_at::<Service>(&key)? else {
        // Those that we made go with their service; those that someone made by hand are no business of ours.
        if let Some(current) =
            current.filter(|current| current.labels().contains_key(backends::ENDPOINTS_MANAGED_BY))
        {
            ctx.delete(&current).await?;
        }
        return Ok(Action::await_change());
    };
    if !selects(&service) {
        return Ok(Action::await_change());
    }
    let wanted = Endpoints {
        metadata: ObjectMeta {
            name: Some(service.name_any()),
            namespace: service.namespace(),
            labels: Some(backends::endpoints_labels(&service)),
            ..ObjectMeta::default()
        },
        subsets: backends::subsets(&service, &backends(&ctx, &service)?),
    };
    match current {
        None => match ctx.create_unowned(wanted).await.ignore_already_exists() {
            Err(error) if !refusal::namespace_is_terminating(&error) => return Err(error.into()),
            _ => {}
        },
        Some(current)
            if current.subsets != wanted.subsets || current.metadata.labels != wanted.metadata.labels =>
        {
            let mut updated = Endpoints::clone(&current);
            updated.subsets = wanted.subsets;
            updated.metadata.labels = wanted.metadata.labels;
            ctx.update(&updated).await.ignore_not_found()?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

async fn reconcile_slices(service: Arc<Service>, ctx: Ctx) -> Result<Action> {
    if !selects(&service) || service.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let nodes = ctx.cache::<Node>()?;
    let mut backends = backends(&ctx, &service)?;
    // A pod on a node that nobody knows has no place in the topology yet.
    backends
        .retain(|backend| backend.node().is_some_and(|node| nodes.get(&Request::cluster(node)).is_some()));
    let present = ctx.children::<EndpointSlice>()?;
    let ours = present.into_iter().filter(|slice| slices::is_ours(slice)).collect();
    let plan = slices::plan(&service, &backends, ours);
    for slice in plan.create {
        match ctx.create(slice).await {
            Err(error) if !refusal::namespace_is_terminating(&error) => return Err(error.into()),
            _ => {}
        }
    }
    for slice in plan.update {
        ctx.update(&slice).await?;
    }
    for slice in plan.delete {
        ctx.delete(&slice).await?;
    }
    Ok(Action::await_change())
}

/// Whether addresses are found for this service by a selector.
fn selects(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let selector = spec.and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
        && spec.and_then(|spec| spec.type_.as_deref()) != Some("ExternalName")
}

/// The pods behind a service, by name.
fn backends(ctx: &Ctx, service: &Service) -> Result<Vec<Backend>> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let key = labelled::selector_key(&service.namespace().unwrap_or_default(), Some(&selector));
    let candidates = ctx.cache::<Pod>()?.by_index(labelled::INDEX, &key)?;
    let selected = candidates
        .into_iter()
        .filter(|pod| selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value)));
    Ok(selected.filter_map(|pod| Backend::of(service, pod)).collect())
}
