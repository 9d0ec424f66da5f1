//! The PodSecurity plugin: the labels of a namespace select the Pod Security Standard for its pods.

mod checks;
mod standards;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_schema::json::Value;
use evenkeel_store::{Entry, Range};

use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::Header;
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Result, Status};
use crate::storage;
use checks::{Violations, evaluate};
use standards::{Level, Policy, Rule};

/// Subresources of a pod that cannot change its containers.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
/// Annotations of audit events: the policy that was enforced, and the violations of the policy in the mode
/// `audit`.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
/// How many existing pods are checked when the labels of a namespace change, as in Kubernetes.
const PODS_MAX: usize = 3000;

#[derive(Debug)]
pub(super) struct PodSecurity;

/// The resources whose objects have a pod template, and the JSON pointer to it.
const TEMPLATES: [(GroupResource, &str); 8] = [
    (GroupResource::new("", "podtemplates"), "/template"),
    (GroupResource::new("", "replicationcontrollers"), "/spec/template"),
    (GroupResource::new("apps", "deployments"), "/spec/template"),
    (GroupResource::new("apps", "replicasets"), "/spec/template"),
    (GroupResource::new("apps", "statefulsets"), "/spec/template"),
    (GroupResource::new("apps", "daemonsets"), "/spec/template"),
    (GroupResource::new("batch", "jobs"), "/spec/template"),
    (GroupResource::new("batch", "cronjobs"), "/spec/jobTemplate/spec/template"),
];

/// Namespaces, pods, and all resources of [`TEMPLATES`].
const RESOURCES: [GroupResource; TEMPLATES.len() + 2] = {
    let mut resources = [GroupResource::PODS; TEMPLATES.len() + 2];
    resources[1] = GroupResource::NAMESPACES;
    let mut at = 0;
    while at < TEMPLATES.len() {
        resources[at + 2] = TEMPLATES[at].0;
        at += 1;
    }
    resources
};

impl Plugin for PodSecurity {
    fn handles(&self) -> Handles {
        Handles {
            operations: &[Operation::Create, Operation::Update],
            resources: &RESOURCES,
            subresources: true,
        }
    }

    fn validate(&self, admission: &Admission<'_>, object: &Value) -> Result<()> {
        let subresource = &*admission.ctx.path.subresource;
        if admission.is_about(GroupResource::PODS) && !HARMLESS.contains(&subresource) {
            return examine_pod(admission, object);
        }
        if !subresource.is_empty() {
            return Ok(());
        }
        if admission.is_about(GroupResource::NAMESPACES) {
            return examine_namespace(admission, object);
        }
        if let Some(template) = template(admission, object) {
            let policy = policy_of(admission);
            note(admission, policy.audit, template);
            warn(admission, policy.warn, template);
        }
        Ok(())
    }
}

/// The pod template of a workload object; `None` for other kinds.
fn template<'a>(admission: &Admission<'_>, object: &'a Value) -> Option<&'a Value> {
    let (_, pointer) = TEMPLATES.iter().find(|(resource, _)| admission.is_about(*resource))?;
    object.pointer(pointer).filter(|template| template.is_object())
}

/// The policy of the namespace of the request.
fn policy_of(admission: &Admission<'_>) -> Policy {
    let key = format!("{}{}", storage_prefix("", "namespaces"), admission.ctx.path.namespace);
    match admission.ctx.services.store.get(&key) {
        Some(entry) => Policy::read(|label| entry.header.label(label).map(str::to_owned)).0,
        None => Policy::default(),
    }
}

fn examine_pod(admission: &Admission<'_>, pod: &Value) -> Result<()> {
    let policy = policy_of(admission);
    let changes_nothing = admission.old.is_some_and(|old| !is_significant(pod, old));
    if let Some(trail) = admission.ctx.audit
        && (policy.demands_nothing() || !changes_nothing)
    {
        let enforced = if policy.demands_nothing() { Rule::default() } else { policy.enforce };
        trail.annotate(ENFORCED, &enforced.to_string());
    }
    if policy.demands_nothing() || changes_nothing {
        return Ok(());
    }
    note(admission, policy.audit, pod);
    let violations = evaluate(policy.enforce, pod);
    if !violations.is_empty() {
        let why = format!("violates PodSecurity {:?}: {}", policy.enforce.to_string(), violations.detail());
        return Err(Status::not_admitted("", "pods", admission.shown_name(), &why));
    }
    warn(admission, policy.warn, pod);
    Ok(())
}

