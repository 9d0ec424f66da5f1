//! The two sides: a no-op reconcile in our runtime and in kube-runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_runtime::{Action, Controller, Ctx, Env, Error, Manager, Object};
use futures::StreamExt;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use kube_runtime::{WatchStreamExt, reflector, watcher};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// Counts reconciles. Clones share the count.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// How many expected reconciles are left.
    left: AtomicIsize,
    /// Notified by the last expected reconcile: a notification by each would cost more than a reconcile.
    all: Notify,
    /// For measures of single reconciles: the resource version that was seen, and when.
    each: Option<mpsc::UnboundedSender<(String, Instant)>>,
}

impl Seen {
    /// A counter that also sends each reconcile.
    pub(crate) fn each() -> (Self, mpsc::UnboundedReceiver<(String, Instant)>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let inner = Inner { each: Some(sender), ..Inner::default() };
        (Self { inner: Arc::new(inner) }, receiver)
    }

    /// Expects this number of reconciles from now on.
    pub(crate) fn expect(&self, reconciles: usize) {
        self.inner.left.store(reconciles as isize, Ordering::SeqCst);
    }

    /// Waits for the last expected reconcile.
    pub(crate) async fn all(&self) {
        self.inner.all.notified().await;
    }

    fn reconciled<K: Resource>(&self, object: &K) {
        if let Some(each) = &self.inner.each {
            let _ = each.send((object.resource_version().unwrap_or_default(), Instant::now()));
        }
        if self.inner.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.inner.all.notify_one();
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    Ours,
    Kube,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Ours, Self::Kube];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "evenkeel",
            Self::Kube => "kube-runtime",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        if name == Self::Ours.name() { Self::Ours } else { Self::Kube }
    }
}

/// Runs one controller of all objects of a kind, as a beginner would write it.
pub(crate) fn run<K>(side: Side, client: Client, env: &Env, seen: Seen) -> JoinHandle<()>
where
    K: Object<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
{
    match side {
        Side::Ours => {
            ours(Manager::new(client).with_env(env.clone()).controller(controller::<K>("bench", seen)))
        }
        Side::Kube => {
            let controller = kube_runtime::Controller::new(Api::<K>::all(client), watcher::Config::default());
            tokio::spawn(kubes(controller, seen))
        }
    }
}

/// Runs several controllers of one kind without managedFields in their caches.
pub(crate) fn run_stripped<K>(
    side: Side,
    client: Client,
    env: &Env,
    count: usize,
    seen: &Seen,
) -> Vec<JoinHandle<()>>
where
    K: Object<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
{
    match side {
        Side::Ours => {
            let manager = Manager::new(client).with_env(env.clone()).strip_managed_fields();
            let names = (0..count).map(|at| format!("bench-{at}"));
            let controllers = names.map(|name| controller::<K>(&name, seen.clone()));
            vec![ours(controllers.fold(manager, |manager, controller| manager.controller(controller)))]
        }
        Side::Kube => (0..count)
            .map(|_| {
                let (reader, writer) = reflector::store();
                let stream = watcher(Api::<K>::all(client.clone()), watcher::Config::default())
                    .modify(|object| object.meta_mut().managed_fields = None)
                    .default_backoff()
                    .reflect(writer)
                    .applied_objects();
                let controller = kube_runtime::Controller::for_stream(stream, reader);
                tokio::spawn(kubes(controller, seen.clone()))
            })
            .collect(),
    }
}

fn ours(manager: Manager) -> JoinHandle<()> {
    tokio::spawn(async move { drop(manager.run_until(std::future::pending()).await) })
}

fn controller<K: Object<DynamicType = ()>>(name: &str, seen: Seen) -> Controller<K> {
    let reconcile = |object: Arc<K>, ctx: Ctx<Seen>| async move {
        ctx.state().reconciled(&*object);
        Ok::<_, Error>(Action::await_change())
    };
    Controller::new(name, reconcile).state(seen)
}

async fn kubes<K: Object<DynamicType = ()>>(controller: kube_runtime::Controller<K>, seen: Seen) {
    let reconcile = |object: Arc<K>, seen: Arc<Seen>| async move {
        seen.reconciled(&*object);
        Ok::<_, std::fmt::Error>(kube_runtime::controller::Action::await_change())
    };
    let policy = |_: Arc<K>, _: &std::fmt::Error, _: Arc<Seen>| {
        kube_runtime::controller::Action::requeue(Duration::from_secs(1))
    };
    controller.run(reconcile, policy, Arc::new(seen)).for_each(|_| async {}).await;
}
