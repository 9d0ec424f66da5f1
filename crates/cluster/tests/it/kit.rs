//! The test kit without injected faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_cluster::{Cluster, User, testing};
use evenkeel_runtime::{Action, Cause, Controller, Ctx, Source};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::mirror::{self, config, value};

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn an_operator_follows_its_objects(cluster: Cluster) -> kube::Result<()> {
    cluster.run(mirror::controller);
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("one"));
    cluster.patch::<ConfigMap>("a", serde_json::json!({"data": {"key": "two"}})).await?;
    cluster.settled().await;
    assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("two"));
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn a_second_reconcile_writes_nothing(cluster: Cluster) -> kube::Result<()> {
    cluster.run(mirror::controller);
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    cluster.mark();
    cluster.apply(config("a", "one")).await?;
    cluster.restart(mirror::NAME);
    cluster.settled().await;
    cluster.assert_no_writes();
    assert_eq!(cluster.crashes(mirror::NAME), 1);
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn drift_is_corrected(cluster: Cluster) -> kube::Result<()> {
    cluster.run(mirror::controller);
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    cluster.mark();
    cluster.delete::<Secret>("a").await?;
    cluster.settled().await;
    assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("one"));
    let by: Vec<_> = cluster.writes().iter().map(|write| format!("{} {}", write.by, write.method)).collect();
    assert_eq!(by, ["client DELETE", "mirror PATCH"]);
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn clusters_are_alone(cluster: Cluster) -> kube::Result<()> {
    let other = Cluster::builder().controllers(false).start().await.expect("another one starts");
    cluster.apply(config("a", "one")).await?;
    assert!(other.get_opt::<ConfigMap>("a").await?.is_none());
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn a_namespace_is_a_handle(cluster: Cluster) -> kube::Result<()> {
    let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": "other"}}));
    cluster.apply::<Namespace>(namespace.expect("it is one")).await?;
    cluster.namespaced("other").apply(config("a", "one")).await?;
    assert!(cluster.get_opt::<ConfigMap>("a").await?.is_none());
    assert!(cluster.namespaced("other").get_opt::<ConfigMap>("a").await?.is_some());
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn somebody_without_a_role_is_refused(cluster: Cluster) {
    let alice = cluster.acting_as(User::new("alice", ["system:authenticated"]));
    let refused = alice.apply(config("a", "one")).await.expect_err("alice has no role");
    assert!(refused.to_string().contains("User \"alice\" cannot patch resource \"configmaps\""), "{refused}");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn advancing_takes_no_time(cluster: Cluster) {
    let start = Instant::now();
    cluster.advance(Duration::from_secs(3600)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(3600));
}

/// The processor time of this thread, which does not depend on other load. `None` if the system does not report it.
fn worked() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// A start takes 5 ms by design, and about twenty times as long in the dev profile. This test fails if it takes
/// seconds.
#[test]
fn a_test_costs_milliseconds() {
    let start = || testing::run(testing::options(), |_| async {});
    start();
    let Some(before) = worked() else { return };
    (0..20).for_each(|_| start());
    let each = (worked().expect("it told before") - before) / 20;
    println!("each start took {each:?} of work");
    assert!(each < Duration::from_millis(500), "{each:?} for each cluster");
}

/// How long [`later`] waits.
const LATER: Duration = Duration::from_secs(20);

/// Requeues its object once, and records an Event in the second reconcile.
async fn later(map: Arc<ConfigMap>, ctx: Ctx) -> evenkeel_runtime::Result<Action> {
    if map.metadata.name.as_deref() != Some("a") {
        return Ok(Action::await_change());
    }
    if !ctx.causes().kept().contains(&Cause::Timer) {
        return Ok(Action::requeue(LATER));
    }
    ctx.event(&map, "Looked", "a second time");
    Ok(Action::await_change())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn a_key_that_asked_for_a_later_look_is_at_rest(cluster: Cluster) -> kube::Result<()> {
    cluster.run(|| Controller::new("later", later));
    cluster.apply(config("a", "one")).await?;
    let start = Instant::now();
    cluster.idle().await;
    cluster.settled().await;
    assert_eq!(start.elapsed(), Duration::ZERO, "the second look is in the future");
    assert!(cluster.events().await?.is_empty());
    cluster.advance(LATER).await;
    let events = cluster.events().await?;
    let told: Vec<_> =
        events.iter().map(|event| (event.reason.as_deref(), event.message.as_deref())).collect();
    assert_eq!(told, [(Some("Looked"), Some("a second time"))]);
    Ok(())
}

/// Looks at its object once every `period`. Writes a Secret at the first `writes` looks, each time another value.
fn looking(
    period: Duration,
    writes: usize,
) -> impl Fn(Arc<ConfigMap>, Ctx) -> futures::future::BoxFuture<'static, evenkeel_runtime::Result<Action>> {
    let looks = Arc::new(AtomicUsize::new(0));
    move |map, ctx| {
        let look = looks.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if look < writes {
                let mut secret = Secret::default();
                secret.metadata.name = map.metadata.name.clone();
                secret.string_data = Some([("look".to_owned(), look.to_string())].into());
                ctx.apply(secret).await?;
            }
            Ok(Action::requeue(period))
        })
    }
}

fn only_a() -> Source<ConfigMap> {
    Source::new().fields("metadata.name=a")
}

/// The everyday `Action::requeue(300 s)` made `settled()` panic: "not settled within 60s".
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn a_poll_every_five_minutes_is_at_rest_whether_or_not_it_wrote(cluster: Cluster) -> kube::Result<()> {
    let every = Duration::from_secs(300);
    cluster.run(move || Controller::new_with("poll", only_a(), looking(every, usize::MAX)));
    cluster.apply(config("a", "one")).await?;
    let start = Instant::now();
    cluster.settled().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    cluster.advance(every).await;
    cluster.settled().await;
    assert_eq!(start.elapsed(), every);
    Ok(())
}

/// Steps that an operator makes one by one, each a few seconds after the other, are awaited. Looks without an effect are
/// not.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn looks_that_write_are_awaited_until_one_writes_nothing(cluster: Cluster) -> kube::Result<()> {
    let every = Duration::from_secs(5);
    cluster.run(move || Controller::new_with("steps", only_a(), looking(every, 3)));
    cluster.apply(config("a", "one")).await?;
    let start = Instant::now();
    cluster.settled().await;
    assert_eq!(start.elapsed(), 3 * every, "the fourth look writes nothing");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn a_key_that_writes_at_every_look_never_rests(cluster: Cluster) -> kube::Result<()> {
    let every = Duration::from_secs(5);
    cluster.run(move || Controller::new_with("restless", only_a(), looking(every, usize::MAX)));
    cluster.apply(config("a", "one")).await?;
    let told = cluster.try_settled().await.expect_err("it writes for ever").to_string();
    assert!(told.contains("queue restless"), "{told}");
    Ok(())
}

/// A retry after an error is not rest, however long it takes.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn a_key_in_error_backoff_never_rests(cluster: Cluster) -> kube::Result<()> {
    async fn fail(_: Arc<ConfigMap>, _: Ctx) -> evenkeel_runtime::Result<Action> {
        Err(evenkeel_runtime::Error::message("the database is not there"))
    }
    cluster.run(|| Controller::new_with("failing", only_a(), fail));
    cluster.apply(config("a", "one")).await?;
    let told = cluster.try_settled().await.expect_err("it fails for ever").to_string();
    assert!(told.contains("queue failing: earliest delayed key"), "{told}");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn advancing_does_what_the_time_brings(cluster: Cluster) -> kube::Result<()> {
    cluster.run(|| Controller::new("later", later));
    cluster.apply(config("a", "one")).await?;
    cluster.idle().await;
    cluster.advance(LATER / 2).await;
    assert!(cluster.events().await?.is_empty(), "it is too early");
    cluster.advance(LATER / 2).await;
    // Read before any other task runs.
    let requests = cluster.requests();
    assert!(
        requests.iter().any(|it| &*it.by == "later" && it.verb == "create" && it.outcome.wrote().is_some())
    );
    Ok(())
}

async fn namespace(cluster: &Cluster, name: &str) -> kube::Result<()> {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}));
    cluster.apply::<Namespace>(namespace.expect("it is one")).await?;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "it sees all namespaces")]
