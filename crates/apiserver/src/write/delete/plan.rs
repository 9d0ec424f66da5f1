//! What a deletion does to an object.

use evenkeel_schema::json::{Value, json};
use evenkeel_store::Entry;
use jiff::{SignedDuration, Timestamp};

use super::options::DeleteOptions;
use crate::Header;
use crate::context::RequestContext;
use crate::conversion::Served;
use crate::members::set_or_remove;
use crate::status::{Result, Status};
use crate::strategy::Deletion;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The effect of a deletion.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Nothing: the object is already being deleted.
    Nothing,
    /// The object is removed at once.
    Remove,
    /// The object is changed first: it waits for finalizers or for its node, or watches must see it being
    /// deleted.
    Mark { object: Value, then_remove: bool },
}

/// Decides what a deletion does. Fails if a precondition does not hold.
pub(super) fn plan(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Served) -> Result<Plan> {
    check_preconditions(ctx, options, entry)?;
    match ctx.info.strategy.deletion {
        Deletion::Immediate => plan_plain(ctx, options, entry),
        Deletion::Graceful => plan_pod(ctx, options, entry),
        Deletion::NamespaceContents => plan_namespace(ctx, options, entry),
        Deletion::CustomResources => plan_definition(ctx, options, entry),
    }
}

/// Refuses a deletion whose preconditions do not hold.
pub(crate) fn check_preconditions(
    ctx: &RequestContext<'_>,
    options: &DeleteOptions,
    entry: &Entry<Header>,
) -> Result<()> {
    let info = &ctx.info;
    let (uid, version) = (&*entry.header.uid, entry.revision.to_string());
    let has_content =
        matches!(info.strategy.deletion, Deletion::NamespaceContents | Deletion::CustomResources);
    let group = info.strategy.error_group.unwrap_or(&info.group);
    let refuse = |what: &str, given: &str, actual: &str, end: &str| {
        let name = &entry.header.name;
        if has_content {
            let why = format!(
                "Precondition failed: {what} in precondition: {given}, {what} in object meta: {actual}"
            );
            return Err(Status::conflict(group, &info.plural, name, &why));
        }
        let why = format!(
            "the {what} in the precondition ({given}) does not match the {what} in record ({actual}). \
             The object might have been {end}"
        );
        Err(Status::conflict(group, &info.kind, name, &why))
    };
    match (&options.uid, &options.resource_version) {
        (Some(given), _) if given != uid => refuse("UID", given, uid, "deleted and then recreated"),
        (_, Some(given)) if *given != version => refuse("ResourceVersion", given, &version, "modified"),
        _ => Ok(()),
    }
}

/// The plan for kinds without a grace period: removed at once, or marked as deleted if there are finalizers.
fn plan_plain(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Served) -> Result<Plan> {
    // Without options and finalizers, the object need not be parsed.
    if options.says_nothing_of_dependents()
        && !ctx.info.strategy.orphans_dependents
        && !entry.header.finalizers
    {
        return Ok(Plan::Remove);
    }
    let mut object = entry.object()?;
    set_finalizers(ctx, options, &mut object);
    if !has_finalizers(&object) {
        return Ok(Plan::Remove);
    }
    mark(ctx, &mut object);
    Ok(Plan::Mark { object, then_remove: false })
}

/// The plan for pods. They are always marked first: the node has a grace period to stop them, and watches see
/// the deletion timestamp.
fn plan_pod(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Served) -> Result<Plan> {
    let mut pod = entry.object()?;
    let requested = options.grace_period_seconds.map(|it| if it < 0 { 1 } else { it });
    let metadata = &mut pod["metadata"];
    let then_remove;
    if entry.header.deleting {
        let pending = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        if pending == 0 {
            return plan_plain(ctx, options, entry);
        }
        let Some(period) = requested.filter(|it| *it < pending) else { return Ok(Plan::Nothing) };
        then_remove = shorten(ctx, metadata, pending, period) == 0;
    } else {
        let period = pod_grace(requested, &pod);
        let metadata = &mut pod["metadata"];
        metadata["deletionTimestamp"] =
            ctx.services.time(seconds_after(ctx.services.env.now(), period)).into();
        metadata["deletionGracePeriodSeconds"] = period.into();
        bump_generation(metadata);
        then_remove = period == 0;
    }
    set_finalizers(ctx, options, &mut pod);
    let then_remove = then_remove && !has_finalizers(&pod);
    Ok(Plan::Mark { object: pod, then_remove })
}

/// The grace period of a pod: zero if it is not scheduled or has finished.
fn pod_grace(requested: Option<i64>, pod: &Value) -> i64 {
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if unscheduled || ended {
        return 0;
    }
    let period = requested.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    if period < 0 { 1 } else { period }
}

