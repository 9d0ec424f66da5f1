//! The loop by hand: what `Controller` does, from the parts that it is made of.
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

/// How many keys are worked on at once. One key is never worked on twice at once: the queue sees to that.
const WORKERS: usize = 2;

/// How long the first list may take.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the loop until `stop` is ready.
///
/// # Errors
/// When the pods cannot be listed.
pub async fn run(
    client: Client,
    informers: Informers,
    stop: impl Future<Output = ()>,
) -> Result<(), SyncError> {
    let queue = Queue::new(NAME, informers.env());

    // One watch of all pods, shared with whoever else asks for the same. The handler gets events and keeps keys: what
    // happened is forgotten here, because the reconcile looks at what is.
    let pods = informers.get(Source::<Pod>::new());
    let keys = queue.clone();
    let _subscription = pods.subscribe(move |event| {
        let seen = [event.old(), Some(event.object())].into_iter().flatten();
        seen.filter_map(|pod| subject(pod)).for_each(|key| keys.add(key));
    });

    // Before the first list is complete, a pod that is missing from the cache may well exist.
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

/// One worker: one key after the other.
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
        // Always, whatever came of it: a key that is not done is never handed out again.
        queue.done(&item.key);
    }
}

/// What a worker works with.
struct Reconciler {
    client: Client,
    pods: Cache<Pod>,
}

/// How to go on with a key.
enum Next {
    /// Nothing to do until something changes.
    Done,
    /// Something stands in the way that goes by itself: look again after the key's backoff.
    Again,
}

impl Reconciler {
    /// Brings the companion of one pod to what it shall be. It may run any number of times: what decides is what is
    /// there, and a second companion could not have the name of the first.
    async fn reconcile(&self, key: &Request) -> Result<Next, kube::Error> {
        let pod = self.pods.get(key).filter(|pod| is_wanted(pod));
        let companion = self.pods.get(&key_for(key));
        match (pod, companion) {
            (None, Some(companion)) if is_companion(&companion) => self.delete(&companion).await,
            (None, _) => Ok(Next::Done),
            (Some(pod), None) => self.create(companion_for(&pod)).await,
            // That of an earlier pod of the same name, or a pod of somebody else's: it may go, and until then there is
            // no place for ours.
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
            // The cache does not show it yet. By the next attempt it does, and that will find nothing to do.
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
        // Exactly this one: the cache may be behind, and by now another may have its name.
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

/// Whether the same request would be refused again.
fn is_permanent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422))
}
