//! Admission policies: what they make of an object, and what they hold against a write.

mod audit;
mod known;
mod matching;
mod mutating;
mod params;

use std::sync::Arc;

use evenkeel_schema::admission::{Inputs, Policy, Verdict};
use evenkeel_store::Entry;
use serde_json::{Map, Value, json};

use super::{Admission, Operation, Plugin};
use crate::context::RequestContext;
use crate::registry::storage_prefix;
use crate::status::{Cause, Result, Status};
use crate::storage;
use crate::strategy::set_or_remove;
use crate::{Header, ResourceInfo, conversion};

use audit::Notes;
pub(crate) use known::Policies;
pub(super) use known::Webhook;
use known::{Binding, Bound, Hook};
pub(super) use matching::{Matched, matches};
pub(super) use mutating::MutatingPolicies;

/// The group of policies, which are not held to any.
const GROUP: &str = "admissionregistration.k8s.io";

/// The ValidatingAdmissionPolicy plugin.
#[derive(Debug)]
pub(super) struct ValidatingPolicies;

impl Plugin for ValidatingPolicies {
    fn validate(&self, admission: &Admission<'_>, object: &Value) -> Result<()> {
        let bound = bound(admission.ctx, admission.shown_name())?;
        if bound.validating.is_empty() {
            return Ok(());
        }
        examine(admission, object, &bound.validating, is_dry_run(admission.ctx))
    }
}

/// Shows a deletion to the policies. The object is read only where there are any.
pub(crate) fn examine_deletion(ctx: &RequestContext<'_>, entry: &Entry<Header>, dry_run: bool) -> Result<()> {
    let bound = bound(ctx, &entry.header.name)?;
    if bound.validating.is_empty() {
        return Ok(());
    }
    let old = conversion::object(ctx, entry)?;
    let admission = Admission::deletion(ctx, entry, &old);
    examine(&admission, &Value::Null, &bound.validating, dry_run)
}

pub(super) fn is_dry_run(ctx: &RequestContext<'_>) -> bool {
    ctx.request.query.all("dryRun").any(|it| it == "All")
}

/// The policies and webhooks that a request about the object `name` is held to.
///
/// # Errors
/// Refuses the request where one of them cannot be read: it might forbid the request. Kubernetes answers so, because its
/// informers never become ready. Requests about policies and webhooks themselves are held to none, so that a damaged one
/// can be deleted.
pub(super) fn bound(ctx: &RequestContext<'_>, name: &str) -> Result<Arc<Bound>> {
    let info = &ctx.info;
    if info.group == GROUP {
        return Ok(Arc::default());
    }
    let bound = ctx.server.inner().policies.current(ctx.server.store());
    match &bound.unreadable {
        None => Ok(bound),
        Some(why) => {
            let why = format!("not yet ready to handle request: {why}");
            Err(Status::not_admitted(&info.group, &info.plural, name, &why))
        }
    }
}

/// A refusal by a policy: which policy and binding, why, and the machine-readable reason.
struct Denied {
    message: String,
    reason: String,
}

fn examine(admission: &Admission<'_>, object: &Value, hooks: &[Hook<Policy>], dry_run: bool) -> Result<()> {
    let mut denied = Vec::new();
    for hook in hooks {
        let Some(matched) = matching::matches(admission, object, &hook.spec["matchConstraints"]) else {
            continue;
        };
        let kind = match params::kind(admission.ctx, &hook.spec["paramKind"]) {
            Ok(kind) => kind,
            Err(problem) => {
                denied.extend(hook.misconfigured(None, &problem));
                continue;
            }
        };
        let request = request(admission, &matched, dry_run);
        let mut notes = Notes::default();
        for binding in &hook.bindings {
            let target = Target { admission, object, request: &request, params: kind.as_deref() };
            denied.extend(run(&target, hook, binding, &mut notes));
        }
        notes.publish(admission.ctx, &hook.name);
    }
    match denied.into_iter().next() {
        Some(first) => Err(refusal(admission, first)),
        None => Ok(()),
    }
}

/// What a policy is run on.
struct Target<'a> {
    admission: &'a Admission<'a>,
    object: &'a Value,
    request: &'a Value,
    /// The kind of the policy's parameters, where it has some.
    params: Option<&'a ResourceInfo>,
}

/// Runs a policy through one of its bindings; gives what leads to a refusal.
fn run(target: &Target<'_>, hook: &Hook<Policy>, binding: &Binding, notes: &mut Notes) -> Vec<Denied> {
    let admission = target.admission;
    let resources = &binding.spec["matchResources"];
    if !resources.is_null() && matching::matches(admission, target.object, resources).is_none() {
        return Vec::new();
    }
    let reference = &binding.spec["paramRef"];
    let all = match params::find(admission.ctx, target.params, reference, namespace(admission)) {
        Ok(all) => all,
        Err(problem) => return hook.misconfigured(Some(binding), &problem).into_iter().collect(),
    };
    let namespace = namespace_object(admission);
    let mut denied = Vec::new();
    for params in &all {
        let inputs = Inputs {
            object: target.object,
            old: admission.old.unwrap_or(&Value::Null),
            request: target.request,
            params,
            namespace: &namespace,
        };
        let verdict = hook.policy.decide(&inputs);
        verdict.annotations.iter().for_each(|(key, value)| notes.add(key, value));
        denied.extend(act(admission, hook, binding, verdict));
    }
    denied
}

