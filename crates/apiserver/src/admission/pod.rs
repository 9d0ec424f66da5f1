//! Plugins that complete new pods: their service account, their priority, and how long they tolerate an
//! unreachable node.

use evenkeel_schema::json::{Value, json};
use evenkeel_store::Range;

use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Result, Status};
use crate::storage;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The prefix of the names of volumes with a service account token.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// An hour and a few seconds, by which such tokens are recognized, as in Kubernetes.
const TOKEN_SECONDS: u32 = 3607;
/// How long a pod stays on an unreachable node by default.
const TOLERATION_SECONDS: u32 = 300;

/// The creation of pods.
const CREATION: Handles = Handles::creation_of(&[GroupResource::PODS]);

fn refuse(admission: &Admission<'_>, why: &str) -> Status {
    Status::not_admitted("", "pods", admission.shown_name(), why)
}

/// The ServiceAccount plugin.
#[derive(Debug)]
pub(super) struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn handles(&self) -> Handles {
        CREATION
    }

    fn mutate(&self, admission: &Admission<'_>, pod: &mut Value) -> Result<()> {
        let spec = &mut pod["spec"];
        let given = spec["serviceAccountName"].as_str().unwrap_or_default().to_owned();
        let name = if given.is_empty() { "default" } else { &given };
        for field in ["serviceAccountName", "serviceAccount"] {
            spec[field] = name.into();
        }
        let namespace = &admission.ctx.path.namespace;
        let key = format!("{}{namespace}/{name}", storage_prefix("", "serviceaccounts"));
        let Some(entry) = admission.ctx.services.store.get(&key) else {
            // Without controllers there is no default service account; a pod that names none then runs
            // without one.
            if given.is_empty() {
                return Ok(());
            }
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
            );
            return Err(refuse(admission, &why));
        };
        let account: Value = storage::read(&entry)?;
        let automount = |value: &Value| value["automountServiceAccountToken"].as_bool();
        if automount(spec).or(automount(&account)).unwrap_or(true) {
            mount_token(admission, spec);
        }
        let secrets = |value: &Value| value["imagePullSecrets"].as_array().is_none_or(Vec::is_empty);
        if secrets(spec) && !secrets(&account) {
            spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
        }
        Ok(())
    }
}

/// Mounts the service account's token into every container that mounts nothing at its path.
fn mount_token(admission: &Admission<'_>, spec: &mut Value) {
    // A pod that a webhook has changed passes this plugin again; its existing volume also serves new
    // containers.
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let present = volumes.filter_map(|it| it["name"].as_str()).find(|it| it.starts_with(TOKEN_VOLUME));
    let present = present.map(str::to_owned);
    let made = || format!("{TOKEN_VOLUME}{}", admission.ctx.services.env.suffix(5));
    let name = present.clone().unwrap_or_else(made);
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|it| it["mountPath"] == TOKEN_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            container["volumeMounts"] = mounts.into();
            mounted = true;
        }
    }
    if !mounted || present.is_some() {
        return;
    }
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]);
    let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": sources}}));
    spec["volumes"] = volumes.into();
}

/// The Priority plugin.
#[derive(Debug)]
pub(super) struct Priority;

impl Plugin for Priority {
    fn handles(&self) -> Handles {
        Handles {
            operations: &[Operation::Create, Operation::Update],
            resources: &[GroupResource::PODS, PRIORITY_CLASSES],
            subresources: false,
        }
    }

    fn mutate(&self, admission: &Admission<'_>, pod: &mut Value) -> Result<()> {
        if admission.operation != Operation::Create || !admission.is_about(GroupResource::PODS) {
            return Ok(());
        }
        let spec = &mut pod["spec"];
        let name = spec["priorityClassName"].as_str().unwrap_or_default().to_owned();
        let class = if name.is_empty() { default_class(admission)? } else { class(admission, &name)? };
        if let Some(class) = class.as_ref().filter(|_| name.is_empty()) {
            spec["priorityClassName"] = class["metadata"]["name"].clone();
        }
        let class = class.unwrap_or_default();
        let priority = class["value"].as_i64().unwrap_or_default();
        match spec["priority"].as_i64() {
            Some(given) if given != priority => {
                let why = format!(
                    "the integer value of priority ({given}) must not be provided in pod spec; \
                     priority admission controller computed {priority} from the given PriorityClass name"
                );
                return Err(refuse(admission, &why));
            }
            _ => spec["priority"] = priority.into(),
        }
        let policy = class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority");
        match spec["preemptionPolicy"].as_str() {
            Some(given) if given != policy => {
                let why = format!(
                    "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
                     priority admission controller computed {policy} from the given PriorityClass name"
                );
                return Err(refuse(admission, &why));
            }
            _ => spec["preemptionPolicy"] = policy.into(),
        }
        Ok(())
    }

    /// Refuses a second default class.
    fn validate(&self, admission: &Admission<'_>, class: &Value) -> Result<()> {
        if !admission.is_about(PRIORITY_CLASSES) || class["globalDefault"] != true {
            return Ok(());
        }
        let Some(default) = default_class(admission)? else { return Ok(()) };
        let default = default["metadata"]["name"].as_str().unwrap_or_default();
        if admission.operation == Operation::Update && class["metadata"]["name"] == default {
            return Ok(());
        }
        let why = format!("PriorityClass {default} is already marked as default. Only one default can exist");
        Err(Status::not_admitted("scheduling.k8s.io", "priorityclasses", admission.shown_name(), &why))
    }
}

const PRIORITY_CLASSES: GroupResource = GroupResource::new("scheduling.k8s.io", "priorityclasses");

fn classes() -> String {
    storage_prefix("scheduling.k8s.io", "priorityclasses")
}

fn class(admission: &Admission<'_>, name: &str) -> Result<Option<Value>> {
    match admission.ctx.services.store.get(&format!("{}{name}", classes())) {
        Some(entry) => storage::read(&entry).map(Some),
        None => Err(refuse(admission, &format!("no PriorityClass with name {name} was found"))),
    }
}

/// The default priority class; of several, the one with the lowest value.
fn default_class(admission: &Admission<'_>) -> Result<Option<Value>> {
    let range = Range { prefix: classes(), ..Range::default() };
    let page = admission.ctx.services.store.range(&range).map_err(Status::internal)?;
    // An unreadable class might be the default, so the write is refused.
    let classes: Vec<Value> = page.entries.iter().map(|it| storage::read(it)).collect::<Result<_>>()?;
    let defaults = classes.into_iter().filter(|it| it["globalDefault"] == true);
    Ok(defaults.min_by_key(|it| it["value"].as_i64()))
}

/// The DefaultTolerationSeconds plugin.
#[derive(Debug)]
pub(super) struct TolerationSeconds;

impl Plugin for TolerationSeconds {
    fn handles(&self) -> Handles {
        Handles { operations: &[Operation::Create, Operation::Update], ..CREATION }
    }

    fn mutate(&self, _: &Admission<'_>, pod: &mut Value) -> Result<()> {
        let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
            let tolerated = tolerations.iter().any(|it| {
                let named = it["key"] == key || it["key"].as_str().unwrap_or_default().is_empty();
                let effect = it["effect"].as_str().unwrap_or_default();
                named && matches!(effect, "" | "NoExecute")
            });
            if !tolerated {
                tolerations.push(json!({
                    "key": key, "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS,
                }));
            }
        }
        pod["spec"]["tolerations"] = tolerations.into();
        Ok(())
    }
}
