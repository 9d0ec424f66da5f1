//! Assertions on objects and writes that show a readable difference.

use std::fmt::Debug;
use std::panic::Location;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::diff::{Diff, Mode};
use super::objects::ApiScope;
use crate::cluster::Cluster;
use crate::transport::Write;

/// Compares two objects field by field, and returns `None` if they are equal. `metadata.managedFields` is ignored.
///
/// ```
/// use evenkeel_cluster::testing::diff;
/// use serde_json::json;
/// let diff = diff(&json!({"spec": {"replicas": 2}}), &json!({"spec": {"replicas": 3}})).unwrap();
/// assert_eq!(diff.to_string(), "object (- expected, + found):\n  spec:\n-   replicas: 2\n+   replicas: 3\n");
/// ```
pub fn diff(expected: &impl Serialize, found: &impl Serialize) -> Option<Diff> {
    Diff::new(&value(expected), &value(found), Mode::Same)
}

/// Asserts that two objects are equal, apart from `metadata.managedFields`.
///
/// ```should_panic
/// use evenkeel_cluster::testing::assert_same;
/// # use serde_json::json;
/// let before = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "one"}});
/// let after = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "two"}});
/// assert_same(&after, &before);
/// // ConfigMap a (- expected, + found):
/// //   data:
/// // -   key: "one"
/// // +   key: "two"
/// ```
///
/// # Panics
/// Panics if the objects differ, and shows the fields that do.
#[track_caller]
pub fn assert_same(found: &impl Serialize, expected: &impl Serialize) {
    demand(Diff::new(&value(expected), &value(found), Mode::Same));
}

/// Asserts that an object has at least these fields. Other fields are ignored; a null means that the field must be
/// absent. List elements are matched by their name if they have one; other lists must have the same length.
///
/// ```
/// use evenkeel_cluster::testing::assert_has;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// let map: ConfigMap = serde_json::from_value(json!({"data": {"key": "one", "other": "two"}})).unwrap();
/// assert_has(&map, json!({"data": {"key": "one", "third": null}}));
/// ```
///
/// # Panics
/// Panics if a field differs, and shows the fields that do.
#[track_caller]
pub fn assert_has(found: &impl Serialize, expected: Value) {
    demand(Diff::new(&expected, &value(found), Mode::Has));
}

impl Cluster {
    /// Reads an object and asserts that it has at least these fields, by the rules of [`assert_has`].
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use serde_json::json;
    /// cluster.assert_has::<Namespace>("default", json!({"status": {"phase": "Active"}})).await;
    /// # });
    /// ```
    ///
    /// # Panics
    /// Panics if the object does not exist or a field differs.
    #[track_caller]
    pub fn assert_has<K>(&self, name: &str, expected: Value) -> impl Future<Output = ()> + Send + use<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
        K::Scope: ApiScope,
    {
        let (caller, cluster, name) = (Location::caller(), self.clone(), name.to_owned());
        async move {
            match cluster.get_opt::<K>(&name).await {
                Ok(Some(object)) => {
                    if let Some(diff) = Diff::new(&expected, &value(&object), Mode::Has) {
                        panic!("at {caller}: {diff}");
                    }
                }
                Ok(None) => panic!("at {caller}: {} {name} does not exist", K::kind(&())),
                Err(error) => panic!("at {caller}: cannot read {} {name}: {error}", K::kind(&())),
            }
        }
    }

    /// Asserts that no object of this kind exists in this handle's namespace.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// cluster.assert_none::<Pod>().await;
    /// # });
    /// ```
    ///
    /// # Panics
    /// Panics if there is one, and shows the names.
    #[track_caller]
    pub fn assert_none<K>(&self) -> impl Future<Output = ()> + Send + use<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
        K::Scope: ApiScope,
    {
        let (caller, cluster) = (Location::caller(), self.clone());
        async move {
            let kind = K::kind(&());
            match cluster.list::<K>().await {
                Ok(left) if left.is_empty() => {}
                Ok(left) => {
                    let names: Vec<_> = left.iter().map(kube::ResourceExt::name_any).collect();
                    panic!("at {caller}: {} objects of kind {kind} exist: {}", names.len(), names.join(", "));
                }
                Err(error) => panic!("at {caller}: cannot list {kind}: {error}"),
            }
        }
    }

    /// Asserts that no client has changed an object since the last [`Cluster::mark`], for example in a second
    /// reconcile. Renewals of leases, by which nodes and leaders report that they are alive, do not count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// cluster.settled().await;
    /// cluster.mark();
    /// cluster.advance(Duration::from_secs(1000)).await;
    /// cluster.assert_no_writes();
    /// # });
    /// ```
    ///
    /// # Panics
    /// Panics if there were writes, and lists them with the clients that sent them.
    #[track_caller]
    pub fn assert_no_writes(&self) {
        demand_none(self.writes().iter().filter(|write| !is_renewal(write)));
    }

    /// Asserts that one client has changed no object since the last [`Cluster::mark`]. `by` is the client's name, such
    /// as the name of an operator. Renewals of its lease do not count.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// cluster.mark();
    /// cluster.settled().await;
    /// cluster.assert_no_writes_by("my-operator");
    /// # });
    /// ```
    ///
    /// # Panics
    /// Panics if there were writes, and lists them.
    #[track_caller]
    pub fn assert_no_writes_by(&self, by: &str) {
        demand_none(self.writes().iter().filter(|write| &*write.by == by && !is_renewal(write)));
    }
}

/// Whether a write renews a lease. Creating and deleting a lease do not count as renewals.
fn is_renewal(write: &Write) -> bool {
    let lease = write.path.starts_with("/apis/coordination.k8s.io/") && write.path.contains("/leases/");
    lease && write.method != http::Method::DELETE
}

#[track_caller]
fn demand_none<'a>(writes: impl Iterator<Item = &'a Write>) {
    let lines: Vec<String> = writes.map(|write| format!("  {write}")).collect();
    if !lines.is_empty() {
        panic!("{} writes since the mark, but none were expected:\n{}", lines.len(), lines.join("\n"));
    }
}

#[track_caller]
fn demand(diff: Option<Diff>) {
    if let Some(diff) = diff {
        panic!("{diff}");
    }
}

/// The object as JSON, without `metadata.managedFields`.
fn value(object: &impl Serialize) -> Value {
    let mut value = match serde_json::to_value(object) {
        Ok(value) => value,
        Err(error) => panic!("the object cannot be written as JSON: {error}"),
    };
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value
}
