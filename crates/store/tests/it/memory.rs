//! What only the memory backend guarantees: it takes no time.

use std::time::Duration;

use evenkeel_env::Env;
use evenkeel_store::{Options, ReadError, WatchError};
use futures::FutureExt;

use crate::{delete, memory_store, put};

#[test]
fn a_write_is_made_before_its_future_first_yields() {
    let store = memory_store(Options::default()).store;
    let written = store.write(put("/a/1", "x")).now_or_never().unwrap().unwrap();
    assert_eq!(written.revision, 2);
    assert_eq!(store.revision(), 2);
    assert_eq!(store.get("/a/1").unwrap().value, "x");
}

#[tokio::test(start_paused = true)]
async fn history_goes_by_age() {
    let store = memory_store(Options::default().keep_for(Duration::from_secs(60))).store;
    store.write(put("/a/1", "x")).await.unwrap();
    tokio::time::advance(Duration::from_secs(40)).await;
    store.write(put("/a/1", "y")).await.unwrap();
    assert_eq!(store.get_at("/a/1", 2).unwrap().unwrap().value, "x");
    tokio::time::advance(Duration::from_secs(40)).await;
    assert_eq!(store.get_at("/a/1", 2).unwrap().unwrap().value, "x");
    assert_eq!(store.get_at("/a/1", 1).unwrap_err(), ReadError::Compacted { asked: 1, oldest: 2 });
    assert_eq!(store.watch("/a/", 1).unwrap_err(), WatchError::Compacted { asked: 1, oldest: 2 });
    store.watch("/a/", 2).unwrap();
    assert_eq!(store.get_at("/a/1", 9).unwrap_err(), ReadError::Future { asked: 9, newest: 3 });
}

#[tokio::test(start_paused = true)]
async fn much_history_that_has_aged_at_once_is_gone_for_whoever_asks() {
    let store = memory_store(Options::default().keep_for(Duration::from_secs(60))).store;
    for _ in 0..1000 {
        store.write(put("/a/1", "x")).await.unwrap();
    }
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(store.watch("/a/", 1000).unwrap_err(), WatchError::Compacted { asked: 1000, oldest: 1001 });
}

#[tokio::test]
async fn a_fork_begins_where_its_origin_is_and_goes_its_own_way() {
    let origin = memory_store(Options::default()).store;
    origin.write(put("/a/1", "x")).await.unwrap();
    let fork = origin.fork(Env::seeded(2), Options::default());
    origin.write(put("/a/2", "of the origin")).await.unwrap();
    assert_eq!(fork.write(put("/a/3", "of the fork")).await.unwrap().revision, 3);
    assert_eq!((fork.count("/a/"), origin.count("/a/")), (2, 2));
    assert!(fork.get("/a/2").is_none() && origin.get("/a/3").is_none());
    assert_eq!(fork.watch("/a/", 1).unwrap_err(), WatchError::Compacted { asked: 1, oldest: 2 });
}

#[tokio::test]
async fn a_folder_is_unchanged_until_a_key_in_it_is_written_or_deleted() {
    let store = memory_store(Options::default().keep_changes(4)).store;
    let first = store.write(put("/a/b/1", "x")).await.unwrap().revision;
    // Writes elsewhere do not count, even in a folder whose name begins in the same way.
    for key in ["/ab/1", "/a/c/1", "/a/b2/1"] {
        store.write(put(key, "x")).await.unwrap();
    }
    assert_eq!(store.unchanged_since("/a/b/", first), Some(store.revision()));
    assert_eq!(store.unchanged_since("/a/none/", first), Some(store.revision()));
    assert_eq!(store.unchanged_since("/a/b/", first - 1), None, "the key was created after that");
    assert_eq!(store.unchanged_since("/a/", first), None, "a folder contains the folders below");
    // A folder stays changed when its only key is gone.
    let before = store.revision();
    store.write(delete("/a/b/1")).await.unwrap();
    assert_eq!(store.unchanged_since("/a/b/", before), None);
    // Once the change has left the log, nobody knows any more what happened before.
    let deleted = store.revision();
    for _ in 0..5 {
        store.write(put("/z/1", "x")).await.unwrap();
    }
    assert_eq!(store.unchanged_since("/a/b/", before), None);
    assert_eq!(store.unchanged_since("/a/b/", deleted), None);
    assert_eq!(store.unchanged_since("/a/b/", deleted + 1), Some(store.revision()));
}
