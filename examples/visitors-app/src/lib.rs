//! An operator of a site with three tiers: for each `VisitorsApp` it creates a MySQL database, backends and a frontend.
//!
//! - A tier is created when the one below it is ready. Until then the reconcile writes that to the status and returns;
//!   it never blocks, so that a slow site does not delay others.
//! - The finalizer [`FINALIZER`] removes the uploads, which are outside of the cluster, before the site is deleted.
//!   While that fails, the site stays, and its status shows the reason.

mod resource;
mod tiers;
mod uploads;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::cli::Operator;
use evenkeel::conditions::{self, NewCondition};
use evenkeel::finalizer::Phase;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{Secret, Service};
use evenkeel::prelude::*;
use evenkeel::{ContextError, Result};

pub use resource::{VisitorsApp, VisitorsAppSpec, VisitorsAppStatus};
pub use uploads::{NoUploads, Uploads, UploadsError};

use tiers::Tier;

/// The name of the operator and of its controller.
pub const NAME: &str = "visitors-app";

/// A sample `VisitorsApp`.
pub const SAMPLE: &str = include_str!("../samples/guestbook.yaml");

/// The finalizer that keeps an app until its uploads are removed.
pub const FINALIZER: &str = "visitors.example.com/finalizer";

/// The length of a generated password: 24 characters from an alphabet of 27 have more than 100 bits.
const PASSWORD_LENGTH: usize = 24;

/// When an app that waits for a tier is reconciled again, if no change of the tier triggers it earlier.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new(NAME, |manager| manager.controller(controller(Arc::new(NoUploads))))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs a site of three tiers for each VisitorsApp.")
        .crd(VisitorsApp::crd())
        .samples(SAMPLE)
        .verbs(include_str!("../verbs.txt"))
}

evenkeel::kinds! {
    /// The kinds of the controller of apps.
    pub struct VisitorsAppKinds for VisitorsApp {
        owns Deployment,
        owns Service,
        owns Secret,
    }
}

/// The context of the controller's functions.
type Ctx<U> = evenkeel::Ctx<U, VisitorsAppKinds>;

/// The controller. `uploads` removes the uploads of deleted apps.
pub fn controller<U: Uploads>(uploads: Arc<U>) -> Controller<VisitorsApp> {
    Controller::new(NAME, reconcile::<U>).state(uploads)
}

async fn reconcile<U: Uploads>(app: Arc<VisitorsApp>, ctx: Ctx<U>) -> Result<Action> {
    Ok(ctx.finalizer(&app, FINALIZER, |phase| live(phase, &app, &ctx)).await?)
}

async fn live<U: Uploads>(phase: Phase, app: &VisitorsApp, ctx: &Ctx<U>) -> Result<Action> {
    match phase {
        Phase::Apply => converge(app, ctx).await,
        Phase::Cleanup => clean_up(app, ctx).await,
    }
}

/// Applies the tiers as far as possible, and then writes their progress to the status.
async fn converge<U: Uploads>(app: &VisitorsApp, ctx: &Ctx<U>) -> Result<Action> {
    let mut status = app.status.clone().unwrap_or_default();
    status.observed_generation = app.metadata.generation;
    match raise(app, ctx, &mut status).await {
        Ok(()) => {}
        // A retry does not help with a bad spec: show the reason, and wait for the next change of the spec.
        Err(error) if error.is_invalid() => {
            ctx.set_condition(
                &mut status.conditions,
                NewCondition::new("Ready", false, "Refused", error.to_string()),
            );
            ctx.status(app, status).await?;
            return Err(error.terminal().into());
        }
        Err(error) => return Err(error.into()),
    }
    let missing = |tier: &Tier| !conditions::is_true(&status.conditions, tier.condition());
    let ready = match Tier::IN_ORDER.into_iter().find(missing) {
        None => NewCondition::new("Ready", true, "AllTiersReady", "the site is served"),
        Some(tier) => {
            NewCondition::new("Ready", false, "TierNotReady", format!("{} is not ready", tier.name(app)))
        }
    };
    let waits = !conditions::is_true(&status.conditions, Tier::Frontend.condition());
    ctx.set_condition(&mut status.conditions, ready.observed(app));
    ctx.status(app, status).await?;
    Ok(if waits { Action::requeue(LOOK_AGAIN) } else { Action::await_change() })
}

/// Applies the tiers from the database up. A new tier waits until the one below it is ready. An existing tier is always
/// applied, even if the one below it is not ready.
async fn raise<U: Uploads>(
    app: &VisitorsApp,
    ctx: &Ctx<U>,
    status: &mut VisitorsAppStatus,
) -> Result<(), ContextError> {
    if ctx.get::<Secret>(&Tier::Database.name(app))?.is_none() {
        let password = ctx.env().suffix(PASSWORD_LENGTH);
        ctx.get_or_create(tiers::secret(app, &password)).await?;
    }
    let mut below_is_ready = true;
    for tier in Tier::IN_ORDER {
        let name = tier.name(app);
        let condition = if !below_is_ready && ctx.get::<Deployment>(&name)?.is_none() {
            NewCondition::new(
                tier.condition(),
                false,
                "Waiting",
                format!("{name} waits for the tier below it"),
            )
        } else {
            ctx.apply(tiers::service(app, tier)).await?;
            let deployment = ctx.apply(tiers::deployment(app, tier)).await?;
            below_is_ready = deployment.is_rolled_out();
            match tier {
                Tier::Database => {}
                Tier::Backend => status.backend_image = Some(tier.image().to_owned()),
                Tier::Frontend => status.frontend_image = Some(tier.image().to_owned()),
            }
            let reason = if below_is_ready { "RolledOut" } else { "RollingOut" };
            NewCondition::new(
                tier.condition(),
                below_is_ready,
                reason,
                format!("{name} runs {}", tier.image()),
            )
        };
        ctx.set_condition(&mut status.conditions, condition.observed(app));
    }
    Ok(())
}

/// Removes the uploads. While that fails, the finalizer stays, and the status shows the reason.
async fn clean_up<U: Uploads>(app: &VisitorsApp, ctx: &Ctx<U>) -> Result<Action> {
    let Err(error) = ctx.state().purge(&ctx.request().to_string()).await else {
        return Ok(Action::await_change());
    };
    let mut status = app.status.clone().unwrap_or_default();
    let failed = NewCondition::new("CleanedUp", false, "CleanupFailed", error.to_string()).observed(app);
    ctx.set_condition(&mut status.conditions, failed);
    ctx.status(app, status).await?;
    Err(error.into())
}
