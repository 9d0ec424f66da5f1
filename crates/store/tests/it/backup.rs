//! Backups: the state at one revision, restored completely or not at all.

use std::path::Path;

use evenkeel_env::Env;
use evenkeel_store::{
    Backup, BackupError, Header, OpenError, Options, Range, Store, WatchError, verify_backup,
};

use crate::{delete, each, put};

/// The keys of a store with their values and revisions.
type Content = Vec<(String, bytes::Bytes, u64, u64)>;

fn content(store: &Store<()>, at: Option<u64>) -> Content {
    let page = store.range(&Range { at, ..Range::default() }).unwrap();
    let row = |entry: &std::sync::Arc<evenkeel_store::Entry<()>>| {
        (entry.key.to_string(), entry.value.clone(), entry.create_revision, entry.revision)
    };
    page.entries.iter().map(row).collect()
}

fn read(bytes: &[u8]) -> Result<Backup<()>, BackupError> {
    Backup::read(&mut &*bytes)
}

async fn restore(dir: &Path, bytes: &[u8]) -> Result<Store<()>, OpenError> {
    Store::restore(dir, read(bytes).unwrap(), Env::system(), Options::default()).await
}

async fn small() -> Vec<u8> {
    let store: Store<()> = Store::memory(Env::seeded(1), Options::default());
    for nth in 0..3 {
        store.write(put(&format!("/a/{nth}"), &format!("value of {nth}"))).await.unwrap();
    }
    store.write(delete("/a/1")).await.unwrap();
    store.backup().flatten().collect()
}

#[tokio::test]
async fn a_restored_store_is_the_one_that_was_backed_up_and_goes_on_above_it() {
    for subject in each(Options::default()).await {
        let store = subject.store;
        // More than one frame, and entries that were written more than once.
        for nth in 0..60 {
            store.write(put(&format!("/a/{nth}"), &"x".repeat(nth * 400))).await.unwrap();
            store.write(put("/a/0", &nth.to_string())).await.unwrap();
        }
        let stream = store.backup();
        let revision = stream.revision();
        let parts: Vec<_> = stream.collect();
        assert!(parts.len() > 4, "{} parts", parts.len());
        let bytes = parts.concat();
        let summary = verify_backup(&mut bytes.as_slice()).unwrap();
        assert_eq!((summary.revision, summary.entries, summary.bytes), (revision, 60, bytes.len() as u64));

        let dir = tempfile::tempdir().unwrap();
        let on_disk = restore(dir.path(), &bytes).await.unwrap();
        let in_memory = Store::restored(read(&bytes).unwrap(), Env::seeded(1), Options::default());
        for restored in [&on_disk, &in_memory] {
            assert_eq!(content(restored, None), content(&store, None));
            assert!(matches!(restored.watch("/a/", revision), Err(WatchError::Compacted { .. })));
            assert!(restored.get_at("/a/0", revision).is_err(), "history begins with the restore");
            let after = restored.write(put("/a/new", "1")).await.unwrap().revision;
            assert!(after > revision + 1_000_000, "clients may have seen later revisions: {after}");
        }
        on_disk.close();
        drop(on_disk);
        let again = Store::<()>::open(dir.path(), Env::system(), Options::default()).await.unwrap();
        assert_eq!(content(&again, None), content(&in_memory, None), "it opens like any other directory");
    }
}

#[tokio::test]
async fn a_backup_under_writes_is_the_state_of_its_revision() {
    let store: Store<()> = Store::memory(Env::seeded(1), Options::default());
    for nth in 0..400 {
        store.write(put(&format!("/a/{nth}"), &"x".repeat(4000))).await.unwrap();
    }
    let stream = store.backup();
    let (revision, mut bytes) = (stream.revision(), Vec::new());
    for (nth, part) in stream.enumerate() {
        bytes.extend_from_slice(&part);
        store.write(put(&format!("/a/{}", nth * 7), "changed")).await.unwrap();
        store.write(put(&format!("/b/{nth}"), "new")).await.unwrap();
        store.write(delete(&format!("/a/{}", 399 - nth))).await.unwrap();
    }
    let restored = Store::restored(read(&bytes).unwrap(), Env::seeded(1), Options::default());
    assert_eq!(content(&restored, None), content(&store, Some(revision)));
    assert_ne!(content(&restored, None), content(&store, None));
}

#[tokio::test]
async fn an_empty_store_has_a_backup_too() {
    let store: Store<()> = Store::memory(Env::seeded(1), Options::default());
    let bytes: Vec<u8> = store.backup().flatten().collect();
    let dir = tempfile::tempdir().unwrap();
    let restored = restore(&dir.path().join("a/b"), &bytes).await.unwrap();
    assert_eq!(content(&restored, None), []);
}

#[tokio::test]
async fn no_flipped_bit_no_cut_and_no_addition_goes_unseen() {
    let whole = small().await;
    assert!(read(&whole).is_ok());
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert!(read(&bytes).is_err(), "bit {bit} of byte {at}");
        }
        assert!(read(&whole[..at]).is_err(), "cut at {at}");
    }
    assert!(read(&[whole.as_slice(), b"x"].concat()).is_err());
    assert!(read(&[whole.as_slice(), whole.as_slice()].concat()).is_err());
}

#[tokio::test]
async fn an_error_says_what_is_wrong_and_where() {
    let whole = small().await;
    let told = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(told(b""), "the file is not a snapshot of evenkeel");
    let newer = [b"evenkeel snap 2\n".as_slice(), &whole[16..]].concat();
    assert_eq!(told(&newer), "the snapshot has format 2, and this version of evenkeel reads format 1");
    // The first frame begins after the name and is 29 bytes long.
    assert_eq!(told(&whole[..45]), "the snapshot is damaged at byte 45: it was cut off: its end is missing");
    let mut flipped = whole.clone();
    flipped[60] ^= 1;
    let why = "the snapshot is damaged at byte 45: the checksum does not match, or it was cut off here";
    assert_eq!(told(&flipped), why);
}

/// A header that cannot be made of any value.
#[derive(Debug)]
struct Never;

impl Header for Never {
    fn parse(_: &str, _: &bytes::Bytes) -> Result<Self, String> {
        Err("no header".to_owned())
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_named() {
    let why = Backup::<Never>::read(&mut small().await.as_slice()).unwrap_err().to_string();
    assert!(why.contains("/a/0: no header"), "{why}");
}

#[tokio::test]
async fn a_backup_is_restored_only_where_there_is_no_store() {
    let bytes = small().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("pki")).unwrap();
    std::fs::write(dir.path().join("pki/ca.key"), "secret").unwrap();
    drop(restore(dir.path(), &bytes).await.unwrap());
    assert!(dir.path().join("pki/ca.key").exists(), "subdirectories are not touched");
    assert!(!dir.path().join("RESTORING").exists());
    let occupied = restore(dir.path(), &bytes).await.unwrap_err();
    assert!(matches!(occupied, OpenError::Occupied(_)), "{occupied:?}");

    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("thesis.txt"), "x").unwrap();
    let refused = restore(foreign.path(), &bytes).await.unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused:?}");
    assert_eq!(std::fs::read_dir(foreign.path()).unwrap().count(), 1, "nothing is written there");
}
