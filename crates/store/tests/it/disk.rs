//! What only a disk store does: it survives restarts, and does not open a damaged directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_env::Env;
use evenkeel_store::{OpenError, Options, Range, Store, WatchError, WriteError};
use tempfile::TempDir;

use crate::{delete, drain, put, revisions};

async fn open(dir: &Path) -> Result<Store<()>, OpenError> {
    Store::open(dir, Env::system(), Options::default()).await
}

/// Returns the directory of a closed store with ten keys, each written as a frame of its own.
async fn ten_keys() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    for nth in 0..10 {
        store.write(put(&format!("/a/{nth}"), &format!("value of {nth}"))).await.unwrap();
    }
    store.close();
    dir
}

fn log_of(dir: &TempDir) -> PathBuf {
    dir.path().join("log-00000000000000000002")
}

/// Returns every file with its bytes.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

async fn check_damaged(dir: &TempDir, why: &str) {
    let before = contents(dir.path());
    match open(dir.path()).await {
        Err(OpenError::Damaged { why: said, .. }) => assert!(said.contains(why), "{said}"),
        other => panic!("{why}: {other:?}"),
    }
    assert_eq!(contents(dir.path()), before, "nothing may be changed");
}

#[tokio::test]
async fn state_revision_and_history_last() {
    let dir = ten_keys().await;
    let store = open(dir.path()).await.unwrap();
    assert_eq!(store.revision(), 11);
    store.write(delete("/a/3")).await.unwrap();
    drop(store);
    let store = open(dir.path()).await.unwrap();
    assert_eq!(store.revision(), 12);
    assert_eq!(store.count("/a/"), 9);
    assert_eq!(store.get("/a/4").unwrap().create_revision, 6);
    assert_eq!(store.get_at("/a/3", 11).unwrap().unwrap().value, "value of 3");
    assert_eq!(revisions(&mut store.watch("/a/", 1).unwrap()), (2..=12).collect::<Vec<_>>());
    assert_eq!(store.write(put("/a/3", "again")).await.unwrap().revision, 13);
}

#[tokio::test]
async fn a_torn_tail_is_cut_off_wherever_it_was_torn() {
    let dir = ten_keys().await;
    let whole = fs::read(log_of(&dir)).unwrap();
    let last = whole.windows(4).rposition(|window| window == &whole[16..20]).unwrap();
    for end in last..whole.len() {
        fs::write(log_of(&dir), &whole[..end]).unwrap();
        let store = open(dir.path()).await.unwrap();
        assert_eq!((store.revision(), store.count("/a/")), (10, 9), "torn at {end}");
        assert_eq!(fs::metadata(log_of(&dir)).unwrap().len(), last as u64);
    }
    fs::write(log_of(&dir), [&whole[..], &[0; 5000]].concat()).unwrap();
    let store = open(dir.path()).await.unwrap();
    assert_eq!(store.revision(), 11, "what the file system may leave behind the end");
    store.write(put("/a/x", "goes on")).await.unwrap();
    drop(store);
    assert_eq!(open(dir.path()).await.unwrap().get("/a/x").unwrap().value, "goes on");
}

#[tokio::test]
async fn damage_in_the_middle_is_refused() {
    let dir = ten_keys().await;
    let whole = fs::read(log_of(&dir)).unwrap();
    let last = whole.windows(4).rposition(|window| window == &whole[16..20]).unwrap();
    for place in (16..last).step_by(7) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        fs::write(log_of(&dir), bytes).unwrap();
        check_damaged(&dir, "the checksum does not match").await;
    }
    let mut bytes = whole.clone();
    bytes[3] ^= 0x10;
    fs::write(log_of(&dir), bytes).unwrap();
    check_damaged(&dir, "it is not a log").await;
    fs::write(log_of(&dir), whole).unwrap();
    assert_eq!(open(dir.path()).await.unwrap().revision(), 11);
}

#[tokio::test]
async fn checkpoints_bound_what_is_on_disk_and_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().checkpoint_bytes(10_000).keep_changes(20);
    let store: Store<()> = Store::open(dir.path(), Env::system(), options).await.unwrap();
    for nth in 0..400 {
        store.write(put(&format!("/a/{}", nth % 10), &"x".repeat(1000))).await.unwrap();
    }
    drop(store);
    let files = contents(dir.path());
    let bytes: usize = files.values().map(Vec::len).sum();
    assert!(bytes < 120_000, "{bytes} bytes of 400 KB that were written");
    let store = open(dir.path()).await.unwrap();
    assert_eq!((store.revision(), store.count("/a/")), (401, 10));
    let Err(WatchError::Compacted { oldest, .. }) = store.watch("", 0) else { panic!("no revision 0") };
    assert!(oldest <= 381, "as much history as before");
    assert_eq!(drain(&mut store.watch("", oldest).unwrap()).len() as u64, 401 - oldest);
    drop(store);

    let (checkpoint, bytes) =
        files.iter().find(|(path, _)| path.to_string_lossy().contains("checkpoint-")).unwrap();
    let mut broken = bytes.clone();
    broken[bytes.len() / 2] ^= 1;
    fs::write(checkpoint, broken).unwrap();
    check_damaged(&dir, "the checksum does not match").await;
    for (path, _) in files.iter().filter(|(path, _)| path.to_string_lossy().contains("checkpoint-")) {
        fs::remove_file(path).unwrap();
    }
    check_damaged(&dir, "missing").await;
}

