//! Reading and writing objects.

use std::fmt::Debug;

use evenkeel_record::why::advice;
use evenkeel_runtime::yaml::{self, YamlError};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::Cluster;

/// The field manager of objects that the test kit applies.
const FIELD_MANAGER: &str = "test";

/// The scope of a kind, namespaced or cluster-wide, which decides how its [`Api`] is made.
pub trait ApiScope: Sized {
    /// The [`Api`] of a kind with this scope. A cluster-wide kind ignores `namespace`.
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K>;
}

impl ApiScope for NamespaceResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K> {
        Api::namespaced(client, namespace)
    }
}

impl ApiScope for ClusterResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, _: &str) -> Api<K> {
        Api::all(client)
    }
}

impl Cluster {
    /// The [`Api`] of a kind, in this handle's namespace if the kind is namespaced.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: ApiScope,
    {
        K::Scope::api(self.client(), self.namespace())
    }

    /// Applies an object by server-side apply, as field manager `test`. The object goes into the namespace that it
    /// names, or else into this handle's.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let settings: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "settings"}, "data": {"color": "red"}})).unwrap();
    /// let made = cluster.apply(settings.clone()).await?;
    /// let again = cluster.apply(settings).await?;
    /// assert_eq!(made.metadata.resource_version, again.metadata.resource_version, "nothing changed");
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub async fn apply<K>(&self, object: K) -> kube::Result<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        let namespace = object.namespace().unwrap_or_else(|| self.namespace().to_owned());
        let api: Api<K> = K::Scope::api(self.client(), &namespace);
        let patch = Patch::Apply(with_type(&object)?);
        let applied = api.patch(&object.name_any(), &PatchParams::apply(FIELD_MANAGER).force(), &patch).await;
        let applied = applied.map_err(advised::<K>)?;
        if self.is_remote() && K::kind(&()) == "CustomResourceDefinition" {
            // A real API server serves a new kind some time after it has accepted the definition. The embedded one
            // serves it at once.
            self.established(&object.name_any()).await;
        }
        Ok(applied)
    }

    /// Applies every document of a YAML text, and returns the objects as the server stored them. Each object goes into
    /// the namespace that it names, or else into this handle's.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<Vec<DynamicObject>, YamlError> {
        yaml::apply(&self.client(), self.namespace(), FIELD_MANAGER, yaml).await
    }

    /// Reads an object. It is an error if the object does not exist.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let settings: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "settings"}, "data": {"color": "red"}})).unwrap();
    /// cluster.apply(settings).await?;
    /// let read = cluster.get::<ConfigMap>("settings").await?;
    /// assert_eq!(read.data.unwrap()["color"], "red");
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub async fn get<K>(&self, name: &str) -> kube::Result<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        self.api::<K>().get(name).await.map_err(advised::<K>)
    }

    /// Reads an object, or returns `None` if it does not exist.
    pub async fn get_opt<K>(&self, name: &str) -> kube::Result<Option<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        self.api::<K>().get_opt(name).await.map_err(advised::<K>)
    }

    /// Lists all objects of a kind, in this handle's namespace if the kind is namespaced.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// assert!(cluster.list::<ConfigMap>().await?.is_empty());
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub async fn list<K>(&self) -> kube::Result<Vec<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        Ok(self.api::<K>().list(&ListParams::default()).await.map_err(advised::<K>)?.items)
    }

    /// Changes an object by a merge patch.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let settings: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "settings"}, "data": {"color": "red"}})).unwrap();
    /// cluster.apply(settings).await?;
    /// let patch = serde_json::json!({"data": {"color": "blue"}});
    /// let patched = cluster.patch::<ConfigMap>("settings", patch).await?;
    /// assert_eq!(patched.data.unwrap()["color"], "blue");
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub async fn patch<K>(&self, name: &str, patch: Value) -> kube::Result<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(advised::<K>)
    }

    /// Changes an object's status by a merge patch.
    pub async fn patch_status<K>(&self, name: &str, patch: Value) -> kube::Result<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        let patched = self.api::<K>().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(advised::<K>)
    }

    /// Requests the deletion of an object. The object continues to exist as long as it has finalizers.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let settings: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "settings"}, "data": {"color": "red"}})).unwrap();
    /// cluster.apply(settings).await?;
    /// cluster.delete::<ConfigMap>("settings").await?;
    /// assert!(cluster.get_opt::<ConfigMap>("settings").await?.is_none());
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub async fn delete<K>(&self, name: &str) -> kube::Result<()>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.map(|_| ()).map_err(advised::<K>)
    }

    /// Lists the Events that controllers have recorded in this handle's namespace.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// assert!(cluster.events().await?.is_empty(), "no controller has recorded an Event yet");
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub async fn events(&self) -> kube::Result<Vec<Event>> {
        self.list::<Event>().await
    }
}

/// Adds advice to an error of the API server. For a kind whose definition is not installed, the API server says only
/// `404 page not found`, so the kind is added as well.
fn advised<K: Resource<DynamicType = ()>>(error: kube::Error) -> kube::Error {
    match error {
        kube::Error::Api(mut status) if status.code == 404 => {
            let advice = advice(&status.message);
            if !advice.is_empty() {
                let kind = format!("{} {}", K::api_version(&()), K::kind(&()));
                status.message = format!("{kind}: {}{advice}", status.message);
            }
            kube::Error::Api(status)
        }
        error => error,
    }
}

/// The object as JSON, with the apiVersion and kind that an apply must name.
fn with_type<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> kube::Result<Value> {
    let mut value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    value["apiVersion"] = K::api_version(&()).into_owned().into();
    value["kind"] = K::kind(&()).into_owned().into();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(value)
}
