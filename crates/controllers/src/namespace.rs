//! The deletion of namespaces: pods first, then all other content, then the namespace itself.
//!
//! While content remains (a pod that is stopping, an object with a finalizer), the controller does not poll: the metadata
//! informers wake it when an object in the namespace is deleted.

mod conditions;

use std::collections::BTreeSet;
use std::sync::Arc;

use conditions::RemainingContent;
use evenkeel_runtime::{Action, Controller, Ctx, Env, EventMeta, Request, Result, ResultExt};
use futures::Stream;
use kube::Api;
use kube::core::params::{DeleteParams, ListParams, PostParams};
use parking_lot::Mutex;

use crate::key_channel::{self, KeySender};
use crate::kinds::{NAMESPACE, Namespace};
use crate::metadata_informers::{self, Metadata, Resource};
use crate::object::{Object, OfKind};
use crate::{MANAGER, clock};

/// How many namespaces are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 10;

/// The finalizer in the spec of every namespace.
const KUBERNETES: &str = "kubernetes";

/// The namespaces that wait for their content to be deleted.
pub(crate) struct TerminatingNamespaces {
    names: Mutex<BTreeSet<String>>,
    keys: KeySender,
}

impl TerminatingNamespaces {
    /// An empty set, and the stream of the namespaces in which an object was deleted.
    pub(crate) fn new(env: &Env) -> (Arc<Self>, impl Stream<Item = Request> + Send + 'static) {
        let (keys, due) = key_channel::channel(env, "namespaces: content deleted");
        (Arc::new(Self { names: Mutex::default(), keys }), due)
    }

    /// Follows a change of an object of any kind.
    pub(crate) fn follow(&self, event: &EventMeta<'_>) {
        let metadata = event.new.or(event.old);
        let Some(namespace) = metadata.and_then(|metadata| metadata.namespace.as_deref()) else { return };
        let released =
            event.new.is_none_or(|new| event.old.is_some_and(|old| old.finalizers != new.finalizers));
        if released && self.names.lock().contains(namespace) {
            self.keys.send(Request::cluster(namespace));
        }
    }
}

/// The controller of namespaces.
pub(crate) fn controller(
    terminating: Arc<TerminatingNamespaces>,
    due: impl Stream<Item = Request> + Send + 'static,
) -> Controller<Object> {
    Controller::new_with("namespace-controller", NAMESPACE.source(), reconcile)
        .stream("content deleted", due)
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
        .state(terminating)
}

async fn reconcile(namespace: Arc<Namespace>, ctx: Ctx<TerminatingNamespaces>) -> Result<Action> {
    let name = namespace.name();
    if !namespace.is_deleting() {
        return Ok(Action::await_change());
    }
    // The cache may still show a namespace that is gone and that somebody has made again. What is in the new one stays.
    let live = ctx.kind(&NAMESPACE).fetch(&Request::cluster(name)).await?;
    let Some(namespace) =
        live.filter(|live| live.is_deleting() && live.metadata.uid == namespace.metadata.uid)
    else {
        return Ok(Action::await_change());
    };
    if !namespace.texts("spec/finalizers").any(|finalizer| finalizer == KUBERNETES) {
        ctx.state().names.lock().remove(name);
        return Ok(Action::await_change());
    }
    // Inserted before the content is read, so that every later deletion wakes the controller.
    ctx.state().names.lock().insert(name.to_owned());
    let content = delete_content(&ctx, name).await;
    let status = conditions::status(namespace.at("status"), &content, clock::seconds(ctx.now()));
    // The response has the resource version from which the finalizer is removed.
    let written = ctx.kind(&NAMESPACE).status(&namespace, &status).await.ignore_not_found()?;
    if content.is_gone() {
        finalize(&ctx, written.flatten().as_ref().unwrap_or(&namespace)).await?;
        ctx.state().names.lock().remove(name);
    } else if let Some(failure) = content.discovery_failure.or_else(|| content.failures.into_iter().next()) {
        return Err(evenkeel_runtime::Error::message(failure));
    }
    Ok(Action::await_change())
}

/// Deletes all content; pods first, so that the objects they use outlive them.
async fn delete_content(ctx: &Ctx<TerminatingNamespaces>, namespace: &str) -> RemainingContent {
    let mut content = RemainingContent::default();
    let listed = match metadata_informers::discover(ctx.client()).await {
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
    ctx: &Ctx<TerminatingNamespaces>,
    namespace: &str,
    resource: &Resource,
    content: &mut RemainingContent,
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

/// Removes the finalizer. The API server deletes the namespace with its last finalizer.
async fn finalize(ctx: &Ctx<TerminatingNamespaces>, namespace: &Namespace) -> Result<()> {
    let kept = namespace.texts("spec/finalizers").filter(|finalizer| *finalizer != KUBERNETES);
    let kept: Vec<_> = kept.map(str::to_owned).collect();
    let mut namespace = namespace.clone();
    namespace.set("spec/finalizers", kept);
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.to_owned()) };
    let namespaces = Api::<Namespace>::all_with(ctx.client().clone(), &&NAMESPACE);
    let finalized = namespaces.replace_subresource("finalize", namespace.name(), &params, &namespace).await;
    finalized.ignore_not_found()?;
    Ok(())
}
