//! Mirrors Endpoints that a user created, for a Service without a selector, to EndpointSlices.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::slices::{MANAGED_BY, SERVICE_NAME};
use crate::MANAGER;
use crate::openapi_compat::into_field;

/// The value of the label [`MANAGED_BY`] for this controller.
const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// The label of Endpoints that must not be mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that serve as a leader election lock, which are not mirrored.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The controller that mirrors Endpoints to EndpointSlices.
pub(crate) fn controller() -> Controller<Endpoints> {
    Controller::new("endpointslice-mirroring-controller", reconcile)
        .watches(Trigger::<Service>::same())
        .owns::<EndpointSlice>()
        .field_manager(MANAGER)
}

async fn reconcile(endpoints: Arc<Endpoints>, ctx: Ctx) -> Result<Action> {
    let service = ctx.get_at::<Service>(&Request::of(&*endpoints))?;
    let selects = |service: &Service| {
        service.spec.as_ref().is_some_and(|spec| spec.selector.as_ref().is_some_and(|all| !all.is_empty()))
    };
    let mirrored = service.is_some_and(|service| !selects(&service))
        && endpoints.labels().get(SKIP).map(String::as_str) != Some("true")
        && !endpoints.annotations().contains_key(LEADER)
        && endpoints.metadata.deletion_timestamp.is_none();
    let wanted = if mirrored { slices(&endpoints) } else { Vec::new() };
    let present = ctx.children::<EndpointSlice>()?;
    let mut present: Vec<_> = present
        .into_iter()
        .filter(|slice| slice.labels().get(MANAGED_BY).map(String::as_str) == Some(CONTROLLER))
        .collect();
    for slice in wanted {
        let Some(at) =
            present.iter().position(|old| old.ports == slice.ports && old.address_type == slice.address_type)
        else {
            ctx.create(slice).await?;
            continue;
        };
        let old = present.remove(at);
        if old.endpoints != slice.endpoints || old.metadata.labels != slice.metadata.labels {
            let mut new = EndpointSlice::clone(&old);
            new.endpoints = slice.endpoints;
            new.metadata.labels = slice.metadata.labels;
            ctx.update(&new).await?;
        }
    }
    for slice in present {
        ctx.delete(&slice).await?;
    }
    Ok(Action::await_change())
}

/// Returns one slice for each subset and address family.
fn slices(endpoints: &Endpoints) -> Vec<EndpointSlice> {
    let mut slices = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        for family in ["IPv4", "IPv6"] {
            let of_family = of_family(subset, family);
            if !of_family.is_empty() {
                slices.push(slice(endpoints, subset, family, of_family));
            }
        }
    }
    slices
}

fn of_family(subset: &EndpointSubset, family: &str) -> Vec<Endpoint> {
    let fits = |address: &&EndpointAddress| address.ip.contains(':') == (family == "IPv6");
    let ready = subset.addresses.iter().flatten().filter(fits).map(|address| endpoint(address, true));
    let unready =
        subset.not_ready_addresses.iter().flatten().filter(fits).map(|address| endpoint(address, false));
    ready.chain(unready).collect()
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn slice(
    endpoints: &Endpoints,
    subset: &EndpointSubset,
    family: &str,
    of_family: Vec<Endpoint>,
) -> EndpointSlice {
    let port = |port: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    };
    let ports: Vec<_> = subset.ports.iter().flatten().map(port).collect();
    let mut labels: BTreeMap<_, _> = endpoints.labels().clone();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name_any());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", endpoints.name_any())),
            namespace: endpoints.namespace(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: into_field(of_family),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
    }
}
