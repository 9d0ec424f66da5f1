//! What the subresources that a kubelet serves have in common: the pod, its node, and the container that is meant.

use std::sync::Arc;

use evenkeel_schema::json::Value;

use crate::admission::{self, Admission, Operation};
use crate::context::RequestContext;
use crate::node_api::NodeApi;
use crate::status::{Result, Status};
use crate::{ResourceInfo, storage};

/// The lists of containers in a pod's spec and status.
const LISTS: [(&str, &str); 3] = [
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
];

/// The pod that the path names.
pub(super) fn find(ctx: &RequestContext<'_>) -> Result<Arc<Value>> {
    let entry = ctx.services.store.get(&ctx.key()).ok_or_else(|| ctx.not_found())?;
    storage::read(&entry).map(Arc::new)
}

/// Whether a pod has a node.
pub(super) fn has_node(pod: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
}

/// Refuses a pod that has no node.
pub(super) fn check_node(ctx: &RequestContext<'_>, pod: &Value) -> Result<()> {
    if has_node(pod) {
        return Ok(());
    }
    Err(Status::bad_request(format!("pod {} does not have a host assigned", ctx.path.name)))
}

/// The name of the container that a request means: the named one, which must exist, or the only one.
pub(super) fn container(ctx: &RequestContext<'_>, pod: &Value, named: &str) -> Result<String> {
    let pod_name = &ctx.path.name;
    let names = LISTS.iter().flat_map(|(list, _)| pod["spec"][*list].as_array().into_iter().flatten());
    // Kubernetes lists init containers first.
    let in_list = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    if !named.is_empty() {
        if names.into_iter().any(|it| it["name"] == named) {
            return Ok(named.to_owned());
        }
        return Err(Status::bad_request(format!("container {named} is not valid for pod {pod_name}")));
    }
    let mut own = in_list("containers").filter_map(|it| it["name"].as_str());
    match (own.next(), own.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        (None, _) => {
            Err(Status::bad_request(format!("a container name must be specified for pod {pod_name}")))
        }
        _ => {
            let all = ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(in_list);
            let all: Vec<_> = all.filter_map(|it| it["name"].as_str()).collect();
            let choice = all.join(" ");
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{choice}]"
            )))
        }
    }
}

/// The status of a container; null if it has none yet.
pub(super) fn status<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let mut lists = LISTS.iter().map(|(_, list)| &pod["status"][*list]);
    let found = lists.find_map(|list| list.as_array()?.iter().find(|it| it["name"] == container));
    found.unwrap_or(&Value::Null)
}

/// The nodes of the cluster.
///
/// # Errors
/// Fails if this server has no nodes, with a status after which no client tries again.
pub(super) fn nodes<'a>(ctx: &RequestContext<'a>) -> Result<&'a Arc<dyn NodeApi>> {
    ctx.services.nodes.as_ref().ok_or_else(|| not_served(ctx, "this API server has no nodes"))
}

/// The error for what nothing in this cluster carries out. Clients try again after 503, so it is 501.
pub(super) fn not_served(ctx: &RequestContext<'_>, why: &str) -> Status {
    let (what, kind, name) = (&ctx.path.subresource, &ctx.info.singular, &ctx.path.name);
    Status::new(501, "NotImplemented", format!("{what} of {kind} {name} is not served: {why}"))
}

/// Runs admission for a request that connects to an object. `options` are those of the request, as an object.
pub(super) async fn admit(ctx: &RequestContext<'_>, kind: &str, mut options: Value) -> Result<Value> {
    options["kind"] = kind.into();
    options["apiVersion"] = "v1".into();
    let info = ResourceInfo {
        version: "v1".into(),
        kind: kind.into(),
        plural: ctx.info.plural.clone(),
        namespaced: ctx.info.namespaced,
        prefix: ctx.info.prefix.clone(),
        ..ResourceInfo::default()
    };
    let info = Arc::new(info);
    let admission = Admission {
        ctx,
        operation: Operation::Connect,
        name: &ctx.path.name,
        generate_name: "",
        old: None,
        part: Some(&info),
        dry_run: false,
    };
    admission::mutate(&admission, &mut options).await?;
    admission::validate(&admission, &options).await?;
    Ok(options)
}
