//! Backups: something outside of the cluster that must be done before a database is deleted.
//!
//! [`Dump`] takes the backup from the application itself, and checks every answer: a server that reports to be healthy
//! may not be, and a dump that ends with exit code 0 may be cut short.

use std::time::Duration;

use bytes::Bytes;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::api::{Api, AttachParams, AttachedProcess};
use evenkeel::prelude::*;
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use crate::{Database, children};

/// How long the server may take to answer whether it is well.
const HEALTH_LIMIT: Duration = Duration::from_secs(10);

/// How long a dump may take. A reconcile of another database does not wait for it.
const DUMP_LIMIT: Duration = Duration::from_secs(600);

/// The largest dump, in bytes. A dump is held in memory.
const DUMP_MAX_BYTES: u64 = 256 << 20;

/// A line near the end of every complete dump.
const COMPLETE: &str = "-- PostgreSQL database dump complete";

/// How many lines at the end may contain [`COMPLETE`]: the rest of the comment and a command of newer versions follow
/// it.
const LAST_LINES: usize = 8;

/// What the exporter says of a server that it can reach. It answers with status 200 even if it cannot.
const UP: &str = "pg_up 1";

/// Takes the last backup of a database before it is deleted.
pub trait Backup: Send + Sync + 'static {
    /// Takes a last backup of the database. After a crash it may be called again for the same database.
    fn take(
        &self,
        client: &Client,
        database: &Database,
    ) -> impl Future<Output = Result<(), BackupError>> + Send;
}

/// A backup could not be taken. A later attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot take the last backup: {0}")]
pub struct BackupError(pub String);

/// Takes no backups, and logs that.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBackup;

impl Backup for NoBackup {
    async fn take(&self, _: &Client, database: &Database) -> Result<(), BackupError> {
        let database = key(database);
        tracing::warn!(database, "no place for backups is configured: none is taken");
        Ok(())
    }
}

/// An HTTP client that reaches Services by their names: that of a test, or one on the network of the cluster.
pub type Http = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, BoxError>;

/// A place for backups.
pub trait Place: Send + Sync + 'static {
    /// Keeps the dump of a database. A dump of the same database replaces the one before.
    fn keep(&self, database: &str, dump: &str) -> impl Future<Output = Result<(), BackupError>> + Send;
}

/// Takes the backup from the database: asks over HTTP whether its server is well, dumps it by `exec`, checks that the dump is
/// whole, and keeps it.
pub struct Dump<P> {
    http: Http,
    place: P,
}

impl<P: Place> Dump<P> {
    /// Makes backups that are kept in this place. `http` reaches the Services of the cluster.
    pub fn new(http: Http, place: P) -> Self {
        Self { http, place }
    }

    /// Asks the exporter of the first server whether PostgreSQL answers.
    async fn check_health(&self, database: &Database) -> Result<(), BackupError> {
        let url = children::health(database);
        let request = Request::get(&url).body(Bytes::new()).map_err(failed)?;
        let asked = tokio::time::timeout(HEALTH_LIMIT, self.http.clone().oneshot(request));
        let answer =
            asked.await.map_err(|_| BackupError(format!("{url} does not answer")))?.map_err(failed)?;
        if answer.status() != StatusCode::OK {
            return Err(BackupError(format!("{url} answers with status {}", answer.status())));
        }
        let text = String::from_utf8_lossy(answer.body());
        match text.lines().any(|line| line == UP) {
            true => Ok(()),
            false => Err(BackupError(format!("{url} does not say that PostgreSQL is up"))),
        }
    }
}

impl<P: Place> Backup for Dump<P> {
    async fn take(&self, client: &Client, database: &Database) -> Result<(), BackupError> {
        self.check_health(database).await?;
        let dumped = tokio::time::timeout(DUMP_LIMIT, dump(client, database)).await;
        let dump = dumped.map_err(|_| BackupError("pg_dump does not end".to_owned()))??;
        self.place.keep(&key(database), &dump).await
    }
}

/// Dumps a database in the container of its first server.
async fn dump(client: &Client, database: &Database) -> Result<String, BackupError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &database.namespace().unwrap_or_default());
    let command = ["pg_dump", "--username=postgres", &database.spec.database_name];
    let streams = AttachParams::default().container(children::SERVER);
    let process = pods.exec(&children::first_server(database), command, &streams).await.map_err(failed)?;
    let (dump, errors, succeeded) = outcome(process).await?;
    if !succeeded {
        return Err(BackupError(format!("pg_dump failed: {}", errors.trim())));
    }
    match dump.lines().rev().take(LAST_LINES).any(|line| line == COMPLETE) {
        true => Ok(dump),
        false => {
            let length = dump.len();
            Err(BackupError(format!("pg_dump ended before the dump was whole, after {length} bytes")))
        }
    }
}

/// What a process prints, what it prints as errors, and whether it succeeds.
async fn outcome(mut process: AttachedProcess) -> Result<(String, String, bool), BackupError> {
    let status = process.take_status();
    let (printed, errors) = (process.stdout(), process.stderr());
    let (printed, errors) = tokio::try_join!(read(printed), read(errors))?;
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    // Without a status the connection broke, whatever was printed.
    let status = status.ok_or_else(|| BackupError("the connection to pg_dump broke".to_owned()))?;
    Ok((printed, errors, status.status.as_deref() == Some("Success")))
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> Result<String, BackupError> {
    let Some(stream) = stream else { return Ok(String::new()) };
    let mut text = String::new();
    let read = stream.take(DUMP_MAX_BYTES + 1).read_to_string(&mut text).await.map_err(failed)?;
    match read as u64 > DUMP_MAX_BYTES {
        true => Err(BackupError("the dump is too large".to_owned())),
        false => Ok(text),
    }
}

fn failed(error: impl std::fmt::Display) -> BackupError {
    BackupError(error.to_string())
}

/// The namespace and name of a database.
pub(crate) fn key(database: &Database) -> String {
    evenkeel::Request::of(database).to_string()
}
