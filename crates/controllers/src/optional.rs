//! Fields that `k8s-openapi` has as required for some Kubernetes versions, and as optional for others.
//!
//! Whoever builds the final program chooses the version, and the controllers must not mind which. So they read such a
//! field as one that may be missing, and write it as one that is there; the conversions of the standard library fit both.
//! They are made here, in one place, and generic where the lints would find them useless in the one version that they see.

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet,
    StatefulSetSpec,
};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec};

/// What has a spec, which may be missing.
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

/// The spec of a ReplicaSet, to be changed.
pub(crate) fn spec_mut(set: &mut ReplicaSet) -> Option<&mut ReplicaSetSpec> {
    (&mut set.spec).into()
}

/// A text; empty where it is missing.
pub(crate) fn text<'a, F>(field: &'a F) -> &'a str
where
    &'a F: Into<Option<&'a String>>,
{
    field.into().map_or("", String::as_str)
}

/// A number; zero where it is missing.
pub(crate) fn number(field: impl Into<Option<i64>>) -> i64 {
    field.into().unwrap_or(0)
}

/// A value as its field wants it.
pub(crate) fn given<T, F: From<T>>(value: T) -> F {
    value.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_reads_the_same_in_either_form() {
        assert_eq!(text(&"True".to_owned()), text(&Some("True".to_owned())));
        assert_eq!(text(&None::<String>), "");
        assert_eq!((number(3), number(Some(3)), number(None)), (3, 3, 0));
    }

    #[test]
    fn a_value_is_written_in_either_form() {
        let (required, optional): (i64, Option<i64>) = (given(3), given(3));
        assert_eq!((required, optional), (3, Some(3)));
    }
}
