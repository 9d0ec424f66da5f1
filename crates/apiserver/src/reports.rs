//! Conditions that the server itself reports: whether the priority level of a FlowSchema exists, and whether the API of an
//! APIService is available.
//!
//! kube-apiserver does it in controllers. This server does it right after the write, from the stored state.

use std::sync::Arc;

use evenkeel_env::Env;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::{Entry, Expect, Range, Store, Write, WriteError};

use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::storage::{self, StorableObject};
use crate::strategy::Report;
use crate::{Header, own_status};

/// The name by which kube-apiserver manages the conditions of FlowSchemas.
const FLOW_CONTROL: &str = "api-priority-and-fairness-config-consumer-v1";
const FLOW_CONTROL_GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Brings the conditions up to date that depend on a written object.
pub(crate) async fn follow(store: &Store<Header>, env: &Env, report: Report, key: &str) -> Result<()> {
    match report {
        Report::Availability => write(store, env, store.get(key), available).await,
        Report::Reference => write(store, env, store.get(key), dangling).await,
        Report::Referenced => {
            let prefix = storage_prefix(FLOW_CONTROL_GROUP, "flowschemas");
            let page = store.range(&Range { prefix, ..Range::default() }).map_err(Status::internal)?;
            for entry in page.entries {
                write(store, env, Some(entry), dangling).await?;
            }
            Ok(())
        }
    }
}

/// Writes an object if its condition has changed. Another writer that is faster brings the condition up to date itself.
async fn write(
    store: &Store<Header>,
    env: &Env,
    entry: Option<Arc<Entry<Header>>>,
    report: fn(&Store<Header>, &Env, &Value) -> Option<Value>,
) -> Result<()> {
    let Some(entry) = entry.filter(|entry| !entry.header.deleting) else { return Ok(()) };
    let object: Option<Value> = storage::read_or_skip(&entry);
    let Some(mut changed) = object.and_then(|object| report(store, env, &object)) else { return Ok(()) };
    let op = StorableObject::new(&mut changed)?.into_op();
    let write = Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op };
    match store.write(write).await {
        Ok(_) | Err(WriteError::Conflict { .. }) => Ok(()),
        Err(error) => Err(Status::internal(error)),
    }
}

/// Returns the FlowSchema with its condition `Dangling`; `None` if it is up to date.
fn dangling(store: &Store<Header>, env: &Env, schema: &Value) -> Option<Value> {
    let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
    let key = format!("{}{level}", storage_prefix(FLOW_CONTROL_GROUP, "prioritylevelconfigurations"));
    let about = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = match store.get(&key) {
        Some(_) => ("False", "Found", format!("{about} and it exists")),
        None => ("True", "NotFound", format!("{about} but there is no such object")),
    };
    let condition = condition(schema, env, "Dangling", [status, reason, &message])?;
    let config = json!({
        "apiVersion": schema["apiVersion"], "kind": schema["kind"],
        "metadata": {"name": schema["metadata"]["name"]}, "status": {"conditions": [condition]},
    });
    own_status::apply(schema, &config, FLOW_CONTROL, env.now())
}

/// Returns the APIService with its condition `Available`; `None` if it is up to date.
fn available(store: &Store<Header>, env: &Env, service: &Value) -> Option<Value> {
    let backend = &service["spec"]["service"];
    let (name, namespace) = (&backend["name"], &backend["namespace"]);
    let (name, namespace) = (name.as_str().unwrap_or_default(), namespace.as_str().unwrap_or_default());
    let exists = || store.get(&format!("{}{namespace}/{name}", storage_prefix("", "services"))).is_some();
    let (status, reason, message) = if backend.is_null() {
        ("True", "Local", "Local APIServices are always available".to_owned())
    } else if exists() {
        let why = "this server does not forward requests to other API servers";
        ("False", "FailedDiscoveryCheck", why.to_owned())
    } else {
        ("False", "ServiceNotFound", format!("service/{name} in {namespace:?} is not present"))
    };
    let condition = condition(service, env, "Available", [status, reason, &message])?;
    let mut changed = service.clone();
    if !changed["status"].is_object() {
        changed["status"] = json!({});
    }
    let conditions = changed["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let others = conditions.into_iter().filter(|it| it["type"] != "Available");
    changed["status"]["conditions"] = others.chain([condition]).collect();
    own_status::record(&mut changed, &service["status"], env.now());
    Some(changed)
}

/// Returns a condition with this status, reason and message; `None` if the object has it already. The transition time
/// changes only with the status.
fn condition(object: &Value, env: &Env, kind: &str, says: [&str; 3]) -> Option<Value> {
    let conditions = object["status"]["conditions"].as_array();
    let old = conditions.into_iter().flatten().find(|it| it["type"] == kind);
    let [status, reason, message] = says;
    if old.is_some_and(|old| old["status"] == status && old["reason"] == reason && old["message"] == message)
    {
        return None;
    }
    let since = old.filter(|old| old["status"] == status).map(|old| old["lastTransitionTime"].clone());
    let since = since.unwrap_or_else(|| time::print(env.now(), Precision::Seconds).into());
    Some(json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    }))
}
