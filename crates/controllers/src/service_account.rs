//! The ServiceAccount `default` and the ConfigMap with the cluster's root certificate, which every namespace has.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, ResultExt, Trigger};
use evenkeel_tree::{Tree, tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::params::Patch;
use serde_json::json;

use crate::kinds::{CONFIG_MAP, ConfigMap, NAMESPACE, Namespace, SERVICE_ACCOUNT, ServiceAccount};
use crate::object::{Kind, Object, OfKind};
use crate::{MANAGER, api_error};

const DEFAULT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const CA_KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                                endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                                guaranteed across distributions of Kubernetes clusters.";

/// The controller that creates the ServiceAccount.
pub(crate) fn accounts() -> Controller<Object> {
    let default = SERVICE_ACCOUNT.source().fields(format!("metadata.name={DEFAULT}"));
    Controller::new_with("serviceaccount-controller", NAMESPACE.source(), ensure_account)
        .watches_with(default, Trigger::map(namespace_of))
        .field_manager(MANAGER)
}

/// Returns the key of the namespace of an object.
fn namespace_of(object: &Object) -> Option<Request> {
    object.metadata.namespace.as_deref().map(Request::cluster)
}

async fn ensure_account(namespace: Arc<Namespace>, ctx: Ctx) -> Result<Action> {
    let key = Request::namespaced(namespace.name(), DEFAULT);
    if is_active(&namespace) && ctx.kind(&SERVICE_ACCOUNT).get(&key)?.is_none() {
        create(&ctx, &SERVICE_ACCOUNT, default_account(namespace.name())).await?;
    }
    Ok(Action::await_change())
}

/// Makes the ServiceAccount `default` for a namespace.
pub(crate) fn default_account(namespace: &str) -> ServiceAccount {
    ServiceAccount::new(metadata(namespace, DEFAULT), Tree::Null)
}

/// Makes the ConfigMap with the root certificate for a namespace.
pub(crate) fn root_certificate(namespace: &str, certificate: &str) -> ConfigMap {
    let mut metadata = metadata(namespace, ROOT_CA);
    metadata.annotations = Some(BTreeMap::from([(DESCRIPTION.to_owned(), DESCRIPTION_TEXT.to_owned())]));
    ConfigMap::new(metadata, tree!({"data": tree!({CA_KEY: certificate})}))
}

/// The controller that publishes the root certificate.
pub(crate) fn root_ca(certificate: String) -> Controller<Object> {
    let published = CONFIG_MAP.source().fields(format!("metadata.name={ROOT_CA}"));
    Controller::new_with("root-ca-certificate-publisher", NAMESPACE.source(), publish)
        .watches_with(published, Trigger::map(namespace_of))
        .field_manager(MANAGER)
        .state(certificate)
}

async fn publish(namespace: Arc<Namespace>, ctx: Ctx<String>) -> Result<Action> {
    if !is_active(&namespace) {
        return Ok(Action::await_change());
    }
    let maps = ctx.kind(&CONFIG_MAP);
    let key = Request::namespaced(namespace.name(), ROOT_CA);
    let data = tree!({CA_KEY: ctx.state()});
    match maps.get(&key)? {
        None => create(&ctx, &CONFIG_MAP, root_certificate(namespace.name(), ctx.state())).await?,
        Some(map) if *map.at("data") != data => {
            let mut restored = ConfigMap::clone(&map);
            restored.set("data", data);
            maps.update(&restored).await?;
        }
        Some(map) if map.annotation(DESCRIPTION) != Some(DESCRIPTION_TEXT) => {
            let patch = json!({"metadata": {"annotations": {DESCRIPTION: DESCRIPTION_TEXT}}});
            maps.patch(&key, &Patch::Merge(patch)).await?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

fn is_active(namespace: &Namespace) -> bool {
    !namespace.is_deleting() && !namespace.is("status/phase", "Terminating")
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}

/// Creates an object. That it exists already, or that its namespace is terminating, is not an error.
async fn create<S>(ctx: &Ctx<S>, kind: &'static Kind, object: Object) -> Result<()> {
    match ctx.kind(kind).create_unowned(object).await.ignore_already_exists() {
        Err(error) if !api_error::namespace_is_terminating(&error) && !error.is_not_found() => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}
