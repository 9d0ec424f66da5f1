//! Fields that are required in some Kubernetes versions of `k8s-openapi` and optional in others.
//!
//! The final program chooses the version, and the controllers must compile with every one. So they read such a field as an
//! optional one and write it as a required one, with conversions that fit both. The conversions are generic because clippy
//! would report concrete ones as useless in the version that it sees.

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet,
    StatefulSetSpec,
};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec};

/// A kind with a spec that may be missing.
pub(crate) trait HasSpec {
    type Spec;

    fn spec(&self) -> Option<&Self::Spec>;
}

impl HasSpec for CronJob {
    type Spec = CronJobSpec;

    fn spec(&self) -> Option<&CronJobSpec> {
        (&self.spec).into()
    }
}

impl HasSpec for DaemonSet {
    type Spec = DaemonSetSpec;

    fn spec(&self) -> Option<&DaemonSetSpec> {
        (&self.spec).into()
    }
}

impl HasSpec for Deployment {
    type Spec = DeploymentSpec;

    fn spec(&self) -> Option<&DeploymentSpec> {
        (&self.spec).into()
    }
}

impl HasSpec for HorizontalPodAutoscaler {
    type Spec = HorizontalPodAutoscalerSpec;

    fn spec(&self) -> Option<&HorizontalPodAutoscalerSpec> {
        (&self.spec).into()
    }
}

impl HasSpec for ReplicaSet {
    type Spec = ReplicaSetSpec;

    fn spec(&self) -> Option<&ReplicaSetSpec> {
        (&self.spec).into()
    }
}

impl HasSpec for StatefulSet {
    type Spec = StatefulSetSpec;

    fn spec(&self) -> Option<&StatefulSetSpec> {
        (&self.spec).into()
    }
}

/// Returns the spec of a ReplicaSet for changes.
pub(crate) fn spec_mut(set: &mut ReplicaSet) -> Option<&mut ReplicaSetSpec> {
    (&mut set.spec).into()
}

/// Reads a string field; empty if it is missing.
pub(crate) fn str_or_empty<'a, F>(field: &'a F) -> &'a str
where
    &'a F: Into<Option<&'a String>>,
{
    field.into().map_or("", String::as_str)
}

/// Reads an integer field; zero if it is missing.
pub(crate) fn i64_or_zero(field: impl Into<Option<i64>>) -> i64 {
    field.into().unwrap_or(0)
}

/// Converts a value to the type of its field.
pub(crate) fn into_field<T, F: From<T>>(value: T) -> F {
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_reads_the_same_in_either_form() {
        assert_eq!(str_or_empty(&"True".to_owned()), str_or_empty(&Some("True".to_owned())));
        assert_eq!(str_or_empty(&None::<String>), "");
        assert_eq!((i64_or_zero(3), i64_or_zero(Some(3)), i64_or_zero(None)), (3, 3, 0));
    }

    #[test]
    fn a_value_is_written_in_either_form() {
        let (required, optional): (i64, Option<i64>) = (into_field(3), into_field(3));
        assert_eq!((required, optional), (3, Some(3)));
    }
}
