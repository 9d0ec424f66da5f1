//! The last backup: the operator asks the application, which fails, is slow, is gone, and lies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use database::{BackupError, Database, Dump, Http, NAME, Place};
use evenkeel::cluster::{Exchange, Exec, HttpFault, Outcome, PodSelector};
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::kube::Result;
use evenkeel::prelude::*;
use http::Response;
use parking_lot::Mutex;

use crate::started;

const PORT: u16 = 9187;
const WHOLE: &str = "CREATE TABLE orders ();\n--\n-- PostgreSQL database dump complete\n--\n";

/// The dumps that were kept, by database. Clones share them.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<BTreeMap<String, String>>>);

impl Place for Shelf {
    async fn keep(&self, database: &str, dump: &str) -> Result<(), BackupError> {
        self.0.lock().insert(database.to_owned(), dump.to_owned());
        Ok(())
    }
}

/// How the simulated application behaves.
#[derive(Clone)]
struct Application {
    metrics: &'static str,
    dump: &'static str,
    code: i32,
    takes: Duration,
}

impl Default for Application {
    fn default() -> Self {
        Self { metrics: "pg_up 1\n", dump: WHOLE, code: 0, takes: Duration::from_secs(2) }
    }
}

/// Lets enough time pass for the operator to try again after the longest backoff, and for the longest try.
async fn let_try() {
    tokio::time::sleep(Duration::from_secs(7200)).await;
}

/// Runs `orders` with an application that a test can change, deletes it, and lets the operator try for two hours.
async fn deleted(cluster: &Cluster, application: &Arc<Mutex<Application>>) -> Result<Shelf> {
    let shelf = Shelf::default();
    let told = application.clone();
    cluster.serve_service("orders", PORT, move |_| {
        let metrics = told.lock().metrics;
        async move { Response::new(Bytes::from_static(metrics.as_bytes())) }
    });
    let told = application.clone();
    cluster.on_exec(PodSelector::all().image("postgres:*"), move |mut exec: Exec| {
        let application = told.lock().clone();
        async move {
            assert_eq!(exec.command, ["pg_dump", "--username=postgres", "orders"]);
            tokio::time::sleep(application.takes).await;
            exec.print(application.dump).await;
            exec.print_error("no space left").await;
            application.code
        }
    });
    let http = Http::new(cluster.http(NAME));
    started(cluster, Arc::new(Dump::new(http, shelf.clone()))).await?;
    cluster.delete::<Database>("orders").await?;
    let_try().await;
    Ok(shelf)
}

/// Checks that the database is still there, and that no backup was kept.
async fn stays(cluster: &Cluster, shelf: &Shelf) -> Result<()> {
    assert!(cluster.get_opt::<Database>("orders").await?.is_some(), "the database stays");
    assert!(cluster.get_opt::<StatefulSet>("orders").await?.is_some(), "so do its servers");
    assert!(shelf.0.lock().is_empty(), "no backup is kept: {:?}", shelf.0.lock());
    Ok(())
}

/// Checks that the database goes with a whole backup, once the application works.
async fn goes(cluster: &Cluster, shelf: &Shelf) -> Result<()> {
    let_try().await;
    assert!(cluster.get_opt::<Database>("orders").await?.is_none(), "the database goes");
    let kept = shelf.0.lock().clone();
    assert_eq!(kept, BTreeMap::from([(format!("{}/orders", cluster.namespace()), WHOLE.to_owned())]));
    Ok(())
}

#[evenkeel::test(embedded = "the test answers for the application")]
async fn the_dump_of_the_first_server_is_kept(cluster: Cluster) -> Result<()> {
    let shelf = deleted(&cluster, &Arc::default()).await?;
    goes(&cluster, &shelf).await
}

#[evenkeel::test(embedded = "the test answers for the application")]
async fn an_application_that_fails_keeps_the_database(cluster: Cluster) -> Result<()> {
    let application = Arc::new(Mutex::new(Application { code: 1, ..Default::default() }));
    let shelf = deleted(&cluster, &application).await?;
    stays(&cluster, &shelf).await?;
    *application.lock() = Application::default();
    goes(&cluster, &shelf).await
}

#[evenkeel::test(embedded = "the test answers for the application")]
async fn an_application_that_is_slow_is_not_waited_for_without_end(cluster: Cluster) -> Result<()> {
    let endless = Application { takes: Duration::from_secs(1_000_000), ..Default::default() };
    let application = Arc::new(Mutex::new(endless));
    let shelf = deleted(&cluster, &application).await?;
    stays(&cluster, &shelf).await?;
    *application.lock() = Application::default();
    goes(&cluster, &shelf).await
}

#[evenkeel::test(embedded = "the test answers for the application")]
async fn an_application_that_lies_is_not_believed(cluster: Cluster) -> Result<()> {
    // Half a dump, and exit code 0.
    let application = Arc::new(Mutex::new(Application { dump: "CREATE TABLE", ..Default::default() }));
    let shelf = deleted(&cluster, &application).await?;
    stays(&cluster, &shelf).await?;
    // The exporter answers with status 200, and says that PostgreSQL is down.
    *application.lock() = Application { metrics: "pg_up 0\n", ..Default::default() };
    let_try().await;
    stays(&cluster, &shelf).await?;
    *application.lock() = Application::default();
    goes(&cluster, &shelf).await
}

#[evenkeel::test(embedded = "the test answers for the application")]
async fn an_application_that_is_gone_keeps_the_database(cluster: Cluster) -> Result<()> {
    cluster.fail_http("orders.", HttpFault::Down, usize::MAX);
    let shelf = deleted(&cluster, &Arc::default()).await?;
    stays(&cluster, &shelf).await
}

#[evenkeel::test(embedded = "the test answers for the application")]
async fn a_way_to_the_application_that_breaks_is_tried_again(cluster: Cluster) -> Result<()> {
    for fault in [
        HttpFault::Down,
        HttpFault::LostAnswer,
        HttpFault::Nonsense,
        HttpFault::Status(503),
        HttpFault::Slow(Duration::from_secs(11)),
    ] {
        cluster.fail_http("/metrics", fault, 1);
    }
    let shelf = deleted(&cluster, &Arc::default()).await?;
    goes(&cluster, &shelf).await
}

#[evenkeel::test(embedded = "the test answers for the application")]
async fn the_calls_are_in_the_timeline(cluster: Cluster) -> Result<()> {
    let shelf = deleted(&cluster, &Arc::default()).await?;
    goes(&cluster, &shelf).await?;
    let calls = |it: &Exchange| it.path.contains("/metrics") || it.path.contains("/exec");
    let asked: Vec<_> = cluster.requests().into_iter().filter(calls).collect();
    let answered =
        asked.iter().filter(|it| matches!(it.outcome, Outcome::Answered { status: 200 | 101, .. }));
    assert_eq!(answered.count(), 2, "{asked:?}");
    Ok(())
}
