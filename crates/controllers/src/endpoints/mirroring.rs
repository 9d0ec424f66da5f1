//! Mirrors Endpoints that a user created, for a Service without a selector, to EndpointSlices.

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Result, Trigger};
use evenkeel_tree::{Tree, tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::selects_pods;
use super::slices::{MANAGED_BY, SERVICE_NAME};
use crate::MANAGER;
use crate::kinds::{ENDPOINT_SLICE, ENDPOINTS, EndpointSlice, Endpoints, SERVICE};
use crate::object::{Object, OfKind};

/// The value of the label [`MANAGED_BY`] for this controller.
const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// The label of Endpoints that must not be mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that serve as a leader election lock, which are not mirrored.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The controller that mirrors Endpoints to EndpointSlices.
pub(crate) fn controller() -> Controller<Object> {
    Controller::new_with("endpointslice-mirroring-controller", ENDPOINTS.source(), reconcile)
        .watches_with(SERVICE.source(), Trigger::same())
        .owns_with(ENDPOINT_SLICE.source())
        .field_manager(MANAGER)
}

async fn reconcile(endpoints: Arc<Endpoints>, ctx: Ctx) -> Result<Action> {
    let service = ctx.kind(&SERVICE).get(ctx.request())?;
    let mirrored = service.is_some_and(|service| !selects_pods(&service))
        && endpoints.label(SKIP) != Some("true")
        && endpoints.annotation(LEADER).is_none()
        && !endpoints.is_deleting();
    let wanted = if mirrored { slices(&endpoints) } else { Vec::new() };
    let all = ctx.kind(&ENDPOINT_SLICE);
    let mut present = all.children()?;
    present.retain(|slice| slice.label(MANAGED_BY) == Some(CONTROLLER));
    for slice in wanted {
        let same = |old: &Arc<EndpointSlice>| {
            old.at("ports") == slice.at("ports") && old.at("addressType") == slice.at("addressType")
        };
        let Some(at) = present.iter().position(same) else {
            all.create(slice).await?;
            continue;
        };
        let old = present.remove(at);
        if old.at("endpoints") != slice.at("endpoints") || old.metadata.labels != slice.metadata.labels {
            let mut new = EndpointSlice::clone(&old);
            new.set("endpoints", slice.at("endpoints"));
            new.metadata.labels = slice.metadata.labels;
            all.update(&new).await?;
        }
    }
    for slice in present {
        all.delete(&slice).await?;
    }
    Ok(Action::await_change())
}

/// Returns one slice for each subset and address family.
fn slices(endpoints: &Endpoints) -> Vec<EndpointSlice> {
    let mut slices = Vec::new();
    for subset in endpoints.list("subsets") {
        for family in ["IPv4", "IPv6"] {
            let of_family = of_family(subset, family);
            if !of_family.is_empty() {
                slices.push(slice(endpoints, subset, family, of_family));
            }
        }
    }
    slices
}

fn of_family(subset: &Tree, family: &str) -> Vec<Tree> {
    let fits = |address: &&Tree| address.str("ip").is_some_and(|ip| ip.contains(':')) == (family == "IPv6");
    let ready = subset.list("addresses").iter().filter(fits).map(|address| endpoint(address, true));
    let unready = subset.list("notReadyAddresses").iter().filter(fits);
    ready.chain(unready.map(|address| endpoint(address, false))).collect()
}

fn endpoint(address: &Tree, ready: bool) -> Tree {
    tree!({
        "addresses": vec![address.at("ip")],
        "conditions": tree!({"ready": ready}),
        "hostname": address.str("hostname").filter(|name| !name.is_empty()),
        "nodeName": address.at("nodeName"),
        "targetRef": address.at("targetRef"),
    })
}

fn slice(endpoints: &Endpoints, subset: &Tree, family: &str, of_family: Vec<Tree>) -> EndpointSlice {
    let port = |port: &Tree| {
        let mut port = port.clone();
        port.set("name", port.str("name").unwrap_or_default().to_owned());
        port
    };
    let ports: Vec<_> = subset.list("ports").iter().map(port).collect();
    let mut labels = endpoints.labels().clone();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", endpoints.name())),
        namespace: endpoints.metadata.namespace.clone(),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    let ports = (!ports.is_empty()).then_some(ports);
    EndpointSlice::new(metadata, tree!({"addressType": family, "endpoints": of_family, "ports": ports}))
}
