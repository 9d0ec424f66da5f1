//! The ServiceAccount `default` and the ConfigMap with the cluster's root certificate, which every namespace has.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, ResultExt, Source, Trigger};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::params::Patch;
use serde_json::json;

use crate::{MANAGER, api_error};

const DEFAULT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const CA_KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                                endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                                guaranteed across distributions of Kubernetes clusters.";

/// The controller that creates the ServiceAccount.
pub(crate) fn accounts() -> Controller<Namespace> {
    let namespace_of = |account: &ServiceAccount| {
        let namespace = account.namespace().filter(|_| account.name_any() == DEFAULT);
        namespace.map(Request::cluster)
    };
    let default = Source::<ServiceAccount>::new().fields(format!("metadata.name={DEFAULT}"));
    Controller::new("serviceaccount-controller", ensure_account)
        .watches_with(default, Trigger::map(namespace_of))
        .field_manager(MANAGER)
}

async fn ensure_account(namespace: Arc<Namespace>, ctx: Ctx) -> Result<Action> {
    let name = namespace.name_any();
    let key = Request::namespaced(name.as_str(), DEFAULT);
    if is_active(&namespace) && ctx.get_at::<ServiceAccount>(&key)?.is_none() {
        let account = ServiceAccount { metadata: metadata(&name, DEFAULT), ..ServiceAccount::default() };
        create(&ctx, account).await?;
    }
    Ok(Action::await_change())
}

/// The controller that publishes the root certificate.
pub(crate) fn root_ca(certificate: String) -> Controller<Namespace> {
    let published = Source::<ConfigMap>::new().fields(format!("metadata.name={ROOT_CA}"));
    Controller::new("root-ca-certificate-publisher", publish)
        .watches_with(published, Trigger::map(|map: &ConfigMap| map.namespace().map(Request::cluster)))
        .field_manager(MANAGER)
        .state(certificate)
}

async fn publish(namespace: Arc<Namespace>, ctx: Ctx<String>) -> Result<Action> {
    let name = namespace.name_any();
    if !is_active(&namespace) {
        return Ok(Action::await_change());
    }
    let data = BTreeMap::from([(CA_KEY.to_owned(), ctx.state().clone())]);
    match ctx.get_at::<ConfigMap>(&Request::namespaced(name.as_str(), ROOT_CA))? {
        None => {
            let mut metadata = metadata(&name, ROOT_CA);
            metadata.annotations =
                Some(BTreeMap::from([(DESCRIPTION.to_owned(), DESCRIPTION_TEXT.to_owned())]));
            create(&ctx, ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }).await?;
        }
        Some(map) if map.data.as_ref() != Some(&data) => {
            let restored = ConfigMap { data: Some(data), ..ConfigMap::clone(&map) };
            ctx.update(&restored).await?;
        }
        Some(map) if map.annotations().get(DESCRIPTION).map(String::as_str) != Some(DESCRIPTION_TEXT) => {
            let patch = json!({"metadata": {"annotations": {DESCRIPTION: DESCRIPTION_TEXT}}});
            ctx.patch(&map, &Patch::Merge(patch)).await?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}

/// Creates an object. That it exists already, or that its namespace is terminating, is not an error.
async fn create<K, S>(ctx: &Ctx<S>, object: K) -> Result<()>
where
    K: evenkeel_runtime::Object<DynamicType = ()>,
{
    match ctx.create_unowned(object).await.ignore_already_exists() {
        Err(error) if !api_error::namespace_is_terminating(&error) && !error.is_not_found() => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}
