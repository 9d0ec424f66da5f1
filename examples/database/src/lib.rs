//! An operator with everything that a real one needs. For each `Database` it creates a StatefulSet, a headless Service
//! and a Secret.
//!
//! - Create if missing, update if different, nothing if equal: see [`ensure`](mod@ensure).
//! - The password is generated once and never changed.
//! - Storage grows: see the module `storage`.
//! - Temporary errors are retried with backoff. Permanent ones ([`Rejection`]) are shown in the condition `Accepted`,
//!   and the operator waits for the user.
//! - Webhooks refuse what cannot be done, with the fields that are wrong, and note who asked for a database: see the
//!   module `admission`.
//! - A database has two versions, and nothing gets lost between them: see [`v2`].
//! - A finalizer takes a last backup before the servers and their storage are deleted. While that fails, the database
//!   stays. The backup comes from the application itself, over HTTP and by `exec`: see [`Dump`].

mod admission;
mod backup;
mod children;
pub mod ensure;
mod network;
mod rejection;
mod resource;
mod storage;
pub mod v2;

use std::sync::Arc;

use evenkeel::cli::Operator;
use evenkeel::conditions::NewCondition;
use evenkeel::finalizer::Phase as Life;
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, Service};
use evenkeel::prelude::*;
use evenkeel::webhook::{Conversion, Webhook};
use evenkeel::{Index, Request, Result, Source};

pub use admission::REQUESTED_BY;
pub use backup::{Backup, BackupError, Dump, Http, NoBackup, Place};
pub use children::PASSWORD;
pub use network::Folder;
pub use rejection::Rejection;
pub use resource::{Database, DatabaseSpec, DatabaseStatus, Phase};

use ensure::ensure;
use rejection::Failure;
use storage::Storage;

/// The name of the operator and of its controller.
pub const NAME: &str = "database";

/// A sample `Database`.
pub const SAMPLE: &str = include_str!("../samples/orders.yaml");

/// The finalizer that keeps a database until its last backup is taken.
pub const FINALIZER: &str = "example.com/last-backup";

/// The environment variable that names the folder for last backups. Without it, none are taken.
pub const BACKUPS: &str = "DATABASE_BACKUPS";

/// The length of a generated password: 24 characters from an alphabet of 27 have more than 100 bits.
const PASSWORD_LENGTH: usize = 24;

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new(NAME, |manager| match std::env::var_os(BACKUPS) {
        Some(folder) => add_to(manager, Arc::new(Dump::new(network::http(), Folder::new(folder)))),
        None => add_to(manager, Arc::new(NoBackup)),
    })
    .version(env!("CARGO_PKG_VERSION"))
    .about("Runs PostgreSQL for each Database.")
    .crd(v2::definition())
    .samples(SAMPLE)
    .verbs(include_str!("../verbs.txt"))
}

/// Adds the controller, its webhooks and the conversion between the versions to a manager. `backup` takes the last backups.
pub fn add_to<B: Backup>(manager: Manager, backup: Arc<B>) -> Manager {
    add_webhooks(manager.controller(controller(backup)), v2::conversion())
}

/// Adds the webhooks and this conversion to a manager.
pub fn add_webhooks(manager: Manager, conversion: Conversion<Database>) -> Manager {
    manager
        .webhook(Webhook::mutate(admission::note_requester))
        .webhook(Webhook::validate(admission::check))
        .conversion(conversion)
}

evenkeel::kinds! {
    /// The kinds of the controller of databases.
    pub struct DatabaseKinds for Database {
        owns StatefulSet,
        owns Service,
        owns Secret,
        watches PersistentVolumeClaim,
    }
}

/// The context of the controller's functions.
type Ctx<B> = evenkeel::Ctx<B, DatabaseKinds>;

/// The controller. `backup` takes the last backups.
pub fn controller<B: Backup>(backup: Arc<B>) -> Controller<Database> {
    // The StatefulSet creates the claims, so they have no owner reference to the database. Their label relates them to
    // it.
    let by_database = Index::new(storage::BY_DATABASE, |claim: &PersistentVolumeClaim| {
        storage::database_of(claim).iter().map(Request::to_string).collect()
    });
    let claims = Source::<PersistentVolumeClaim>::new().labels(children::LABEL).index(by_database);
    Controller::new(NAME, reconcile::<B>)
        // Changes of the status and the finalizer come from this operator, and need no reconcile.
        .filter(Predicate::generation_changed())
        .watches_with(claims, Trigger::map(storage::database_of))
        .state(backup)
}

async fn reconcile<B: Backup>(database: Arc<Database>, ctx: Ctx<B>) -> Result<Action> {
    Ok(ctx.finalizer(&database, FINALIZER, |life| live(life, &database, &ctx)).await?)
}

async fn live<B: Backup>(life: Life, database: &Database, ctx: &Ctx<B>) -> Result<Action> {
    match life {
        Life::Apply => converge(database, ctx).await,
        Life::Cleanup => clean_up(database, ctx).await,
    }
}

