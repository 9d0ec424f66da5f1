//! Plain controllers of kube-runtime, with its store, its list and its retries.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use kube_runtime::controller::Action;
use kube_runtime::reflector::Store;
use kube_runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, ensemble, prepare};
use crate::{map, secret};

const OF: &str = "example.com/of";

struct World {
    client: Client,
    ensembles: Store<Ensemble>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Right,
    /// Deletes the Secrets of ensembles that its store does not show.
    SweepsByStore,
    /// Creates what it makes once, and notes it afterwards.
    NotesLast,
}

fn owned(mut map: ConfigMap, ensemble: &Ensemble) -> ConfigMap {
    map.metadata.owner_references = ensemble.controller_owner_ref(&()).map(|owner| vec![owner]);
    map
}

async fn reconcile(ensemble: Arc<Ensemble>, world: Arc<World>) -> Result<Action, kube::Error> {
    let namespace = ensemble.namespace().unwrap_or_default();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &namespace);
    let all: Api<Ensemble> = Api::namespaced(world.client.clone(), &namespace);
    let apply = PatchParams::apply("plain").force();
    if ensemble.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let name = format!("config-{}", ensemble.name_any());
    maps.patch(&name, &apply, &Patch::Apply(owned(map(&name, &ensemble.spec.config), &ensemble))).await?;
    let mut keys = secret(&format!("keys-{}", ensemble.name_any()), "key");
    keys.metadata.labels = Some([(OF.to_owned(), ensemble.name_any())].into());
    keys.metadata.owner_references = ensemble.controller_owner_ref(&()).map(|owner| vec![owner]);
    match secrets.get_opt(&keys.name_any()).await {
        Ok(Some(_)) => {}
        Err(error) => return Err(error),
        Ok(None) => drop(secrets.create(&PostParams::default(), &keys).await?),
    }
    if world.form == Form::SweepsByStore {
        for key in secrets.list(&ListParams::default().labels(OF)).await? {
            let of = key.labels().get(OF).cloned().unwrap_or_default();
            if !world.ensembles.state().iter().any(|it| it.name_any() == of) {
                secrets.delete(&key.name_any(), &DeleteParams::default()).await?;
            }
        }
    }
    if world.form == Form::NotesLast && ensemble.status.as_ref().is_none_or(|status| status.phase.is_none()) {
        let mut once = owned(map("", ""), &ensemble);
        once.metadata.name = None;
        once.metadata.generate_name = Some("once-".into());
        maps.create(&PostParams::default(), &once).await?;
    }
    let ready = json!({"status": {"phase": ensemble.spec.config}});
    all.patch_status(&ensemble.name_any(), &PatchParams::default(), &Patch::Merge(ready)).await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

async fn life(cluster: Cluster, form: Form) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run_manager("plain", move |manager| {
        let client = manager.client().clone();
        manager.runnable("plain", move |_| async move {
            let (ensembles, writer) = reflector::store();
            let seen = watcher(Api::<Ensemble>::all(client.clone()), watcher::Config::default())
                .default_backoff()
                .reflect(writer)
                .applied_objects();
            let retry =
                |_: Arc<Ensemble>, _: &kube::Error, _: Arc<World>| Action::requeue(Duration::from_secs(5));
            let world = Arc::new(World { client: client.clone(), ensembles: ensembles.clone(), form });
            Controller::for_stream(seen, ensembles)
                .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
                .owns(Api::<Secret>::all(client.clone()), watcher::Config::default())
                .run(reconcile, retry, world)
                .for_each(|_| async {})
                .await;
            Ok::<_, kube::Error>(())
        })
    });
    create(&cluster, 1).await?;
    let mut farm = ensemble(1);
    farm.metadata.name = Some("farm".into());
    cluster.apply(farm).await?;
    cluster.settled().await;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn a_plain_controller_passes() {
    crate::passes("plain_right", |cluster| life(cluster, Form::Right));
}

#[test]
fn a_plain_controller_that_sweeps_by_its_store_is_found() {
    crate::finds("plain_sweeps", &[Oracle::Kept], |cluster| life(cluster, Form::SweepsByStore));
}

#[test]
fn a_plain_controller_that_notes_last_is_found() {
    crate::finds("plain_notes", &[Oracle::SameEnd], |cluster| life(cluster, Form::NotesLast));
}
