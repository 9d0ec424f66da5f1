//! The checker rejects histories that no correct server produces: small ones with one fault each, and simulated ones
//! that were tampered with.

use std::collections::BTreeMap;

use evenkeel_history::{
    Answer, Call, Change, ChangeKind, Content, History, Listing, Object, Operation, Revision, Stream, Tick,
    Violation, check,
};

use crate::simulate;

fn content(set: u64, merged: Option<u64>) -> Content {
    Content { set, merged }
}

fn object(revision: Revision, set: u64, merged: Option<u64>) -> Object {
    Object { revision, uid: "uid".into(), content: content(set, merged) }
}

fn operation(ticks: [Tick; 2], call: Call, answer: Answer) -> Operation {
    Operation { key: 0, call, called: ticks[0], answer, returned: ticks[1] }
}

fn created(ticks: [Tick; 2], revision: Revision, set: u64) -> Operation {
    operation(ticks, Call::Create { set }, Answer::Object(object(revision, set, None)))
}

fn updated(ticks: [Tick; 2], expected: Revision, revision: Revision, set: u64) -> Operation {
    let call = Call::Update { expected, content: content(set, None) };
    operation(ticks, call, Answer::Object(object(revision, set, None)))
}

fn read(ticks: [Tick; 2], answer: Answer) -> Operation {
    operation(ticks, Call::Get, answer)
}

fn event(seen: Tick, kind: ChangeKind, object: Object) -> Change {
    Change { key: 0, kind, object, seen }
}

fn of(operations: Vec<Operation>) -> History {
    History { keys: 1, operations, ..History::default() }
}

/// Two writes that the watchers in the tests below should see.
fn two_writes() -> History {
    of(vec![created([1, 2], 11, 1), updated([3, 4], 11, 12, 2)])
}

fn watched(changes: Vec<Change>) -> History {
    let end = changes.last().map(|change| change.object.revision);
    History { streams: vec![Stream { watcher: 0, from: 10, changes, reached: 10 }], end, ..two_writes() }
}

#[track_caller]
fn refuse(history: History, is_expected: fn(&Violation) -> bool) {
    let violations = check(history).expect_err("the history is wrong");
    assert!(violations.iter().any(is_expected), "{violations:#?}");
}

fn not_linearizable(violation: &Violation) -> bool {
    matches!(violation, Violation::NotLinearizable { .. })
}

#[test]
fn a_lost_update() {
    // Both updates were accepted with the precondition of revision 11.
    let history = of(vec![created([1, 2], 11, 1), updated([3, 10], 11, 12, 2), updated([4, 11], 11, 13, 3)]);
    refuse(history, not_linearizable);
}

#[test]
fn a_patch_that_undoes_a_write() {
    let patch = Call::Patch { merged: 3, expected: None };
    let history = of(vec![
        created([1, 2], 11, 1),
        updated([3, 4], 11, 12, 2),
        operation([5, 6], patch, Answer::Object(object(13, 1, Some(3)))),
    ]);
    refuse(history, not_linearizable);
}

#[test]
fn an_acknowledged_write_that_is_gone() {
    let history = of(vec![created([1, 2], 11, 1), read([3, 4], Answer::NotFound)]);
    refuse(history, not_linearizable);
}

#[test]
fn a_stale_read() {
    let mut history = two_writes();
    history.operations.push(read([5, 6], Answer::Object(object(11, 1, None))));
    refuse(history, not_linearizable);
    // A read during the update may show the old or the new value.
    let mut history = two_writes();
    history.operations[1].returned = 7;
    history.operations.push(read([5, 6], Answer::Object(object(11, 1, None))));
    check(history).unwrap();
}

#[test]
fn a_phantom_delete() {
    let lost = operation([3, 8], Call::Delete { expected: None }, Answer::Lost);
    let gone = read([9, 10], Answer::NotFound);
    check(of(vec![created([1, 2], 11, 1), lost.clone(), gone.clone()])).unwrap();
    let back = read([11, 12], Answer::Object(object(11, 1, None)));
    refuse(of(vec![created([1, 2], 11, 1), lost, gone, back]), not_linearizable);
}

#[test]
fn a_lost_write_that_happens_after_its_server_has_died() {
    let lost = |returned| {
        let call = Call::Patch { merged: 5, expected: None };
        operation([3, returned], call, Answer::Lost)
    };
    let before = read([10, 11], Answer::Object(object(11, 1, None)));
    let after = read([12, 13], Answer::Object(object(12, 1, Some(5))));
    let with = |lost| of(vec![created([1, 2], 11, 1), lost, before.clone(), after.clone()]);
    check(with(lost(Tick::MAX))).unwrap();
    refuse(with(lost(9)), not_linearizable);
}

#[test]
fn a_write_that_nobody_sent() {
    let history = of(vec![created([1, 2], 11, 1), read([3, 4], Answer::Object(object(12, 7, None)))]);
    refuse(history, not_linearizable);
}

