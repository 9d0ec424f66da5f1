//! The reconcile loop by hand: what `Controller` does, built from the same parts.
//!
//! ```text
//! watch ─▶ informer ─▶ cache          (read by the workers)
//!             └─▶ handler ─▶ queue ─▶ worker 1 … N: get ▸ reconcile ▸ forget or add_rate_limited ▸ done
//! ```

use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use evenkeel::kube::{self, Api, Client};
use evenkeel::{Cache, Informers, Queue, Request, Source, SyncError};
use serde_json::json;
use tokio::task::JoinSet;

use crate::NAME;
use crate::companion::{
    belongs, companion_for, image_for, image_of, is_companion, is_wanted, key_for, subject,
};

/// How many keys are reconciled concurrently. The queue never hands out the same key twice at a time.
const WORKERS: usize = 2;

/// How long the first list may take.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the loop until `stop` completes.
///
/// # Errors
/// Fails if the pods cannot be listed.
pub async fn run(
    client: Client,
    informers: Informers,
    stop: impl Future<Output = ()>,
) -> Result<(), SyncError> {
    let queue = Queue::new(NAME, informers.env());

    // One watch of all pods, shared with others that watch the same. The handler turns events into keys: the reconcile
    // looks at the current state, so it does not matter what happened.
    let pods = informers.get(Source::<Pod>::new());
    let keys = queue.clone();
    let _subscription = pods.subscribe(move |event| {
        let seen = [event.old(), Some(event.object())].into_iter().flatten();
        seen.filter_map(|pod| subject(pod)).for_each(|key| keys.add(key));
    });

    // Until the first list is complete, a pod that is not in the cache may exist.
    pods.wait_synced(SYNC_TIMEOUT).await?;

    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let reconciler = Reconciler { client: client.clone(), pods: pods.cache() };
        workers.spawn(work(queue.clone(), reconciler));
    }
    stop.await;
    queue.shut_down();
    while workers.join_next().await.is_some() {}
    Ok(())
}

/// A worker: reconciles one key after the other.
async fn work(queue: Queue, reconciler: Reconciler) {
    while let Some(item) = queue.get().await {
        match reconciler.reconcile(&item.key).await {
            Ok(Next::Done) => queue.forget(&item.key),
            Ok(Next::Again) => queue.add_rate_limited(item.key.clone()),
            Err(error) if is_permanent(&error) => {
                tracing::error!(key = %item.key, %error, "given up until the pod changes");
                queue.forget(&item.key);
            }
            Err(error) => {
                tracing::warn!(key = %item.key, %error, "will be tried again");
                queue.add_rate_limited(item.key.clone());
            }
        }
        // Always call `done`, whatever the result: without it the key is never handed out again.
        queue.done(&item.key);
    }
}

/// What a worker needs.
struct Reconciler {
    client: Client,
    pods: Cache<Pod>,
}

/// What to do with a key after a reconcile.
enum Next {
    /// Nothing until something changes.
    Done,
    /// Try again after the key's backoff, because of an obstacle that goes away by itself.
    Again,
}

impl Reconciler {
    /// Creates, replaces or deletes the companion of one pod. It is idempotent: it acts on the current state, and the
    /// fixed name prevents a second companion.
    async fn reconcile(&self, key: &Request) -> Result<Next, kube::Error> {
        let pod = self.pods.get(key).filter(|pod| is_wanted(pod));
        let companion = self.pods.get(&key_for(key));
        match (pod, companion) {
            (None, Some(companion)) if is_companion(&companion) => self.delete(&companion).await,
            (None, _) => Ok(Next::Done),
            (Some(pod), None) => self.create(companion_for(&pod)).await,
            // The companion of an earlier pod of the same name, or another pod that has the name: wait until it is
            // gone.
            (Some(pod), Some(companion)) if !belongs(&companion, &pod) => Ok(Next::Again),
            (Some(_), Some(companion)) if companion.metadata.deletion_timestamp.is_some() => Ok(Next::Done),
            (Some(pod), Some(companion)) if image_of(&companion) != Some(image_for(&pod).as_str()) => {
                self.set_image(&companion, &image_for(&pod)).await
            }
            _ => Ok(Next::Done),
        }
    }

    async fn create(&self, companion: Pod) -> Result<Next, kube::Error> {
        match self.api(&companion).create(&PostParams::default(), &companion).await {
            Ok(_) => Ok(Next::Done),
            // The pod exists, but the cache does not show it yet. The next attempt will find nothing to do.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(Next::Again),
            Err(error) => Err(error),
        }
    }

    async fn set_image(&self, companion: &Pod, image: &str) -> Result<Next, kube::Error> {
        let patch = json!({ "spec": { "containers": [{ "name": "companion", "image": image }] } });
        self.api(companion)
            .patch(&name(companion), &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(Next::Done)
    }

    async fn delete(&self, companion: &Pod) -> Result<Next, kube::Error> {
        if companion.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        // Delete only this very pod: the cache may be behind, and another pod may have the name by now.
        let exactly = Preconditions { uid: companion.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams::default().preconditions(exactly);
        match self.api(companion).delete(&name(companion), &params).await {
            Ok(_) => Ok(Next::Done),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Next::Done),
            Err(error) => Err(error),
        }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}

fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

/// Whether a retry of the request would be refused, too. What an admission webhook denies, it may allow later.
fn is_permanent(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    matches!(status.code, 400 | 422) && !status.message.starts_with("admission webhook \"")
}
