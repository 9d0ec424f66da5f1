//! What every backend guarantees, one guarantee at a time.

use evenkeel_store::{Expect, Options, Range, ReadError, Store, WatchError, WriteError};
use futures::FutureExt;

use crate::{Subject, delete, each, put, revisions};

fn keys(store: &Store<()>, range: Range) -> (Vec<String>, usize) {
    let page = store.range(&range).unwrap();
    (page.entries.iter().map(|entry| entry.key.to_string()).collect(), page.remaining)
}

#[tokio::test]
async fn expectations_are_held() {
    for Subject { store, .. } in each(Options::default()).await {
        let first = store.write(put("/a/1", "x")).await.unwrap();
        let mut absent = put("/a/1", "y");
        absent.expect = Expect::Absent;
        assert!(matches!(store.write(absent).await, Err(WriteError::Conflict { current: Some(_) })));
        let mut stale = put("/a/1", "y");
        stale.expect = Expect::Revision(first.revision + 1);
        assert!(matches!(store.write(stale).await, Err(WriteError::Conflict { current: Some(_) })));
        let mut right = put("/a/1", "y");
        right.expect = Expect::Revision(first.revision);
        let second = store.write(right).await.unwrap();
        assert_eq!(second.entry.unwrap().create_revision, first.revision);
        assert!(matches!(store.write(delete("/a/2")).await, Err(WriteError::Conflict { current: None })));
        assert_eq!(store.revision(), second.revision);
    }
}

#[tokio::test]
async fn pages_are_of_one_revision() {
    for Subject { store, .. } in each(Options::default()).await {
        for nth in 0..10 {
            store.write(put(&format!("/a/{nth}"), "x")).await.unwrap();
        }
        store.write(put("/b/0", "x")).await.unwrap();
        let range = Range { prefix: "/a/".into(), limit: Some(4), ..Range::default() };
        let at = store.revision();
        assert_eq!(keys(&store, range.clone()).1, 6);
        store.write(delete("/a/5")).await.unwrap();
        store.write(put("/a/55", "x")).await.unwrap();
        let range = Range { after: Some("/a/3".into()), at: Some(at), ..range };
        assert_eq!(
            keys(&store, range.clone()),
            (["/a/4", "/a/5", "/a/6", "/a/7"].map(String::from).to_vec(), 2)
        );
        assert_eq!(keys(&store, Range { at: None, ..range }).0, ["/a/4", "/a/55", "/a/6", "/a/7"]);
        assert_eq!(store.count("/a/"), 10);
        assert_eq!(store.count("/a/5"), 1);
        assert_eq!(store.count(""), 11);
    }
}

#[tokio::test]
async fn a_watch_sees_its_folder_or_its_key_alone() {
    for Subject { store, .. } in each(Options::default()).await {
        store.write(put("/a/x/1", "1")).await.unwrap();
        let mut folder = store.watch("/a/x/", 1).unwrap();
        let mut above = store.watch("/a/", 2).unwrap();
        let mut key = store.watch("/a/x/1", 1).unwrap();
        store.write(put("/a/x/11", "2")).await.unwrap();
        store.write(put("/a/xx/1", "3")).await.unwrap();
        store.write(delete("/a/x/1")).await.unwrap();
        assert_eq!(revisions(&mut folder), [2, 3, 5]);
        assert_eq!(revisions(&mut above), [3, 4, 5]);
        assert_eq!(revisions(&mut key), [2, 5]);
        assert_eq!(folder.revision(), 5);
    }
}

#[tokio::test]
async fn a_watch_from_the_future_is_silent_until_then() {
    for Subject { env, store, .. } in each(Options::default()).await {
        let mut watch = store.watch("/a/", 3).unwrap();
        store.write(put("/a/1", "x")).await.unwrap();
        store.write(put("/a/1", "x")).await.unwrap();
        assert!(env.ledger().is_empty());
        assert!(watch.try_next().is_none());
        store.write(put("/a/1", "x")).await.unwrap();
        assert_eq!(watch.next().await.unwrap().revision, 4);
    }
}

#[tokio::test]
async fn a_change_is_work_until_the_next_one_is_asked_for() {
    for Subject { env, store, .. } in each(Options::default()).await {
        let mut watch = store.watch("/a/", 1).unwrap();
        let _unconcerned = store.watch("/b/", 1).unwrap();
        assert!(env.ledger().is_empty());
        store.write(put("/a/1", "x")).await.unwrap();
        assert_eq!(env.ledger().len(), 1);
        watch.next().await.unwrap();
        assert_eq!(env.ledger().len(), 1, "it may still be dealing with it");
        assert!(watch.next().now_or_never().is_none());
        assert!(env.ledger().is_empty());
        store.write(put("/a/1", "y")).await.unwrap();
        let late = store.watch("/a/", 1).unwrap();
        assert_eq!(env.ledger().len(), 2, "what a new watch has to catch up with is work too");
        drop((watch, late));
        assert!(env.ledger().is_empty());
    }
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_cut_off_and_told() {
    for Subject { store, .. } in each(Options::default().keep_changes(10)).await {
        let mut slow = store.watch("/a/", 1).unwrap();
        let mut idle = store.watch("/b/", 1).unwrap();
        for _ in 0..200 {
            store.write(put("/a/1", "x")).await.unwrap();
        }
        assert_eq!(slow.next().await.unwrap_err(), WatchError::Overrun { last: 1 });
        assert_eq!(slow.next().await.unwrap_err(), WatchError::Overrun { last: 1 });
        assert!(idle.try_next().is_none(), "nothing that concerns it was lost");
        assert_eq!(idle.revision(), 201);
    }
}

#[tokio::test]
async fn history_goes_by_size() {
    for Subject { store, .. } in each(Options::default().keep_bytes(100_000)).await {
        for _ in 0..50 {
            store.write(put("/a/1", &"x".repeat(10_000))).await.unwrap();
        }
        assert!(store.get_at("/a/1", 46).is_ok());
        assert!(matches!(store.get_at("/a/1", 30), Err(ReadError::Compacted { .. })));
    }
}

#[tokio::test]
async fn closing_ends_watches_and_writes_but_not_reads() {
    for Subject { store, .. } in each(Options::default()).await {
        store.write(put("/a/1", "x")).await.unwrap();
        let mut watch = store.watch("/a/", 2).unwrap();
        let waiting = tokio::spawn(async move { watch.next().await.map(|_| ()) });
        tokio::task::yield_now().await;
        store.close();
        assert_eq!(waiting.await.unwrap(), Err(WatchError::Closed));
        assert!(matches!(store.write(put("/a/1", "y")).await, Err(WriteError::Closed)));
        assert_eq!(store.get("/a/1").unwrap().value, "x");
    }
}

/// The log dropped changes before the future start revision of a watch. The watch, which had not been polled, reported them as
/// missed.
#[tokio::test]
async fn a_watch_from_the_future_is_not_cut_off_by_what_it_never_wanted() {
    for Subject { store, .. } in each(Options::default().keep_changes(2)).await {
        let mut watch = store.watch("/a/", 6).unwrap();
        for _ in 0..6 {
            store.write(put("/a/1", "x")).await.unwrap();
        }
        assert_eq!(revisions(&mut watch), [7]);
    }
}