/// Whatever happens to one file, the store has the state of an earlier revision, or does not open and changes nothing.
#[tokio::test]
async fn no_mutation_is_misread() {
    let origin = tempfile::tempdir().unwrap();
    let options = Options::default().checkpoint_bytes(1500).keep_changes(10);
    let store: Store<()> = Store::open(origin.path(), Env::system(), options).await.unwrap();
    let mut states = BTreeMap::from([(1, state(&store))]);
    for nth in 0..60 {
        let key = format!("/a/{}", nth * 7 % 11);
        let write = if nth % 5 == 4 { delete(&key) } else { put(&key, &format!("value {nth}")) };
        if store.write(write).await.is_ok() {
            states.insert(store.revision(), state(&store));
        }
    }
    drop(store);
    let files = contents(origin.path());
    let data: Vec<_> = files
        .iter()
        .filter(|(path, bytes)| path.to_string_lossy().contains('-') && !bytes.is_empty())
        .collect();
    assert!(data.len() > 1, "a checkpoint and a log");
    let random = Env::seeded(4);
    let (mut refused, mut opened) = (0, 0);
    for _ in 0..200 {
        let (path, bytes) = data[random.random_below(data.len() as u64) as usize];
        let dir = tempfile::tempdir().unwrap();
        for (path, bytes) in &files {
            fs::write(dir.path().join(path.file_name().unwrap()), bytes).unwrap();
        }
        fs::write(dir.path().join(path.file_name().unwrap()), mutate(bytes, &random)).unwrap();
        let before = contents(dir.path());
        match open(dir.path()).await {
            Ok(store) => {
                opened += 1;
                assert_eq!(Some(&state(&store)), states.get(&store.revision()));
            }
            Err(OpenError::Damaged { .. }) => {
                refused += 1;
                assert_eq!(contents(dir.path()), before);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 20 && opened > 20, "{refused} refused, {opened} opened");
}

fn mutate(bytes: &[u8], random: &Env) -> Vec<u8> {
    let at = random.random_below(bytes.len() as u64) as usize;
    let mut bytes = bytes.to_vec();
    match random.random_below(4) {
        0 => bytes[at] ^= 1 << random.random_below(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, [0; 7])),
        _ => bytes.extend_from_within(at..),
    }
    bytes
}

fn state(store: &Store<()>) -> Vec<(String, u64, Vec<u8>)> {
    let page = store.range(&Range::default()).unwrap();
    page.entries.iter().map(|entry| (entry.key.to_string(), entry.revision, entry.value.to_vec())).collect()
}

#[tokio::test]
async fn writes_larger_than_a_frame_are_made_together() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let large = "x".repeat(5 << 20);
    let answers = store.write_all((0..4).map(|nth| put(&format!("/a/{nth}"), &large)).collect()).await;
    assert!(answers.iter().all(Result::is_ok));
    drop(store);
    assert_eq!(open(dir.path()).await.unwrap().count("/a/"), 4);
}

#[tokio::test]
async fn a_missing_log_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().checkpoint_bytes(1000);
    let store: Store<()> = Store::open(dir.path(), Env::system(), options).await.unwrap();
    for nth in 0..50 {
        store.write(put("/a/1", &format!("{nth} {}", "x".repeat(200)))).await.unwrap();
    }
    drop(store);
    let logs: Vec<_> =
        contents(dir.path()).into_keys().filter(|path| path.to_string_lossy().contains("log-")).collect();
    assert!(logs.len() > 2);
    fs::remove_file(&logs[1]).unwrap();
    check_damaged(&dir, "is missing").await;
}

#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    let before = contents(dir.path());
    let error = open(dir.path()).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(contents(dir.path()), before);

    let dir = ten_keys().await;
    fs::write(dir.path().join("FORMAT"), "evenkeel-store 9\n").unwrap();
    let before = contents(dir.path());
    let error = open(dir.path()).await.unwrap_err();
    assert!(error.to_string().contains("a newer version of Evenkeel has written it, in format 9"), "{error}");
    assert_eq!(contents(dir.path()), before);

    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(open(file.path()).await, Err(OpenError::Io { .. })));
}

#[tokio::test]
async fn a_first_opening_that_was_cut_short_is_no_stranger() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("LOCK"), "").unwrap();
    fs::write(dir.path().join("FORMAT.new"), "even").unwrap();
    drop(open(dir.path()).await.unwrap());
    // Interrupted just before and just after the creation of the first log.
    fs::write(log_of(&dir), "evenke").unwrap();
    drop(open(dir.path()).await.unwrap());
    fs::remove_file(log_of(&dir)).unwrap();
    assert_eq!(open(dir.path()).await.unwrap().revision(), 1);
}

#[tokio::test]
async fn only_one_store_has_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    assert!(matches!(open(dir.path()).await, Err(OpenError::Locked(_))));
    store.close();
    assert!(matches!(store.write(put("/a/1", "x")).await, Err(WriteError::Closed)));
    open(dir.path()).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    drop(open(&dir).await.unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert!(contents(&dir).keys().all(|path| mode(path) == 0o600));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_share_syncs_and_their_order_is_that_of_their_revisions() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let mut watch = store.watch("", 1).unwrap();
    let writers: Vec<_> = (0..32)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for nth in 0..20 {
                    let written = store.write(put(&format!("/a/{writer}"), &nth.to_string())).await.unwrap();
                    assert!(store.revision() >= written.revision, "an answered write can be read");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(revisions(&mut watch), (2..=641).collect::<Vec<_>>());
}
