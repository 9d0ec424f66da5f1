//! What a context sets on the objects that it writes: owner, namespace, field manager and resource version.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::owner::{OwnerError, set_controller_reference};
use evenkeel_runtime::{Action, ContextError, Controller, Ctx, Error, Reconciler, Request, ResultExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt;
use serde_json::json;

use crate::writing::child;
use crate::{Notes, map};

/// Runs `act` once, in a reconcile of a map with this name.
pub(crate) async fn in_a_reconcile<F, Fut>(cluster: &Cluster, name: &'static str, act: F)
where
    F: Fn(Ctx<Notes>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<String, ContextError>> + Send,
{
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            let act = act.clone();
            Controller::new(name, move |_: Arc<ConfigMap>, ctx: Ctx<Notes>| {
                let act = act.clone();
                async move {
                    let said = act(ctx.clone()).await.unwrap_or_else(|error| error.to_string());
                    ctx.state().push(said);
                    Ok::<_, Error>(Action::await_change())
                }
            })
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["as it should be"]);
}

/// An apply takes over the fields that others set before, under the controller's field manager.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 14)]
async fn an_apply_takes_over_what_others_set(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    for (manager, name) in [(None, "taker"), (Some("shop"), "shop")] {
        cluster.apply(child(name, "theirs")).await.unwrap();
        cluster.run(move || {
            let controller = Controller::new("taker", move |_: Arc<ConfigMap>, ctx: Ctx| async move {
                ctx.apply(child(name, "ours")).await?;
                let made = ctx.create(child(&format!("{name}-made"), "ours")).await;
                if let Some(mut made) = made.ignore_already_exists()? {
                    made.annotations_mut().insert("updated".into(), "yes".into());
                    let made = ctx.update(&made).await?;
                    let label = json!({ "metadata": { "labels": { "patched": "yes" } } });
                    ctx.patch(&made, &kube::api::Patch::Merge(label)).await?;
                }
                Ok::<_, Error>(Action::await_change())
            });
            match manager {
                Some(manager) => controller.field_manager(manager),
                None => controller,
            }
        });
        cluster.settled().await;
        for child in [name.to_owned(), format!("{name}-made")] {
            let found: Secret = cluster.get(&child).await.unwrap();
            assert_eq!(found.data.as_ref().unwrap()["value"].0, b"ours");
            assert_eq!(found.owner_references()[0].name, "one");
            let managers: Vec<_> = found.managed_fields().iter().flat_map(|entry| &entry.manager).collect();
            assert!(managers.contains(&&name.to_owned()), "{managers:?}");
            let made_here = found.annotations().contains_key("updated");
            assert!(!made_here || managers.iter().all(|manager| *manager == name), "{managers:?}");
        }
    }
}

/// An object that was read has a resource version and managedFields, which an apply must leave out.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn an_object_that_was_read_can_be_applied(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    in_a_reconcile(&cluster, "reader", |ctx| async move {
        ctx.apply(child("read", "first")).await?;
        let mut read = ctx.fetch::<Secret>("read").await?.unwrap();
        let touch = json!({ "metadata": { "annotations": { "touched": "yes" } } });
        ctx.patch(&read, &kube::api::Patch::Merge(touch)).await?;
        assert!(read.resource_version().is_some() && !read.managed_fields().is_empty());
        read.labels_mut().insert("applied".into(), "yes".into());
        let applied = ctx.apply(read).await?;
        assert_eq!(applied.annotations()["touched"], "yes");
        assert_eq!(applied.labels()["applied"], "yes");
        Ok("as it should be".into())
    })
    .await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn an_object_without_a_name_is_refused_before_it_is_sent(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    in_a_reconcile(&cluster, "unnamed", |ctx| async move {
        let error = ctx.apply(Secret::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "apply Secret: the object has no name");
        let error = ctx.delete(&Secret::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "delete Secret: the object has no name");
        Ok("as it should be".into())
    })
    .await;
    let wrote = |request: &evenkeel_cluster::Exchange| &*request.by == "unnamed" && request.method != "GET";
    assert!(!cluster.requests().iter().any(wrote));
}

/// A cluster-scoped object is read without a namespace, though the reconciled object is in one.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn cluster_scoped_objects_are_read_by_their_name(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("looker", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let cached = ctx.get::<Namespace>("kube-system")?.is_some();
                let live = ctx.fetch::<Namespace>("kube-system").await?.is_some();
                ctx.state().push(format!("cached {cached}, live {live}"));
                Ok::<_, Error>(Action::await_change())
            })
            .reads::<Namespace>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["cached true, live true"]);
}

/// Owner references that the server would accept, and the garbage collector would act on, are refused before they are
/// sent.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn an_owner_that_cannot_be_set_is_an_error_and_nothing_is_sent(cluster: Cluster) {
    let other = cluster.apply(child("other", "")).await.unwrap();
    let mut taken = child("taken", "theirs");
    set_controller_reference(&other, &mut taken).unwrap();
    cluster.apply(taken.clone()).await.unwrap();
    cluster.apply(map("one", 1)).await.unwrap();
    in_a_reconcile(&cluster, "owner", move |ctx| {
        let taken = taken.clone();
        async move {
            let mut elsewhere = child("elsewhere", "ours");
            elsewhere.metadata.namespace = Some("kube-system".into());
            let error = ctx.apply(elsewhere).await.unwrap_err();
            assert!(matches!(error, ContextError::Owner(OwnerError::CrossNamespace { .. })), "{error}");
            let mut wider = Namespace::default();
            wider.metadata.name = Some("wider".into());
            let error = ctx.create(wider).await.unwrap_err();
            assert!(matches!(error, ContextError::Owner(OwnerError::ClusterScoped { .. })), "{error}");
            let error = ctx.apply(taken).await.unwrap_err();
            assert!(matches!(error, ContextError::Owner(OwnerError::AlreadyControlled { .. })), "{error}");
            let error = ctx.create_or_update(child("taken", ""), |_| {}).await.unwrap_err();
            assert!(error.to_string().ends_with("taken is already controlled by Secret other"), "{error}");
            Ok("as it should be".into())
        }
    })
    .await;
    let wrote = |request: &evenkeel_cluster::Exchange| &*request.by == "owner" && request.method != "GET";
    assert!(!cluster.requests().iter().any(wrote));
}

/// Creates a Secret that a map owns which the reconciler chooses.
struct Chooser(Notes, String);

impl Reconciler for Chooser {
    type Error = Error;

    async fn reconcile(&self, request: Request, ctx: Ctx) -> Result<Action, Error> {
        if *request.name != *self.1 {
            return Ok(Action::await_change());
        }
        let key = Request::namespaced(self.1.as_str(), "chosen");
        let Some(map) = ctx.fetch_at::<ConfigMap>(&key).await? else { return Ok(Action::await_change()) };
        let made = ctx.with_owner(&map).apply(child("made", "")).await?;
        self.0.push(format!("in its namespace {}", made.namespace() == map.namespace()));
        Ok(Action::await_change())
    }
}

/// A `Reconciler` value for a cluster-scoped kind.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn the_lower_form_chooses_who_owns_what_it_writes(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("chosen", 1)).await.unwrap();
    cluster.run({
        let (notes, namespace) = (notes.clone(), cluster.namespace().to_owned());
        move || Controller::<Namespace>::requests("chooser", Chooser(notes.clone(), namespace.clone()))
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["in its namespace true"]);
    let made: Secret = cluster.get("made").await.unwrap();
    let owner = &made.owner_references()[0];
    assert_eq!((owner.name.as_str(), owner.controller), ("chosen", Some(true)));
}
