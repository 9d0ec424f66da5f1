//! Creates the objects that the controllers create in every new cluster, so that no controller has to start only for
//! them.
//!
//! The requests and their content equal those of the controllers, which find nothing to do afterwards.

use evenkeel_env::Env;
use jiff::Timestamp;
use kube::core::params::{ListParams, PatchParams, PostParams};
use kube::{Api, Client};

use crate::kinds::{CONFIG_MAP, LEASE, NAMESPACE, NODE, SERVICE_ACCOUNT};
use crate::node::{self, registration};
use crate::object::{Kind, Object};
use crate::{MANAGER, NodeOptions, Options, clock, node_lifecycle, service_account};

/// Creates what the built-in controllers create in every new cluster: a default ServiceAccount and the root certificate
/// in each namespace, and the nodes with their leases. Only for a new cluster: an object that already exists is an
/// error.
///
/// # Errors
/// Fails if the API server refuses one of the objects.
pub async fn initial_objects(client: &Client, env: &Env, options: &Options) -> Result<(), kube::Error> {
    for namespace in cluster_wide(client, &NAMESPACE).list(&ListParams::default()).await? {
        let name = namespace.name();
        let accounts = namespaced(client, &SERVICE_ACCOUNT, name);
        accounts.create(&by(MANAGER), &service_account::default_account(name)).await?;
        let maps = namespaced(client, &CONFIG_MAP, name);
        maps.create(&by(MANAGER), &service_account::root_certificate(name, &options.root_ca)).await?;
    }
    for index in 0..options.nodes.count {
        register(client, env.now(), &options.nodes, index).await?;
    }
    Ok(())
}

async fn register(
    client: &Client,
    now: Timestamp,
    options: &NodeOptions,
    index: usize,
) -> Result<(), kube::Error> {
    let params = by(node::MANAGER);
    let nodes = cluster_wide(client, &NODE);
    let node = nodes.create(&params, &registration::node(options, index, clock::seconds(now))).await?;
    if let Some(patch) = node_lifecycle::taint_patch(&node, clock::seconds(now)) {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        nodes.patch(node.name(), &params, &patch).await?;
    }
    let leases = namespaced(client, &LEASE, registration::LEASES);
    leases.create(&params, &registration::lease(&node, now)).await?;
    Ok(())
}

fn cluster_wide(client: &Client, kind: &'static Kind) -> Api<Object> {
    Api::all_with(client.clone(), &kind)
}

fn namespaced(client: &Client, kind: &'static Kind, namespace: &str) -> Api<Object> {
    Api::namespaced_with(client.clone(), namespace, &kind)
}

fn by(manager: &str) -> PostParams {
    PostParams { dry_run: false, field_manager: Some(manager.to_owned()) }
}
