//! Data directories of every format: each `tests/fixtures/format-N` opens with the state that was written to it.

use std::fs;
use std::path::Path;

use evenkeel_env::Env;
use evenkeel_store::{Options, Store};
use tempfile::TempDir;

use crate::{put, revisions};

/// Copies a fixture without some of its files.
fn copy(format: &str, without: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format);
    for file in fs::read_dir(fixture).unwrap().map(Result::unwrap) {
        if !without.iter().any(|name| file.file_name().to_string_lossy().ends_with(name)) {
            fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
    }
    dir
}

async fn open(dir: &TempDir) -> Store<()> {
    Store::open(dir.path(), Env::system(), Options::default()).await.unwrap()
}

async fn check_state(store: &Store<()>) {
    assert_eq!(store.revision(), 48);
    assert_eq!((store.count(""), store.count("/registry/pods/ns-1/")), (13, 5));
    let leader = store.get("/registry/leases/leader").unwrap();
    assert_eq!((leader.create_revision, leader.revision), (3, 48));
    assert_eq!(leader.value[..], [23; 3]);
    assert_eq!(store.get("/registry/pods/ns-1/pod-3").unwrap().value, "{\"nth\":17}");
    assert_eq!(store.write(put("/a", "goes on")).await.unwrap().revision, 49);
}

#[tokio::test]
async fn format_1_opens_with_its_history() {
    let store = open(&copy("format-1", &[])).await;
    assert_eq!(revisions(&mut store.watch("/", 1).unwrap()), (2..=48).collect::<Vec<_>>());
    check_state(&store).await;
}

#[tokio::test]
async fn format_1_opens_from_each_of_its_checkpoints() {
    for (without, oldest) in [(vec!["-00000000000000000002"], 22), (vec!["02", "22", "23"], 44)] {
        let store = open(&copy("format-1", &without)).await;
        assert_eq!(revisions(&mut store.watch("/", oldest).unwrap()), (oldest + 1..=48).collect::<Vec<_>>());
        check_state(&store).await;
    }
}
