//! ResourceQuotas: nothing is added beyond what its namespace may have.
//!
//! What is added is entered in the quota's status before it is stored, by compare-and-set, so that two who come at
//! once cannot both take the last place. What goes is subtracted by the quota controller, which counts anew.

mod scope;
mod usage;

use std::sync::Arc;

use evenkeel_schema::quantity::Quantity;
use evenkeel_store::{Entry, Expect, Range};
use serde_json::{Map, Value};

use super::amounts::{self, Amounts};
use super::{Admission, Operation};
use crate::Header;
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::write::{RETRIES_MAX, put_plain};

/// Refuses what a quota of the namespace does not allow, and enters what it does. It comes last: everything else has
/// agreed by then.
pub(crate) async fn charge(admission: &Admission<'_>, object: &Value, dry_run: bool) -> Result<()> {
    let namespace = &admission.call.path.namespace;
    let prefix = format!("{}{namespace}/", storage_prefix("", "resourcequotas"));
    if !concerns(admission) || admission.call.server.store().count(&prefix) == 0 {
        return Ok(());
    }
    for _ in 0..RETRIES_MAX {
        let range = Range { prefix: prefix.clone(), ..Range::default() };
        let page = admission.call.server.store().range(&range).map_err(Status::internal)?;
        let mut changed = Vec::new();
        for entry in page.entries {
            changed.extend(check(admission, object, entry)?);
        }
        if dry_run || enter(admission, changed).await? {
            return Ok(());
        }
    }
    let why = "unable to update the usage of a quota: too many others do";
    Err(refusal(admission, why))
}

fn concerns(admission: &Admission<'_>) -> bool {
    let info = &admission.call.info;
    let part = &*admission.call.path.subresource;
    if admission.call.path.namespace.is_empty() || !info.namespaced {
        return false;
    }
    match admission.operation {
        Operation::Create => part.is_empty(),
        Operation::Update => match (info.group.as_str(), info.kind.as_str()) {
            ("", "Pod") => part == "resize",
            ("", "Service" | "PersistentVolumeClaim") => part.is_empty(),
            _ => false,
        },
        Operation::Delete => false,
    }
}

/// What a quota becomes with the object; none where it does not change.
fn check(
    admission: &Admission<'_>,
    object: &Value,
    entry: Arc<Entry<Header>>,
) -> Result<Option<(Arc<Entry<Header>>, Value)>> {
    let mut quota: Value = serde_json::from_slice(&entry.value).map_err(Status::internal)?;
    let info = &admission.call.info;
    // A quota whose status is not worked out yet limits nothing.
    let hard = amounts::read(&quota["status"]["hard"]);
    let interesting = |name: &str| usage::is_counted(info, name);
    if !hard.keys().any(|name| interesting(name)) || !scope::matches(&quota, info, object) {
        return Ok(None);
    }
    let name = &entry.header.name;
    if let Some(why) = usage::unsaid(info, object, hard.keys().filter(|name| interesting(name))) {
        return Err(refusal(admission, &format!("failed quota: {name}: {why}")));
    }
    let mut added = usage::of(info, object);
    if let Some(old) = admission.old {
        for (name, amount) in usage::of(info, old) {
            let now = added.remove(&name).unwrap_or_else(Quantity::zero);
            added.insert(name, now - amount);
        }
    }
    added.retain(|name, amount| !amount.is_zero() && hard.contains_key(name));
    if added.is_empty() {
        return Ok(None);
    }
    let used = amounts::read(&quota["status"]["used"]);
    let after = |name: &str, amount: &Quantity| match used.get(name) {
        Some(used) => used.clone() + amount.clone(),
        None => amount.clone(),
    };
    let exceeded: Vec<&String> = added
        .iter()
        .filter(|(name, amount)| after(name, amount) > hard[*name])
        .map(|(name, _)| name)
        .collect();
    if !exceeded.is_empty() {
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
    for (name, amount) in &added {
        quota["status"]["used"][name] = after(name, amount).to_string().into();
    }
    Ok(Some((entry, quota)))
}

/// Stores the quotas with what they have now; whether nobody else did so meanwhile.
async fn enter(admission: &Admission<'_>, changed: Vec<(Arc<Entry<Header>>, Value)>) -> Result<bool> {
    for (entry, quota) in changed {
        let expect = Expect::Revision(entry.revision);
        if !put_plain(admission.call, &entry.key, &quota, expect).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn refusal(admission: &Admission<'_>, why: &str) -> Status {
    let info = &admission.call.info;
    Status::not_admitted(&info.group, &info.plural, admission.shown_name(), why)
}

/// `a=1,b=2` for the names given.
fn print(amounts: &Amounts, names: &[&String]) -> String {
    let line = |name: &&String| {
        format!("{name}={}", amounts.get(*name).map(ToString::to_string).unwrap_or_default())
    };
    names.iter().filter(|name| amounts.contains_key(**name)).map(line).collect::<Vec<_>>().join(",")
}
