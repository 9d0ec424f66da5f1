//! Judges the requests of operators: writes at rest, observed generations, permissions, and leadership.

use std::collections::BTreeMap;

use evenkeel_cluster::{Exchange, Outcome};
use serde_json::Value;

use super::{Oracle, Verdict};
use crate::history::{WentBack, generation_at, observed_generation_back};
use crate::run::Run;
use crate::state::KeyParts;

/// Checks that an operator restarted at rest writes nothing.
pub(super) fn idempotent(run: &Run) -> Option<Verdict> {
    run.played.restarts.iter().find_map(|(operator, before, after)| {
        let written = run.exchanges.iter().find(|exchange| {
            let in_time = exchange.outcome.wrote().is_some_and(|wrote| wrote > *before && wrote <= *after);
            &*exchange.by == operator && in_time && !is_upkeep(exchange)
        })?;
        let target = written.target()?;
        let object = format!("{}/{}", target.resource, target.name);
        let what = format!("{operator} restarted at rest, and wrote: {}", written.summary());
        Some(Verdict::new(Oracle::Idempotent, object, what))
    })
}

/// Returns whether a request is upkeep: leases, Events, and nodes that register again when the built-in controllers
/// start.
fn is_upkeep(exchange: &Exchange) -> bool {
    let upkeep = ["leases", "events", "nodes"];
    exchange.target().is_some_and(|target| upkeep.contains(&&*target.resource))
}

/// Checks that `observedGeneration` never decreases. An operator whose view of the kind lags behind is excused if it records
/// the generation that it sees, or a later one.
pub(super) fn observed(run: &Run) -> Option<Verdict> {
    let changes = run.played.changes.as_ref()?;
    let is_excused = |back: &WentBack| {
        run.played.lags.iter().any(|lag| {
            let of_kind = lag.kind.as_deref().is_none_or(|only| only == back.kind);
            of_kind
                && back.revision > lag.from
                && back.revision <= lag.to
                && generation_at(changes, &back.uid, lag.view).is_some_and(|seen| back.to >= seen)
        })
    };
    let back = observed_generation_back(changes).find(|back| !is_excused(back))?;
    let what = format!(
        "{}: observedGeneration went from {} to {} at revision {}",
        back.object, back.from, back.to, back.revision
    );
    Some(Verdict::new(Oracle::ObservedGeneration, back.object, what))
}

/// Checks that no request of an operator was forbidden.
pub(super) fn permitted(run: &Run) -> Option<Verdict> {
    let forbidden = run.exchanges.iter().find(|exchange| {
        let is_operator = run.operators.iter().any(|operator| **operator == *exchange.by);
        is_operator && exchange.is_forbidden
    })?;
    Some(Verdict::new(Oracle::Permissions, "", format!("a request was forbidden: {}", forbidden.summary())))
}

/// Checks that no replica writes without holding the lease of its election at that moment.
pub(super) fn leads(run: &Run) -> Option<Verdict> {
    let candidates = candidates(run);
    if candidates.is_empty() {
        return None;
    }
    // Who held each lease after each of its revisions.
    let mut holders: BTreeMap<&str, Vec<(u64, String)>> = BTreeMap::new();
    for change in run.played.changes.iter().flatten() {
        if KeyParts::of(change.key()).plural == "leases" {
            let holder = change.after.as_ref().and_then(|lease| holder_in(&lease.json)).unwrap_or_default();
            holders.entry(change.key()).or_default().push((change.revision, holder));
        }
    }
    run.exchanges.iter().find_map(|exchange| {
        let (wrote, (lease, _)) = (exchange.outcome.wrote()?, candidates.get(&*exchange.by)?);
        if is_upkeep(exchange) {
            return None;
        }
        let history = holders.iter().find(|(key, _)| key.ends_with(&**lease))?.1;
        let holder = history.iter().take_while(|(revision, _)| *revision <= wrote).last()?;
        let is_leader = candidates.get(&*exchange.by).is_some_and(|(_, ids)| ids.contains(&holder.1));
        (!is_leader).then(|| {
            let what =
                format!("{} does not hold the lease {lease}, and wrote: {}", exchange.by, exchange.summary());
            Verdict::new(Oracle::Leads, "", what)
        })
    })
}

/// Returns the lease that each operator competes for, as the end of its key, and the identities that the operator has
/// had.
fn candidates(run: &Run) -> BTreeMap<String, (String, Vec<String>)> {
    let mut candidates: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for exchange in run.exchanges.iter().filter(|it| it.method != http::Method::GET) {
        let Some(target) = exchange.target().filter(|target| target.resource == "leases") else { continue };
        if target.namespace == "kube-node-lease" || !is_served(&exchange.outcome) {
            continue;
        }
        let body: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
        let name = body["metadata"]["name"].as_str().unwrap_or(&target.name);
        let Some(holder) = holder_in(&exchange.body).filter(|holder| !holder.is_empty()) else { continue };
        let lease = format!("/{}/{name}", target.namespace);
        candidates.entry(exchange.by.to_string()).or_insert_with(|| (lease, Vec::new())).1.push(holder);
    }
    candidates
}

fn is_served(outcome: &Outcome) -> bool {
    outcome.wrote().is_some()
}

fn holder_in(lease: &[u8]) -> Option<String> {
    let lease: Value = serde_json::from_slice(lease).ok()?;
    lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
}
