//! Finalizers with concurrent writers: finalizers of others are not lost, and none is added twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_cluster::Cluster;
use evenkeel_runtime::finalizer::{FinalizerError, Phase};
use evenkeel_runtime::owner::set_controller_reference;
use evenkeel_runtime::{Action, Controller, Ctx, Error, Source};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::Patch;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{Notes, map, value};

const OURS: &str = "example.com/ours";
const FOREIGN: &str = "example.com/foreign";
const FASTER: &str = "change the finalizers of default/one: another writer was faster";

/// Another writer, which writes once after the operator has read the object.
struct Meddler {
    maps: Api<ConfigMap>,
    at: Moment,
    does: Deed,
    done: AtomicBool,
    notes: Notes,
}

#[derive(Clone, Copy)]
enum Deed {
    /// Sets these finalizers.
    Sets(&'static [&'static str]),
    Deletes,
    /// Replaces the object by another one with the same name and these finalizers.
    Replaces(&'static [&'static str]),
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
        match self.does {
            Deed::Sets(finalizers) => self.set(finalizers).await,
            Deed::Deletes => drop(self.maps.delete("one", &Default::default()).await.unwrap()),
            Deed::Replaces(finalizers) => {
                self.set(&[]).await;
                // If the object was being deleted, it went with its last finalizer.
                let _ = self.maps.delete("one", &Default::default()).await;
                let mut another = map("one", 2);
                another.metadata.finalizers = Some(finalizers.iter().map(ToString::to_string).collect());
                self.maps.create(&Default::default(), &another).await.unwrap();
            }
        }
    }

    async fn set(&self, finalizers: &[&str]) {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
        self.maps.patch("one", &Default::default(), &patch).await.unwrap();
    }
}

async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<Meddler>) -> Result<Action, FinalizerError> {
    let meddler = ctx.state();
    meddler.meddle(Moment::Begin).await;
    let of = value(&map);
    let work = |phase: Phase| async move {
        meddler.notes.push(if of == "1" { format!("{phase:?}") } else { format!("{phase:?} of another") });
        if phase == Phase::Cleanup {
            meddler.meddle(Moment::Cleanup).await;
        }
        Ok::<_, Error>(Action::await_change())
    };
    let result = ctx.finalizer(&map, OURS, work).await;
    result.inspect_err(|error| meddler.notes.push(error.to_string()))
}

/// Reconciles an object with finalizers of others, and deletes it if the meddler waits for that. Returns what happened,
/// without repetitions, and the finalizers at the end.
async fn meddled(
    cluster: &Cluster,
    before: &[&str],
    at: Moment,
    does: Deed,
) -> (Vec<String>, Option<Vec<String>>) {
    let notes = Notes::default();
    let mut one = map("one", 1);
    one.metadata.finalizers = Some(before.iter().map(ToString::to_string).collect());
    cluster.apply(one).await.unwrap();
    let (maps, meddlers_notes) = (cluster.api::<ConfigMap>(), notes.clone());
    cluster.run(move || {
        let (maps, notes) = (maps.clone(), meddlers_notes.clone());
        let meddler = Meddler { maps, at, does, done: AtomicBool::default(), notes };
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
    let (happened, left) = meddled(&cluster, &[], Moment::Begin, Deed::Sets(&[FOREIGN])).await;
    assert_eq!(happened, [FASTER, "Apply"]);
    assert_eq!(left, all(&[FOREIGN, OURS]));
}

/// After a crash before the answer, the cache may not show the written finalizer yet.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_finalizer_that_is_there_already_is_not_added_twice(cluster: Cluster) {
    let (happened, left) = meddled(&cluster, &[FOREIGN], Moment::Begin, Deed::Sets(&[FOREIGN, OURS])).await;
    assert_eq!(happened, [FASTER, "Apply"]);
    assert_eq!(left, all(&[FOREIGN, OURS]));
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn another_finalizer_in_the_place_of_ours_is_not_removed(cluster: Cluster) {
    let (happened, left) = meddled(&cluster, &[OURS, FOREIGN], Moment::Cleanup, Deed::Sets(&[FOREIGN])).await;
    // By the next attempt our finalizer is gone, so that there is no second cleanup.
    assert_eq!(happened, ["Cleanup", FASTER]);
    assert_eq!(left, all(&[FOREIGN]));
    let (happened, left) = meddled(&cluster, &[], Moment::Cleanup, Deed::Sets(&[])).await;
    assert_eq!((happened, left), (vec!["Cleanup".to_owned()], None), "it went while it was cleaned up");
}

/// The work used to be called without its finalizer if the object was deleted during the reconcile.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn nothing_is_made_for_an_object_that_is_gone(cluster: Cluster) {
    assert_eq!(meddled(&cluster, &[], Moment::Begin, Deed::Deletes).await, (vec![], None));
}

/// If another object has the name by the time of the write, its finalizers are not changed on behalf of the old object.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn another_object_of_the_same_name_is_not_written_to(cluster: Cluster) {
    let (happened, left) = meddled(&cluster, &[], Moment::Begin, Deed::Replaces(&[])).await;
    assert_eq!(happened, [FASTER, "Apply of another"]);
    assert_eq!(left, all(&[OURS]));
    let (happened, left) = meddled(&cluster, &[], Moment::Cleanup, Deed::Replaces(&[OURS])).await;
    assert_eq!(happened, ["Cleanup", FASTER, "Apply of another"]);
    assert_eq!(left, all(&[OURS]));
}

