//! The smallest operator that is worth copying: a `MyResource` becomes a Deployment.
//!
//! The Deployment is applied server-side and owned by its `MyResource`: whatever else changes it is put right, and it
//! goes when its owner goes. The status of the `MyResource` follows that of the Deployment.

mod resource;

use std::sync::Arc;

use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::{Action, Context, Controller, Result};

pub use resource::{MyResource, MyResourceSpec, MyResourceStatus, Phase, deployment_for, status_of};

/// The controller: it wakes for every change of a `MyResource` and of a Deployment that one owns.
pub fn controller() -> Controller<MyResource> {
    Controller::new("my-resource", reconcile).owns::<Deployment>()
}

async fn reconcile(my: Arc<MyResource>, ctx: Context) -> Result<Action> {
    let deployment = ctx.apply(deployment_for(&my)).await?;
    ctx.status(&*my, status_of(&my, &deployment)).await?;
    Ok(Action::done())
}
