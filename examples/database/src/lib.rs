//! An operator with everything that a real one needs: a `Database` becomes a StatefulSet, a headless Service and a
//! Secret.
//!
//! - Create if missing, update if different, nothing if equal: see [`ensure`](mod@ensure).
//! - The password is generated once and never changed.
//! - A finalizer takes a last backup before the servers go; while that fails, the database stays.
//! - What a retry can heal is retried; what it cannot is shown in the condition `Accepted`, and waits for the user.

mod backup;
mod children;
pub mod ensure;
mod resource;

use std::sync::Arc;

use evenkeel::cli::Operator;
use evenkeel::conditions::Set;
use evenkeel::finalizer::Phase as Life;
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::{Secret, Service};
use evenkeel::kube::{CustomResourceExt as _, ResourceExt};
use evenkeel::{Action, Context, Controller, Result};

pub use backup::{Backup, BackupError, NoBackup};
pub use children::{PASSWORD, Unsupported};
pub use resource::{Database, DatabaseSpec, DatabaseStatus, Phase};

use ensure::ensure;

/// The name of the operator and of its controller.
pub const NAME: &str = "database";

/// A database to try it with.
pub const SAMPLE: &str = include_str!("../samples/orders.yaml");

/// The finalizer that keeps a database until its last backup is taken.
pub const FINALIZER: &str = "example.com/last-backup";

/// How long a generated password is: 24 characters of 27 carry more than 100 bits.
const PASSWORD_LENGTH: usize = 24;

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new(NAME, |manager| manager.controller(controller(Arc::new(NoBackup))))
        .about("Runs PostgreSQL for each Database.")
        .crd(Database::crd())
        .samples(SAMPLE)
}

/// The controller, with the place where backups go.
pub fn controller<B: Backup>(backup: Arc<B>) -> Controller<Database> {
    Controller::new(NAME, reconcile::<B>)
        .owns::<StatefulSet>()
        .owns::<Service>()
        .owns::<Secret>()
        .shared_state(backup)
}

async fn reconcile<B: Backup>(database: Arc<Database>, ctx: Context<B>) -> Result<Action> {
    ctx.finalizer(&*database, FINALIZER, |life| live(life, &database, &ctx)).await
}

async fn live<B: Backup>(life: Life, database: &Database, ctx: &Context<B>) -> Result<Action> {
    match life {
        Life::Apply => converge(database, ctx).await,
        Life::Cleanup => {
            ctx.state().take(&database.name_any()).await?;
            Ok(Action::done())
        }
    }
}

/// Brings the children to what the spec asks for, then says in the status how far they are.
async fn converge<B: Backup>(database: &Database, ctx: &Context<B>) -> Result<Action> {
    let image = match children::image(database) {
        Ok(image) => image,
        Err(unsupported) => return reject(database, ctx, unsupported).await,
    };
    if ctx.get::<Secret>(&database.name_any())?.is_none() {
        let password = ctx.env().suffix(PASSWORD_LENGTH);
        ctx.get_or_create(children::secret(database, &password)).await?;
    }
    ensure(ctx, children::service(database)).await?;
    let servers = ensure(ctx, children::stateful_set(database, &image)).await?;
    ctx.status(database, status(database, ctx, &servers)).await?;
    Ok(Action::done())
}

/// No retry can help: the user is told, and the next change of the spec is waited for. What runs goes on running.
async fn reject<B: Backup>(
    database: &Database,
    ctx: &Context<B>,
    unsupported: Unsupported,
) -> Result<Action> {
    let mut status = database.status.clone().unwrap_or_default();
    status.phase = Phase::Rejected;
    status.observed_generation = database.metadata.generation;
    let accepted = Set::new("Accepted", false, "Unsupported", unsupported.0).observed(database);
    ctx.condition(&mut status.conditions, accepted);
    ctx.status(database, status).await?;
    Ok(Action::done())
}

fn status<B: Backup>(database: &Database, ctx: &Context<B>, servers: &StatefulSet) -> DatabaseStatus {
    let wanted = database.spec.replicas;
    let observed = servers.status.as_ref().filter(|status| {
        status.observed_generation == servers.metadata.generation
            && status.update_revision == status.current_revision
    });
    let ready = servers.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let running = observed.is_some() && ready == wanted;

    let mut conditions = database.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let accepted = Set::new("Accepted", true, "Valid", "the spec can be carried out").observed(database);
    ctx.condition(&mut conditions, accepted);
    let reason = if running { "ServersReady" } else { "ServersStarting" };
    let message = format!("{ready} of {wanted} servers are ready");
    ctx.condition(&mut conditions, Set::new("Ready", running, reason, message).observed(database));

    DatabaseStatus {
        phase: if running { Phase::Running } else { Phase::Creating },
        ready_replicas: ready,
        endpoint: Some(children::endpoint(database)),
        observed_generation: database.metadata.generation,
        conditions,
    }
}
