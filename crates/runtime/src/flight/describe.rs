//! Turns the compact notes of a worker into the entries that readers see.

use evenkeel_record::{self as record, Outcome, Read, Reconcile, Sent};
use evenkeel_request_info::{RequestInfo, ResourcePath};
use tokio::time::Instant;

use super::micros;
use super::notes::SentNote;
use super::ring::{Ended, Flown, Ring};
use crate::Request;
use crate::cause::Cause;

/// Returns the reconcile as an entry, with times counted from `start`.
pub(super) fn reconcile(flown: &Flown, ring: &Ring, start: Instant) -> Reconcile {
    let since = |at: Instant| micros(at.saturating_duration_since(start));
    let (outcome, error) = match &flown.ended {
        Ended::Done => (Outcome::Done, None),
        Ended::Requeued => (Outcome::Requeued, None),
        Ended::Failed(text) => (Outcome::Failed, Some(text.to_string())),
        Ended::FailedForGood(text) => (Outcome::FailedForGood, Some(text.to_string())),
    };
    Reconcile {
        at: since(flown.start),
        controller: ring.controller.to_string(),
        kind: ring.kind.clone(),
        namespace: flown.key.namespace().map(str::to_owned),
        name: flown.key.name.to_string(),
        id: format!("{}-{}", ring.ids, flown.number),
        trace: flown.trace.map(hexadecimal),
        causes: flown.causes.kept().iter().map(cause).collect(),
        more_causes: flown.causes.more(),
        wait: micros(flown.start.saturating_duration_since(flown.ready_at)),
        took: micros(flown.took),
        attempt: flown.attempt,
        behind: flown.behind,
        reads: reads(flown, ring),
        requests: flown.notes.requests.iter().map(|note| sent(note, since(note.at))).collect(),
        more_requests: flown.notes.more_requests,
        outcome,
        again: flown.again.map(micros),
        error,
    }
}

fn hexadecimal(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn reads(flown: &Flown, ring: &Ring) -> Vec<Read> {
    let read = |kind: &str, key: &Request, revision| Read {
        kind: kind.to_owned(),
        namespace: key.namespace().map(str::to_owned),
        name: key.name.to_string(),
        revision,
    };
    let own = (flown.notes.revision > 0).then(|| read(&ring.kind, &flown.key, flown.notes.revision));
    let others = flown.notes.reads.iter().map(|note| {
        let kind = note.kind.rsplit("::").next().unwrap_or_default();
        read(kind, &note.key, note.revision)
    });
    own.into_iter().chain(others).collect()
}

fn cause(cause: &Cause) -> record::Cause {
    match cause {
        Cause::Object { kind, object, change } => {
            record::Cause::object(kind, object.namespace(), &object.name, &change.to_string())
        }
        other => record::Cause::word(&other.to_string()),
    }
}

fn sent(note: &SentNote, at: u64) -> Sent {
    let verb = RequestInfo::parse(&note.method, &note.path).map_or("", |info| info.verb);
    let verb = if verb == "patch" && note.is_apply { "apply" } else { verb };
    let mut sent = Sent {
        at,
        verb: verb.to_owned(),
        code: note.code,
        took: micros(note.took),
        revision: note.revision,
        changes: note.changes.clone(),
        more_changes: note.more_changes,
        error: note.error.as_ref().map(|error| error.to_string()),
        ..Sent::default()
    };
    let Some(path) = ResourcePath::parse(&note.path) else {
        sent.resource = note.path.split('?').next().unwrap_or_default().to_owned();
        return sent;
    };
    sent.group = path.group.to_string();
    sent.resource = path.resource.to_string();
    sent.subresource = path.subresource.to_string();
    sent.namespace = Some(path.namespace.to_string()).filter(|namespace| !namespace.is_empty());
    sent.name = path.name.to_string();
    if let Some(created) = note.created.as_ref().filter(|_| sent.name.is_empty()) {
        sent.name = created.to_string();
    }
    sent
}