#[test]
fn refusals_without_a_reason() {
    let conflict = Call::Update { expected: 11, content: content(2, None) };
    for (call, answer) in [
        (conflict, Answer::Conflict),
        (Call::Delete { expected: Some(11) }, Answer::Conflict),
        (Call::Delete { expected: None }, Answer::NotFound),
        (Call::Patch { merged: 2, expected: None }, Answer::NotFound),
    ] {
        let history = of(vec![created([1, 2], 11, 1), operation([3, 4], call, answer)]);
        refuse(history, not_linearizable);
    }
    refuse(of(vec![operation([1, 2], Call::Create { set: 1 }, Answer::Exists)]), not_linearizable);
}

#[test]
fn preconditions_that_were_not_kept() {
    let deleted = Answer::Deleted { uid: "uid".into(), revision: None };
    let patched = Answer::Object(object(13, 2, Some(3)));
    for (call, answer) in [
        (Call::Delete { expected: Some(11) }, deleted),
        (Call::Patch { merged: 3, expected: Some(11) }, patched),
    ] {
        let mut history = two_writes();
        history.operations.push(operation([5, 6], call, answer));
        refuse(history, not_linearizable);
    }
}

#[test]
fn a_duplicate_revision() {
    let mut history = two_writes();
    history.operations.push(updated([5, 6], 12, 12, 3));
    refuse(history, |violation| matches!(violation, Violation::Reused { revision: 12, .. }));
}

/// After a crash, another change gets a revision that a watcher had seen.
#[test]
fn a_revision_that_is_used_again_after_a_crash() {
    let mut history = watched(vec![event(3, ChangeKind::Added, object(11, 1, None))]);
    history.operations[0].answer = Answer::Lost;
    history.operations[0].returned = 4;
    history.operations[1] = created([5, 6], 11, 2);
    refuse(history, |violation| matches!(violation, Violation::Reused { revision: 11, .. }));
}

#[test]
fn revisions_against_real_time() {
    let mut history = two_writes();
    history.keys = 2;
    history.operations.push(Operation { key: 1, ..created([5, 6], 9, 3) });
    refuse(history, |violation| matches!(violation, Violation::Backwards { revision: 9, before: 12 }));
    let mut history = two_writes();
    let items = BTreeMap::from([(0, object(11, 1, None))]);
    history.listings.push(Listing { called: 5, returned: 6, revision: 11, items });
    refuse(history, |violation| matches!(violation, Violation::Backwards { revision: 11, before: 12 }));
}

#[test]
fn a_list_that_mixes_two_revisions() {
    let both = |revision, a, b| {
        let items = BTreeMap::from([(0, object(a, a, None)), (1, object(b, b, None))]);
        Listing { called: 1, returned: 20, revision, items }
    };
    let written = |key, revision: Revision, ticks| Operation { key, ..created(ticks, revision, revision) };
    let history = |listing| {
        let mut operations = vec![written(0, 11, [2, 3]), written(1, 12, [4, 5])];
        operations.push(updated([6, 7], 11, 13, 13));
        operations.push(Operation { key: 1, ..updated([8, 9], 12, 14, 14) });
        History { keys: 2, operations, listings: vec![listing], ..History::default() }
    };
    check(history(both(12, 11, 12))).unwrap();
    check(history(both(13, 13, 12))).unwrap();
    let mixed = |violation: &Violation| matches!(violation, Violation::MixedList { .. });
    refuse(history(both(14, 11, 14)), mixed);
    refuse(history(both(12, 13, 12)), mixed);
}

#[test]
fn a_list_without_an_object_that_was_there() {
    let mut history = watched(vec![
        event(3, ChangeKind::Added, object(11, 1, None)),
        event(6, ChangeKind::Modified, object(12, 2, None)),
    ]);
    history.listings.push(Listing { called: 1, returned: 9, revision: 12, items: BTreeMap::new() });
    refuse(history, |violation| matches!(violation, Violation::MixedList { shows: None, .. }));
}

#[test]
fn a_missed_event() {
    let history = watched(vec![event(6, ChangeKind::Modified, object(12, 2, None))]);
    refuse(history, |violation| matches!(violation, Violation::Missed { revision: 11, .. }));
}

#[test]
fn a_repeated_event() {
    let first = event(3, ChangeKind::Added, object(11, 1, None));
    let second = event(6, ChangeKind::Modified, object(12, 2, None));
    let repeated = |violation: &Violation| matches!(violation, Violation::Repeated { .. });
    check(watched(vec![first.clone(), second.clone()])).unwrap();
    refuse(watched(vec![first.clone(), first.clone(), second.clone()]), repeated);
    refuse(watched(vec![second.clone(), first.clone()]), repeated);
    // A watch that resumes after a revision does not show that revision again.
    let mut history = watched(vec![first, second.clone()]);
    history.streams.push(Stream { watcher: 0, from: 12, changes: vec![second], reached: 12 });
    refuse(history, repeated);
}