/// Does what the binding says about what the policy found.
fn act(admission: &Admission<'_>, hook: &Hook<Policy>, binding: &Binding, verdict: Verdict) -> Vec<Denied> {
    let does = |action: &str| {
        binding.spec["validationActions"].as_array().is_some_and(|it| it.iter().any(|it| it == action))
    };
    let mut denied = Vec::new();
    for denial in verdict.denials {
        if does("Warn") {
            admission.ctx.request.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                hook.name, binding.name, denial.message
            ));
        }
        if does("Audit") {
            audit::note_failure(admission.ctx, &hook.name, binding, &denial);
        }
        if does("Deny") {
            let message = hook.denies(Some(binding), &denial.message);
            denied.push(Denied { message, reason: denial.reason });
        }
    }
    denied.extend(
        verdict
            .unnoted
            .iter()
            .map(|problem| Denied { message: hook.denies(Some(binding), problem), reason: String::new() }),
    );
    denied
}

impl Hook<Policy> {
    fn denies(&self, binding: Option<&Binding>, why: &str) -> String {
        let with = binding.map(|it| format!(" with binding '{}'", it.name)).unwrap_or_default();
        format!("ValidatingAdmissionPolicy '{}'{with} denied request: {why}", self.name)
    }

    /// A policy or binding that cannot be run refuses what it is about, unless it is to be ignored then.
    fn misconfigured(&self, binding: Option<&Binding>, why: &str) -> Option<Denied> {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let message = self.denies(binding, &format!("failed to configure {what}: {why}"));
        (self.spec["failurePolicy"] != "Ignore").then_some(Denied { message, reason: String::new() })
    }
}

fn refusal(admission: &Admission<'_>, denied: Denied) -> Status {
    let info = &admission.ctx.info;
    let mut status = Status::not_admitted(&info.group, &info.plural, admission.name, &denied.message);
    (status.reason, status.code) = match denied.reason.as_str() {
        "Forbidden" => ("Forbidden", 403),
        "Unauthorized" => ("Unauthorized", 401),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        _ => ("Invalid", 422),
    };
    if let Some(details) = &mut status.details {
        details.causes.push(Cause { message: denied.message, ..Cause::default() });
    }
    status
}

/// The namespace of the request; a Namespace lies in itself.
fn namespace<'a>(admission: &Admission<'a>) -> &'a str {
    admission.ctx.path.request_namespace()
}

/// The namespace that the object lies in, as policies see it.
fn namespace_object(admission: &Admission<'_>) -> Value {
    let ctx = admission.ctx;
    let key = format!("{}{}", storage_prefix("", "namespaces"), ctx.path.namespace);
    let entry = (!ctx.path.namespace.is_empty()).then(|| ctx.server.store().get(&key)).flatten();
    let Some(entry) = entry else { return Value::Null };
    let Some(mut namespace) = storage::read_or_skip::<Value>(&entry) else { return Value::Null };
    for field in ["apiVersion", "kind"] {
        set_or_remove(&mut namespace, field, Value::Null);
    }
    for field in ["managedFields", "ownerReferences"] {
        set_or_remove(&mut namespace["metadata"], field, Value::Null);
    }
    namespace["metadata"]["resourceVersion"] = entry.revision.to_string().into();
    namespace
}

/// The request as policies see it; what is empty is left out, as it is from an AdmissionReview.
pub(super) fn request(admission: &Admission<'_>, matched: &Matched, dry_run: bool) -> Value {
    let ctx = admission.ctx;
    let user = ctx.user;
    let kind = |info: &ResourceInfo| json!({"group": info.group, "version": info.version, "kind": info.kind});
    let resource =
        |info: &ResourceInfo| json!({"group": info.group, "version": info.version, "resource": info.plural});
    let mut request = json!({
        "uid": "",
        "kind": kind(&matched.info),
        "resource": resource(&matched.info),
        "requestKind": kind(ctx.info),
        "requestResource": resource(ctx.info),
        "operation": match admission.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        },
        "dryRun": dry_run,
    });
    let mut info = Map::new();
    let texts = [
        ("name", admission.name),
        ("namespace", namespace(admission)),
        ("subResource", &ctx.path.subresource),
        ("requestSubResource", &ctx.path.subresource),
    ];
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        request[field] = text.into();
    }
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(field.to_owned(), text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    request["userInfo"] = info.into();
    request
}