async fn events_are_those_of_the_namespace(cluster: Cluster) -> kube::Result<()> {
    namespace(&cluster, "other").await?;
    cluster.run(|| Controller::new("later", later));
    cluster.namespaced("other").apply(config("a", "one")).await?;
    cluster.settled().await;
    cluster.advance(LATER).await;
    assert!(cluster.events().await?.is_empty());
    assert_eq!(cluster.namespaced("other").events().await?.len(), 1);
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "a namespace of this name")]
async fn an_apply_goes_where_the_object_says(cluster: Cluster) -> kube::Result<()> {
    namespace(&cluster, "other").await?;
    let mut elsewhere = config("a", "one");
    elsewhere.metadata.namespace = Some("other".into());
    cluster.apply(elsewhere).await?;
    assert!(cluster.get_opt::<ConfigMap>("a").await?.is_none());
    assert!(cluster.namespaced("other").get_opt::<ConfigMap>("a").await?.is_some());
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn an_apply_takes_over_and_takes_back(cluster: Cluster) -> kube::Result<()> {
    let metadata = json!({"name": "a"});
    let theirs =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "theirs"}});
    let as_them = PatchParams::apply("them");
    cluster.api::<ConfigMap>().patch("a", &as_them, &Patch::Apply(theirs)).await?;
    cluster.apply(config("a", "ours")).await?;
    cluster.assert_has::<ConfigMap>("a", json!({"data": {"key": "ours"}})).await;
    let mut less = config("a", "ours");
    less.data = None;
    cluster.apply(less).await?;
    cluster.assert_has::<ConfigMap>("a", json!({"data": null})).await;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "nobody else may write the status")]
