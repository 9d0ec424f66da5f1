//! What writers and health checks see while a disk fails, and how the store continues.

use std::path::Path;
use std::sync::Arc;

use evenkeel_env::Env;

use super::{DIR, World, open, write};
use crate::disk::DiskJournal;
use crate::disk::committer::Committer;
use crate::disk::simulated::{Call, Fault, FaultPlan, SimulatedFiles};
use crate::journal::Journal as _;
use crate::{Expect, Op, Options, Write, WriteError, Written};

fn put(key: &str, bytes: usize) -> Write<()> {
    Write { key: key.into(), expect: Expect::Any, op: Op::Put("x".repeat(bytes).into(), ()) }
}

fn create(key: &str) -> Write<()> {
    Write { expect: Expect::Absent, ..put(key, 10) }
}

fn one(committer: &mut Committer<()>, write: Write<()>) -> Result<Written<()>, WriteError<()>> {
    let mut answers = self::write(committer, vec![write]);
    committer.maintain();
    answers.remove(0)
}

fn trouble(committer: &Committer<()>) -> Option<String> {
    committer.shared().trouble.lock().clone()
}

/// Makes a call of this process fail: the next one after `skip` others.
fn fail_next(disk: &SimulatedFiles, skip: usize, fault: Fault) {
    disk.plan(FaultPlan::of(disk.calls().len() + skip, fault));
}

/// A conflict was due to a write that did not become durable, and its answer revealed that write.
#[test]
fn a_conflict_does_not_show_what_is_not_durable() {
    let disk = SimulatedFiles::new(FaultPlan::default());
    let mut committer = open(&disk, &World::default().options).unwrap();
    fail_next(&disk, 1, Fault::InputOutput(1));
    let answers = write(&mut committer, vec![create("/a/1"), create("/a/1")]);
    assert!(answers.iter().all(|answer| matches!(answer, Err(WriteError::Journal(_)))), "{answers:?}");
    let later = one(&mut committer, create("/a/1"));
    assert!(matches!(later, Err(WriteError::Journal(_))), "{later:?}");
    assert_eq!(committer.shared().state.read().revision, 1);
}

#[test]
fn a_failed_sync_is_final_and_is_reported() {
    let disk = SimulatedFiles::new(FaultPlan::default());
    let mut committer = open(&disk, &World::default().options).unwrap();
    one(&mut committer, put("/a/1", 10)).unwrap();
    assert_eq!(trouble(&committer), None);
    fail_next(&disk, 1, Fault::NoSpace(1));
    assert!(matches!(one(&mut committer, put("/a/2", 10)), Err(WriteError::Journal(_))));
    disk.plan(FaultPlan::default());
    assert!(matches!(one(&mut committer, put("/a/3", 10)), Err(WriteError::Journal(_))));
    assert!(trouble(&committer).is_some_and(|why| why.contains("No space")));
    assert_eq!(committer.shared().state.read().revision, 2);
}

/// A full disk rejects the write and nothing else. When there is room again, writes succeed in the same process.
#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let disk = SimulatedFiles::new(FaultPlan::default());
    let options = World::default().options;
    let mut committer = open(&disk, &options).unwrap();
    for nth in 0..30 {
        one(&mut committer, put(&format!("/a/{}", nth % 5), 300)).unwrap();
    }
    let revision = committer.shared().state.read().revision;
    let (bytes, full) = (disk.bytes(), FaultPlan { full_from: Some(0), ..FaultPlan::default() });
    disk.plan(full);
    for _ in 0..10 {
        let refused = one(&mut committer, put("/a/1", 300));
        assert!(matches!(refused, Err(WriteError::NoRoom(_))), "{refused:?}");
        assert!(trouble(&committer).is_some_and(|why| why.contains("No space")));
    }
    assert!(disk.bytes() <= bytes, "a rejected write takes no room");
    disk.plan(FaultPlan::default());
    assert_eq!(one(&mut committer, put("/a/1", 300)).unwrap().revision, revision + 1);
    assert_eq!(trouble(&committer), None);
    drop(committer);
    disk.restart(FaultPlan::default());
    assert_eq!(open(&disk, &options).unwrap().shared().state.read().revision, revision + 1);
}

