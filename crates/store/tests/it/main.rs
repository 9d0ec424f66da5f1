//! Tests of the store's public API, for every backend.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backup;
mod concurrency;
mod contract;
mod crash;
mod disk;
mod formats;
mod memory;
mod model;

use evenkeel_env::Env;
use evenkeel_store::{Change, Expect, Op, Options, Store, Watch, Write};
use tempfile::TempDir;

/// A store of one backend, with its own environment.
struct Subject {
    env: Env,
    store: Store<()>,
    _dir: Option<TempDir>,
}

/// Returns an empty store of each backend.
async fn each(options: Options) -> [Subject; 2] {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::system();
    let store = Store::open(dir.path(), env.clone(), options.clone()).await.unwrap();
    [memory_store(options), Subject { env, store, _dir: Some(dir) }]
}

fn memory_store(options: Options) -> Subject {
    let env = Env::seeded(1);
    Subject { env: env.clone(), store: Store::memory(env, options), _dir: None }
}

fn put(key: &str, value: &str) -> Write<()> {
    Write { key: key.into(), expect: Expect::Any, op: Op::Put(value.to_owned().into(), ()) }
}

fn delete(key: &str) -> Write<()> {
    Write { key: key.into(), expect: Expect::Any, op: Op::Delete }
}

/// Returns all changes that a watch has now.
fn drain(watch: &mut Watch<()>) -> Vec<std::sync::Arc<Change<()>>> {
    std::iter::from_fn(|| watch.try_next()).map(Result::unwrap).collect()
}

fn revisions(watch: &mut Watch<()>) -> Vec<u64> {
    drain(watch).iter().map(|change| change.revision).collect()
}
