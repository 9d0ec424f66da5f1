//! A ClusterRole whose rules are parsed only when they are aggregated.
//!
//! Every cluster starts with dozens of ClusterRoles with long lists of rules, and few of them are ever aggregated. So the
//! rules stay JSON text until they are needed, and managed fields are dropped.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// A ClusterRole whose rules are JSON text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LazyClusterRole {
    #[serde(deserialize_with = "essentials")]
    metadata: ObjectMeta,
    pub(super) aggregation_rule: Option<AggregationRule>,
    rules: Option<Box<RawValue>>,
}

impl LazyClusterRole {
    /// Parses the rules.
    pub(super) fn rules(&self) -> serde_json::Result<Vec<PolicyRule>> {
        self.rules.as_ref().map_or_else(|| Ok(Vec::new()), |text| serde_json::from_str(text.get()))
    }
}

impl Resource for LazyClusterRole {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        ClusterRole::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        ClusterRole::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        ClusterRole::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        ClusterRole::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The metadata that the garbage collector and the aggregation read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Essentials {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<Time>,
}

fn essentials<'de, D: Deserializer<'de>>(metadata: D) -> Result<ObjectMeta, D::Error> {
    let it = Essentials::deserialize(metadata)?;
    Ok(ObjectMeta {
        name: it.name,
        uid: it.uid,
        resource_version: it.resource_version,
        labels: it.labels,
        owner_references: it.owner_references,
        finalizers: it.finalizers,
        deletion_timestamp: it.deletion_timestamp,
        ..ObjectMeta::default()
    })
}
