//! What keeps a cluster from rest, for a wait that failed; and what operators do that they should not, for the end of a test.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_env::{Pending, Unsettled};
use evenkeel_record::why::{Evidence, advice, why};
use evenkeel_record::{Key, Record, WatchState, questions};
use evenkeel_runtime::Stage;

use crate::cluster::Cluster;
use crate::operator::CONTROLLERS;
use crate::transport::{Backend, Exchange, Moment, Outcome};

/// How many reasons a failed wait shows: a screen, with what is pending.
const REASONS_MAX: usize = 10;
/// How many writes that change nothing one client may send to one object without a warning. Two may be repetitions
/// after crashes.
const FUTILE_MAX: usize = 2;
/// How much virtual time a reconcile may take besides its requests.
const WAITED_MAX: Duration = Duration::from_secs(1);

/// What to do instead of waiting in a reconcile.
const DO_NOT_WAIT: &str = "a reconcile must not wait for something to happen: it returns Action::await_change(), or \
                           Action::requeue(duration) for what causes no event, and looks again when it is called again";

impl Cluster {
    /// Returns what operators should not have done since the start, although it may have worked, one line each:
    ///
    /// - writes that change nothing, again and again: an operator that compares whole specs sends them, because the API
    ///   server fills in defaults. Server-side applies do not count;
    /// - reconciles that held their thread without awaiting, such as by `std::thread::sleep`;
    /// - reconciles that let virtual time pass, such as to wait until a pod is ready.
    ///
    /// A test that passes prints them. The built-in controllers are left out.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// cluster.settled().await;
    /// assert_eq!(cluster.warnings(), Vec::<String>::new());
    /// # });
    /// ```
    pub fn warnings(&self) -> Vec<String> {
        let moments = self.moments();
        let mut warnings = self.futile_writes(&moments);
        warnings.extend(blocked(&moments));
        if self.env().seed().is_some() {
            warnings.extend(waited(&self.record_of(|operator| operator != CONTROLLERS)));
        }
        warnings
    }

    /// Adds to a failed wait why the cluster does not rest.
    pub fn explained(&self, mut unsettled: Unsettled) -> Unsettled {
        let mut reasons = failing(&self.record_of(|operator| operator != CONTROLLERS));
        let moments = self.moments();
        reasons.extend(self.unfinished(&moments, &unsettled.pending));
        reasons.extend(self.futile_writes(&moments));
        if reasons.is_empty() {
            reasons = failing(&self.record_of(|operator| operator == CONTROLLERS));
        }
        let more = reasons.len().saturating_sub(REASONS_MAX);
        reasons.truncate(REASONS_MAX);
        if more > 0 {
            reasons.push(format!("… and {more} more"));
        }
        unsettled.reasons = reasons;
        unsettled
    }

    /// Writes of operators that changed nothing, by client and object.
    fn futile_writes(&self, moments: &[Moment]) -> Vec<String> {
        // A remote cluster does not say which writes changed something.
        if matches!(self.inner.wire.backend, Backend::Remote(_)) {
            return Vec::new();
        }
        let operators = self.inner.operators.lock();
        let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for moment in moments {
            let Moment::Request(exchange) = moment else { continue };
            if &*exchange.by != CONTROLLERS && operators.contains_key(&*exchange.by) && is_futile(exchange) {
                *counts.entry((&*exchange.by, exchange.summary())).or_default() += 1;
            }
        }
        let many = counts.into_iter().filter(|(_, count)| *count > FUTILE_MAX);
        many.map(|((by, what), count)| {
            format!(
                "{by} sent `{what}` {count} times without changing anything: the object read back differs from the one \
                 written, because the API server fills in defaults; compare only the fields that you set, or use ctx.apply"
            )
        })
        .collect()
    }