async fn a_status_has_a_patch_of_its_own(cluster: Cluster) -> kube::Result<()> {
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    cluster.apply::<Pod>(serde_json::from_value(pod).expect("it is one")).await?;
    let failed = json!({"status": {"phase": "Failed"}});
    cluster.patch::<Pod>("a", failed.clone()).await?;
    cluster.assert_has::<Pod>("a", json!({"status": {"phase": "Pending"}})).await;
    cluster.patch_status::<Pod>("a", failed).await?;
    cluster.assert_has::<Pod>("a", json!({"status": {"phase": "Failed"}})).await;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn writes_are_counted_from_any_mark(cluster: Cluster) -> kube::Result<()> {
    let first = cluster.mark();
    cluster.apply(config("a", "one")).await?;
    cluster.apply(config("b", "one")).await?;
    let last = cluster.mark();
    cluster.apply(config("a", "one")).await?;
    cluster.delete::<ConfigMap>("b").await?;
    let counted = |mark| cluster.writes_since(mark).len();
    assert_eq!((counted(first), counted(last), cluster.writes().len()), (3, 1, 1));
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(
    expected = "1 writes since the mark, but none were expected:\n  client PATCH /api/v1/namespaces/default/configmaps/a"
)]
async fn a_write_that_was_not_expected_is_named(cluster: Cluster) {
    cluster.mark();
    cluster.apply(config("a", "one")).await.expect("it is stored");
    cluster.assert_no_writes();
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(
    expected = "ConfigMap default/a (- expected, + found):\n  data:\n-   key: \"two\"\n+   key: \"one\"\n"
)]
async fn an_object_that_is_not_as_expected_is_shown_by_its_difference(cluster: Cluster) {
    cluster.apply(config("a", "one")).await.expect("it is stored");
    cluster.assert_has::<ConfigMap>("a", serde_json::json!({"data": {"key": "two"}})).await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(expected = "ConfigMap a does not exist")]
async fn an_object_that_is_missing_is_named(cluster: Cluster) {
    cluster.assert_has::<ConfigMap>("a", serde_json::json!({})).await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(expected = "1 objects of kind ConfigMap exist: a")]
async fn objects_that_are_left_are_named(cluster: Cluster) {
    cluster.apply(config("a", "one")).await.expect("it is stored");
    cluster.assert_none::<ConfigMap>().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn applying_the_same_again_leaves_the_same_object(cluster: Cluster) -> kube::Result<()> {
    let before = cluster.apply(config("a", "one")).await?;
    testing::assert_same(&cluster.apply(config("a", "one")).await?, &before);
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(expected = "ConfigMap a did not become as expected; last seen: it does not exist")]
async fn eventually_has_an_end(cluster: Cluster) {
    cluster.eventually::<ConfigMap>("a", |_| true).await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(expected = "ConfigMap a is not gone; last seen: {")]
async fn what_stays_is_shown(cluster: Cluster) {
    cluster.apply(config("a", "one")).await.expect("it is stored");
    cluster.eventually_gone::<ConfigMap>("a").await;
}

/// The garbage collector watches all kinds. For kinds that other controllers watch as well it must share their watches:
/// a second watch would cost time at the start of every test and with every change.
#[tokio::test(start_paused = true)]
async fn the_built_in_controllers_watch_no_kind_twice() {
    let cluster =
        Cluster::builder().lazy_controllers(false).start().await.expect("a cluster in memory starts");
    cluster.settled().await;
    let requests = cluster.requests();
    let watches = requests.iter().filter(|request| request.verb == "watch").map(|request| &*request.path);
    let whole = watches.filter(|path| !path.contains("fieldSelector="));
    let mut kinds: Vec<_> = whole.filter_map(|path| path.split('?').next()).collect();
    assert!(kinds.len() > 50, "every kind is watched, not {}", kinds.len());
    kinds.sort_unstable();
    let twice: Vec<_> = kinds.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// Changes and deletes `a` some time later, like something outside of the cluster.
fn later_on(cluster: &Cluster) {
    let cluster = cluster.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.apply(config("a", "two")).await.expect("it is stored");
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.delete::<ConfigMap>("a").await.expect("it is there");
    });
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn eventually_waits_for_what_it_is_asked(cluster: Cluster) -> kube::Result<()> {
    cluster.apply(config("a", "one")).await?;
    later_on(&cluster);
    let is_two = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["key"] == "two");
    assert!(is_two(&cluster.eventually("a", is_two).await));
    cluster.eventually_gone::<ConfigMap>("a").await;
    cluster.assert_none::<ConfigMap>().await;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(expected = "at crates/cluster/tests/it/kit.rs:")]
async fn an_assertion_says_where_it_stands(cluster: Cluster) {
    cluster.apply(config("a", "one")).await.expect("it is stored");
    cluster.assert_has::<ConfigMap>("a", json!({"data": {"key": "two"}})).await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(
    expected = "ConfigMap default/a (- expected, + found):\n  data:\n-   key: \"two\"\n+   key: \"one\"\n"
)]
async fn two_objects_that_differ_are_shown_by_their_difference(cluster: Cluster) {
    let one = cluster.apply(config("a", "one")).await.expect("it is stored");
    let mut two = one.clone();
    two.data = config("a", "two").data;
    testing::assert_same(&one, &two);
}

#[test]
fn who_manages_a_field_is_no_difference() {
    let managed = json!({"metadata": {"name": "a", "managedFields": [{"manager": "test"}]}});
    assert_eq!(testing::diff(&managed, &json!({"metadata": {"name": "a"}})), None);
}

/// Nodes renew their leases for ever: that is no write that a test should have to expect.
#[evenkeel_macros::test(crate = evenkeel_cluster)]
async fn the_renewal_of_leases_is_no_write_that_counts(cluster: Cluster) {
    cluster.settled().await;
    cluster.mark();
    cluster.advance(std::time::Duration::from_secs(1000)).await;
    assert!(cluster.writes().iter().any(|write| write.path.contains("/leases/")), "leases were renewed");
    cluster.assert_no_writes();
    cluster.apply(config("a", "one")).await.expect("it is stored");
    cluster.assert_no_writes_by("my-operator");
    let counted =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cluster.assert_no_writes_by("client")));
    assert!(counted.is_err(), "the write of this client counts");
}
