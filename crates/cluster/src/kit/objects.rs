//! The short way to objects: what a test does most.

use std::fmt::Debug;

use evenkeel_runtime::yaml::{self, YamlError};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::Cluster;

/// The field manager of what the test kit applies.
const FIELD_MANAGER: &str = "test";

/// Where objects of a kind live: in a namespace, or in the cluster as a whole.
pub trait ApiScope: Sized {
    /// The API of such a kind; `namespace` counts where the kind has one.
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
    /// The API of a kind, in this handle's namespace where the kind has one.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
        K::Scope: ApiScope,
    {
        K::Scope::api(self.client(), self.namespace())
    }

    /// Applies an object (server-side, as field manager `test`), in its own namespace where it names one.
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
        let applied =
            api.patch(&object.name_any(), &PatchParams::apply(FIELD_MANAGER).force(), &patch).await?;
        if self.is_remote() && K::kind(&()) == "CustomResourceDefinition" {
            // A definition is served a moment later than it is accepted; the cluster of this process is faster.
            self.established(&object.name_any()).await;
        }
        Ok(applied)
    }

    /// Applies every document of a YAML text, in its own namespace where it names one; gives what the server made of
    /// them.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<Vec<DynamicObject>, YamlError> {
        yaml::apply(&self.client(), self.namespace(), FIELD_MANAGER, yaml).await
    }

    /// Reads an object; that it does not exist is an error.
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
        self.api::<K>().get(name).await
    }

    /// Reads an object, if it exists.
    pub async fn get_opt<K>(&self, name: &str) -> kube::Result<Option<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        self.api::<K>().get_opt(name).await
    }

    /// All objects of a kind, in this handle's namespace where the kind has one.
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
        Ok(self.api::<K>().list(&ListParams::default()).await?.items)
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
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Changes an object's status by a merge patch.
    pub async fn patch_status<K>(&self, name: &str, patch: Value) -> kube::Result<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        self.api::<K>().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Asks for an object's deletion. Finalizers may keep it for a while.
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
        self.api::<K>().delete(name, &DeleteParams::default()).await.map(|_| ())
    }

    /// The events that controllers have recorded in this handle's namespace.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// assert!(cluster.events().await?.is_empty(), "nobody has anything to say yet");
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub async fn events(&self) -> kube::Result<Vec<Event>> {
        self.list::<Event>().await
    }
}

/// The object as JSON with its kind, which an apply must name.
fn with_type<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> kube::Result<Value> {
    let mut value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    value["apiVersion"] = K::api_version(&()).into_owned().into();
    value["kind"] = K::kind(&()).into_owned().into();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(value)
}
