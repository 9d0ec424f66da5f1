//! Loops: a reconcile writes to an object, and that write causes the next reconcile of the same key, again and again.

use std::collections::BTreeMap;
use std::fmt;

use crate::entry::{Change, Reconcile, Sent};
use crate::record::Record;
use crate::text::duration;

/// How many rounds in a row count as a loop. A controller that adds a finalizer, creates children and writes a status
/// triggers itself three or four times before it is done.
const ROUNDS_MIN: usize = 5;

/// The longest time between two rounds of a loop, in microseconds: a minute. A key that writes less often than that
/// does so by a timer.
const ROUND_MAX: u64 = 60_000_000;

/// A key whose reconciles trigger one another.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The name of the controller.
    pub controller: String,
    /// The kind that the controller reconciles.
    pub kind: String,
    /// The namespace of the key.
    pub namespace: Option<String>,
    /// The name of the key.
    pub name: String,
    /// How many rounds in a row were seen.
    pub rounds: usize,
    /// The time that these rounds span, in microseconds.
    pub within: u64,
    /// The write that triggers the key, such as `patch sites/web/status`.
    pub write: String,
    /// The fields that each round writes.
    pub fields: Vec<String>,
    /// The last change of the first of these fields, with its values if the record has them.
    pub change: Option<Change>,
    /// The other writer of the object, if somebody undoes the change each time: its name, or an empty string if it is
    /// not in the record.
    pub undone_by: Option<String>,
    /// When the last round was, in microseconds since the start of the record.
    pub last: u64,
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, rounds, within, write, fields, .. } = self;
        if let (Some(rival), Some(change)) = (&self.undone_by, &self.change) {
            let rival = if rival.is_empty() { "another client" } else { rival };
            let took = duration(*within);
            return write!(
                f,
                "{controller} and {rival} undo each other's changes: {rounds} rounds in {took}, `{write}` changes {change}, \
                 and {rival} changes it back every time"
            );
        }
        write!(
            f,
            "{controller} triggers itself: {rounds} rounds in {}, each by `{write}`",
            duration(*within)
        )?;
        match (&self.change, fields.len()) {
            (Some(change), 1) => write!(f, ", which changes {change} every time"),
            (_, 0) => Ok(()),
            _ => write!(f, ", which changes {} every time", fields.join(", ")),
        }
    }
}

/// Returns the loops that were still going on at the end of the record, or at the last recorded reconcile of their key,
/// longest first.
pub fn loops(record: &Record) -> Vec<Loop> {
    let mut by_key: BTreeMap<(&str, &Option<String>, &str), Vec<&Reconcile>> = BTreeMap::new();
    for reconcile in record.reconciles() {
        let key = (reconcile.controller.as_str(), &reconcile.namespace, reconcile.name.as_str());
        by_key.entry(key).or_default().push(reconcile);
    }
    let mut found: Vec<Loop> = by_key
        .into_values()
        .filter_map(|rounds| loop_of(record, &rounds).or_else(|| fight_of(record, &rounds)))
        .collect();
    found.sort_by(|a, b| b.rounds.cmp(&a.rounds).then_with(|| a.name.cmp(&b.name)));
    found
}

/// Returns the loop at the end of these reconciles of one key, if there is one. A round is a reconcile that changed an
/// object, followed by a reconcile that this change caused.
fn loop_of(record: &Record, all: &[&Reconcile]) -> Option<Loop> {
    let mut rounds: Vec<(&Reconcile, &Sent)> = Vec::new();
    for pair in all.windows(2).rev() {
        let [before, after] = pair else { break };
        let near = after.at.saturating_sub(before.at) <= ROUND_MAX;
        match before.requests.iter().find(|sent| near && wakes(before, sent, after)) {
            Some(sent) => rounds.push((before, sent)),
            // The last reconcile of the loop may still be running, and has not caused another one yet.
            None => break,
        }
    }
    loop_from(record, &rounds)
}

