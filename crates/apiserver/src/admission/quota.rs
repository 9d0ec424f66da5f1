//! ResourceQuotas: no write exceeds the quotas of its namespace.
//!
//! The usage that a write adds is recorded in the quota's status before the object is stored, by
//! compare-and-set, so that two concurrent writes cannot both take the last of a resource. Usage that a write
//! releases is not subtracted here, because the write may still fail: the quota controller recounts the
//! namespace once it sees the change.
//!
//! If a write fails after its usage was recorded, for instance because its name is taken, the usage stays until
//! the quota controller recounts. In Kubernetes, too, the ResourceQuota plugin is the last one, updates the
//! status itself, and leaves corrections to the controller.

use std::sync::Arc;

use evenkeel_schema::json::{Map, Value};
use evenkeel_schema::pod_resources::{Amounts, read};
use evenkeel_schema::quantity::Quantity;
use evenkeel_schema::quota::{self, GroupResource};
use evenkeel_store::{Entry, Expect, Range};

use super::plugin::{Admission, Operation};
use crate::Header;
use crate::commit::{RETRIES_MAX, put_plain};
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::storage;

/// Refuses a write that exceeds a quota of the namespace; otherwise records its usage. It runs last, when
/// everything else has accepted the write.
pub(super) async fn charge(admission: &Admission<'_>, object: &Value) -> Result<()> {
    let namespace = &admission.ctx.path.namespace;
    let prefix = format!("{}{namespace}/", storage_prefix("", "resourcequotas"));
    if !can_add_usage(admission, object) || admission.ctx.services.store.count(&prefix) == 0 {
        return Ok(());
    }
    for _ in 0..RETRIES_MAX {
        let range = Range { prefix: prefix.clone(), ..Range::default() };
        let page = admission.ctx.services.store.range(&range).map_err(Status::internal)?;
        let mut changed = Vec::new();
        for entry in page.entries {
            changed.extend(check(admission, object, entry)?);
        }
        if admission.dry_run || store_quotas(admission, changed).await? {
            return Ok(());
        }
    }
    let why = "unable to update the usage of a quota: too many concurrent writes";
    Err(refusal(admission, why))
}

fn resource<'a>(admission: &'a Admission<'_>) -> GroupResource<'a> {
    let info = &admission.ctx.info;
    GroupResource { group: &info.group, plural: &info.plural }
}

/// Whether this kind of write can add to the usage of a quota.
fn can_add_usage(admission: &Admission<'_>, object: &Value) -> bool {
    if admission.ctx.path.namespace.is_empty() || !admission.ctx.info.namespaced {
        return false;
    }
    let resource = resource(admission);
    let part = &*admission.ctx.path.subresource;
    let moves = || admission.old.is_some_and(|old| quota::moves(resource, old, object));
    match admission.operation {
        Operation::Create => part.is_empty(),
        Operation::Update => match (resource, part) {
            (GroupResource::PODS, "resize") => true,
            (GroupResource::PODS, "") | (GroupResource::CLAIMS, "status") => moves(),
            (GroupResource::SERVICES | GroupResource::CLAIMS, "") => true,
            _ => false,
        },
        Operation::Delete | Operation::Connect => false,
    }
}

/// Returns the quota with the object's usage added; `None` if it does not change.
fn check(
    admission: &Admission<'_>,
    object: &Value,
    entry: Arc<Entry<Header>>,
) -> Result<Option<(Arc<Entry<Header>>, Value)>> {
    let mut quota: Value = storage::read(&entry)?;
    let resource = resource(admission);
    // A quota without a computed status limits nothing.
    let hard = read(quota["status"].get("hard"));
    let limited: Vec<&str> =
        hard.keys().map(String::as_str).filter(|name| quota::tracks(resource, name)).collect();
    if limited.is_empty() || !quota::matches(&quota, resource, object) {
        return Ok(None);
    }
    let name = &entry.header.name;
    if let Some(why) = quota::unspecified(resource, object, limited.iter().copied()) {
        return Err(refusal(admission, &format!("failed quota: {name}: {why}")));
    }
    let used = read(quota["status"].get("used"));
    if limited.iter().any(|name| !used.contains_key(*name)) {
        let why = format!("status unknown for quota: {name}, resources: {}", limited.join(","));
        return Err(refusal(admission, &why));
    }
    let mut added = added(admission, &quota, object);
    added.retain(|name, amount| *amount > Quantity::zero() && hard.contains_key(name));
    if added.is_empty() {
        return Ok(None);
    }
    let mut after = used.clone();
    evenkeel_schema::pod_resources::add(&mut after, &added);
    let exceeded: Vec<&String> = added.keys().filter(|name| after[*name] > hard[*name]).collect();
    // A status update reports what has already happened.
    if !exceeded.is_empty() && admission.ctx.path.subresource != "status" {
        let told = |amounts: &Amounts| print(amounts, &exceeded);
        let why = format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            told(&added),
            told(&used),
            told(&hard)
        );
        return Err(refusal(admission, &why));
    }
    if !quota["status"]["used"].is_object() {
        quota["status"]["used"] = Map::new().into();
    }
    for name in added.keys() {
        quota["status"]["used"][name] = after[name].to_string().into();
    }
    Ok(Some((entry, quota)))
}

/// The usage that the object adds to a quota: all of it, or only the increase if the quota already counts the
/// old version of the object.
fn added(admission: &Admission<'_>, quota: &Value, object: &Value) -> Amounts {
    let resource = resource(admission);
    let now = admission.ctx.services.env.now();
    let mut added = quota::usage(resource, object, now);
    if let Some(old) = admission.old.filter(|old| quota::matches(quota, resource, old)) {
        for (name, before) in quota::usage(resource, old, now) {
            if let Some(amount) = added.get_mut(&name) {
                *amount = amount.clone() - before;
            }
        }
    }
    added
}

/// Stores the changed quotas; `false` if another writer was faster.
async fn store_quotas(admission: &Admission<'_>, changed: Vec<(Arc<Entry<Header>>, Value)>) -> Result<bool> {
    for (entry, quota) in changed {
        let expect = Expect::Revision(entry.revision);
        if !put_plain(admission.ctx, &entry.key, quota, expect).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn refusal(admission: &Admission<'_>, why: &str) -> Status {
    let info = &admission.ctx.info;
    Status::not_admitted(&info.group, &info.plural, admission.shown_name(), why)
}

/// Prints the named amounts as `a=1,b=2`.
fn print(amounts: &Amounts, names: &[&String]) -> String {
    let line = |name: &&String| {
        format!("{name}={}", amounts.get(*name).map(ToString::to_string).unwrap_or_default())
    };
    names.iter().filter(|name| amounts.contains_key(**name)).map(line).collect::<Vec<_>>().join(",")
}
