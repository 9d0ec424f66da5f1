//! Tests of the runtime on the embedded cluster, in virtual time; or on a real cluster, if `EVENKEEL_KUBECONFIG` names
//! one. Tests that cannot run there say why at their declaration.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod applying;
mod certifying;
mod configuring;
mod counting;
mod declaring;
mod finalizing;
mod flying;
mod hooking;
mod leading;
mod listing;
mod logging;
mod managing;
mod manifesting;
mod migrating;
mod queueing;
mod reading;
mod recording;
mod recovering;
mod renewing;
mod replaying;
mod rereading;
mod rotating;
mod seam;
mod securing;
mod serving;
mod stating;
mod stopping;
mod triggering;
mod watching;
mod writing;

use std::sync::Arc;

use evenkeel_cluster::{Cluster, testing};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;

/// A cluster without built-in controllers, so that only the test makes requests; on a real cluster, a namespace.
async fn quiet(seed: u64) -> Cluster {
    testing::cluster(Cluster::builder().seed(seed).controllers(false)).await
}

/// A ConfigMap with this name and one value.
fn map(name: &str, value: impl ToString) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map.data = Some([("value".to_owned(), value.to_string())].into());
    map
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

/// Notes of what happened, in order. Clones share one list.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn push(&self, note: impl Into<String>) {
        self.0.lock().push(note.into());
    }

    /// The notes since the last call. The namespace of a test on a real cluster is replaced by `default`.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock()).into_iter().map(|note| in_default(&note)).collect()
    }
}

fn in_default(note: &str) -> String {
    match note.split_once(testing::NAMESPACE_PREFIX) {
        Some((before, after)) => {
            let after = after.find('/').map_or("", |at| &after[at..]);
            format!("{before}default{after}")
        }
        None => note.to_owned(),
    }
}