    /// Reconciles that have begun and not ended.
    fn unfinished(&self, moments: &[Moment], pending: &[Pending]) -> Vec<String> {
        let mut running = BTreeMap::new();
        for moment in moments {
            let Moment::Reconcile(reconcile) = moment else { continue };
            let key = (&*reconcile.by, &*reconcile.object);
            if matches!(reconcile.stage, Stage::Began) {
                running.insert(key, reconcile.at);
            } else if matches!(reconcile.stage, Stage::Ended { .. }) {
                running.remove(&key);
            }
        }
        let asks = pending.iter().any(|pending| pending.what == "requests");
        let works = |by: &str| pending.iter().any(|it| it.count > 0 && it.what == format!("queue {by}"));
        let now = self.inner.wire.recorder.start().elapsed();
        let long = running.into_iter().filter(|((by, _), _)| works(by));
        let long = long.map(|((by, object), at)| (by, object, now.saturating_sub(at)));
        long.filter(|(_, _, since)| *since >= WAITED_MAX)
            .map(|(by, object, since)| match asks {
                true => format!("{by} has been reconciling {object} for {since:?}"),
                false => {
                    format!(
                        "{by} has been reconciling {object} for {since:?} and sends no request: {DO_NOT_WAIT}"
                    )
                }
            })
            .collect()
    }
}

/// Whether a write was accepted and changed nothing. Applies do not count, because an operator sends them to find out
/// whether anything has to change.
fn is_futile(exchange: &Exchange) -> bool {
    let accepted =
        matches!(exchange.outcome, Outcome::Answered { status: 200..300, wrote: None, fault: None });
    accepted && matches!(exchange.verb, "update" | "patch")
}

/// Why keys fail, and which watches do not work.
fn failing(record: &Record) -> Vec<String> {
    let keys = questions::failing(record).into_iter().map(|last| {
        let (kind, namespace) = (last.kind.clone(), last.namespace.clone());
        let key = Key { kind, namespace, name: last.name.clone() };
        let evidence = Evidence { record: Some(record), ..Evidence::default() };
        format!("{key}: {}", why(&key, evidence).line).trim_start().to_owned()
    });
    let watches = record.watches.iter().filter(|watch| watch.state == WatchState::Failing);
    let watches = watches.map(|watch| {
        let error = watch.error.as_deref().unwrap_or("unknown");
        format!("the watch of {} fails: {error}{}", watch.source, advice(error))
    });
    watches.chain(keys).collect()
}

/// Reconciles that held their thread.
fn blocked(moments: &[Moment]) -> Vec<String> {
    let mut longest: BTreeMap<&str, (Duration, &str, usize)> = BTreeMap::new();
    for moment in moments {
        let Moment::Reconcile(reconcile) = moment else { continue };
        let Stage::Blocked { held } = reconcile.stage else { continue };
        let found = longest.entry(&reconcile.by).or_default();
        found.2 += 1;
        if held > found.0 {
            (found.0, found.1) = (held, reconcile.object.as_str());
        }
    }
    let line = |(by, (held, object, count)): (&str, (Duration, &str, usize))| {
        format!(
            "{by} held its thread for {held:.1?} of real time while it reconciled {object}, {count} times in all: nothing else \
             can run there; sleep with tokio::time::sleep, and put blocking calls into tokio::task::spawn_blocking"
        )
    };
    longest.into_iter().map(line).collect()
}

/// Reconciles that let virtual time pass, besides their requests.
fn waited(record: &Record) -> Vec<String> {
    let mut longest: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    for reconcile in record.reconciles().filter(|it| it.more_requests == 0) {
        let asked: u64 = reconcile.requests.iter().map(|sent| sent.took).sum();
        let waited = reconcile.took.saturating_sub(asked);
        let found = longest.entry(&reconcile.controller).or_default();
        if waited > found.0 {
            *found = (waited, reconcile.key());
        }
    }
    let long = longest.into_iter().map(|(by, (waited, key))| (by, Duration::from_micros(waited), key));
    long.filter(|(_, waited, _)| *waited >= WAITED_MAX)
        .map(|(by, waited, key)| {
            format!("{by} let {waited:?} of virtual time pass while it reconciled {key}: {DO_NOT_WAIT}")
        })
        .collect()
}