/// Shortens a running grace period; the deletion timestamp is never in the past.
fn shorten(ctx: &RequestContext<'_>, metadata: &mut Value, pending: i64, period: i64) -> i64 {
    let now = ctx.services.env.now();
    let text = metadata["deletionTimestamp"].as_str().unwrap_or_default();
    let deletion: Timestamp = text.parse().unwrap_or(now);
    let at = seconds_after(deletion, period.saturating_sub(pending));
    let (at, period) = if at < now { (now, if period == 0 { 0 } else { 1 }) } else { (at, period) };
    metadata["deletionTimestamp"] = ctx.services.time(at).into();
    metadata["deletionGracePeriodSeconds"] = period.into();
    period
}

/// Adds seconds to a time. Kubernetes computes this in 64 bits of nanoseconds, which wrap around, so a grace
/// period beyond 292 years may end in the past.
fn seconds_after(time: Timestamp, seconds: i64) -> Timestamp {
    const NANOSECONDS: i64 = 1_000_000_000;
    let passed = SignedDuration::from_nanos(seconds.wrapping_mul(NANOSECONDS));
    time.checked_add(passed).unwrap_or(time)
}

/// The plan for namespaces: marked, with the phase `Terminating`, and removed when their content is gone.
fn plan_namespace(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Served) -> Result<Plan> {
    let mut namespace = entry.object()?;
    if entry.header.deleting {
        let held = namespace["spec"]["finalizers"].as_array().is_some_and(|it| !it.is_empty());
        return if held { Ok(Plan::Nothing) } else { plan_plain(ctx, options, entry) };
    }
    set_finalizers(ctx, options, &mut namespace);
    namespace["metadata"]["deletionTimestamp"] = ctx.services.now().into();
    if !namespace["status"].is_object() {
        namespace["status"] = json!({});
    }
    namespace["status"]["phase"] = "Terminating".into();
    Ok(Plan::Mark { object: namespace, then_remove: false })
}

/// The plan for CRDs: marked first, and removed after all custom resources.
fn plan_definition(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Served) -> Result<Plan> {
    if entry.header.deleting {
        return plan_plain(ctx, options, entry);
    }
    let mut definition = entry.object()?;
    definition["metadata"]["deletionTimestamp"] = ctx.services.now().into();
    crate::crd::mark_terminating(&mut definition, &ctx.services.now());
    Ok(Plan::Mark { object: definition, then_remove: false })
}

/// Sets the finalizer of a propagation policy and removes the others.
fn set_finalizers(ctx: &RequestContext<'_>, options: &DeleteOptions, object: &mut Value) {
    let old: Vec<String> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    let has = |name: &str| old.iter().any(|it| it == name);
    let is_namespace = ctx.info.strategy.deletion == Deletion::NamespaceContents;
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        _ if ctx.info.strategy.ignores_dependents => (false, false),
        // Only the contents of a namespace can be asked for by the older option.
        (Some(orphan), _) => (orphan, is_namespace && !orphan),
        (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
        (None, None) => match old.iter().find(|it| *it == ORPHAN || *it == FOREGROUND) {
            Some(first) => (first == ORPHAN, first == FOREGROUND),
            None => (ctx.info.strategy.orphans_dependents, false),
        },
    };
    if orphan == has(ORPHAN) && foreground == has(FOREGROUND) {
        return;
    }
    let mut finalizers: Vec<Value> =
        old.iter().filter(|it| *it != ORPHAN && *it != FOREGROUND).map(|it| it.as_str().into()).collect();
    finalizers.extend(orphan.then(|| ORPHAN.into()));
    finalizers.extend(foreground.then(|| FOREGROUND.into()));
    let value = if finalizers.is_empty() { Value::Null } else { finalizers.into() };
    set_or_remove(&mut object["metadata"], "finalizers", value);
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|it| !it.is_empty())
}

/// Sets the deletion timestamp of an object with finalizers.
fn mark(ctx: &RequestContext<'_>, object: &mut Value) {
    let metadata = &mut object["metadata"];
    let now = ctx.services.env.now();
    let marked: Option<Timestamp> = metadata["deletionTimestamp"].as_str().and_then(|it| it.parse().ok());
    if marked.is_none() {
        bump_generation(metadata);
    }
    if marked.is_none_or(|it| it > now) {
        metadata["deletionTimestamp"] = ctx.services.time(now).into();
    }
    metadata["deletionGracePeriodSeconds"] = 0.into();
}

/// Increments the generation when an object is first marked as deleted, if its kind has one.
fn bump_generation(metadata: &mut Value) {
    if let Some(generation) = metadata["generation"].as_i64().filter(|it| *it > 0) {
        metadata["generation"] = generation.saturating_add(1).into();
    }
}
