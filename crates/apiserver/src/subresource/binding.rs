//! The subresource `pods/binding`: assigning a pod to a node.

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::normalize::normalize;
use evenkeel_store::Expect;
use http::Response;

use super::{created, decode_other};
use crate::body::Body;
use crate::commit::{RETRIES_MAX, put};
use crate::context::RequestContext;
use crate::decode::Expected;
use crate::incoming::write_query;
use crate::request::WriteQuery;
use crate::status::{Result, Status};
use crate::storage;
use crate::storage::ManagedFields;

/// Answers a POST of a Binding to `pods/{name}/binding`, or to the older resource `bindings`.
pub(super) async fn bind(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let query = write_query(ctx, "CreateOptions")?;
    let expected = Expected { group: "", version: "v1", kind: "Binding" };
    let binding = decode_other(ctx, &expected, &body)?;
    let given = binding["metadata"]["name"].as_str().unwrap_or_default();
    let name = if ctx.path.name.is_empty() { given } else { &ctx.path.name };
    if given != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    validate(&binding)?;
    let key = format!("{}{}/{name}", crate::registry::storage_prefix("", "pods"), ctx.path.namespace);
    for _ in 0..RETRIES_MAX {
        if assign(ctx, &query, &key, name, &binding).await? {
            return Ok(created());
        }
    }
    Err(refuse(name, "the pod changes too often"))
}

fn validate(binding: &Value) -> Result<()> {
    let mut errors = Vec::new();
    let kind = binding["target"]["kind"].as_str().unwrap_or_default();
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    if binding["target"]["name"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    match errors.is_empty() {
        true => Ok(()),
        // Kubernetes does not convert these errors into an `Invalid` status, so the client sees an internal
        // error.
        false => Err(Status::server_error(evenkeel_schema::field::aggregate(&errors))),
    }
}

/// Assigns the pod to the node; `false` if another writer was faster.
async fn assign(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    key: &str,
    name: &str,
    binding: &Value,
) -> Result<bool> {
    let entry = ctx.services.store.get(key).ok_or_else(|| Status::not_found("", "pods", name))?;
    let mut pod: Value = storage::read(&entry)?;
    let uid = binding["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != &*entry.header.uid {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /pods/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            ctx.path.namespace, entry.header.uid
        );
        return Err(Status::conflict("", "pods", name, &why));
    }
    if entry.header.deleting {
        return Err(refuse(name, &format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !node.is_empty() {
        return Err(refuse(name, &format!("pod {name} is already assigned to node {node:?}")));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|it| !it.is_empty()) {
        let why = format!("pod {name} has non-empty .spec.schedulingGates");
        return Err(refuse(name, &why));
    }
    place(ctx, &mut pod, binding);
    if query.dry_run {
        return Ok(true);
    }
    Ok(put(ctx, key, pod, Expect::Revision(entry.revision), ManagedFields::MayBeDropped).await?.is_ok())
}

fn place(ctx: &RequestContext<'_>, pod: &mut Value, binding: &Value) {
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for field in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
            pod["metadata"][field][key] = value.clone();
        }
    }
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastTransitionTime": ctx.services.now(),
    });
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    match conditions.iter_mut().find(|it| it["type"] == "PodScheduled") {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
    pod["status"]["conditions"] = conditions.into();
    // The nomination has been fulfilled, or was in vain.
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    normalize("", "v1", "Pod", pod);
}

fn refuse(name: &str, why: &str) -> Status {
    Status::conflict("", "pods/binding", name, why)
}
