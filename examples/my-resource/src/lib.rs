//! The smallest operator that is worth copying: a `MyResource` becomes a Deployment.
//!
//! The Deployment is applied server-side and owned by its `MyResource`: whatever else changes it is put right, and it
//! goes when its owner goes. The status of the `MyResource` follows that of the Deployment.

mod resource;

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::cli::Operator;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::prelude::*;

pub use resource::{MyResource, MyResourceSpec, MyResourceStatus, Phase, deployment_for, status_of};

/// The name of the operator and of its controller.
pub const NAME: &str = "my-resource";

/// A resource to try it with.
pub const SAMPLE: &str = include_str!("../samples/web.yaml");

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new(NAME, |manager| manager.controller(controller()))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs a Deployment for each MyResource.")
        .crd(MyResource::crd())
        .samples(SAMPLE)
        .verbs(include_str!("../verbs.txt"))
}

/// The controller: it wakes for every change of a `MyResource` and of a Deployment that one owns.
pub fn controller() -> Controller<MyResource> {
    Controller::new(NAME, reconcile).owns::<Deployment>()
}

async fn reconcile(my: Arc<MyResource>, ctx: Ctx) -> Result<Action> {
    match ctx.apply(deployment_for(&my)).await {
        Ok(deployment) => ctx.status(&my, status_of(&my, &deployment)).await?,
        // No retry makes a good Deployment of a bad spec: say why, and wait for the next change of the spec.
        Err(error) if error.is_invalid() => {
            ctx.status(&my, MyResourceStatus::refused(&my, &error)).await?;
            return Err(error.terminal().into());
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Action::await_change())
}