/// Returns the fight at the end of these reconciles of one key, if there is one: its writes make the same change again and
/// again, so that somebody undoes it each time. Between them, reconciles may write nothing.
fn fight_of(record: &Record, all: &[&Reconcile]) -> Option<Loop> {
    let write_of = |reconcile: &&'_ Reconcile| {
        let found =
            reconcile.requests.iter().rev().find(|sent| !sent.is_failure() && undoable(sent).is_some());
        found.is_some()
    };
    let writes: Vec<&Reconcile> = all.iter().copied().filter(write_of).collect();
    let newest = *writes.last()?;
    if record.taken.saturating_sub(newest.end()) > ROUND_MAX {
        return None;
    }
    let sent = newest.requests.iter().rev().find(|sent| undoable(sent).is_some())?;
    let change = undoable(sent)?;
    if all.iter().any(|reconcile| undoes(reconcile, change)) {
        return None;
    }
    let mut rounds: Vec<(&Reconcile, &Sent)> = Vec::new();
    for reconcile in writes.into_iter().rev() {
        let near = rounds.last().is_none_or(|(later, _)| later.at.saturating_sub(reconcile.at) <= ROUND_MAX);
        let Some(same) = reconcile.requests.iter().find(|sent| near && sent.changes.contains(change)) else {
            break;
        };
        rounds.push((reconcile, same));
    }
    loop_from(record, &rounds)
}

/// The first change of a write whose values are known and differ, so that it can be seen to be undone.
fn undoable(sent: &Sent) -> Option<&Change> {
    sent.changes
        .iter()
        .find(|change| change.from.is_some() && change.to.is_some() && change.from != change.to)
}

/// Whether a reconcile undoes this change itself: a phase that one operator sets back and forth is not a fight.
fn undoes(reconcile: &Reconcile, change: &Change) -> bool {
    let back =
        |other: &Change| other.path == change.path && other.from == change.to && other.to == change.from;
    reconcile.requests.iter().flat_map(|sent| &sent.changes).any(back)
}

/// Makes a loop of these rounds, the newest first. Returns `None` if there are fewer than [`ROUNDS_MIN`].
fn loop_from(record: &Record, rounds: &[(&Reconcile, &Sent)]) -> Option<Loop> {
    if rounds.len() < ROUNDS_MIN {
        return None;
    }
    let ((newest, write), (oldest, _)) = (rounds[0], rounds[rounds.len() - 1]);
    let fields = fields_of_every(rounds);
    let change = write.changes.iter().find(|change| fields.first() == Some(&change.path)).cloned();
    let undone = change.as_ref().is_some_and(|change| is_undone(change, rounds));
    let undone_by = undone.then(|| rival(record, oldest, newest, write));
    Some(Loop {
        controller: newest.controller.clone(),
        kind: newest.kind.clone(),
        namespace: newest.namespace.clone(),
        name: newest.name.clone(),
        rounds: rounds.len(),
        within: newest.end().saturating_sub(oldest.at),
        write: write.summary(),
        fields,
        change,
        undone_by,
        last: newest.at,
    })
}

/// Whether a write of one reconcile caused the next one.
fn wakes(before: &Reconcile, sent: &Sent, after: &Reconcile) -> bool {
    let wrote = sent.is_write() && !sent.is_failure() && (sent.revision > 0 || !sent.changes.is_empty());
    let own = sent.name == before.name && sent.namespace == before.namespace;
    let caused = |cause: &crate::Cause| {
        let same_kind = is_plural_of(&sent.resource, &cause.kind);
        same_kind && cause.name == sent.name && (own || cause.namespace == sent.namespace)
    };
    wrote && after.causes.iter().any(caused)
}

/// Whether `resource` is the plural of `kind`, formed as Kubernetes forms its resource names.
pub(crate) fn is_plural_of(resource: &str, kind: &str) -> bool {
    let kind = kind.to_lowercase();
    let (Some(last), false) = (kind.chars().last(), kind.is_empty()) else { return false };
    resource == kind
        || resource.strip_prefix(kind.as_str()).is_some_and(|rest| matches!(rest, "s" | "es"))
        || (last == 'y' && resource.strip_suffix("ies") == Some(&kind[..kind.len() - 1]))
}

