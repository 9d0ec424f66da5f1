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
use k8s_openapi::api::core::v1::Namespace;
use kube::core::params::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;

use crate::key_channel::{self, KeySender};
use crate::metadata_informers::{self, Metadata, Resource};
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
) -> Controller<Namespace> {
    Controller::new("namespace-controller", reconcile)
        .stream("content deleted", due)
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
        .state(terminating)
}

async fn reconcile(namespace: Arc<Namespace>, ctx: Ctx<TerminatingNamespaces>) -> Result<Action> {
    let name = namespace.name_any();
    if namespace.metadata.deletion_timestamp.is_none() {
        return Ok(Action::await_change());
    }
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == KUBERNETES) {
        ctx.state().names.lock().remove(&name);
        return Ok(Action::await_change());
    }
    // Inserted before the content is read, so that every later deletion wakes the controller.
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
async fn finalize(
    ctx: &Ctx<TerminatingNamespaces>,
    namespace: &Namespace,
    mut finalizers: Vec<String>,
) -> Result<()> {
    finalizers.retain(|finalizer| finalizer != KUBERNETES);
    let mut namespace = namespace.clone();
    namespace.spec.get_or_insert_default().finalizers = Some(finalizers);
    let name = namespace.name_any();
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.to_owned()) };
    let namespaces = Api::<Namespace>::all(ctx.client().clone());
    namespaces.replace_subresource("finalize", &name, &params, &namespace).await.ignore_not_found()?;
    Ok(())
}
