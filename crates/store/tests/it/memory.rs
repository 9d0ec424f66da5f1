//! What the memory backend promises beside what all do: it takes no time.

use std::time::Duration;

use evenkeel_store::{Options, ReadError, WatchError};
use futures::FutureExt;

use crate::{memory_store, put};

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
