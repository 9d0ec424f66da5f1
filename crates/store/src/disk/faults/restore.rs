//! Restoring a backup on a disk with faults: afterwards the directory opens with the complete state, or not at all.

use std::path::Path;
use std::sync::Arc;

use super::{DIR, open};
use crate::disk::backup::{Backup, BackupStream};
use crate::disk::restore::restore;
use crate::disk::simulated::{Fault, FaultPlan, SimulatedFiles, Tear};
use crate::keyspace::Keyspace;
use crate::{Entry, OpenError, Options};

/// The number of entries of the backup.
const ENTRIES: usize = 20;

fn backup() -> Backup<()> {
    let mut keys = Keyspace::new();
    for nth in 0..ENTRIES {
        let (key, value) = (format!("/a/{nth}").into(), vec![b'x'; nth * 100].into());
        keys.insert(Arc::new(Entry { key, value, header: (), create_revision: 5, revision: 7 }));
    }
    let bytes: Vec<u8> = BackupStream::new(keys, 9).flatten().collect();
    Backup::read(&mut bytes.as_slice()).unwrap()
}

fn restore_on(disk: &SimulatedFiles) -> Result<(), OpenError> {
    restore(Arc::new(disk.clone()), Path::new(DIR), &backup()).map(drop)
}

/// Opens a directory and returns its number of entries.
fn opened(disk: &SimulatedFiles) -> Result<usize, OpenError> {
    Ok(open(disk, &Options::default())?.shared().state.read().keys.count(""))
}

#[test]
fn a_restore_that_is_cut_short_anywhere_does_not_open_by_half_and_can_be_made_again() {
    let sound = SimulatedFiles::new(FaultPlan::default());
    restore_on(&sound).unwrap();
    let calls = sound.calls().len();
    let tears =
        [Tear::Nothing, Tear::Everything, Tear::Contents, Tear::Names, Tear::Random(1), Tear::Random(2)];
    let crashes = tears.into_iter().flat_map(|tear| [Fault::CrashBefore(tear), Fault::CrashAfter(tear)]);
    let failures = [Fault::Kill, Fault::InputOutput(1), Fault::NoSpace(1), Fault::TooManyFiles];
    for fault in crashes.chain(failures) {
        for at in 0..calls {
            let cut = || {
                let disk = SimulatedFiles::new(FaultPlan::of(at, fault));
                // The result does not matter: the opening below shows whether the restore is complete.
                let _ = restore_on(&disk);
                disk.restart(FaultPlan::default());
                disk
            };
            let disk = cut();
            let has = |name: &str| disk.names().iter().any(|it| it.contains(name));
            let begun = has("RESTORING") || has("checkpoint") || has("FORMAT");
            match opened(&disk) {
                Ok(ENTRIES) | Err(OpenError::Foreign { .. }) => {}
                // Nothing was written, so that it is a new directory.
                Ok(0) if !begun => {}
                other => panic!("{fault:?} at call {at}: {other:?}, {:?}", disk.names()),
            }
            let disk = cut();
            match restore_on(&disk) {
                Ok(()) => {
                    disk.crash(Tear::Nothing);
                    disk.restart(FaultPlan::default());
                }
                // The first restore was complete.
                Err(OpenError::Occupied(_)) => {}
                Err(error) => panic!("{fault:?} at call {at}: {error}, {:?}", disk.names()),
            }
            assert_eq!(opened(&disk).unwrap(), ENTRIES, "{fault:?} at call {at}");
        }
    }
}
