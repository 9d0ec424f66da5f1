//! The deletion of namespaces: pods first, then all other content, then the namespace itself.
//!
//! While content remains (a pod that stops, a finalizer) nothing is polled for: the watches of all kinds wake the
//! namespace when something in it goes.

mod conditions;

use std::collections::BTreeSet;
use std::sync::Arc;

use conditions::Content;
use evenkeel_runtime::{Action, Controller, Ctx, Env, EventMeta, Request, Result, ResultExt};
use futures::Stream;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::params::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;

use crate::monitors::{self, Metadata, Resource};
use crate::signals::Signals;
use crate::{MANAGER, clock};

/// How many namespaces are deleted at once: as many as Kubernetes does by default.
const CONCURRENT: usize = 10;

/// The finalizer of the namespace itself, in its spec.
const KUBERNETES: &str = "kubernetes";

/// Which namespaces wait for their content to go.
pub(crate) struct Terminating {
    names: Mutex<BTreeSet<String>>,
    signals: Signals,
}

impl Terminating {
    /// Nobody yet, and the stream of namespaces in which something went.
    pub(crate) fn new(env: &Env) -> (Arc<Self>, impl Stream<Item = Request> + Send + 'static) {
        let (signals, due) = Signals::channel(env, "namespaces: content went");
        (Arc::new(Self { names: Mutex::default(), signals }), due)
    }

    /// Follows a change of an object of any kind.
    pub(crate) fn follow(&self, event: &EventMeta<'_>) {
        let metadata = event.new.or(event.old);
        let Some(namespace) = metadata.and_then(|metadata| metadata.namespace.as_deref()) else { return };
        let went = event.new.is_none_or(|new| event.old.is_some_and(|old| old.finalizers != new.finalizers));
        if went && self.names.lock().contains(namespace) {
            self.signals.give(Request::cluster(namespace));
        }
    }
}

/// The controller.
pub(crate) fn controller(
    terminating: Arc<Terminating>,
    due: impl Stream<Item = Request> + Send + 'static,
) -> Controller<Namespace> {
    Controller::new("namespace-controller", reconcile)
        .stream("content went", due)
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
        .state(terminating)
}

async fn reconcile(namespace: Arc<Namespace>, ctx: Ctx<Terminating>) -> Result<Action> {
    let name = namespace.name_any();
    if namespace.metadata.deletion_timestamp.is_none() {
        return Ok(Action::await_change());
    }
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == KUBERNETES) {
        ctx.state().names.lock().remove(&name);
        return Ok(Action::await_change());
    }
    // Entered before the content is looked at: what goes from now on wakes us.
    ctx.state().names.lock().insert(name.clone());
    let content = delete_content(&ctx, &name).await;
    let status = conditions::status(namespace.status.as_ref(), &content, clock::seconds(ctx.now()));
    let written = ctx.status(&namespace, status).await.ignore_not_found()?;
    if content.is_gone() {
        finalize(&ctx, written.flatten().as_ref().unwrap_or(&namespace), finalizers).await?;
        ctx.state().names.lock().remove(&name);
    } else if let Some(failure) = content.discovery_failure.or_else(|| content.failures.into_iter().next()) {
        return Err(evenkeel_runtime::Error::message(failure));
    }
    Ok(Action::await_change())
}

/// Deletes all that can be deleted; pods first, so that what they need outlives them.
async fn delete_content(ctx: &Ctx<Terminating>, namespace: &str) -> Content {
    let mut content = Content::default();
    let listed = match monitors::discover(ctx.client()).await {
        Ok(listed) => listed,
        Err(error) => {
            content.discovery_failure = Some(error.to_string());
            return content;
        }
    };
    let listed = listed.iter().filter(|resource| resource.namespaced && resource.collectable);
    let (pods, others): (Vec<_>, Vec<_>) =
        listed.partition(|resource| resource.api.group.is_empty() && resource.api.plural == "pods");
    for group in [pods, others] {
        for resource in group {
            if let Err(error) = delete_kind(ctx, namespace, resource, &mut content).await {
                content.failures.push(error.to_string());
            }
        }
        if !content.is_gone() {
            return content;
        }
    }
    content
}

async fn delete_kind(
    ctx: &Ctx<Terminating>,
    namespace: &str,
    resource: &Resource,
    content: &mut Content,
) -> Result<(), kube::Error> {
    let objects = Api::<Metadata>::namespaced_with(ctx.client().clone(), namespace, &resource.api);
    if objects.list_metadata(&ListParams::default()).await?.items.is_empty() {
        return Ok(());
    }
    objects.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    for left in objects.list_metadata(&ListParams::default()).await?.items {
        content.remains(&resource.api.plural, &resource.api.group, &left.metadata);
    }
    Ok(())
}

/// Takes our finalizer off; with the last one the server lets the namespace go.
async fn finalize(ctx: &Ctx<Terminating>, namespace: &Namespace, mut finalizers: Vec<String>) -> Result<()> {
    finalizers.retain(|finalizer| finalizer != KUBERNETES);
    let mut namespace = namespace.clone();
    namespace.spec.get_or_insert_default().finalizers = Some(finalizers);
    let name = namespace.name_any();
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.to_owned()) };
    let namespaces = Api::<Namespace>::all(ctx.client().clone());
    namespaces.replace_subresource("finalize", &name, &params, &namespace).await.ignore_not_found()?;
    Ok(())
}
