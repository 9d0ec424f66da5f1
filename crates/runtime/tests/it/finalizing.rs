//! A finalizer while somebody else writes to the same object: nothing foreign is lost, and nothing is there twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_cluster::Cluster;
use evenkeel_runtime::finalizer::Phase;
use evenkeel_runtime::{Action, Context, Controller, Error};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{Notes, map};

const OURS: &str = "example.com/ours";
const FOREIGN: &str = "example.com/foreign";
const FASTER: &str = "change the finalizers of default/one: somebody else was faster";

/// Somebody who writes once, when an operator has read the object already.
struct Meddler {
    maps: Api<ConfigMap>,
    at: Moment,
    /// The finalizers that it sets; where there are none, it deletes the object.
    sets: Option<&'static [&'static str]>,
    done: AtomicBool,
    notes: Notes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Begin,
    Cleanup,
}

impl Meddler {
    async fn meddle(&self, now: Moment) {
        if now != self.at || self.done.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.sets {
            None => drop(self.maps.delete("one", &Default::default()).await.unwrap()),
            Some(finalizers) => {
                let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
                self.maps.patch("one", &Default::default(), &patch).await.unwrap();
            }
        }
    }
}

async fn reconcile(map: Arc<ConfigMap>, ctx: Context<Meddler>) -> Result<Action, Error> {
    let meddler = ctx.state();
    meddler.meddle(Moment::Begin).await;
    let work = |phase: Phase| async move {
        meddler.notes.push(format!("{phase:?}"));
        if phase == Phase::Cleanup {
            meddler.meddle(Moment::Cleanup).await;
        }
        Ok::<_, Error>(Action::done())
    };
    let result = ctx.finalizer(&*map, OURS, work).await;
    result.inspect_err(|error| meddler.notes.push(error.to_string()))
}

/// Has an object with finalizers of others reconciled, and deleted if the meddler waits for that; gives what happened,
/// each once, and the finalizers in the end.
async fn meddled(
    cluster: &Cluster,
    before: &[&str],
    at: Moment,
    sets: Option<&'static [&'static str]>,
) -> (Vec<String>, Option<Vec<String>>) {
    let notes = Notes::default();
    let mut one = map("one", 1);
    one.metadata.finalizers = Some(before.iter().map(ToString::to_string).collect());
    cluster.apply(one).await.unwrap();
    let (maps, meddlers_notes) = (cluster.api::<ConfigMap>(), notes.clone());
    cluster.run(move || {
        let (maps, notes) = (maps.clone(), meddlers_notes.clone());
        let meddler = Meddler { maps, at, sets, done: AtomicBool::default(), notes };
        Controller::new("ours", reconcile).state(meddler)
    });
    cluster.settled().await;
    if at == Moment::Cleanup {
        assert_eq!(notes.take().first().map(String::as_str), Some("Apply"));
        cluster.delete::<ConfigMap>("one").await.unwrap();
        cluster.settled().await;
    }
    let mut happened = notes.take();
    happened.dedup();
    let left = cluster.get_opt::<ConfigMap>("one").await.unwrap();
    cluster.stop("ours");
    if left.is_some() {
        let none = json!({ "metadata": { "finalizers": null } });
        cluster.patch::<ConfigMap>("one", none).await.unwrap();
        cluster.delete::<ConfigMap>("one").await.ok();
    }
    (happened, left.map(|map| map.finalizers().to_vec()))
}

fn all(finalizers: &[&str]) -> Option<Vec<String>> {
    Some(finalizers.iter().map(ToString::to_string).collect())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn who_is_faster_keeps_its_finalizer_and_ours_is_added_next_to_it(cluster: Cluster) {
    let (happened, left) = meddled(&cluster, &[], Moment::Begin, Some(&[FOREIGN])).await;
    assert_eq!(happened, [FASTER, "Apply"]);
    assert_eq!(left, all(&[FOREIGN, OURS]));
}

/// As it is after a crash before the answer, where the cache does not show yet what was written.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_finalizer_that_is_there_already_is_not_added_twice(cluster: Cluster) {
    let (happened, left) = meddled(&cluster, &[FOREIGN], Moment::Begin, Some(&[FOREIGN, OURS])).await;
    assert_eq!(happened, [FASTER, "Apply"]);
    assert_eq!(left, all(&[FOREIGN, OURS]));
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn another_finalizer_in_the_place_of_ours_is_not_removed(cluster: Cluster) {
    let (happened, left) = meddled(&cluster, &[OURS, FOREIGN], Moment::Cleanup, Some(&[FOREIGN])).await;
    // By the next attempt ours is gone: nothing is cleaned up once more.
    assert_eq!(happened, ["Cleanup", FASTER]);
    assert_eq!(left, all(&[FOREIGN]));
    let (happened, left) = meddled(&cluster, &[], Moment::Cleanup, Some(&[])).await;
    assert_eq!((happened, left), (vec!["Cleanup".to_owned()], None), "it went while it was cleaned up");
}

/// The work was called without its finalizer once, where the object was deleted under the reconcile.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn nothing_is_made_for_an_object_that_is_gone(cluster: Cluster) {
    assert_eq!(meddled(&cluster, &[], Moment::Begin, None).await, (vec![], None));
}