/// Returns the fields that the writes of all rounds have changed. A write that creates a whole part of an object, such as
/// its status, names only that part, which stands for all fields below it.
fn fields_of_every(rounds: &[(&Reconcile, &Sent)]) -> Vec<String> {
    let covers =
        |sent: &Sent, path: &str| sent.changes.iter().any(|change| is_at_or_below(path, &change.path));
    let in_all = |path: &str| rounds.iter().all(|(_, sent)| covers(sent, path));
    let mut found: Vec<String> = Vec::new();
    // The newest round names the finest fields, unless it is the one that created a part.
    for change in rounds.iter().flat_map(|(_, sent)| &sent.changes) {
        let known = found.iter().any(|known| is_at_or_below(known, &change.path));
        if !known && in_all(&change.path) {
            found.retain(|known| !is_at_or_below(&change.path, known));
            found.push(change.path.clone());
        }
    }
    found
}

/// Whether a field is another one, or is below it.
fn is_at_or_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether all rounds made the same change, so that somebody changed the field back between them.
fn is_undone(change: &Change, rounds: &[(&Reconcile, &Sent)]) -> bool {
    let known = change.from.is_some() && change.to.is_some() && change.from != change.to;
    let of_others = |reconcile: &Reconcile| !undoes(reconcile, change);
    known && rounds.iter().all(|(reconcile, sent)| sent.changes.contains(change) && of_others(reconcile))
}

