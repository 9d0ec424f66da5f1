//! Lists of kinds: a controller watches the kinds that the type of its context names.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::{
    Action, ContextError, Controller, Ctx, Error, Manifests, Reconciler, Request, Source, Trigger, kinds,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use kube::ResourceExt;
use serde_json::Value;

use crate::managing::manager;
use crate::{Notes, map};

kinds! {
    /// A controller of maps that copies them into Secrets, if there is an account of their name.
    pub struct CopyKinds for ConfigMap {
        owns Secret,
        reads ServiceAccount,
    }
}

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.into());
    secret
}

fn account(name: &str) -> ServiceAccount {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.into());
    account
}

async fn copy(map: Arc<ConfigMap>, ctx: Ctx<Notes, CopyKinds>) -> Result<Action, ContextError> {
    ctx.state().push(ctx.causes().to_string());
    if ctx.get::<ServiceAccount>(&map.name_any())?.is_some() {
        ctx.apply(secret(&map.name_any())).await?;
    }
    assert!(
        ctx.list::<ConfigMap>()?.len() >= ctx.children::<Secret>()?.len(),
        "the primary kind is in the list"
    );
    helper(&ctx.any_kind());
    Ok(Action::await_change())
}

/// A function that knows no list.
fn helper(ctx: &Ctx<Notes>) {
    let unlisted = ctx.list::<Service>().unwrap_err().to_string();
    assert!(unlisted.contains("add .owns::<Service>() to it"), "{unlisted}");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn the_kinds_of_the_list_are_owned_and_read(cluster: Cluster) {
    cluster.apply(account("one")).await.unwrap();
    cluster.apply(map("one", 1)).await.unwrap();
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || Controller::new("copy", copy).state(notes.clone())
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["ConfigMap default/one listed", "Secret default/one created"]);
    cluster.delete::<Secret>("one").await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["Secret default/one deleted", "Secret default/one created"]);
    // A change of a kind that is only read triggers no reconcile.
    cluster.delete::<ServiceAccount>("one").await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), [""; 0]);
}

/// A method of the controller replaces what the list says of a kind: there is one watch of Secrets, that of the label.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_method_says_it_better_than_the_list(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            let labelled = Source::<Secret>::new().labels("copy=yes");
            Controller::new("copy", |_: Arc<ConfigMap>, ctx: Ctx<Notes, CopyKinds>| async move {
                let secrets = ctx.list::<Secret>()?;
                ctx.state().push(secrets.iter().map(|secret| secret.name_any()).collect::<String>());
                Ok::<_, ContextError>(Action::await_change())
            })
            .owns_with(labelled)
            .state(notes.clone())
        }
    });
    cluster.apply(secret("plain")).await.unwrap();
    let mut labelled = secret("labelled");
    labelled.labels_mut().insert("copy".into(), "yes".into());
    cluster.apply(labelled).await.unwrap();
    cluster.settled().await;
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["labelled"]);
}

kinds! {
    struct WatchKinds for ConfigMap { watches Secret }
}

async fn watch(_: Arc<ConfigMap>, ctx: Ctx<Notes, WatchKinds>) -> Result<Action, ContextError> {
    ctx.state().push(format!("{}, {} secrets", ctx.causes(), ctx.list::<Secret>()?.len()));
    Ok(Action::await_change())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn a_watched_kind_needs_a_trigger_before_the_start(cluster: Cluster) {
    let untold = manager(&cluster).controller(Controller::new("watch", watch).state(Notes::default()));
    let error = untold.run_until(std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("`watches Secret`") && error.contains(".watches::<Secret>(trigger)"), "{error}");

    cluster.apply(map("one", 1)).await.unwrap();
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            let same_name = Trigger::map(|secret: &Secret| Some(Request::of(secret)));
            Controller::new("watch", watch).watches(same_name).state(notes.clone())
        }
    });
    cluster.settled().await;
    cluster.apply(secret("one")).await.unwrap();
    cluster.settled().await;
    assert_eq!(
        notes.take(),
        ["ConfigMap default/one listed, 0 secrets", "Secret default/one created, 1 secrets"]
    );
}

kinds! {
    /// A list for controllers of any kind.
    struct ReadKinds { reads Secret }
}

/// Counts Secrets, for every key.
struct Counter(Notes);

impl Reconciler<(), ReadKinds> for Counter {
    type Error = Error;

    async fn reconcile(&self, request: Request, ctx: Ctx<(), ReadKinds>) -> Result<Action, Error> {
        self.0.push(format!("{request}: {}", ctx.list::<Secret>()?.len()));
        Ok(Action::await_change())
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn controllers_by_key_have_lists_too(cluster: Cluster) {
    cluster.apply(secret("one")).await.unwrap();
    cluster.apply(map("one", 1)).await.unwrap();
    let notes = Notes::default();
    cluster.run_manager("counters", {
        let notes = notes.clone();
        move |manager| {
            let of_maps = Controller::<ConfigMap>::requests("of-maps", Counter(notes.clone()));
            let of_nothing = Controller::without_primary("of-nothing", Counter(notes.clone()))
                .at_start("start", vec![Request::new(Some("x"), "y")]);
            manager.controller(of_maps).controller(of_nothing)
        }
    });
    cluster.settled().await;
    let mut seen = notes.take();
    seen.sort();
    assert_eq!(seen, ["default/one: 1", "x/y: 1"]);
}

/// The rules of an operator permit what the list names, and only what is watched.
#[test]
fn manifests_have_the_kinds_of_the_list() {
    let listed = Controller::new("copy", copy);
    let told =
        Controller::new("copy", |_: Arc<ConfigMap>, _: Ctx| async { Ok::<_, Error>(Action::await_change()) });
    let told = told.owns::<Secret>().reads::<ServiceAccount>();
    let rules = |manifests: Manifests| -> Vec<Value> {
        let objects = manifests.objects().into_iter();
        objects.filter(|object| object["kind"] == "ClusterRole").collect()
    };
    let new = || Manifests::new("op", "ops");
    assert_eq!(rules(new().controller(&listed)), rules(new().controller(&told)));
    let twice = listed.owns::<Secret>();
    assert_eq!(rules(new().controller(&twice)), rules(new().controller(&told)));
}
