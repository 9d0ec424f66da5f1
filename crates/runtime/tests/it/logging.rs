//! What is logged about a reconcile.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Error, ErrorExt, LeaderElection, Manager, Request, Stage};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::{Notes, map, quiet, value};

/// Notes every log event of the runtime with the fields of its span. Works for one thread and one span at a time.
struct Capture {
    notes: Notes,
    spans: Mutex<Vec<String>>,
    entered: Mutex<Vec<u64>>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let parts = ["evenkeel_runtime::controller", "evenkeel_runtime::manager::running"];
        parts.iter().any(|part| metadata.target().starts_with(part)) && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(String::new());
        span.record(&mut fields);
        let mut spans = self.spans.lock();
        spans.push(fields.0);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        self.spans.lock()[span.into_u64() as usize - 1].push_str(&fields.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(format!("{} ", event.metadata().level()));
        event.record(&mut fields);
        let span = self.entered.lock().last().map(|id| self.spans.lock()[*id as usize - 1].clone());
        self.notes.push(format!("{}| {}", fields.0, span.unwrap_or_default()));
    }

    fn enter(&self, span: &Id) {
        self.entered.lock().push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.entered.lock().pop();
    }
}

#[derive(Debug, thiserror::Error)]
#[error("make the bucket")]
struct Outer(#[source] std::num::ParseIntError);

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "durations are exact in virtual time only")]
async fn every_reconcile_is_logged_once_with_key_cause_and_duration() {
    let logged = Notes::default();
    let capture = Capture { notes: logged.clone(), spans: Mutex::default(), entered: Mutex::default() };
    let _guard = tracing::subscriber::set_default(capture);
    let cluster = quiet(1).await;
    let ids = Notes::default();
    cluster.run({
        let ids = ids.clone();
        move || {
            Controller::new("logged", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(ctx.reconcile_id());
                tokio::time::sleep(std::time::Duration::from_millis(30)).await;
                match (value(&map), ctx.attempt()) {
                    ("bad", 0) => Err(Outer("x".parse::<u8>().unwrap_err())),
                    _ => Ok(Action::await_change()),
                }
            })
            .state(ids.clone())
        }
    });
    cluster.settled().await;
    cluster.apply(map("good", "good")).await.unwrap();
    cluster.settled().await;
    let lines = logged.take();
    let id = ids.take().remove(0);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in [
        "DEBUG",
        "reconciled",
        "causes=ConfigMap default/good created",
        "took=30ms",
        "controller=logged",
        "object=default/good",
        id.as_str(),
    ] {
        assert!(lines[0].contains(part), "{part} in {lines:?}");
    }

    cluster.apply(map("bad", "bad")).await.unwrap();
    cluster.settled().await;
    let lines = logged.take();
    assert_eq!(lines.len(), 2, "one failure, one success: {lines:?}");
    assert!(lines[0].contains("ERROR"), "{lines:?}");
    assert!(
        lines[0].contains("make the bucket: invalid digit found in string"),
        "the whole chain, once: {lines:?}"
    );
    assert!(lines[0].contains("attempt=1"), "{lines:?}");
    assert!(lines[1].contains("causes=retry"), "{lines:?}");
}

/// A fatal error is logged before the manager waits for running work.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what is logged is of this thread")]
async fn a_fatal_error_is_logged_when_it_happens() {
    let logged = Notes::default();
    let capture = Capture { notes: logged.clone(), spans: Mutex::default(), entered: Mutex::default() };
    let _guard = tracing::subscriber::set_default(capture);
    let cluster = quiet(2).await;
    let seen = logged.clone();
    let manager = Manager::new(cluster.client())
        .with_env(cluster.env().clone())
        .runnable("slow", |stop| async move {
            stop.cancelled().await;
            seen.push("the rest is told to stop");
            Ok::<_, Error>(())
        })
        .runnable("bad", |_| async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            Err(Outer("x".parse::<u8>().unwrap_err()))
        });
    manager.run_until(std::future::pending()).await.unwrap_err();
    let lines = logged.take();
    assert!(lines.len() == 2 && lines[1] == "the rest is told to stop", "{lines:?}");
    assert!(lines[0].starts_with("ERROR") && lines[0].contains("the manager ends"), "{lines:?}");
    let whole = "run bad: make the bucket: invalid digit found in string";
    assert!(lines[0].contains(whole), "the whole chain: {lines:?}");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3, embedded = "durations are exact in virtual time only")]
