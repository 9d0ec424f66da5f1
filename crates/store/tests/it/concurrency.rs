//! Writers, readers, watchers and compaction at once, on several threads.
//!
//! Every write adds one to one of the counters. So the sum of the counters in any state is the number of writes up to its
//! revision, however the state is read. A read that mixes two states has another sum.

use evenkeel_env::Env;
use evenkeel_store::{
    Entry, Expect, Op, Options, Range, ReadError, Store, Watch, WatchError, Write, WriteError,
};

use crate::{Subject, each};

const COUNTERS: u64 = 60;
const WRITERS: u64 = 4;

fn key(counter: u64) -> String {
    format!("/c/{}/{}", counter % 3, counter)
}

fn count_of(entry: &Entry<()>) -> u64 {
    std::str::from_utf8(&entry.value).unwrap().parse().unwrap()
}

/// Returns the sum of the counters at a revision. The first writes created them with zero.
fn total_at(revision: u64) -> u64 {
    revision - 1 - COUNTERS
}

/// Adds one to random counters, and retries on conflict.
async fn write(store: Store<()>, random: Env, writes: usize) {
    let mut made = 0;
    while made < writes {
        let entry = store.get(&key(random.random_below(COUNTERS))).unwrap();
        let value = (count_of(&entry) + 1).to_string();
        let expect = Expect::Revision(entry.revision);
        match store.write(Write { key: entry.key.clone(), expect, op: Op::Put(value.into(), ()) }).await {
            Ok(_) => made += 1,
            Err(WriteError::Conflict { current }) => assert!(current.unwrap().revision > entry.revision),
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Reads whole lists page by page, at the newest and at earlier revisions.
async fn read(store: Store<()>, random: Env, end: u64) {
    loop {
        let newest = store.revision();
        let back = (random.random_below(2) == 0)
            .then(|| newest - random.random_below(50).min(newest - 1 - COUNTERS));
        let limit = 1 + random.random_below(40) as usize;
        let mut range = Range { prefix: "/c/".into(), limit: Some(limit), at: back, after: None };
        let (mut total, mut entries) = (0, 0);
        let complete = loop {
            match store.range(&range) {
                Ok(page) => {
                    total += page.entries.iter().map(|entry| count_of(entry)).sum::<u64>();
                    entries += page.entries.len() as u64;
                    assert_eq!(entries + page.remaining as u64, COUNTERS);
                    assert!(range.at.is_none_or(|at| at == page.revision));
                    range.at = Some(page.revision);
                    range.after = page.entries.last().map(|entry| entry.key.to_string());
                    if page.remaining == 0 {
                        break true;
                    }
                }
                Err(ReadError::Compacted { .. }) => break false,
                Err(error) => panic!("{error}"),
            }
            tokio::task::yield_now().await;
        };
        if complete {
            assert_eq!(total, total_at(range.at.unwrap()));
        }
        if newest == end {
            return;
        }
    }
}

/// Watches a folder or a key and checks that every counter rises by one at a time. Starts again after an overrun.
async fn follow(store: Store<()>, prefix: String, end: u64) {
    let (mut after, mut watch) = watch_from_now(&store, &prefix);
    while after < end {
        match next(&mut watch).await {
            Some(Ok(change)) => {
                let (before, now) = (change.before.as_ref().unwrap(), change.after.as_ref().unwrap());
                assert!(
                    change.revision > after
                        && now.revision == change.revision
                        && before.revision < now.revision
                );
                assert_eq!(count_of(before) + 1, count_of(now));
                after = change.revision;
            }
            None => after = watch.revision(),
            Some(Err(WatchError::Overrun { last })) => {
                assert!(last <= after, "a bookmark may have said more than the last change");
                (after, watch) = watch_from_now(&store, &prefix);
            }
            Some(Err(error)) => panic!("{error}"),
        }
    }
}

/// Starts a watch at the newest revision. That revision may be compacted between the two calls; then it tries a newer one.
fn watch_from_now(store: &Store<()>, prefix: &str) -> (u64, Watch<()>) {
    loop {
        let now = store.revision();
        match store.watch(prefix, now) {
            Ok(watch) => return (now, watch),
            Err(WatchError::Compacted { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns the next change, or `None` if there is none at the moment.
async fn next(
    watch: &mut Watch<()>,
) -> Option<Result<std::sync::Arc<evenkeel_store::Change<()>>, WatchError>> {
    tokio::task::yield_now().await;
    watch.try_next()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_state_that_is_read_is_one_that_was() {
    for (Subject { env, store, .. }, writes) in
        each(Options::default().keep_changes(200)).await.into_iter().zip([1500, 100])
    {
        let zero =
            |counter| Write { key: key(counter).into(), expect: Expect::Absent, op: Op::Put("0".into(), ()) };
        assert!(store.write_all((0..COUNTERS).map(zero).collect()).await.iter().all(Result::is_ok));
        let end = 1 + COUNTERS + WRITERS * writes;
        let mut tasks = Vec::new();
        for writer in 0..WRITERS {
            tasks.push(tokio::spawn(write(store.clone(), Env::seeded(writer), writes as usize)));
        }
        for reader in 0..3 {
            tasks.push(tokio::spawn(read(store.clone(), Env::seeded(100 + reader), end)));
        }
        for prefix in ["", "/c/", "/c/1/", "/c/2/", "/c/0/3", "/c/1/4"] {
            tasks.push(tokio::spawn(follow(store.clone(), prefix.to_owned(), end)));
        }
        let compacted = store.clone();
        tasks.push(tokio::spawn(async move {
            while compacted.revision() < end {
                compacted.compact(compacted.revision().saturating_sub(60));
                tokio::task::yield_now().await;
            }
        }));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(store.revision(), end);
        assert!(env.ledger().is_empty(), "ended tasks hold no work: {:?}", env.ledger().pending());
    }
}
