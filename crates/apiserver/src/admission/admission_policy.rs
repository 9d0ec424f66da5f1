//! ValidatingAdmissionPolicies and their bindings.

mod audit;
mod matching;
mod mutating;
mod params;

use std::sync::Arc;

use evenkeel_schema::admission::{Inputs, Policy, Verdict};
use evenkeel_schema::json::{Map, Value, json};

use super::access::Access;
use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::ResourceInfo;
use crate::admission_registration::{Binding, GROUP, Hook, Registered};
use crate::context::RequestContext;
use crate::members::set_or_remove;
use crate::registry::storage_prefix;
use crate::status::{Cause, Result, Status};
use crate::storage;

use audit::Notes;
pub(super) use matching::{Matched, matches};
pub(super) use mutating::MutatingPolicies;

#[derive(Debug)]
pub(super) struct ValidatingPolicies;

impl Plugin for ValidatingPolicies {
    fn handles(&self) -> Handles {
        Handles::EVERYTHING
    }

    fn validate(&self, admission: &Admission<'_>, object: &Value) -> Result<()> {
        let registered = registered(admission.ctx, admission.shown_name())?;
        if registered.validating.is_empty() {
            return Ok(());
        }
        examine(admission, object, &registered.validating)
    }
}

/// The policies and webhooks that apply to a request for the object `name`.
///
/// # Errors
/// If one of them cannot be read, because it might forbid the request. Kubernetes behaves the same, because
/// its informers never become ready. Requests for policies and webhook configurations are exempt, so that a
/// damaged one can be deleted.
pub(super) fn registered(ctx: &RequestContext<'_>, name: &str) -> Result<Arc<Registered>> {
    let info = &ctx.info;
    if info.group == GROUP {
        return Ok(Arc::default());
    }
    let registered = ctx.services.registrations.current(&ctx.services.store);
    match &registered.unreadable {
        None => Ok(registered),
        Some(why) => {
            let why = format!("not yet ready to handle request: {why}");
            Err(Status::not_admitted(&info.group, &info.plural, name, &why))
        }
    }
}

/// Fetches everything that policies need beforehand, because policies are evaluated without waiting.
pub(super) async fn prepare(ctx: &RequestContext<'_>, name: &str) -> Result<()> {
    let registered = registered(ctx, name)?;
    params::convert(ctx, &registered).await;
    Ok(())
}

/// A denial by a policy: the message, which names policy and binding, and the machine-readable reason.
struct Denied {
    message: String,
    reason: String,
}

fn examine(admission: &Admission<'_>, object: &Value, hooks: &[Hook<Policy>]) -> Result<()> {
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
        let request = request(admission, &matched);
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

/// The inputs of a policy.
struct Target<'a> {
    admission: &'a Admission<'a>,
    object: &'a Value,
    request: &'a Value,
    /// The kind of the policy's parameters, if it has any.
    params: Option<&'a ResourceInfo>,
}

/// Evaluates a policy for one of its bindings; returns the denials.
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
    let access = Access::of(admission.ctx);
    let mut denied = Vec::new();
    for params in &all {
        let inputs = Inputs {
            object: target.object,
            old: admission.old.unwrap_or(&Value::Null),
            request: target.request,
            params,
            namespace: &namespace,
            authorizer: Some(&access),
        };
        let verdict = hook.policy.decide(&inputs);
        verdict.annotations.iter().for_each(|(key, value)| notes.add(key, value));
        denied.extend(act(admission, hook, binding, verdict));
    }
    denied
}

/// Takes the binding's validation actions for the result of a policy.
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
            .annotation_errors
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

    /// The denial by a policy or binding that cannot be evaluated; `None` if its failure policy is `Ignore`.
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

/// The namespace of the request; a Namespace counts as being in itself.
fn namespace<'a>(admission: &Admission<'a>) -> &'a str {
    admission.ctx.path.request_namespace()
}

/// The Namespace of the object, as policies see it.
fn namespace_object(admission: &Admission<'_>) -> Value {
    let ctx = admission.ctx;
    let key = format!("{}{}", storage_prefix("", "namespaces"), ctx.path.namespace);
    let entry = (!ctx.path.namespace.is_empty()).then(|| ctx.services.store.get(&key)).flatten();
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

/// The request as policies see it, without empty fields, as in an AdmissionReview.
pub(super) fn request(admission: &Admission<'_>, matched: &Matched) -> Value {
    let ctx = admission.ctx;
    let user = ctx.user;
    let kind = |info: &ResourceInfo| json!({"group": info.group, "version": info.version, "kind": info.kind});
    let resource =
        |info: &ResourceInfo| json!({"group": info.group, "version": info.version, "resource": info.plural});
    let mut request = json!({
        "uid": "",
        "kind": kind(admission.part.unwrap_or(&matched.info)),
        "resource": resource(&matched.info),
        "requestKind": kind(admission.part.unwrap_or(ctx.info)),
        "requestResource": resource(ctx.info),
        "operation": admission.operation.name(),
        "dryRun": admission.dry_run,
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
            info.insert(field.into(), text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    request["userInfo"] = info.into();
    request["options"] = options(admission);
    request
}

/// The options of the write. A patch appears as the create or update that it performs.
fn options(admission: &Admission<'_>) -> Value {
    let operation = admission.operation;
    let kind = match operation {
        // What connects has no options besides its object.
        Operation::Connect => return Value::Null,
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
    };
    let mut options = Map::new();
    options.insert("kind".into(), kind.into());
    options.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    if admission.dry_run {
        options.insert("dryRun".into(), json!(["All"]));
    }
    let named: &[&str] = match operation {
        Operation::Delete => &["propagationPolicy"],
        _ => &["fieldManager", "fieldValidation"],
    };
    for field in named {
        if let Some(text) = admission.ctx.request.query.get(field).filter(|it| !it.is_empty()) {
            options.insert((*field).into(), text.into());
        }
    }
    options.into()
}
