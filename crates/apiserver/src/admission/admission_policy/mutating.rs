//! MutatingAdmissionPolicies and their bindings.

use evenkeel_schema::admission::{Authorizer, Inputs, MutatingPolicy};
use evenkeel_schema::defaults;
use evenkeel_schema::json::Value;
use evenkeel_schema::normalize::normalize;
use evenkeel_schema::structural;

use super::{matching, namespace, namespace_object, params, registered, request};
use crate::admission::access::Access;
use crate::admission::plugin::{Admission, Handles, Operation, Plugin};
use crate::admission_registration::{Binding, Hook};
use crate::context::RequestContext;
use crate::managed_fields;
use crate::status::{Cause, Result, Status};

#[derive(Debug)]
pub(in crate::admission) struct MutatingPolicies;

impl Plugin for MutatingPolicies {
    fn handles(&self) -> Handles {
        Handles { operations: &[Operation::Create, Operation::Update], ..Handles::EVERYTHING }
    }

    fn mutate(&self, admission: &Admission<'_>, object: &mut Value) -> Result<()> {
        let registered = registered(admission.ctx, admission.shown_name())?;
        let mut problems = Vec::new();
        for hook in &registered.mutating {
            problems.extend(run(admission, hook, object));
        }
        if problems.is_empty() { Ok(()) } else { Err(refusal(admission, problems)) }
    }
}

/// Runs a policy for all its bindings; returns the denials.
fn run(admission: &Admission<'_>, hook: &Hook<MutatingPolicy>, object: &mut Value) -> Vec<String> {
    let Some(matched) = matching::matches(admission, object, &hook.spec["matchConstraints"]) else {
        return Vec::new();
    };
    let ctx = admission.ctx;
    let kind = match params::kind(ctx, &hook.spec["paramKind"]) {
        Ok(kind) => kind,
        Err(why) => return hook.misconfigured(None, &format!("failed to configure policy: {why}")),
    };
    let request = request(admission, &matched);
    let mut problems = Vec::new();
    for binding in &hook.bindings {
        let resources = &binding.spec["matchResources"];
        if !resources.is_null() && matching::matches(admission, object, resources).is_none() {
            continue;
        }
        match params::find(ctx, kind.as_deref(), &binding.spec["paramRef"], namespace(admission)) {
            Ok(all) => {
                for params in &all {
                    let found = mutate(admission, hook, &request, params, object);
                    problems.extend(found.iter().map(|why| hook.denies(Some(binding), why)));
                }
            }
            Err(why) => {
                let why = format!("failed to configure binding: {why}");
                problems.extend(hook.misconfigured(Some(binding), &why));
            }
        }
    }
    problems
}

fn mutate(
    admission: &Admission<'_>,
    hook: &Hook<MutatingPolicy>,
    request: &Value,
    params: &Value,
    object: &mut Value,
) -> Vec<String> {
    let ctx = admission.ctx;
    let Some(schema) = managed_fields::schema(ctx) else { return Vec::new() };
    let before = object.clone();
    let namespace = namespace_object(admission);
    let old = admission.old.unwrap_or(&Value::Null);
    let access = Access::of(ctx);
    let authorizer: Option<&dyn Authorizer> = Some(&access);
    let inputs = Inputs { object: &before, old, request, params, namespace: &namespace, authorizer };
    hook.policy.mutate(&inputs, schema, object, &|object| settle(ctx, object))
}

/// Normalizes and defaults an object that a policy has changed.
fn settle(ctx: &RequestContext<'_>, object: &mut Value) {
    let info = &ctx.info;
    match &info.custom {
        Some(custom) => structural::default(&custom.schema, object),
        None => {
            normalize(&info.group, &info.version, &info.kind, object);
            defaults::apply(&info.group, &info.version, &info.kind, object);
        }
    }
}

impl Hook<MutatingPolicy> {
    fn denies(&self, binding: Option<&Binding>, why: &str) -> String {
        match binding {
            Some(binding) => {
                format!("policy '{}' with binding '{}' denied request: {why}", self.name, binding.name)
            }
            None => format!("policy {:?} denied request: {why}", self.name),
        }
    }

    fn misconfigured(&self, binding: Option<&Binding>, why: &str) -> Vec<String> {
        let fails = self.spec["failurePolicy"] != "Ignore";
        fails.then(|| self.denies(binding, why)).into_iter().collect()
    }
}

fn refusal(admission: &Admission<'_>, problems: Vec<String>) -> Status {
    let info = &admission.ctx.info;
    let mut status = Status::not_admitted(&info.group, &info.plural, admission.name, "");
    status.message = problems.first().cloned().unwrap_or_default();
    status.reason = "Invalid";
    if let Some(details) = &mut status.details {
        details.causes.extend(problems.into_iter().map(|message| Cause { message, ..Cause::default() }));
    }
    status
}
