//! Every fault at every call of a life with several segments and checkpoints, and of the recovery after it.

use super::{Ending, Life, World, live};
use crate::disk::simulated::{Call, Fault, FaultPlan, SimulatedFiles, Tear};

/// How many batches a life writes: enough for four checkpoints and the removal of two.
const BATCHES: u64 = 26;

const TEARS: [Tear; 6] =
    [Tear::Nothing, Tear::Everything, Tear::Contents, Tear::Names, Tear::Random(1), Tear::Random(2)];

/// Returns the calls of a life without faults.
fn calls_of_a_sound_life() -> Vec<Call> {
    let disk = SimulatedFiles::new(FaultPlan::default());
    live(&World::default(), &disk, &[long(FaultPlan::default(), Ending::Exit)]).unwrap();
    disk.calls()
}

fn long(plan: FaultPlan, ending: Ending) -> Life {
    Life { plan, batches: BATCHES, ending }
}

/// Runs lives, then two without faults, of which the second sees what the first made durable.
fn check(lives: Vec<Life>) -> Result<(), String> {
    let lives = [lives, vec![Life::sound(), Life::sound()]].concat();
    live(&World::default(), &SimulatedFiles::new(FaultPlan::default()), &lives)
}

/// Asserts that all checks hold. Prints how many failed, and the first failure.
fn all_hold(outcomes: impl Iterator<Item = Result<(), String>>) {
    let (mut count, mut broken) = (0, Vec::new());
    for outcome in outcomes {
        count += 1;
        broken.extend(outcome.err());
    }
    assert!(broken.is_empty(), "{} of {count} plans: {}", broken.len(), broken[0]);
}

#[test]
fn the_life_that_is_broken_rolls_segments_and_makes_and_removes_checkpoints() {
    let calls = calls_of_a_sound_life();
    let count = |call| calls.iter().filter(|it| **it == call).count();
    assert!(count(Call::Create) > 8 && count(Call::Rename) > 3 && count(Call::Remove) > 4, "{calls:?}");
}

#[test]
fn a_crash_at_any_call_loses_nothing() {
    let calls = calls_of_a_sound_life();
    let faults = TEARS.iter().flat_map(|tear| [Fault::CrashBefore(*tear), Fault::CrashAfter(*tear)]);
    all_hold(faults.flat_map(|fault| {
        (0..calls.len()).map(move |at| check(vec![long(FaultPlan::of(at, fault), Ending::Exit)]))
    }));
}

/// Recovery made visible what was only in the page cache, and the machine crashed before it was durable.
#[test]
fn what_recovery_has_shown_after_a_kill_outlives_a_crash() {
    let calls = calls_of_a_sound_life();
    let short = |tear| Life { batches: 0, ..Life { ending: Ending::Crash(tear), ..Life::sound() } };
    all_hold((0..calls.len()).flat_map(|at| {
        let killed = long(FaultPlan::of(at, Fault::Kill), Ending::Exit);
        TEARS.map(move |tear| check(vec![killed.clone(), short(tear)]))
    }));
}

/// A process that was killed may have left names of files that are not durable yet, and the next process writes into such a
/// file: it must make the name durable before it acknowledges anything.
#[test]
fn what_is_written_after_a_kill_outlives_a_crash() {
    let calls = calls_of_a_sound_life();
    // One batch, so that no new segment makes names durable.
    let short = Life { batches: 1, ..Life::sound() };
    all_hold((0..calls.len()).map(|at| {
        let killed = long(FaultPlan::of(at, Fault::Kill), Ending::Exit);
        check(vec![killed, short.clone()])
    }));
}

/// After a failed sync the kernel treats the pages as written: a process that reads and trusts them loses them in a crash.
#[test]
fn a_failure_of_any_call_loses_nothing() {
    let calls = calls_of_a_sound_life();
    let endings = [Ending::Exit, Ending::Crash(Tear::Nothing), Ending::Crash(Tear::Random(3))];
    let faults = [
        Fault::InputOutput(1),
        Fault::InputOutput(2),
        Fault::InputOutput(3),
        Fault::NoSpace(1),
        Fault::NoSpace(4),
        Fault::TooManyFiles,
    ];
    let concerned = |fault: Fault| {
        let calls = calls.iter().enumerate().filter(move |(_, call)| fault.concerns(**call));
        calls.map(|(at, _)| at).collect::<Vec<_>>()
    };
    all_hold(faults.into_iter().flat_map(|fault| {
        concerned(fault)
            .into_iter()
            .flat_map(move |at| endings.map(|ending| check(vec![long(FaultPlan::of(at, fault), ending)])))
    }));
}

