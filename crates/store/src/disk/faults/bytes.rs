//! Opening directories with damaged, incomplete or foreign files.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{DIR, open, write};
use crate::disk::files::Files as _;
use crate::disk::frame;
use crate::disk::simulated::{FaultPlan, SimulatedFiles};
use crate::keyspace::FOLDERS_MAX;
use crate::{Expect, Op, OpenError, Options, Write, WriteError};

const LOG: &str = "log-00000000000000000002";

fn holding(files: &[(&str, &[u8])]) -> SimulatedFiles {
    let disk = SimulatedFiles::new(FaultPlan::default());
    for (name, bytes) in [&[("FORMAT", &b"evenkeel-store 1\n"[..])], files].concat() {
        disk.put(&Path::new(DIR).join(name), bytes.to_vec());
    }
    disk
}

/// Returns why a directory with these files does not open.
fn damage(files: &[(&str, &[u8])]) -> String {
    match open(&holding(files), &Options::default()).map(|_| ()) {
        Err(OpenError::Damaged { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

fn put(key: &str) -> Write<()> {
    Write { key: key.into(), expect: Expect::Any, op: Op::Put("x".into(), ()) }
}

/// Returns a log with one frame, which puts one key at revision 2.
fn log_of(key: &str) -> Vec<u8> {
    let mut bytes = b"evenkeel log  1\n".to_vec();
    frame::append(&mut bytes, |body| {
        body.extend_from_slice(&2_u64.to_le_bytes());
        body.push(1);
        body.extend_from_slice(&(key.len() as u32).to_le_bytes());
        body.extend_from_slice(key.as_bytes());
        body.extend_from_slice(&0_u32.to_le_bytes());
    });
    bytes
}

/// A key with a hundred thousand folders overflowed the stack, both in a write and in recovery.
#[test]
fn a_key_in_too_many_folders_is_refused() {
    let deepest = format!("{}x", "f/".repeat(FOLDERS_MAX));
    let mut committer = open(&holding(&[(LOG, &log_of(&deepest))]), &Options::default()).unwrap();
    assert_eq!(committer.shared().state.read().keys.count(""), 1);
    for folders in [FOLDERS_MAX + 1, 100_000] {
        let key = "f/".repeat(folders);
        let answers = write(&mut committer, vec![put(&key)]);
        assert!(matches!(answers[..], [Err(WriteError::TooDeep { limit: FOLDERS_MAX })]), "{answers:?}");
        let why = damage(&[(LOG, &log_of(&key))]);
        assert!(why.contains("more than 64 folders"), "{why}");
    }
}

/// The number in a file name was incremented without a check for overflow.
#[test]
fn a_file_of_a_revision_that_cannot_be_is_damage() {
    for name in ["log-18446744073709551615", "checkpoint-18446744073709551615", "log-09223372036854775808"] {
        let why = damage(&[(name, b"")]);
        assert!(why.contains("which is too large"), "{why}");
    }
    let strangers: [(&str, &[u8]); 3] =
        [("log-7", b"x"), ("log-old", b"x"), ("checkpoint-+0000000000000000007", b"x")];
    assert_eq!(open(&holding(&strangers), &Options::default()).unwrap().shared().state.read().revision, 1);
}

/// A log whose header was not durable before a crash was reported as damaged.
#[test]
fn a_log_that_was_only_begun_is_begun_again() {
    let begun: [&[u8]; 4] = [b"", b"evenk", &[0; 16], b"evenkeel log\0\0\0\0"];
    for bytes in begun {
        let disk = holding(&[(LOG, bytes)]);
        let mut committer = open(&disk, &Options::default()).unwrap();
        assert!(write(&mut committer, vec![put("/a")])[0].is_ok());
        drop(committer);
        disk.restart(FaultPlan::default());
        assert_eq!(open(&disk, &Options::default()).unwrap().shared().state.read().revision, 2);
    }
    assert!(
        damage(&[(LOG, &[0; 17])]).contains("it is not a log"),
        "frames are written only after a durable header"
    );
}

/// Nothing was logged when the end of the log was cut off.
#[test]
fn the_cut_of_a_torn_tail_is_logged() {
    let whole = log_of("/a/1");
    let disk = holding(&[(LOG, &[&whole[..], b"torn off"].concat())]);
    let said = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Listener(said.clone()), || open(&disk, &Options::default()).unwrap());
    let said = said.lock().join("\n");
    let expected = format!("file={DIR}/{LOG} offset={} bytes=8", whole.len());
    assert!(said.contains("cut off a torn frame") && said.contains(&expected), "{said}");
    assert_eq!(disk.length(&Path::new(DIR).join(LOG)).unwrap(), whole.len() as u64);
}

/// A subscriber that records events as text.
struct Listener(Arc<Mutex<Vec<String>>>);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(format!("{} ", event.metadata().level()));
        event.record(&mut words);
        self.0.lock().push(words.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
