//! Tests of controllers with a fake server, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::fake::Fake;
use crate::{Action, Controller, Ctx, Error, ErrorExt, Manager, ManagerError, Result};

pub(crate) const MAPS: &str = "/api/v1/configmaps";
pub(crate) const SECRETS: &str = "/api/v1/secrets";
const MINUTE: Duration = Duration::from_secs(60);

/// A fake server with an environment, and the notes of reconciles.
pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) fake: Fake,
    /// The notes of reconciles, in order.
    pub(crate) notes: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let env = Env::seeded(7);
        let fake = Fake::new(&env);
        Self { env, fake, notes: Arc::default() }
    }

    pub(crate) fn manager(&self) -> Manager {
        Manager::new(self.fake.client()).with_env(self.env.clone())
    }

    pub(crate) fn run(&self, manager: Manager) -> JoinHandle<Result<(), ManagerError>> {
        tokio::spawn(manager.run_until(std::future::pending()))
    }

    pub(crate) fn note(&self) -> impl Fn(String) + Clone + Send + Sync + 'static + use<> {
        let notes = self.notes.clone();
        move |note| notes.lock().push(note)
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock())
    }

    pub(crate) async fn settled(&self) {
        self.env.ledger().settled(MINUTE).await.unwrap();
    }

    pub(crate) fn map(&self, name: &str, value: &str) {
        self.fake
            .put(MAPS, json!({ "metadata": { "namespace": "a", "name": name }, "data": { "k": value } }));
    }
}

/// A state that takes notes.
type Note = Box<dyn Fn(String) + Send + Sync>;

