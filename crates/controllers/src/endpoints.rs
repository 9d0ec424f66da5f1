//! The addresses of a Service: its Endpoints and its EndpointSlices.

mod backends;
mod mirroring;
mod slices;

pub(crate) use mirroring::controller as mirroring_controller;

use std::sync::Arc;

use backends::Backend;
use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, ResultExt, Trigger};
use evenkeel_tree::tree;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kinds::{ENDPOINT_SLICE, ENDPOINTS, Endpoints, NODE, POD, Pod, SERVICE, Service};
use crate::object::{Fields, Object, OfKind};
use crate::{MANAGER, api_error, label_index};

/// How many Services are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of Endpoints.
pub(crate) fn controller() -> Controller<Object> {
    Controller::requests_with("endpoint-controller", SERVICE.source(), reconcile)
        .watches_indexed_with(POD.source(), by_selector(), |pod: &Pod| label_index::keys(&pod.metadata))
        .reads_with(POD.source().index(label_index::by_label()))
        .watches_with(ENDPOINTS.source(), Trigger::same())
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

/// The controller of EndpointSlices.
pub(crate) fn slice_controller() -> Controller<Object> {
    Controller::new_with("endpointslice-controller", SERVICE.source(), reconcile_slices)
        .watches_indexed_with(POD.source(), by_selector(), |pod: &Pod| label_index::keys(&pod.metadata))
        .reads_with(POD.source().index(label_index::by_label()))
        .owns_with(ENDPOINT_SLICE.source())
        .reads_with(NODE.source())
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

/// The index of Services by one label that their selector requires.
fn by_selector() -> Index<Service> {
    Index::new("selector", |service: &Service| match selects_pods(service) {
        true => vec![selector_key(service)],
        false => Vec::new(),
    })
}

/// Returns the key in the label index under which the pods of a Service are found.
fn selector_key(service: &Service) -> String {
    label_index::selector_key(service.in_namespace(), Some(&service.text_map("spec/selector")))
}

async fn reconcile(key: Request, ctx: Ctx) -> Result<Action> {
    let all = ctx.kind(&ENDPOINTS);
    let current = all.get(&key)?;
    let Some(service) = ctx.kind(&SERVICE).get(&key)? else {
        // Only Endpoints that this controller created are deleted with their Service.
        if let Some(current) =
            current.filter(|current| current.label(backends::ENDPOINTS_MANAGED_BY).is_some())
        {
            all.delete(&current).await?;
        }
        return Ok(Action::await_change());
    };
    if !selects(&service) {
        return Ok(Action::await_change());
    }
    let metadata = ObjectMeta {
        name: service.metadata.name.clone(),
        namespace: service.metadata.namespace.clone(),
        labels: Some(backends::endpoints_labels(&service)),
        ..ObjectMeta::default()
    };
    let subsets = backends::subsets(&service, &backends(&ctx, &service)?);
    let wanted = Endpoints::new(metadata, tree!({"subsets": subsets}));
    match current {
        None => match all.create_unowned(wanted).await.ignore_already_exists() {
            Err(error) if !api_error::namespace_is_terminating(&error) => return Err(error.into()),
            _ => {}
        },
        Some(current)
            if current.at("subsets") != wanted.at("subsets")
                || current.metadata.labels != wanted.metadata.labels =>
        {
            let mut updated = Endpoints::clone(&current);
            updated.set("subsets", wanted.at("subsets"));
            updated.metadata.labels = wanted.metadata.labels;
            all.update(&updated).await.ignore_not_found()?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

async fn reconcile_slices(service: Arc<Service>, ctx: Ctx) -> Result<Action> {
    if !selects(&service) || service.is_deleting() {
        return Ok(Action::await_change());
    }
    let nodes = ctx.kind(&NODE).cache()?;
    let mut backends = backends(&ctx, &service)?;
    // A slice needs the topology of the node, which is not known yet.
    backends
        .retain(|backend| backend.node().is_some_and(|node| nodes.get(&Request::cluster(node)).is_some()));
    let all = ctx.kind(&ENDPOINT_SLICE);
    let ours = all.children()?.into_iter().filter(|slice| slices::is_ours(slice)).collect();
    let plan = slices::plan(&service, &backends, ours);
    for slice in plan.create {
        match all.create(slice).await {
            Err(error) if !api_error::namespace_is_terminating(&error) => return Err(error.into()),
            _ => {}
        }
    }
    for slice in plan.update {
        all.update(&slice).await?;
    }
    for slice in plan.delete {
        all.delete(&slice).await?;
    }
    Ok(Action::await_change())
}

/// Whether the Service has a selector.
fn selects_pods(service: &Service) -> bool {
    !service.at("spec/selector").is_empty()
}

/// Whether the controllers find addresses for this Service by its selector.
fn selects(service: &Service) -> bool {
    selects_pods(service) && !service.is("spec/type", "ExternalName")
}

/// Returns the backends of a Service, by the names of their pods.
fn backends(ctx: &Ctx, service: &Service) -> Result<Vec<Backend>> {
    let candidates = ctx.kind(&POD).cache()?.by_index(label_index::INDEX, &selector_key(service))?;
    let selected = candidates
        .into_iter()
        .filter(|pod| service.entries("spec/selector").all(|(key, value)| pod.label(key) == value.as_str()));
    Ok(selected.filter_map(|pod| Backend::of(service, pod)).collect())
}