async fn observers_see_every_reconcile_begin_and_end(cluster: evenkeel_cluster::Cluster) {
    let notes = [Notes::default(), Notes::default()];
    let controller = Controller::new("observed", |_: Arc<ConfigMap>, ctx: Ctx| async move {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        match ctx.attempt() {
            0 => Err(Outer("x".parse::<u8>().unwrap_err())),
            _ => Ok(Action::await_change()),
        }
    });
    let mut manager = Manager::new(cluster.client()).with_env(cluster.env().clone()).controller(controller);
    for notes in notes.clone() {
        manager = manager.observer(move |seen| {
            let stage = match &seen.stage {
                Stage::Ended { took, error } => format!("{took:?} {}", error.as_deref().unwrap_or("well")),
                // A busy machine takes the thread away.
                Stage::Blocked { .. } => return,
                stage => format!("{stage:?}"),
            };
            notes.push(format!("{} {} ({}) {stage}", seen.controller, seen.object, seen.causes));
        });
    }
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.settled().await;
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    for notes in notes {
        let wanted = [
            "observed default/one (ConfigMap default/one created) Began",
            "observed default/one (ConfigMap default/one created) 30ms make the bucket: invalid digit found in string",
            "observed default/one (retry) Began",
            "observed default/one (retry) 30ms well",
        ];
        assert_eq!(notes.take(), wanted);
    }
    running.abort();
}

/// Panics, wherever in the function they happen, and terminal errors are logged with their key. Panics are retried.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what is logged is of this thread")]
async fn panics_and_terminal_errors_are_reported_with_their_key() {
    let logged = Notes::default();
    let capture = Capture { notes: logged.clone(), spans: Mutex::default(), entered: Mutex::default() };
    let _guard = tracing::subscriber::set_default(capture);
    let cluster = quiet(4).await;
    cluster.run(|| {
        Controller::<ConfigMap>::requests("broken", |request: Request, ctx: Ctx| {
            // Panics before the function returns its future.
            assert!(&*request.name != "early" || ctx.attempt() > 0, "no {}", request.name);
            async move {
                match (&*request.name, ctx.attempt()) {
                    ("late", 0) => panic!("no disk"),
                    ("final", _) => Err(Error::message("a typo").terminal()),
                    _ => Ok(Action::await_change()),
                }
            }
        })
    });
    cluster.settled().await;
    for (name, said, lines) in [
        ("early", "the reconcile panicked: no early", 2),
        ("late", "the reconcile panicked: no disk", 2),
        ("final", "reconcile failed and is not retried", 1),
    ] {
        cluster.apply(map(name, 1)).await.unwrap();
        cluster.settled().await;
        let logged = logged.take();
        assert_eq!(logged.len(), lines, "{logged:?}");
        for part in ["ERROR", said, &format!("object=default/{name}")] {
            assert!(logged[0].contains(part), "{part} in {logged:?}");
        }
        if lines == 2 {
            assert!(logged[1].contains("reconciled") && logged[1].contains("causes=retry"), "{logged:?}");
        } else {
            assert!(logged[0].contains("a typo"), "{logged:?}");
        }
    }
}

/// Keeps the names of tasks, as consoles and profilers show them.
struct Named(Notes);

impl Subscriber for Named {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "evenkeel_runtime::tasks"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(String::new());
        span.record(&mut fields);
        self.0.push(format!("{} {}", span.metadata().name(), fields.0.trim()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what is traced is of this thread")]
async fn tasks_have_names_that_a_profiler_can_show() {
    let named = Notes::default();
    let _guard = tracing::subscriber::set_default(Named(named.clone()));
    let cluster = quiet(5).await;
    let controller =
        Controller::new("shop", |_: Arc<ConfigMap>, _: Ctx| async { Ok::<_, Error>(Action::await_change()) });
    let manager = Manager::new(cluster.client())
        .with_env(cluster.env().clone())
        .controller(controller.max_concurrent(2))
        .leader_election(LeaderElection::new("default", "operator"))
        .runnable("backups", |stop| async move {
            stop.cancelled().await;
            Ok::<_, Error>(())
        });
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let names = named.take();
    for name in ["events", "shop", "backups", "leader election", "shop worker"] {
        let wanted = format!("task task={name:?}");
        let times = names.iter().filter(|found| **found == wanted).count();
        assert_eq!(times, if name == "shop worker" { 2 } else { 1 }, "{name} in {names:?}");
    }
    running.abort();
}