/// Applies a Secret with the data of the map, and notes why.
async fn copy(map: Arc<ConfigMap>, ctx: Ctx<impl Fn(String)>) -> Result<Action> {
    (ctx.state())(format!("{}: {}", ctx.request(), ctx.causes()));
    let mut secret = Secret::default();
    secret.metadata.name = map.metadata.name.clone();
    secret.string_data = map.data.clone();
    ctx.apply(secret).await?;
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn a_child_is_applied_and_kept() {
    let world = World::new();
    world.map("one", "1");
    let controller = Controller::new("copy", copy).state(world.note()).owns::<Secret>();
    let _running = world.run(world.manager().controller(controller));
    world.settled().await;
    // The event of the new child triggers once; then nothing is pending.
    assert_eq!(world.taken(), ["a/one: ConfigMap a/one listed", "a/one: Secret a/one created"]);
    assert_eq!(world.fake.take_writes().len(), 2);
    let secret = world.fake.get(SECRETS, "a/one").unwrap();
    assert_eq!(secret["metadata"]["ownerReferences"][0]["controller"], true);

    world.map("one", "2");
    world.settled().await;
    assert_eq!(world.taken(), ["a/one: ConfigMap a/one updated", "a/one: Secret a/one updated"]);
    assert_eq!(world.fake.get(SECRETS, "a/one").unwrap()["stringData"]["k"], "2");

    world.fake.delete(SECRETS, "a/one");
    world.settled().await;
    assert_eq!(world.taken(), ["a/one: Secret a/one deleted", "a/one: Secret a/one created"]);
    assert!(world.fake.get(SECRETS, "a/one").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_relist_finds_what_the_watch_missed() {
    let world = World::new();
    world.map("one", "1");
    let controller = Controller::new("copy", copy).state(world.note()).owns::<Secret>();
    let _running = world.run(world.manager().controller(controller));
    world.settled().await;
    world.taken();
    // The child is deleted while no watch is open, and the server's log is compacted.
    world.fake.hold_events(true);
    world.fake.delete(SECRETS, "a/one");
    world.fake.compact();
    world.fake.hold_events(false);
    world.fake.cut_watches();
    world.settled().await;
    assert_eq!(world.taken(), ["a/one: Secret a/one deleted", "a/one: Secret a/one created"]);
    assert!(world.fake.get(SECRETS, "a/one").is_some());
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_panics_are_failures() {
    let world = World::new();
    world.map("one", "1");
    let start = tokio::time::Instant::now();
    let reconcile = move |_: Arc<ConfigMap>, ctx: Ctx<Note>| async move {
        let note: &(dyn Fn(String) + Send + Sync) = &ctx.state();
        note(format!("{} at {:?}", ctx.attempt(), start.elapsed().as_millis()));
        match ctx.attempt() {
            0 => Err(Error::message("not yet")),
            1 => panic!("oh"),
            2 => Err(Error::message("later").retry_late()),
            _ => Ok(Action::await_change()),
        }
    };
    let controller = Controller::new("fails", reconcile)
        .backoff(crate::Backoff::default().jitter(0.0))
        .state(Box::new(world.note()) as Note);
    let _running = world.run(world.manager().controller(controller));
    world.settled().await;
    let notes = world.taken();
    assert_eq!(notes[0], "0 at 0");
    assert_eq!(notes[1], "1 at 5");
    assert_eq!(notes[2], "2 at 15");
    assert_eq!(
        notes[3], "3 at 10015",
        "a delay of its own replaces the backoff, and counts as one more in a row"
    );
}

trait RetryLate {
    fn retry_late(self) -> Error;
}

impl RetryLate for Error {
    fn retry_late(self) -> Error {
        ErrorExt::retry_after(self, Duration::from_secs(10)).into()
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_is_a_crash() {
    let world = World::new();
    world.map("one", "1");
    let slow = |_: Arc<ConfigMap>, ctx: Ctx<Note>| async move {
        let note: &(dyn Fn(String) + Send + Sync) = &ctx.state();
        note("begin".into());
        tokio::time::sleep(Duration::from_secs(5)).await;
        note("end".into());
        Ok::<_, Error>(Action::await_change())
    };
    let state = Box::new(world.note()) as Note;
    let running = world.run(world.manager().controller(Controller::new("slow", slow).state(state)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.abort();
    world.settled().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.taken(), ["begin"]);
    assert_eq!(world.env.ledger().pending(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_waits_for_the_running_reconcile() {
    let world = World::new();
    world.map("one", "1");
    world.map("two", "1");
    let slow = |_: Arc<ConfigMap>, ctx: Ctx<Note>| async move {
        let note: &(dyn Fn(String) + Send + Sync) = &ctx.state();
        tokio::time::sleep(Duration::from_secs(5)).await;
        note(format!("{} {}", ctx.request(), ctx.cancelled().is_cancelled()));
        Ok::<_, Error>(Action::await_change())
    };
    let state = Box::new(world.note()) as Note;
    let manager = world.manager().controller(Controller::new("slow", slow).state(state));
    manager.run_until(tokio::time::sleep(Duration::from_secs(1))).await.unwrap();
    assert_eq!(world.taken(), ["a/one true"]);
    assert_eq!(world.env.ledger().pending(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_is_forbidden_says_so() {
    let world = World::new();
    world.fake.fail(|_, path| {
        let message = "secrets is forbidden: User \"u\" cannot list resource \"secrets\"";
        let status = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message });
        path.contains("secrets").then_some((403, status))
    });
    for within in [120, 5] {
        let mut controller = Controller::new("copy", copy).state(world.note()).owns::<Secret>();
        if within != 120 {
            controller = controller.sync_timeout(Duration::from_secs(within));
        }
        let start = tokio::time::Instant::now();
        let running = world.manager().controller(controller).run_until(std::future::pending());
        assert_eq!(
            running.await.unwrap_err().to_string(),
            format!(
                "run copy: sync the cache of Secret within {within}s: list: secrets is forbidden: User \"u\" cannot \
                 list resource \"secrets\""
            )
        );
        assert_eq!(start.elapsed(), Duration::from_secs(within));
    }
}

/// With resource versions that are not numbers, a write is waited for by equality: the child is not created twice, and
/// nothing is read from the server.
#[tokio::test(start_paused = true)]
async fn own_writes_are_seen_where_versions_are_no_numbers() {
    let world = World::new();
    world.fake.make_versions_text();
    world.map("one", "1");
    let start = tokio::time::Instant::now();
    let reconcile = move |map: Arc<ConfigMap>, ctx: Ctx<Note>| async move {
        let note: &(dyn Fn(String) + Send + Sync) = &ctx.state();
        let cached = ctx.get::<Secret>("one")?.is_some();
        note(format!("cached {cached}, behind {}, after {} s", ctx.is_behind(), start.elapsed().as_secs()));
        if cached {
            return Ok(Action::await_change());
        }
        let mut secret = Secret::default();
        secret.metadata.name = map.metadata.name.clone();
        ctx.create(secret).await?;
        Ok::<_, Error>(Action::requeue(Duration::from_millis(1)))
    };
    let state = Box::new(world.note()) as Note;
    let controller = Controller::new("text", reconcile).reads::<Secret>().state(state);
    world.fake.hold_events(true);
    let _running = world.run(world.manager().controller(controller));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.taken(), ["cached false, behind false, after 0 s"]);
    world.fake.hold_events(false);
    world.fake.cut_watches();
    world.settled().await;
    assert_eq!(world.taken(), ["cached true, behind false, after 2 s"]);
    assert_eq!(world.fake.take_writes().len(), 1);
}

/// A very long period used to panic the task that holds the triggers, so that the controller got no more events.
#[test]
fn a_period_is_spread_by_a_tenth_and_may_be_as_long_as_it_likes() {
    let spread = |period, fraction| super::run::spread(period, fraction).as_secs();
    assert_eq!([0.0, 0.5, 1.0].map(|fraction| spread(Duration::from_secs(600), fraction)), [540, 600, 660]);
    assert_eq!(super::run::spread(Duration::MAX, 0.99), Duration::MAX);
}