/// Adds a pod's violations of a policy to the audit event.
fn note(admission: &Admission<'_>, rule: Rule, pod: &Value) {
    let Some(trail) = admission.ctx.audit else { return };
    let violations = evaluate(rule, pod);
    if !violations.is_empty() {
        let text = format!("would violate PodSecurity {:?}: {}", rule.to_string(), violations.detail());
        trail.annotate(VIOLATIONS, &text);
    }
}

fn warn(admission: &Admission<'_>, rule: Rule, pod: &Value) {
    let violations = evaluate(rule, pod);
    if !violations.is_empty() {
        let warning = format!("would violate PodSecurity {:?}: {}", rule.to_string(), violations.detail());
        admission.ctx.request.warn(warning);
    }
}

/// Whether an update changes the containers or images of a pod; no other change can violate a policy.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let list = |pod: &Value, name: &str| pod["spec"][name].as_array().cloned().unwrap_or_default();
    let fixed = ["containers", "initContainers"].iter().any(|name| {
        let (new, old) = (list(pod, name), list(old, name));
        new.len() != old.len() || new.iter().zip(&old).any(|(new, old)| new["image"] != old["image"])
    });
    let before = list(old, "ephemeralContainers");
    fixed
        || list(pod, "ephemeralContainers").iter().any(|new| {
            let old = before.iter().find(|old| old["name"] == new["name"]);
            old.is_none_or(|old| old["image"] != new["image"])
        })
}

fn examine_namespace(admission: &Admission<'_>, namespace: &Value) -> Result<()> {
    let read = |namespace: &Value| {
        let labels = namespace["metadata"]["labels"].clone();
        Policy::read(move |label| labels[label].as_str().map(str::to_owned))
    };
    let (new, errors) = read(namespace);
    let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
    let before = admission.old.map(read);
    let known = before.as_ref().is_some_and(|(_, before)| *before == errors);
    if !errors.is_empty() && !known {
        return Err(Status::invalid("", "Namespace", name, &errors));
    }
    let Some((old, _)) = before else { return Ok(()) };
    let stricter = new.enforce.version != old.enforce.version || new.enforce.level > old.enforce.level;
    if new.enforce != old.enforce && new.enforce.level != Level::Privileged && stricter {
        let warnings = examine_pods(admission, name, new.enforce)?;
        warnings.into_iter().for_each(|warning| admission.ctx.request.warn(warning));
    }
    Ok(())
}

/// Returns warnings about existing pods that violate a new policy.
fn examine_pods(admission: &Admission<'_>, namespace: &str, rule: Rule) -> Result<Vec<String>> {
    let prefix = format!("{}{namespace}/", storage_prefix("", "pods"));
    let page = admission.ctx.services.store.range(&Range { prefix, ..Range::default() });
    let entries = prioritized(page.map_err(Status::internal)?.entries);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in entries.iter().take(PODS_MAX) {
        let Some(pod) = storage::read_or_skip::<Value>(entry) else { continue };
        let violations: Violations = evaluate(rule, &pod);
        if !violations.is_empty() {
            found.entry(violations.reasons()).or_default().insert(entry.header.name.to_string());
        }
    }
    let mut warnings = Vec::new();
    if entries.len() > PODS_MAX {
        let all = entries.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {all} existing pods"
        ));
    }
    if !found.is_empty() {
        let rule = rule.to_string();
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {rule:?}"
        ));
    }
    let line = |(reasons, names): (String, BTreeSet<String>)| {
        let first = names.first().cloned().unwrap_or_default();
        match names.len() {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            all => format!("{first} (and {} other pods): {reasons}", all - 1),
        }
    };
    let mut lines: Vec<String> = found.into_iter().map(line).collect();
    lines.sort();
    warnings.extend(lines);
    Ok(warnings)
}

/// Sorts one pod of each owner before all others, so that the check covers as many owners as possible.
fn prioritized(entries: Vec<Arc<Entry<Header>>>) -> Vec<Arc<Entry<Header>>> {
    let mut seen = BTreeSet::new();
    let is_first =
        |entry: &Arc<Entry<Header>>| entry.header.owners.first().is_none_or(|it| seen.insert(it.clone()));
    let (mut first, rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_first);
    first.extend(rest);
    first
}
