//! The smallest operator that is worth copying: it creates a Deployment for each `MyResource`.
//!
//! The Deployment is written by server-side apply and owned by its `MyResource`. The operator corrects changes that
//! others make to it, and the garbage collector deletes it with its owner. The status of the `MyResource` follows that
//! of the Deployment.

mod resource;

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::cli::Operator;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::prelude::*;

pub use resource::{MyResource, MyResourceSpec, MyResourceStatus, Phase, deployment_for, status_of};

/// The name of the operator and of its controller.
pub const NAME: &str = "my-resource";

/// A sample `MyResource`.
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

evenkeel::kinds! {
    /// The kinds of the controller of `MyResource`s.
    pub struct MyResourceKinds for MyResource {
        owns Deployment,
    }
}

/// The controller. It reconciles a `MyResource` whenever it or its Deployment changes.
pub fn controller() -> Controller<MyResource> {
    Controller::new(NAME, reconcile)
}

async fn reconcile(my: Arc<MyResource>, ctx: Ctx<(), MyResourceKinds>) -> Result<Action> {
    match ctx.apply(deployment_for(&my)).await {
        Ok(deployment) => ctx.status(&my, status_of(&my, &deployment)).await?,
        // A retry does not help with a bad spec: show the reason, and wait for the next change of the spec.
        Err(error) if error.is_invalid() => {
            ctx.status(&my, MyResourceStatus::refused(&my, &error)).await?;
            return Err(error.terminal().into());
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Action::await_change())
}
