//! The parameters of policies.

use std::sync::Arc;

use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::selector::LabelSelector;
use evenkeel_store::Range;
use serde_json::Value;

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
        let mut object = conversion::decoded(kind, entry).map_err(|status| status.message)?;
        object["metadata"]["resourceVersion"] = entry.revision.to_string().into();
        Ok(object)
    };
    params.iter().map(|entry| open(entry)).collect()
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