/// An invalid finalizer used to be reported as a race with another writer, and was retried for ever.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6)]
async fn a_finalizer_that_the_server_refuses_is_no_race(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("wrong", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let work = |_: Phase| async { Ok::<_, Error>(Action::await_change()) };
                let error = ctx.finalizer(&map, "not a name", work).await.unwrap_err();
                let changed = matches!(error, FinalizerError::Changed(_));
                ctx.state().push(format!("{changed} {error}"));
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    let said = notes.take().remove(0);
    assert!(said.starts_with("false patch ConfigMap") && said.contains("metadata.finalizers"), "{said}");
}

/// A kind that is known at run time has the same helpers: finalizer, children, prune, events.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn dynamic_objects_are_finalized_and_pruned_too(cluster: Cluster) {
    let notes = Notes::default();
    let resource = ApiResource::erase::<ConfigMap>(&());
    cluster.run({
        let (notes, namespace) = (notes.clone(), cluster.namespace().to_owned());
        move || {
            let maps = Source::<DynamicObject>::of(resource.clone()).namespace(&namespace);
            let of_maps = resource.clone();
            Controller::new_with("dynamic", maps, move |map: Arc<DynamicObject>, ctx: Ctx<Notes>| {
                let of_maps = of_maps.clone();
                async move {
                    let objects = ctx.objects::<DynamicObject>(of_maps);
                    let (ctx, map, of_them) = (&ctx, &map, &objects);
                    let work = |phase: Phase| async move {
                        ctx.state().push(format!("{phase:?}"));
                        let pruned = ctx.objects::<Secret>(()).prune(&["kept"], |_| true).await?;
                        ctx.state().push(format!("pruned {pruned}"));
                        of_them.event(map, "Seen", "it was seen");
                        Ok::<_, Error>(Action::await_change())
                    };
                    objects.finalizer(map, OURS, work).await
                }
            })
            .owns::<Secret>()
            .state(notes.clone())
        }
    });
    let parent = cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    notes.take();
    for name in ["kept", "spare"] {
        let mut child = crate::writing::child(name, "");
        set_controller_reference(&parent, &mut child).unwrap();
        cluster.apply(child).await.unwrap();
        cluster.settled().await;
    }
    assert!(notes.take().contains(&"pruned 1".to_owned()));
    assert_eq!(cluster.list::<Secret>().await.unwrap().len(), 1);
    cluster.delete::<ConfigMap>("one").await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["Cleanup", "pruned 0"]);
    assert!(cluster.get_opt::<ConfigMap>("one").await.unwrap().is_none());
    let events = cluster.list::<Event>().await.unwrap();
    let about = events.iter().find_map(|event| event.regarding.as_ref()).unwrap();
    assert_eq!((about.kind.as_deref(), about.name.as_deref()), (Some("ConfigMap"), Some("one")));
}
