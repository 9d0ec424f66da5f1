//! A ClusterRole as far as sums are concerned.
//!
//! Every cluster begins with dozens of them, with long lists of rules, of which few are ever part of a sum: their text
//! is kept, and read when it is summed. Who manages which field is nobody's concern here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::ClusterResourceScope;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// It.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Role {
    #[serde(deserialize_with = "essentials")]
    metadata: ObjectMeta,
    pub(super) aggregation_rule: Option<AggregationRule>,
    rules: Option<Box<RawValue>>,
}

impl Role {
    /// What it allows.
    pub(super) fn rules(&self) -> serde_json::Result<Vec<PolicyRule>> {
        self.rules.as_ref().map_or_else(|| Ok(Vec::new()), |text| serde_json::from_str(text.get()))
    }
}

impl Resource for Role {
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

/// What the garbage collector and sums look at.
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