/// Creates and updates the children, and then writes their progress to the status.
async fn converge<B: Backup>(database: &Database, ctx: &Ctx<B>) -> Result<Action> {
    match bring_about(database, ctx).await {
        Ok(servers) => {
            ctx.status(database, status(database, ctx, servers.as_deref())).await?;
            Ok(Action::await_change())
        }
        Err(Failure::Rejected(rejection)) => reject(database, ctx, rejection).await,
        Err(Failure::Transient(error)) => Err(error.into()),
    }
}

/// Takes the steps from the current to the desired state. Returns the StatefulSet, unless it is being replaced.
async fn bring_about<B: Backup>(
    database: &Database,
    ctx: &Ctx<B>,
) -> Result<Option<Arc<StatefulSet>>, Failure> {
    let image = children::image(database)?;
    let name = database.name_any();
    match ctx.get::<Secret>(&name)? {
        Some(secret) => keep_name(database, &secret)?,
        None => {
            let password = ctx.env().suffix(PASSWORD_LENGTH);
            ctx.get_or_create(children::secret(database, &password)).await?;
        }
    }
    if let Some(servers) = ctx.get::<StatefulSet>(&name)? {
        keep_class(database, &servers)?;
    }
    ensure(ctx, children::service(database)).await?;
    match storage::grow(database, ctx).await? {
        Storage::Growing => Ok(None),
        Storage::Fits => Ok(Some(ensure(ctx, children::stateful_set(database, &image)).await?)),
    }
}

/// Rejects a change of the database's name, which takes effect only at the first start. The Secret holds the name.
fn keep_name(database: &Database, secret: &Secret) -> Result<(), Rejection> {
    let made_with = secret.data.as_ref().and_then(|data| data.get(children::DATABASE_NAME));
    match made_with.map(|name| String::from_utf8_lossy(&name.0)) {
        Some(was) if was != database.spec.database_name => Err(Rejection::Immutable {
            field: "databaseName",
            was: was.into_owned(),
            wanted: database.spec.database_name.clone(),
        }),
        _ => Ok(()),
    }
}

/// Rejects a change of the StorageClass: the data cannot move to storage of another class.
fn keep_class(database: &Database, servers: &StatefulSet) -> Result<(), Rejection> {
    let (was, wanted) = (storage::class(servers), database.spec.storage_class.as_deref());
    match was == wanted {
        true => Ok(()),
        false => {
            let text = |class: Option<&str>| class.unwrap_or("the default").to_owned();
            Err(Rejection::Immutable { field: "storageClass", was: text(was), wanted: text(wanted) })
        }
    }
}

/// Shows the rejection in the status, and waits for the next change of the spec. The servers keep running.
async fn reject<B: Backup>(database: &Database, ctx: &Ctx<B>, rejection: Rejection) -> Result<Action> {
    let mut status = database.status.clone().unwrap_or_default();
    status.phase = Phase::Rejected;
    status.observed_generation = database.metadata.generation;
    let accepted =
        NewCondition::new("Accepted", false, rejection.reason(), rejection.to_string()).observed(database);
    if ctx.set_condition(&mut status.conditions, accepted) {
        ctx.warning(database, rejection.reason(), rejection.to_string());
    }
    ctx.status(database, status).await?;
    Err(rejection.terminal().into())
}

fn status<B: Backup>(database: &Database, ctx: &Ctx<B>, servers: Option<&StatefulSet>) -> DatabaseStatus {
    let wanted = database.spec.replicas;
    let ready = servers.and_then(|servers| servers.status.as_ref()?.ready_replicas).unwrap_or(0);
    let phase = match servers {
        None => Phase::Growing,
        Some(servers) if servers.is_rolled_out() => Phase::Running,
        Some(_) => Phase::Creating,
    };
    let mut conditions = database.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let accepted =
        NewCondition::new("Accepted", true, "Valid", "the spec can be carried out").observed(database);
    ctx.set_condition(&mut conditions, accepted);
    let (reason, message) = match phase {
        Phase::Growing => ("StorageGrowing", "the storage grows".to_owned()),
        Phase::Running => ("ServersReady", format!("{ready} of {wanted} servers are ready")),
        _ => ("ServersStarting", format!("{ready} of {wanted} servers are ready")),
    };
    let ready_condition =
        NewCondition::new("Ready", phase == Phase::Running, reason, message).observed(database);
    ctx.set_condition(&mut conditions, ready_condition);
    DatabaseStatus {
        phase,
        ready_replicas: ready,
        endpoint: Some(children::endpoint(database)),
        observed_generation: database.metadata.generation,
        conditions,
    }
}

/// Takes the last backup, and then deletes the claims. A StatefulSet leaves its claims behind, and a new database of
/// the same name would find data that is protected by a lost password. They are read from the API server: nobody would
/// delete a claim that the cache does not show yet once the finalizer is gone.
async fn clean_up<B: Backup>(database: &Database, ctx: &Ctx<B>) -> Result<Action> {
    ctx.state().take(ctx.client(), database).await?;
    for claim in storage::live_claims(database, ctx).await? {
        if claim.metadata.deletion_timestamp.is_none() {
            ctx.delete(&claim).await?;
        }
    }
    Ok(Action::await_change())
}