/// The journal failed permanently and silently when a new segment could not be created.
#[test]
fn without_file_descriptors_the_old_segment_goes_on() {
    let disk = SimulatedFiles::new(FaultPlan::default());
    let options = World::default().options;
    let mut committer = open(&disk, &options).unwrap();
    disk.plan(FaultPlan { too_many_files_from: Some(0), ..FaultPlan::default() });
    for nth in 0..60 {
        one(&mut committer, put(&format!("/a/{}", nth % 5), 300)).unwrap();
    }
    assert_eq!(trouble(&committer), None);
    let checkpoints =
        |disk: &SimulatedFiles| disk.names().iter().filter(|name| name.contains("point")).count();
    assert_eq!(checkpoints(&disk), 0);
    disk.plan(FaultPlan::default());
    for nth in 0..20 {
        one(&mut committer, put(&format!("/a/{}", nth % 5), 300)).unwrap();
    }
    assert!(checkpoints(&disk) > 0, "they are tried again: {:?}", disk.names());
}

/// A failed checkpoint left its file behind, which took the disk space that the log needed.
#[test]
fn a_checkpoint_that_fails_leaves_nothing_behind() {
    let options = Options::default().checkpoint_bytes(3000);
    let lived = |plan: FaultPlan| {
        let disk = SimulatedFiles::new(plan);
        let mut committer = open(&disk, &options).unwrap();
        for nth in 0..14 {
            one(&mut committer, put(&format!("/a/{}", nth % 5), 300)).unwrap();
        }
        disk
    };
    let calls = lived(FaultPlan::default()).calls();
    // The first rename is that of the FORMAT file, the second that of the checkpoint.
    let mut renames = (0..calls.len()).filter(|at| calls[*at] == Call::Rename).skip(1);
    let renamed = renames.next().expect("one checkpoint is written");
    // Create, reserve, write, sync, rename, sync of the directory.
    for (at, call) in calls.iter().enumerate().take(renamed + 2).skip(renamed - 4) {
        let disk = lived(FaultPlan::of(at, Fault::InputOutput(3)));
        let left: Vec<String> = disk.names().into_iter().filter(|name| name.contains("point")).collect();
        assert!(left.is_empty(), "call {at}, {call:?}: {left:?}");
    }
}

/// A checkpoint that does not fit took the last room before it failed, and refused the writes of that time.
#[test]
fn a_checkpoint_that_does_not_fit_fails_before_it_takes_room() {
    let disk = SimulatedFiles::new(FaultPlan::default());
    let options = Options::default().checkpoint_bytes(3000);
    let mut committer = open(&disk, &options).unwrap();
    let is_unfinished = |disk: &SimulatedFiles| disk.names().iter().any(|name| name.contains("point"));
    for nth in 0..8 {
        one(&mut committer, put(&format!("/a/{}", nth % 5), 300)).unwrap();
    }
    assert!(!is_unfinished(&disk), "{:?}", disk.names());
    // Four more frames fit, and the checkpoint of five objects beside them does not.
    let room = disk.bytes() + 1600;
    disk.plan(FaultPlan { room: Some(room), ..FaultPlan::default() });
    let reserved = |disk: &SimulatedFiles| disk.calls().iter().filter(|call| **call == Call::Reserve).count();
    for nth in 0..4 {
        one(&mut committer, put(&format!("/a/{nth}"), 300)).unwrap();
        assert_eq!(disk.most_bytes(), disk.bytes(), "only the log grows");
    }
    assert_eq!(reserved(&disk), 1, "a checkpoint was tried: {:?}", disk.calls());
    assert!(!is_unfinished(&disk) && trouble(&committer).is_none(), "{:?}", disk.names());
}

/// A committer that panicked left the queue open: a later write waited for ever.
#[tokio::test]
async fn a_panic_of_the_committer_is_told_to_writers_at_once() {
    let disk = SimulatedFiles::new(FaultPlan::default());
    let files = Arc::new(disk.clone());
    let opened = crate::disk::open_on(files, Path::new(DIR), Env::system(), Options::default()).await;
    let journal: DiskJournal<()> = opened.unwrap();
    let trouble = || journal.shared().trouble.lock().clone();
    assert!(journal.write(vec![put("/a/1", 10)]).await[0].is_ok());
    assert_eq!(trouble(), None);
    fail_next(&disk, 0, Fault::Panic);
    let answers = journal.write(vec![put("/a/2", 10), put("/a/3", 10)]).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(WriteError::Journal(_)))), "{answers:?}");
    let later = journal.write(vec![put("/a/4", 10)]).await.remove(0);
    assert!(matches!(&later, Err(WriteError::Journal(why)) if why.contains("panicked")), "{later:?}");
    assert!(trouble().is_some_and(|why| why.contains("panicked")));
    assert_eq!(journal.shared().count(""), 1, "what is durable can still be read");
    journal.close();
}
