//! What a deletion does to an object.

use evenkeel_store::Entry;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::options::DeleteOptions;
use crate::context::RequestContext;
use crate::members::set_or_remove;
use crate::status::{Result, Status};
use crate::strategy::Deletion;
use crate::{Header, conversion};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// It is already on its way out, and nothing changes.
    Nothing,
    /// It goes at once.
    Remove,
    /// It is changed first: to wait for finalizers or for a node, or for others to see it go.
    Mark { object: Value, then_remove: bool },
}

/// Decides what a deletion does. Preconditions that do not hold are refused.
pub(super) fn plan(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Entry<Header>) -> Result<Plan> {
    check_preconditions(ctx, options, entry)?;
    match ctx.info.strategy.deletion {
        Deletion::Immediate => plan_plain(ctx, options, entry),
        Deletion::Graceful => plan_pod(ctx, options, entry),
        Deletion::NamespaceContents => plan_namespace(ctx, options, entry),
        Deletion::CustomResources => plan_definition(ctx, options, entry),
    }
}

/// Refuses where the object is not the one, or not as, the client asked for.
pub(crate) fn check_preconditions(
    ctx: &RequestContext<'_>,
    options: &DeleteOptions,
    entry: &Entry<Header>,
) -> Result<()> {
    let info = &ctx.info;
    let (uid, version) = (&*entry.header.uid, entry.revision.to_string());
    let is_namespace = info.strategy.deletion == Deletion::NamespaceContents;
    let refuse = |what: &str, given: &str, actual: &str, end: &str| {
        let name = &entry.header.name;
        if is_namespace {
            let why = format!(
                "Precondition failed: {what} in precondition: {given}, {what} in object meta: {actual}"
            );
            return Err(Status::conflict("", "namespaces", name, &why));
        }
        let why = format!(
            "the {what} in the precondition ({given}) does not match the {what} in record ({actual}). \
             The object might have been {end}"
        );
        Err(Status::conflict(&info.group, &info.kind, name, &why))
    };
    match (&options.uid, &options.resource_version) {
        (Some(given), _) if given != uid => refuse("UID", given, uid, "deleted and then recreated"),
        (_, Some(given)) if *given != version => refuse("ResourceVersion", given, &version, "modified"),
        _ => Ok(()),
    }
}

/// Kinds without a grace period: gone at once, or marked where finalizers hold them.
fn plan_plain(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Entry<Header>) -> Result<Plan> {
    // Where the client says nothing and nothing holds the object, it need not be parsed.
    if options.says_nothing_of_dependents()
        && !ctx.info.strategy.orphans_dependents
        && !entry.header.finalizers
    {
        return Ok(Plan::Remove);
    }
    let mut object = conversion::decoded(ctx.info, entry)?;
    set_finalizers(ctx, options, &mut object);
    if !has_finalizers(&object) {
        return Ok(Plan::Remove);
    }
    mark(ctx, &mut object);
    Ok(Plan::Mark { object, then_remove: false })
}

/// Pods are marked first, always: a node has a grace period to end them, and others see them go.
fn plan_pod(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Entry<Header>) -> Result<Plan> {
    let mut pod = conversion::decoded(ctx.info, entry)?;
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

/// The grace that a pod gets: none where no node has it or it has ended.
fn pod_grace(requested: Option<i64>, pod: &Value) -> i64 {
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if unscheduled || ended {
        return 0;
    }
    let period = requested.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    if period < 0 { 1 } else { period }
}

/// Shortens a grace period that runs already; the time of deletion never lies in the past.
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

/// The time so many seconds after another. Kubernetes counts in nanoseconds of 64 bits, which wrap around: a grace period
/// beyond 292 years may end in the past.
fn seconds_after(time: Timestamp, seconds: i64) -> Timestamp {
    const NANOSECONDS: i64 = 1_000_000_000;
    let passed = SignedDuration::from_nanos(seconds.wrapping_mul(NANOSECONDS));
    time.checked_add(passed).unwrap_or(time)
}

/// A namespace is marked and says so in its phase; it goes when its content has gone.
fn plan_namespace(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Entry<Header>) -> Result<Plan> {
    let mut namespace = conversion::decoded(ctx.info, entry)?;
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

/// A definition is marked first; its objects go before it.
fn plan_definition(ctx: &RequestContext<'_>, options: &DeleteOptions, entry: &Entry<Header>) -> Result<Plan> {
    if entry.header.deleting {
        return plan_plain(ctx, options, entry);
    }
    let mut definition = conversion::decoded(ctx.info, entry)?;
    definition["metadata"]["deletionTimestamp"] = ctx.services.now().into();
    crate::crd::mark_terminating(&mut definition, &ctx.services.now());
    Ok(Plan::Mark { object: definition, then_remove: false })
}

/// Sets the finalizers that a propagation policy asks for, and takes away the others of that kind.
fn set_finalizers(ctx: &RequestContext<'_>, options: &DeleteOptions, object: &mut Value) {
    let old: Vec<String> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    let has = |name: &str| old.iter().any(|it| it == name);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(orphan), _) => (orphan, false),
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

/// Marks an object that finalizers hold.
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

/// The first mark of deletion counts as a change of what is wanted, where the kind counts them.
fn bump_generation(metadata: &mut Value) {
    if let Some(generation) = metadata["generation"].as_i64().filter(|it| *it > 0) {
        metadata["generation"] = generation.saturating_add(1).into();
    }
}
