//! A database outside of the cluster, which takes its time to be ready: the operator asks again and again.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Outside};
use evenkeel_explore::Oracle;
use evenkeel_runtime::finalizer::Phase;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::ensemble::{Ensemble, change, create, delete, prepare};

const POLL: Duration = Duration::from_secs(5);
/// How long a database is being made.
const MAKING: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct Databases {
    door: Outside,
    /// The name and size of each database, and when it was asked for.
    made: Arc<Mutex<Vec<(String, String, Instant)>>>,
}

impl Databases {
    fn new(cluster: &Cluster) -> Self {
        let all = Self { door: cluster.outside("databases", "rds"), made: Arc::default() };
        let made = all.made.clone();
        all.door.shows(move || {
            made.lock()
                .iter()
                .map(|it| (it.0.clone(), it.1.clone()))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|it| json!([it.0, it.1]))
                .collect()
        });
        all
    }

    async fn make(&self, name: &str, size: &str) -> Result<()> {
        let make = async { self.made.lock().push((name.to_owned(), size.to_owned(), Instant::now())) };
        Ok(self.door.call("make", make).await?)
    }

    async fn resize(&self, name: &str, size: &str) -> Result<()> {
        let resize = async {
            let mut made = self.made.lock();
            made.iter_mut().filter(|it| it.0 == name).for_each(|it| it.1 = size.to_owned());
        };
        Ok(self.door.call("resize", resize).await?)
    }

    async fn remove(&self, name: &str) -> Result<()> {
        Ok(self.door.call("remove", async { self.made.lock().retain(|it| it.0 != name) }).await?)
    }

    /// The size of a database, and whether it is ready.
    async fn look(&self, name: &str) -> Result<Option<(String, bool)>> {
        let look = async {
            let made = self.made.lock();
            made.iter().find(|it| it.0 == name).map(|it| (it.1.clone(), it.2.elapsed() >= MAKING))
        };
        Ok(self.door.ask("look", look).await?)
    }
}

/// Makes what is not there, and changes what differs.
async fn looks(ensemble: Arc<Ensemble>, ctx: Ctx<Databases>) -> Result<Action> {
    let databases = ctx.state();
    let name = ensemble.name_any();
    let action = ctx.finalizer(&ensemble, "example.com/database", async |phase| -> Result<Action> {
        if let Phase::Cleanup = phase {
            databases.remove(&name).await?;
            return Ok(Action::await_change());
        }
        let (phase, action) = match databases.look(&name).await? {
            None => {
                databases.make(&name, &ensemble.spec.config).await?;
                ("Making", Action::requeue(POLL))
            }
            Some((_, false)) => ("Making", Action::requeue(POLL)),
            Some((size, true)) => {
                if size != ensemble.spec.config {
                    databases.resize(&name, &ensemble.spec.config).await?;
                }
                ("Ready", Action::await_change())
            }
        };
        ctx.status(&ensemble, json!({ "phase": phase })).await?;
        Ok(action)
    });
    Ok(action.await?)
}

/// Makes a database if the status does not say that it did.
async fn trusts_status(ensemble: Arc<Ensemble>, ctx: Ctx<Databases>) -> Result<Action> {
    let databases = ctx.state();
    let name = ensemble.name_any();
    let action = ctx.finalizer(&ensemble, "example.com/database", async |phase| -> Result<Action> {
        if let Phase::Cleanup = phase {
            databases.remove(&name).await?;
            return Ok(Action::await_change());
        }
        let phase = ensemble.status.as_ref().and_then(|status| status.phase.clone());
        let (phase, action) = match phase.as_deref() {
            None => {
                databases.make(&name, &ensemble.spec.config).await?;
                ("Making", Action::requeue(POLL))
            }
            Some(_) => match databases.look(&name).await? {
                Some((size, true)) => {
                    if size != ensemble.spec.config {
                        databases.resize(&name, &ensemble.spec.config).await?;
                    }
                    ("Ready", Action::await_change())
                }
                _ => ("Making", Action::requeue(POLL)),
            },
        };
        ctx.status(&ensemble, json!({ "phase": phase })).await?;
        Ok(action)
    });
    Ok(action.await?)
}

/// Notes that the database is made before it is.
async fn notes_first(ensemble: Arc<Ensemble>, ctx: Ctx<Databases>) -> Result<Action> {
    let databases = ctx.state();
    let name = ensemble.name_any();
    if ensemble.status.as_ref().is_none_or(|status| status.phase.is_none()) {
        ctx.status(&ensemble, json!({"phase": "Making"})).await?;
        databases.make(&name, &ensemble.spec.config).await?;
        return Ok(Action::requeue(POLL));
    }
    if let Some((_, true)) = databases.look(&name).await? {
        ctx.status(&ensemble, json!({"phase": "Ready"})).await?;
        return Ok(Action::await_change());
    }
    Ok(Action::requeue(POLL))
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Ensemble, Databases>) -> kube::Result<()> {
    prepare(&cluster).await?;
    let databases = Databases::new(&cluster);
    cluster.run(move || controller().state(databases.clone()));
    create(&cluster, 1).await?;
    cluster.advance(Duration::from_secs(60)).await;
    cluster.settled().await;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn a_database_that_is_made_twice_is_found() {
    crate::finds("database_twice", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("databases", trusts_status))
    });
}

#[test]
fn a_database_that_is_never_made_is_found() {
    crate::finds("database_never", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("databases", notes_first))
    });
}

#[test]
fn a_database_that_is_looked_for_passes() {
    crate::passes_shortly("database_once", |cluster| life(cluster, || Controller::new("databases", looks)));
}