/// The other client that wrote the object of a write between two reconciles, or an empty string if there is none in the
/// record.
fn rival(record: &Record, oldest: &Reconcile, newest: &Reconcile, ours: &Sent) -> String {
    let same = |sent: &Sent| {
        let object = (&sent.group, &sent.resource, &sent.namespace, &sent.name);
        sent.revision > 0 && object == (&ours.group, &ours.resource, &ours.namespace, &ours.name)
    };
    let meanwhile = |at: u64| (oldest.at..=newest.end()).contains(&at);
    let found =
        record.entries.iter().rev().filter(|entry| meanwhile(entry.at())).find_map(|entry| match entry {
            crate::Entry::Reconcile(other) if other.controller != newest.controller => {
                other.requests.iter().any(same).then(|| other.controller.clone())
            }
            crate::Entry::Request(sent) => Some(sent.by.clone()).filter(|_| same(sent)),
            _ => None,
        });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::entry::Entry;

    fn round(at: u64, path: &str) -> Entry {
        let changes = vec![Change { path: path.into(), ..Change::default() }];
        let sent = Sent {
            verb: "patch".into(),
            resource: "sites".into(),
            subresource: "status".into(),
            name: "web".into(),
            code: 200,
            revision: at,
            changes,
            ..Sent::default()
        };
        Entry::Reconcile(Box::new(Reconcile {
            at,
            controller: "site".into(),
            kind: "Site".into(),
            name: "web".into(),
            causes: vec![Cause::object("Site", None, "web", "updated")],
            requests: vec![sent],
            ..Reconcile::default()
        }))
    }

    fn record(entries: Vec<Entry>) -> Record {
        Record { entries, ..Record::default() }
    }

    #[test]
    fn a_key_that_wakes_itself_is_named_with_its_write_and_its_field() {
        let entries: Vec<Entry> = (1..=7).map(|at| round(at * 1000, "status.checked")).collect();
        let found = loops(&record(entries));
        let said = "site triggers itself: 6 rounds in 5.0 ms, each by `patch sites/web/status`, \
                    which changes status.checked every time";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
    }

    /// The first write of a loop often creates the status that the later ones change.
    #[test]
    fn a_round_that_creates_a_part_changes_the_fields_below_it() {
        let mut entries: Vec<Entry> = (2..=7).map(|at| round(at * 1000, "status.checked")).collect();
        entries.insert(0, round(1000, "status"));
        assert_eq!(loops(&record(entries.clone()))[0].fields, ["status.checked"]);
        entries.push(round(8000, "status"));
        entries.push(round(9000, "status"));
        assert_eq!(loops(&record(entries))[0].fields, ["status.checked"]);
        assert!(!is_at_or_below("statuses", "status") && is_at_or_below("status[a=b].c", "status"));
    }

    #[test]
    fn a_loop_whose_change_somebody_undoes_names_both() {
        let change = Change { path: "spec.replicas".into(), from: Some("3".into()), to: Some("2".into()) };
        let mut entries: Vec<Entry> = (1..=7).map(|at| round(at * 1000, "spec.replicas")).collect();
        for entry in &mut entries {
            if let Entry::Reconcile(reconcile) = entry {
                reconcile.requests[0].changes = vec![change.clone()];
            }
        }
        let said = "site and another client undo each other's changes: 6 rounds in 5.0 ms, `patch sites/web/status` changes \
                    spec.replicas 3 → 2, and another client changes it back every time";
        assert_eq!(loops(&record(entries.clone()))[0].to_string(), said);
        let Entry::Reconcile(mut other) = round(3500, "spec.replicas") else { unreachable!("it is one") };
        other.controller = "scaler".into();
        entries.push(Entry::Reconcile(other));
        entries.sort_by_key(Entry::at);
        assert_eq!(loops(&record(entries))[0].to_string(), said.replace("another client", "scaler"));
    }

    /// An operator sees its own write, finds it good, and wakes again when the other one has undone it.
    #[test]
    fn a_fight_has_reconciles_between_that_write_nothing() {
        let change = Change { path: "status.size".into(), from: Some("2".into()), to: Some("1".into()) };
        let mut entries = Vec::new();
        for at in 1..=12 {
            let Entry::Reconcile(mut one) = round(at * 1000, "status.size") else {
                unreachable!("it is one")
            };
            match at % 2 {
                0 => one.requests.clear(),
                _ => one.requests[0].changes = vec![change.clone()],
            }
            entries.push(Entry::Reconcile(one));
        }
        let mut record = record(entries);
        record.taken = 13_000;
        let found = loops(&record);
        assert_eq!((found.len(), found[0].rounds, found[0].undone_by.as_deref()), (1, 6, Some("")));
        record.taken = 13_000 + 2 * ROUND_MAX;
        assert_eq!(loops(&record), [], "it has ended");
        record.taken = 13_000;
        let back = Change { from: change.to.clone(), to: change.from.clone(), ..change };
        for entry in &mut record.entries {
            let Entry::Reconcile(reconcile) = entry else { continue };
            reconcile.requests.iter_mut().for_each(|sent| sent.changes.push(back.clone()));
        }
        assert_eq!(loops(&record), [], "the operator itself goes to and fro");
    }

    #[test]
    fn what_comes_to_rest_is_no_loop() {
        let mut entries: Vec<Entry> = (1..=7).map(|at| round(at * 1000, "status.checked")).collect();
        // The last reconcile is not caused by a write of the one before.
        let Entry::Reconcile(last) = round(9000, "status.checked") else { unreachable!("it is one") };
        let last = Reconcile { causes: vec![Cause::word("timer")], ..*last };
        entries.push(Entry::Reconcile(Box::new(last)));
        assert_eq!(loops(&record(entries)), []);
        let few: Vec<Entry> = (1..=ROUNDS_MIN as u64).map(|at| round(at, "a")).collect();
        assert_eq!(loops(&record(few)), [], "a few rounds are how work is done");
        let rare: Vec<Entry> = (1..=9).map(|at| round(at * 2 * ROUND_MAX, "a")).collect();
        assert_eq!(loops(&record(rare)), [], "a write every two minutes is a habit");
    }

    #[test]
    fn plurals_are_those_of_kubernetes() {
        for (resource, kind) in [
            ("pods", "Pod"),
            ("ingresses", "Ingress"),
            ("networkpolicies", "NetworkPolicy"),
            ("endpoints", "Endpoints"),
        ] {
            assert!(is_plural_of(resource, kind), "{resource} {kind}");
        }
        assert!(!is_plural_of("pods", "PodTemplate") && !is_plural_of("pods", ""));
    }
}
