//! Validation of objects by the rules of their kind.

mod claim;
mod scale;

use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::Value;
use evenkeel_schema::object_meta::{self, NameRule};
use evenkeel_schema::structural;

use crate::context::RequestContext;
use crate::status::{Result, Status};

/// Validates a new object.
pub(crate) fn created(ctx: &RequestContext<'_>, object: &Value) -> Result<()> {
    check(ctx, object, None, "")
}

/// Validates an updated object.
pub(crate) fn updated(
    ctx: &RequestContext<'_>,
    object: &Value,
    old: &Value,
    subresource: &str,
) -> Result<()> {
    check(ctx, object, Some(old), subresource)
}

fn check(ctx: &RequestContext<'_>, object: &Value, old: Option<&Value>, subresource: &str) -> Result<()> {
    let info = &ctx.info;
    let errors = if info.is_custom() {
        custom(ctx, object, old, subresource)
    } else {
        built_in(ctx, object, old, subresource)
    };
    if errors.is_empty() {
        if info.is_custom() {
            warn_of_finalizers(ctx, object, old);
        } else if subresource.is_empty() {
            let warnings = evenkeel_schema::warnings::of(&info.group, &info.kind, object, old);
            warnings.into_iter().for_each(|warning| ctx.request.warn(warning));
        }
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    // As in Kubernetes, errors about Events name the core group, whichever group the request used.
    let group = info.strategy.error_group.unwrap_or(&info.group);
    Err(Status::invalid(group, &info.kind, name, &errors))
}

/// Validates an object of a built-in kind.
///
/// The rules of most kinds do not distinguish empty lists and maps from absent ones, but messages do.
fn built_in(
    ctx: &RequestContext<'_>,
    object: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Vec<FieldError> {
    let info = &ctx.info;
    let of = |object: &Value| {
        let (group, version, kind) = (&info.group, &info.version, &info.kind);
        let mut errors = claim::check(ctx, object, old, subresource);
        errors.extend(evenkeel_schema::validate::validate(group, version, kind, object, old, subresource));
        errors
    };
    if evenkeel_schema::validate::distinguishes_empty(&info.group, &info.kind) {
        return of(ctx.request.with_empty(object).as_ref().unwrap_or(object));
    }
    let errors = of(object);
    let written = if errors.is_empty() { None } else { ctx.request.with_empty(object) };
    match written.map(|written| of(&written)) {
        Some(shown) if alike(&errors, &shown) => shown,
        _ => errors,
    }
}

/// Whether two lists of errors differ in nothing but the shown values.
fn alike(errors: &[FieldError], others: &[FieldError]) -> bool {
    let same = |(one, other): (&FieldError, &FieldError)| one.kind == other.kind && one.field == other.field;
    errors.len() == others.len() && errors.iter().zip(others).all(same)
}

fn custom(
    ctx: &RequestContext<'_>,
    object: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Vec<FieldError> {
    let mut errors = match old {
        None => object_meta::create(object, ctx.info.namespaced, NameRule::Subdomain),
        // Kubernetes validates the metadata of custom resources twice, so its errors appear twice.
        Some(old) => {
            let mut errors = object_meta::create(object, ctx.info.namespaced, NameRule::PathSegment);
            errors.extend(object_meta::update(object, old));
            errors.extend(object_meta::update(object, old));
            errors
        }
    };
    let with_floats = ctx.request.with_floats(object);
    let object = with_floats.as_ref().unwrap_or(object);
    if let Some(custom) = &ctx.info.custom {
        errors.extend(match subresource {
            "status" => structural::validate_status(&custom.schema, object, old),
            _ => structural::validate(&custom.schema, object, old),
        });
        scale::check(&custom.version["subresources"]["scale"], object, subresource, &mut errors);
        if let Some(rules) = custom.rules() {
            let forgiven = structural::validate_rules(rules, object, old, &mut errors);
            forgiven.iter().for_each(|error| ctx.request.warn(error.to_string()));
        }
    }
    errors
}

/// Warns of finalizers that are not domain-qualified. Custom resources may have them, but other controllers
/// may use the same names.
fn warn_of_finalizers(ctx: &RequestContext<'_>, object: &Value, old: Option<&Value>) {
    let of = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = old.map(of).unwrap_or_default();
    let mut added: Vec<String> = of(object)
        .iter()
        .filter(|it| !before.contains(it))
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    added.sort();
    added.dedup();
    for name in added {
        let standard = matches!(name.as_str(), "orphan" | "foregroundDeletion" | "kubernetes");
        if name.contains('/') || standard {
            continue;
        }
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        ctx.request.warn(format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers"
        ));
    }
}
