//! Who may ask for devices with administrative access, and who may change which part of the status of a ResourceClaim.

use evenkeel_schema::field::{FieldError, Path};
use evenkeel_schema::json::Value;
use http::Method;

use crate::access::{Attributes, Decision, Target};
use crate::authorize::forbidden;
use crate::context::RequestContext;
use crate::registry::storage_prefix;
use crate::status::Result;

const GROUP: &str = "resource.k8s.io";
const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Returns the errors of a write of a ResourceClaim or a ResourceClaimTemplate that depend on its namespace and its user.
pub(super) fn check(
    ctx: &RequestContext<'_>,
    object: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Vec<FieldError> {
    if ctx.info.group != GROUP {
        return Vec::new();
    }
    match (&*ctx.info.kind, old, subresource) {
        ("ResourceClaim", None, _) => requested(ctx, &object["spec"]["devices"]),
        ("ResourceClaimTemplate", None, _) => requested(ctx, &object["spec"]["spec"]["devices"]),
        ("ResourceClaim", Some(old), "status") => status(ctx, &object["status"], &old["status"]),
        _ => Vec::new(),
    }
}

fn is_admin(of: &Value) -> bool {
    of["adminAccess"] == true
}

/// Checks the first request for administrative access. As in Kubernetes, the path lacks `exactly`, and in a template the
/// inner `spec`.
fn requested(ctx: &RequestContext<'_>, devices: &Value) -> Vec<FieldError> {
    let requests = devices["requests"].as_array();
    let place = requests.and_then(|requests| requests.iter().position(|it| is_admin(&it["exactly"])));
    match place {
        Some(index) => needs_label(ctx, &format!("spec.devices.requests[{index}].adminAccess")),
        None => Vec::new(),
    }
}

/// Refuses administrative access in a namespace without the label that allows it.
fn needs_label(ctx: &RequestContext<'_>, field: &str) -> Vec<FieldError> {
    let key = format!("{}{}", storage_prefix("", "namespaces"), ctx.path.namespace);
    let namespace = ctx.services.store.get(&key);
    if namespace.is_some_and(|namespace| namespace.header.label(ADMIN_ACCESS_LABEL) == Some("true")) {
        return Vec::new();
    }
    let detail = format!(
        "admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    );
    vec![FieldError::forbidden(field, detail)]
}

/// Checks a write of the status: the scheduler may allocate devices, and drivers may describe their own.
fn status(ctx: &RequestContext<'_>, new: &Value, old: &Value) -> Vec<FieldError> {
    let results = |status: &Value| status["allocation"]["devices"]["results"].as_array().cloned();
    let granted = |status: &Value| results(status).and_then(|results| results.iter().position(is_admin));
    let mut errors = match (granted(old), granted(new)) {
        (None, Some(index)) => {
            needs_label(ctx, &format!("status.allocation.devices.results[{index}].adminAccess"))
        }
        _ => Vec::new(),
    };
    let verb = if *ctx.request.method == Method::PATCH { "patch" } else { "update" };
    let path = Path::new("status");
    if ["allocation", "reservedFor"].iter().any(|field| new[field] != old[field])
        && let Err(refusal) = authorized(ctx, verb, "binding", "", "")
    {
        let detail = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"{verb}\" permission: {}",
            refusal.message
        );
        errors.push(FieldError::forbidden(path.child("allocation"), detail));
    }
    if new["allocation"].is_null() {
        return errors;
    }
    let verbs = driver_verbs(ctx, verb, &new["allocation"]);
    for driver in changed_drivers(new, old) {
        let mut refusals = Vec::new();
        for verb in &verbs {
            match authorized(ctx, verb, "driver", &ctx.path.namespace, &driver) {
                Ok(()) => refusals.clear(),
                Err(refusal) => {
                    refusals.push(refusal);
                    continue;
                }
            }
            break;
        }
        if let Some(first) = refusals.first() {
            let detail = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {}",
                verbs.join(" "),
                first.message
            );
            errors.push(FieldError::forbidden(path.child("devices"), detail));
        }
    }
    errors
}

/// Whether the user of the request holds a verb on a part of claims that exists for authorization only.
fn authorized(
    ctx: &RequestContext<'_>,
    verb: &str,
    subresource: &str,
    namespace: &str,
    name: &str,
) -> Result<()> {
    let target = Target::Resource {
        group: GROUP,
        version: &ctx.path.version,
        resource: "resourceclaims",
        subresource,
        namespace,
        name,
    };
    let attributes = Attributes { user: ctx.user, verb, target };
    match ctx.services.authorizer.authorize(&attributes) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) => Err(forbidden(&attributes, &reason)),
    }
}

/// The verbs, one of which the user needs to describe devices: a driver on the node of the allocation needs less.
fn driver_verbs(ctx: &RequestContext<'_>, verb: &str, allocation: &Value) -> Vec<String> {
    let arbitrary = format!("arbitrary-node:{verb}");
    let nodes = ctx.user.extra.get(NODE_NAME).map(Vec::as_slice).unwrap_or_default();
    match (node_of(allocation), nodes) {
        (Some(node), [own]) if node == own && ctx.user.name.starts_with(ACCOUNT_PREFIX) => {
            vec![format!("associated-node:{verb}"), arbitrary]
        }
        _ => vec![arbitrary],
    }
}

/// The node to which an allocation is bound by name.
fn node_of(allocation: &Value) -> Option<&str> {
    let [term] = allocation["nodeSelector"]["nodeSelectorTerms"].as_array()?.as_slice() else { return None };
    let [field] = term["matchFields"].as_array()?.as_slice() else { return None };
    let expressions = term["matchExpressions"].as_array().map_or(0, Vec::len);
    let is_name = field["key"] == "metadata.name" && field["operator"] == "In" && expressions == 0;
    match field["values"].as_array()?.as_slice() {
        [node] if is_name => node.as_str(),
        _ => None,
    }
}

/// The drivers of devices whose description was added, changed or removed, sorted.
fn changed_drivers(new: &Value, old: &Value) -> Vec<String> {
    let devices = |status: &Value| status["devices"].as_array().cloned().unwrap_or_default();
    let (new, old) = (devices(new), devices(old));
    let key = |device: &Value| ["driver", "pool", "device", "shareID"].map(|field| device[field].clone());
    let missing_in = |list: &[Value], device: &Value| !list.contains(device);
    let added = new.iter().filter(|device| missing_in(&old, device));
    let removed = old.iter().filter(|device| !new.iter().any(|it| key(it) == key(device)));
    let names = added.chain(removed).map(|device| device["driver"].as_str().unwrap_or_default().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}
