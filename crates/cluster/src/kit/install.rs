//! Installing an operator: it runs as the ServiceAccount of its manifests, within their RBAC rules.

use evenkeel_apiserver::User;
use evenkeel_runtime::manifests::{Manifests, Verbs};
use http::Method;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::transport::{Exchange, Outcome};

/// The field manager of installed manifests: another one than the test's, as in a real deployment.
const FIELD_MANAGER: &str = "kubectl";

/// Returns whether a remote cluster can use this object of the manifests while the operator runs in a test, and removes the
/// conversion from a definition.
///
/// The Service of the manifests does not lead to the process of the test. `Cluster::run_manager` registers the webhooks
/// there by URL, and a configuration or a conversion may name a Service or a URL, not both.
fn reaches_tests(object: &mut Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    if kind.ends_with("WebhookConfiguration") {
        return false;
    }
    if kind == "CustomResourceDefinition"
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("conversion");
    }
    true
}

impl Cluster {
    /// Applies an operator's manifests, and returns a handle that acts as its ServiceAccount. What runs through that
    /// handle may do only what the RBAC rules of the manifests allow.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use evenkeel_cluster::{Cluster, testing};
    /// # use evenkeel_runtime::{Action, Ctx, Controller, Manifests, Result};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # fn controller() -> Controller<ConfigMap> {
    /// #     Controller::new("mirror", |map: Arc<ConfigMap>, ctx: Ctx| async move {
    /// #         let mut secret = Secret::default();
    /// #         secret.metadata.name = map.metadata.name.clone();
    /// #         ctx.apply(secret).await?;
    /// #         Ok::<_, evenkeel_runtime::Error>(Action::await_change())
    /// #     })
    /// #     .owns::<Secret>()
    /// # }
    /// # testing::run(testing::options(), |cluster| async move {
    /// let manifests = Manifests::new("mirror", "operators").controller(&controller());
    /// let operator = cluster.install(&manifests).await?;
    /// operator.run(controller);
    /// cluster.settled().await;
    /// assert!(cluster.forbidden().is_empty());
    /// assert!(cluster.verbs("mirror").to_string().contains("secrets: create patch"));
    /// # Ok::<_, kube::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn install(&self, manifests: &Manifests) -> kube::Result<Self> {
        self.install_objects(manifests, manifests.objects()).await
    }

    /// Applies `objects`, and returns a handle that acts as the ServiceAccount of the manifests.
    pub(crate) async fn install_objects(
        &self,
        manifests: &Manifests,
        objects: Vec<Value>,
    ) -> kube::Result<Self> {
        for mut object in objects {
            if self.is_remote() && !reaches_tests(&mut object) {
                continue;
            }
            self.install_object(object).await?;
        }
        let (namespace, name) = (manifests.namespace(), manifests.name());
        let groups = [
            "system:serviceaccounts",
            &format!("system:serviceaccounts:{namespace}"),
            "system:authenticated",
        ];
        Ok(self.acting_as(User::new(format!("system:serviceaccount:{namespace}:{name}"), groups)))
    }

    async fn install_object(&self, object: Value) -> kube::Result<()> {
        let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let gvk = object.types.as_ref().and_then(|types| GroupVersionKind::try_from(types).ok());
        let resource = ApiResource::from_gvk(&gvk.unwrap_or_else(|| GroupVersionKind::gvk("", "v1", "")));
        let name = object.metadata.name.clone().unwrap_or_default();
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client(), namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object)).await?;
        if resource.kind == "CustomResourceDefinition" {
            self.established(&name).await;
        }
        Ok(())
    }

    /// The verbs that an operator has used so far, for [`Manifests::verbs`]. `by` is the name that it runs under.
    pub fn verbs(&self, by: &str) -> Verbs {
        let mut verbs = Verbs::default();
        for request in self.requests().iter().filter(|request| &*request.by == by) {
            verbs.record(&request.method, &request.path);
            // An apply that creates its object needs both `patch` and `create`.
            if matches!(request.outcome, Outcome::Answered { status: 201, .. })
                && request.method == Method::PATCH
                && let Some(target) = request.target()
            {
                verbs.record(&Method::POST, &target.collection_path());
            }
        }
        verbs
    }

    /// Every request that was refused with status 403.
    pub fn forbidden(&self) -> Vec<Exchange> {
        let refused = |request: &Exchange| matches!(request.outcome, Outcome::Answered { status: 403, .. });
        self.requests().into_iter().filter(refused).collect()
    }
}
