//! A plain controller of kube-runtime, as a runnable of a manager.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource as _, ResourceExt as _};
use kube_runtime::Controller;
use kube_runtime::controller::Action;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};

struct World {
    client: Client,
    is_fixed: bool,
}

fn child(ensemble: &Ensemble, name: &str) -> ConfigMap {
    let data = BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map.metadata.owner_references = ensemble.controller_owner_ref(&()).map(|owner| vec![owner]);
    map
}

async fn reconcile(ensemble: Arc<Ensemble>, world: Arc<World>) -> Result<Action, kube::Error> {
    let maps: Api<ConfigMap> =
        Api::namespaced(world.client.clone(), &ensemble.namespace().unwrap_or_default());
    let first = maps.get_opt("plain-0").await?;
    if !world.is_fixed && first.is_some_and(|map| map.data == child(&ensemble, "").data) {
        return Ok(Action::await_change());
    }
    let apply = PatchParams::apply("plain").force();
    maps.patch("plain-0", &apply, &Patch::Apply(child(&ensemble, "plain-0"))).await?;
    maps.patch("plain-1", &apply, &Patch::Apply(child(&ensemble, "plain-1"))).await?;
    let all: Api<Ensemble> = Api::namespaced(world.client.clone(), &ensemble.namespace().unwrap_or_default());
    let ready = json!({"status": {"phase": ensemble.spec.config}});
    all.patch_status(&ensemble.name_any(), &PatchParams::default(), &Patch::Merge(ready)).await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run_manager("plain", move |manager| {
        let client = manager.client().clone();
        manager.runnable("plain", move |_| async move {
            let controller = Controller::new(Api::<Ensemble>::all(client.clone()), Default::default())
                .owns(Api::<ConfigMap>::all(client.clone()), Default::default());
            let retry =
                |_: Arc<Ensemble>, _: &kube::Error, _: Arc<World>| Action::requeue(Duration::from_secs(5));
            controller
                .run(reconcile, retry, Arc::new(World { client, is_fixed }))
                .for_each(|_| async {})
                .await;
            Ok::<_, kube::Error>(())
        })
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn a_plain_controller_with_a_bug_is_found() {
    crate::finds("plain_buggy", &[Oracle::SameEnd], |cluster| life(cluster, false));
}

#[test]
fn a_plain_controller_passes() {
    crate::passes_shortly("plain_fixed", |cluster| life(cluster, true));
}
