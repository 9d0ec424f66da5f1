//! The addresses of a Service: its Endpoints and its EndpointSlices.

mod backends;
mod mirroring;
mod slices;

pub(crate) use mirroring::controller as mirroring_controller;

use std::sync::Arc;

use backends::Backend;
use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, ResultExt, Source, Trigger};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::{MANAGER, api_error, label_index};

/// How many Services are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of Endpoints.
pub(crate) fn controller() -> Controller<Service> {
    Controller::requests("endpoint-controller", reconcile)
        .watches_indexed(by_selector(), |pod: &Pod| label_index::keys(&pod.metadata))
        .reads_with(Source::<Pod>::new().index(label_index::by_label()))
        .watches(Trigger::<Endpoints>::same())
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

/// The controller of EndpointSlices.
pub(crate) fn slice_controller() -> Controller<Service> {
    Controller::new("endpointslice-controller", reconcile_slices)
        .watches_indexed(by_selector(), |pod: &Pod| label_index::keys(&pod.metadata))
        .reads_with(Source::<Pod>::new().index(label_index::by_label()))
        .owns::<EndpointSlice>()
        .reads::<Node>()
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

/// The index of Services by one label that their selector requires.
fn by_selector() -> Index<Service> {
    Index::new("selector", |service: &Service| {
        let selector =
            service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|all| !all.is_empty());
        let namespace = service.namespace().unwrap_or_default();
        selector.map(|selector| label_index::selector_key(&namespace, Some(selector))).into_iter().collect()
    })
}

async fn reconcile(key: Request, ctx: Ctx) -> Result<Action> {
    let current = ctx.get_at::<Endpoints>(&key)?;
    let Some(service) = ctx.get_at::<Service>(&key)? else {
        // Only Endpoints that this controller created are deleted with their Service.
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
            Err(error) if !api_error::namespace_is_terminating(&error) => return Err(error.into()),
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
    // A slice needs the topology of the node, which is not known yet.
    backends
        .retain(|backend| backend.node().is_some_and(|node| nodes.get(&Request::cluster(node)).is_some()));
    let present = ctx.children::<EndpointSlice>()?;
    let ours = present.into_iter().filter(|slice| slices::is_ours(slice)).collect();
    let plan = slices::plan(&service, &backends, ours);
    for slice in plan.create {
        match ctx.create(slice).await {
            Err(error) if !api_error::namespace_is_terminating(&error) => return Err(error.into()),
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

/// Whether the controllers find addresses for this Service by its selector.
fn selects(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let selector = spec.and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| !selector.is_empty())
        && spec.and_then(|spec| spec.type_.as_deref()) != Some("ExternalName")
}

/// Returns the backends of a Service, by the names of their pods.
fn backends(ctx: &Ctx, service: &Service) -> Result<Vec<Backend>> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    let key = label_index::selector_key(&service.namespace().unwrap_or_default(), Some(&selector));
    let candidates = ctx.cache::<Pod>()?.by_index(label_index::INDEX, &key)?;
    let selected = candidates
        .into_iter()
        .filter(|pod| selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value)));
    Ok(selected.filter_map(|pod| Backend::of(service, pod)).collect())
}