#[test]
fn an_event_of_the_wrong_type() {
    let first = event(3, ChangeKind::Added, object(11, 1, None));
    let second = event(6, ChangeKind::Added, object(12, 2, None));
    let misnamed = |violation: &Violation| matches!(violation, Violation::Misnamed { .. });
    refuse(watched(vec![first, second]), misnamed);
}

#[test]
fn a_watch_that_never_sees_the_end() {
    let mut history = watched(vec![event(3, ChangeKind::Added, object(11, 1, None))]);
    history.end = Some(12);
    refuse(history, |violation| matches!(violation, Violation::Unfinished { seen: 11, end: 12, .. }));
}

/// Tampers with a history. Returns whether there was something to tamper with.
type Tamper = fn(&mut History, &mut fastrand::Rng) -> bool;

fn choose<T>(random: &mut fastrand::Rng, from: impl Iterator<Item = T>) -> Option<T> {
    let all: Vec<T> = from.collect();
    if all.is_empty() {
        return None;
    }
    let at = random.usize(0..all.len());
    all.into_iter().nth(at)
}

/// Changes the value in the answer to a write.
fn other_value(history: &mut History, random: &mut fastrand::Rng) -> bool {
    let objects = history.operations.iter_mut().filter_map(|operation| match &mut operation.answer {
        Answer::Object(object) => Some(object),
        _ => None,
    });
    choose(random, objects).map(|object| object.content.set += 1_000_000).is_some()
}

/// Removes an event from the middle of a watch.
fn drop_event(history: &mut History, random: &mut fastrand::Rng) -> bool {
    // An event that another watch has shown too, and that is not the last one of its watch.
    let streams = history.streams.iter_mut().filter(|stream| stream.changes.len() > 2);
    let Some(stream) = choose(random, streams) else { return false };
    let at = random.usize(0..stream.changes.len() - 1);
    let taken = stream.changes.remove(at).object.revision;
    let events = || history.streams.iter().flat_map(|stream| &stream.changes);
    events().any(|change| change.object.revision == taken)
}

/// Shows an event twice.
fn repeat_event(history: &mut History, random: &mut fastrand::Rng) -> bool {
    let streams = history.streams.iter_mut().filter(|stream| !stream.changes.is_empty());
    let Some(stream) = choose(random, streams) else { return false };
    let at = random.usize(0..stream.changes.len());
    let again = stream.changes[at].clone();
    stream.changes.insert(at, again);
    true
}

/// Makes a list show an object as in the list before, though the object has changed.
fn stale_item(history: &mut History, random: &mut fastrand::Rng) -> bool {
    let pairs = history.listings.iter().zip(history.listings.iter().enumerate().skip(1));
    let stale = pairs.filter_map(|(old, (at, new))| {
        let (key, item) = old.items.iter().next()?;
        new.items.get(key).filter(|now| now.revision > item.revision)?;
        Some((at, *key, item.clone()))
    });
    let Some((at, key, item)) = choose(random, stale) else { return false };
    history.listings[at].items.insert(key, item);
    true
}

/// Turns a read into "not found", though the object had one revision before and after the read.
fn forget(history: &mut History, random: &mut fastrand::Rng) -> bool {
    let same = |one: &Operation, two: &Operation| match (&one.answer, &two.answer) {
        (Answer::Object(first), Answer::Object(second)) => first.revision == second.revision,
        _ => false,
    };
    let all = &history.operations;
    let between = |read: &Operation| {
        let before = all.iter().any(|other| same(other, read) && other.returned < read.called);
        before && all.iter().any(|other| same(other, read) && other.called > read.returned)
    };
    let reads = all.iter().enumerate().filter(|(_, read)| read.call == Call::Get && between(read));
    let Some((at, _)) = choose(random, reads) else { return false };
    history.operations[at].answer = Answer::NotFound;
    true
}

/// Moves a bookmark past a change that is shown later.
#[test]
fn a_bookmark_ahead_of_the_events() {
    let mut history = watched(vec![event(3, ChangeKind::Added, object(11, 1, None))]);
    history.streams[0].reached = 12;
    let second = vec![event(6, ChangeKind::Modified, object(12, 2, None))];
    history.streams.push(Stream { watcher: 1, from: 11, changes: second, reached: 11 });
    refuse(history, |violation| matches!(violation, Violation::Missed { revision: 12, .. }));
}

#[test]
fn histories_that_were_tampered_with() {
    let tampers: [(&str, Tamper); 5] = [
        ("other_value", other_value),
        ("drop_event", drop_event),
        ("repeat_event", repeat_event),
        ("stale_item", stale_item),
        ("forget", forget),
    ];
    for (name, tamper) in tampers {
        let mut tampered = 0;
        for seed in 0..60 {
            let mut history = simulate::history(seed, 1000);
            if tamper(&mut history, &mut fastrand::Rng::with_seed(seed)) {
                tampered += 1;
                assert!(check(history).is_err(), "{name} with seed {seed} is believed");
            }
        }
        assert!(tampered >= 10, "{name} found something to do only {tampered} times");
    }
}
