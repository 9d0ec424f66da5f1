//! The files of format 1, byte for byte: the writes below produced `tests/fixtures/format-1`.
//!
//! A change that writes other bytes is a new format, unless every earlier version reads them as before: raise the number in
//! `format.rs`, keep the fixture, and keep reading it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{DIR, open, write};
use crate::disk::files::Files as _;
use crate::disk::simulated::{FaultPlan, SimulatedFiles};
use crate::{Expect, Op, Options, Write};

/// Writes and deletes keys, before and after a checkpoint. Returns the files.
fn written_today() -> BTreeMap<String, Vec<u8>> {
    let disk = SimulatedFiles::new(FaultPlan::default());
    let mut committer = open(&disk, &Options::default().checkpoint_bytes(1000)).unwrap();
    for nth in 0..24_u32 {
        let key = format!("/registry/pods/ns-{}/pod-{}", nth % 2, nth % 7);
        let op = match nth % 8 {
            7 => Op::Delete,
            _ => Op::Put(format!("{{\"nth\":{nth}}}").into(), ()),
        };
        let other = Write {
            key: "/registry/leases/leader".into(),
            expect: Expect::Any,
            op: Op::Put(vec![nth as u8; 3].into(), ()),
        };
        write(&mut committer, vec![Write { key: key.into(), expect: Expect::Any, op }, other]);
        committer.maintain();
    }
    let names = disk.names().into_iter().filter(|name| name != "LOCK");
    let read = |name: String| {
        let mut bytes = Vec::new();
        disk.read(&Path::new(DIR).join(&name)).unwrap().read_to_end(&mut bytes).unwrap();
        (name, bytes)
    };
    names.map(read).collect()
}

#[test]
fn todays_code_writes_format_1() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let kept: BTreeMap<String, Vec<u8>> = files
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .collect();
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    let written = written_today();
    assert_eq!(names(&written), names(&kept));
    for (name, bytes) in kept {
        assert_eq!(written[&name], bytes, "{name}");
    }
}
