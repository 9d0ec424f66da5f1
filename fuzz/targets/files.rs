//! Shared by the targets `journal` and `checkpoint`: opens a data directory with the given bytes, writes to
//! it and opens it again.

use std::sync::LazyLock;

use evenkeel_env::Env;
use evenkeel_store::simulation::{SimulatedDisk, frame};
use evenkeel_store::{Expect, Op, OpenError, Options, Range, Store, Write};
use tokio::runtime::{Builder, Runtime};

/// The first bytes of a log file.
pub const LOG_HEADER: &[u8] = b"evenkeel log  1\n";
/// The first bytes of a checkpoint.
#[allow(dead_code, reason = "only one of the two targets uses it")]
pub const CHECKPOINT_HEADER: &[u8] = b"evenkeel state1\n";

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("it needs nothing from the system"));

/// Builds a file of frames from their bodies, each after its length in two bytes. Remaining bytes that are
/// too few for their length become a torn tail.
pub fn framed(header: &[u8], mut bodies: &[u8]) -> Vec<u8> {
    let mut file = header.to_vec();
    while let Some((length, rest)) = bodies.split_first_chunk() {
        let Some((body, rest)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else { break };
        file.extend(frame(body));
        bodies = rest;
    }
    file.extend_from_slice(bodies);
    file
}

/// Opens a directory with these files and checks it.
pub fn check(files: &[(&str, Vec<u8>)]) {
    let disk = SimulatedDisk::new();
    disk.put("FORMAT", b"evenkeel-store 1\n".to_vec());
    for (name, bytes) in files {
        disk.put(name, bytes.clone());
    }
    RUNTIME.block_on(async {
        let store = match open(&disk).await {
            Ok(store) => store,
            Err(OpenError::Damaged { why, .. }) => return assert!(!why.is_empty()),
            Err(error) => panic!("{error}"),
        };
        let before = state(&store);
        let put = Write { key: "/fuzz".into(), expect: Expect::Any, op: Op::Put("x".into(), ()) };
        let written = store.write(put).await.expect("a store that opened takes writes");
        assert_eq!(written.revision, before.0 + 1);
        let after = state(&store);
        drop(store);
        let again = open(&disk).await.expect("a store that opened opens again");
        assert_eq!(state(&again), after);
    });
}

async fn open(disk: &SimulatedDisk) -> Result<Store<()>, OpenError> {
    disk.open(Env::seeded(1), Options::default()).await
}

/// The revision of a store, and every key with its value and revisions.
fn state(store: &Store<()>) -> (u64, Vec<(String, Vec<u8>, u64, u64)>) {
    let page = store.range(&Range::default()).expect("the newest state can be read");
    let entries = page.entries.iter().map(|entry| {
        (entry.key.to_string(), entry.value.to_vec(), entry.create_revision, entry.revision)
    });
    (page.revision, entries.collect())
}
