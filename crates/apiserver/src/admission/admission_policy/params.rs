//! The parameters of policies.

use std::sync::Arc;

use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::json::Value;
use evenkeel_schema::selector::LabelSelector;
use evenkeel_store::Range;

use crate::admission_registration::Registered;
use crate::context::RequestContext;
use crate::registry::built_in;
use crate::{ResourceInfo, conversion};

/// The resource of a policy's `paramKind`; `None` if it has no parameters.
pub(super) fn kind(ctx: &RequestContext<'_>, kind: &Value) -> Result<Option<Arc<ResourceInfo>>, String> {
    if kind.is_null() {
        return Ok(None);
    }
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let custom = ctx.services.registry.custom();
    let mut all = built_in().iter().chain(&custom);
    let found = all.find(|it| it.group == group && it.version == version && it.kind == text("kind"));
    found.cloned().map(Some).ok_or_else(|| {
        format!(
            "failed to find resource referenced by paramKind: '{}, Kind={}'",
            text("apiVersion"),
            text("kind")
        )
    })
}

/// The parameters of a binding; a single null if it has none.
pub(super) fn find(
    ctx: &RequestContext<'_>,
    kind: Option<&ResourceInfo>,
    reference: &Value,
    namespace: &str,
) -> Result<Vec<Value>, String> {
    let (Some(kind), false) = (kind, reference.is_null()) else { return Ok(vec![Value::Null]) };
    let given = reference["namespace"].as_str().unwrap_or_default();
    let namespace = match (kind.namespaced, given, namespace) {
        (false, "", _) => "",
        (false, ..) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "", "") => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "", own) => own,
        (true, given, _) => given,
    };
    let params = match reference["name"].as_str().unwrap_or_default() {
        "" => selected(ctx, kind, &reference["selector"], namespace)?,
        name => ctx.services.store.get(&kind.key(namespace, name)).into_iter().collect(),
    };
    if params.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let open = |entry: &_| {
        let served =
            conversion::served_now(kind, entry).and_then(|served| served.map(|it| it.object()).transpose());
        let mut object = served.map_err(|status| status.message)?.ok_or_else(|| unconverted(kind, entry))?;
        object["metadata"]["resourceVersion"] = entry.revision.to_string().into();
        Ok(object)
    };
    params.iter().map(open).collect()
}

/// Converts the parameters of all policies that a webhook must convert, because policies are evaluated without waiting.
pub(in crate::admission) async fn convert(ctx: &RequestContext<'_>, registered: &Registered) {
    let validating = registered.validating.iter().map(|hook| &hook.spec["paramKind"]);
    let mutating = registered.mutating.iter().map(|hook| &hook.spec["paramKind"]);
    for kind in validating.chain(mutating) {
        let Ok(Some(info)) = self::kind(ctx, kind) else { continue };
        if !conversion::calls_webhook(&info) {
            continue;
        }
        let range = Range { prefix: info.prefix.clone(), ..Range::default() };
        let entries = ctx.services.store.range(&range).map(|page| page.entries).unwrap_or_default();
        if let Err(status) = ctx.services.converter.served_all(&info, &entries).await {
            tracing::warn!(why = status.message, "the parameters of a policy cannot be converted");
        }
    }
}

/// Returns the error for parameters that a webhook has not converted yet.
fn unconverted(kind: &ResourceInfo, entry: &evenkeel_store::Entry<crate::Header>) -> String {
    let name = &entry.header.name;
    format!("the {} {name:?} is not converted to {} yet", kind.kind, kind.api_version())
}

type Found = Vec<Arc<evenkeel_store::Entry<crate::Header>>>;

fn selected(
    ctx: &RequestContext<'_>,
    kind: &ResourceInfo,
    selector: &Value,
    namespace: &str,
) -> Result<Found, String> {
    let selector = LabelSelector::from_object(selector)?;
    let range = Range { prefix: kind.scope(namespace), ..Range::default() };
    let entries = ctx.services.store.range(&range).map(|page| page.entries).unwrap_or_default();
    Ok(entries.into_iter().filter(|entry| selector.matches(|key| entry.header.label(key))).collect())
}
