//! After kill -9 at any moment, every acknowledged write exists, no revision is used twice, and the log has no gap.
//!
//! The test starts its own binary as the child process to kill. The child prints each acknowledged write to standard output.
//! The parent kills the child after some lines, reads the remaining ones, opens the directory and compares.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use evenkeel_env::Env;
use evenkeel_store::{OpenError, Options, Store, WatchError};

use crate::{drain, put};

/// The environment variable with the data directory. It is set only in the child.
const DIR: &str = "EVENKEEL_STORE_CRASH_DIR";
/// The environment variable with the number of kept changes. It is small in every other round, so that checkpoints are
/// removed as well.
const KEEP: &str = "EVENKEEL_STORE_CRASH_KEEP";
const ROUNDS: u64 = 40;
const THREADS: usize = 4;

fn options(keep: usize) -> Options {
    // Small, so that kills also happen during checkpoints.
    Options::default().keep_changes(keep).checkpoint_bytes(20_000)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The child process of the test below. In a normal test run it does nothing.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let keep = std::env::var(KEEP).unwrap().parse().unwrap();
    let store: Store<()> = block_on(Store::open(Path::new(&dir), Env::system(), options(keep))).unwrap();
    say("open\n");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = store.clone();
            scope.spawn(move || block_on(write_for_ever(&store, thread)));
        }
    });
}

async fn write_for_ever(store: &Store<()>, thread: usize) {
    let padding = "x".repeat(300);
    for nth in 0.. {
        let key = format!("/crash/{thread}/{}", nth % 5);
        let before = store.get(&key).map_or(0, |entry| count_of(&entry.value));
        let value = format!("{} {padding}", before + 1);
        let written = store.write(put(&key, &value)).await.unwrap();
        say(&format!("{} {key} {}\n", written.revision, before + 1));
    }
}

fn count_of(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// Prints a line with one call, so that a kill cannot cut it in two.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
}

/// The acknowledged writes of all rounds.
#[derive(Default)]
struct Heard {
    by_revision: BTreeMap<u64, (String, u64)>,
    by_key: BTreeMap<String, (u64, u64)>,
}

impl Heard {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [revision, key, count] = words[..] else { return };
        let (Ok(revision), Ok(count)) = (revision.parse(), count.parse()) else { return };
        let known = self.by_revision.insert(revision, (key.to_owned(), count));
        assert_eq!(known, None, "revision {revision} was used twice");
        let latest = self.by_key.entry(key.to_owned()).or_default();
        *latest = (*latest).max((revision, count));
    }
}

/// Runs the child until it has acknowledged so many writes, kills it, and reads the rest of its output.
fn run_and_kill(dir: &Path, keep: usize, acknowledged: usize, heard: &mut Heard) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(KEEP, keep.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The test harness prints a line first, which it does not end before the test does.
    assert!(lines.any(|line| line.ends_with("open")), "the child could not open the directory");
    assert!(
        matches!(open(dir, keep), Err(OpenError::Locked(_))),
        "two processes must not open one directory"
    );
    lines.by_ref().take(acknowledged).for_each(|line| heard.hear(&line));
    child.kill().unwrap();
    lines.for_each(|line| heard.hear(&line));
    child.wait().unwrap();
}

fn open(dir: &Path, keep: usize) -> Result<Store<()>, OpenError> {
    block_on(Store::open(dir, Env::system(), options(keep)))
}

fn check(store: &Store<()>, heard: &Heard) {
    let newest = store.revision();
    assert!(heard.by_revision.keys().next_back().is_none_or(|revision| *revision <= newest));
    for (key, (revision, count)) in &heard.by_key {
        let entry = store.get(key).unwrap_or_else(|| panic!("{key} is lost"));
        assert!(entry.revision >= *revision && count_of(&entry.value) >= *count, "{key} went back");
    }
    let Err(WatchError::Compacted { oldest, .. }) = store.watch("", 0) else { panic!("no revision 0") };
    let log = drain(&mut store.watch("", oldest).unwrap());
    let revisions: Vec<u64> = log.iter().map(|change| change.revision).collect();
    assert_eq!(revisions, (oldest + 1..=newest).collect::<Vec<_>>(), "the log has a gap");
    for change in &log {
        let after = change.after.as_ref().unwrap();
        let logged = (after.key.to_string(), count_of(&after.value));
        let acknowledged = heard.by_revision.get(&change.revision);
        assert!(acknowledged.is_none_or(|known| *known == logged), "revision {} changed", change.revision);
        let before = change.before.as_ref().map_or(0, |entry| count_of(&entry.value));
        assert_eq!(before + 1, logged.1, "a write of {} is missing", after.key);
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let random = Env::seeded(9);
    let mut heard = Heard::default();
    for round in 0..ROUNDS {
        let keep = if round % 2 == 0 { 100_000 } else { 100 };
        // Sometimes before the first acknowledged write, sometimes after many.
        let acknowledged = random.random_below(1 << random.random_below(8)) as usize;
        run_and_kill(dir.path(), keep, acknowledged, &mut heard);
        let store = open(dir.path(), keep).unwrap();
        check(&store, &heard);
    }
    assert!(heard.by_revision.len() as u64 > ROUNDS);
}