/// Whatever happens to the recovery from a crash, the next recovery finds as much as the first could have found.
#[test]
fn recovery_can_be_interrupted_at_any_call() {
    let calls = calls_of_a_sound_life();
    let is_change = |call: &Call| !matches!(call, Call::List | Call::Read | Call::Length | Call::Lock);
    let crashes = calls.iter().enumerate().filter(|(_, call)| is_change(call)).map(|(at, _)| at);
    let faults = [
        Fault::CrashAfter(Tear::Random(5)),
        Fault::CrashAfter(Tear::Names),
        Fault::Kill,
        Fault::InputOutput(6),
        Fault::NoSpace(7),
    ];
    all_hold(crashes.flat_map(|at| {
        let crashed = long(FaultPlan::of(at, Fault::CrashBefore(Tear::Random(at as u64))), Ending::Exit);
        let disk = SimulatedFiles::new(FaultPlan::default());
        let recovering = |plan| Life { plan, batches: 1, ending: Ending::Crash(Tear::Random(8)) };
        live(&World::default(), &disk, &[crashed.clone(), recovering(FaultPlan::default())]).unwrap();
        let count = disk.calls().len();
        faults.into_iter().flat_map(move |fault| {
            let crashed = crashed.clone();
            (0..count).map(move |call| check(vec![crashed.clone(), recovering(FaultPlan::of(call, fault))]))
        })
    }));
}

/// The first opening renamed the FORMAT file and was killed. The second one found the file, did not sync its name, and
/// failed while it created the first log. After a crash there was a log without a FORMAT file, which did not open.
#[test]
fn a_first_opening_can_fail_twice() {
    let opening = {
        let disk = SimulatedFiles::new(FaultPlan::default());
        live(&World::default(), &disk, &[Life { batches: 0, ..Life::sound() }]).unwrap();
        disk.calls().len()
    };
    let first = |at| Life { batches: 1, ending: Ending::Exit, plan: FaultPlan::of(at, Fault::Kill) };
    let second = |at, seed| Life {
        plan: FaultPlan::of(at, Fault::InputOutput(seed)),
        batches: 1,
        ending: Ending::Crash(Tear::Random(seed)),
    };
    all_hold((0..opening).flat_map(|killed| {
        (0..opening + 2)
            .flat_map(move |failed| (1..6).map(move |seed| check(vec![first(killed), second(failed, seed)])))
    }));
}

/// A checkpoint was renamed, its directory could not be synced, and the file could not be removed. It was forgotten, the log
/// after it was removed later, and the next opening began with that checkpoint and missed the log.
#[test]
fn a_failed_checkpoint_that_cannot_be_removed_is_not_forgotten() {
    let calls = calls_of_a_sound_life();
    let named = |at: &usize| calls[..=*at].ends_with(&[Call::Rename, Call::SyncDir]);
    let syncs: Vec<usize> = (2..calls.len()).filter(named).skip(1).collect();
    assert!(syncs.len() > 2, "the first is that of the FORMAT file: {calls:?}");
    all_hold(syncs.into_iter().flat_map(|at| {
        (1..8).map(move |seed| {
            let faults = vec![(at, Fault::InputOutput(seed)), (at + 1, Fault::InputOutput(seed))];
            let plan = FaultPlan { faults, ..FaultPlan::default() };
            check(vec![long(plan, Ending::Exit), long(FaultPlan::default(), Ending::Exit)])
        })
    }));
}

/// The checker must detect a disk whose syncs do nothing.
#[test]
fn a_disk_whose_syncs_do_nothing_is_found_out() {
    let lying =
        |files, names| FaultPlan { lies_about_files: files, lies_about_names: names, ..FaultPlan::default() };
    for (files, names) in [(true, false), (false, true)] {
        for tear in TEARS.into_iter().filter(|tear| *tear != Tear::Everything) {
            let lost = check(vec![Life::sound(), long(lying(files, names), Ending::Crash(tear))]);
            let is_harmless = tear == if files { Tear::Contents } else { Tear::Names };
            assert_eq!(lost.is_ok(), is_harmless, "{files} {names} {tear:?}: {lost:?}");
        }
    }
}

/// No sync of a frame can be omitted: for each, there is a crash after which an acknowledged write is gone.
#[test]
fn a_single_sync_of_a_frame_that_does_nothing_is_found_out() {
    let calls = calls_of_a_sound_life();
    let is_frame = |at: &usize| {
        calls[..=*at].ends_with(&[Call::Write, Call::Sync])
            && !matches!(calls[*at - 2], Call::Create | Call::Reserve)
    };
    let frames: Vec<usize> = (2..calls.len()).filter(is_frame).collect();
    assert!(frames.len() as u64 > BATCHES / 2, "{calls:?}");
    for at in frames {
        // The next sync of the file would repair it, so that the crash comes before.
        let crash = (at + 1, Fault::CrashBefore(Tear::Nothing));
        let plan = FaultPlan { faults: vec![crash], lies_at: Some(at), ..FaultPlan::default() };
        let lost = check(vec![long(plan, Ending::Crash(Tear::Nothing))]);
        assert!(
            lost.is_err_and(|why| why.contains("is gone")),
            "the checker did not detect the missing sync at call {at}"
        );
    }
}
