//! The environment variables of the test kit, and the output of a failed test, both tested in other processes.

use std::path::Path;

use evenkeel_cluster::serve::ServeOptions;
use evenkeel_cluster::{Cluster, User};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt as _;

use crate::child::{self, Played, play};
use crate::mirror::{self, config, value};

#[test]
fn a_test_that_panics_tells_what_happened() {
    let Played { passed, told } = play("worlds::it_panics", &[("EVENKEEL_SEED", "5")]);
    assert!(!passed && told.contains("the secret differs"), "{told}");
    assert_story(&told);
}

#[test]
fn a_test_that_ends_in_an_error_tells_what_happened() {
    let Played { passed, told } = play("worlds::it_ends_in_an_error", &[("EVENKEEL_SEED", "5")]);
    assert!(!passed && told.contains("NotFound"), "{told}");
    assert_story(&told);
}

/// Asserts that the output has the timeline of [`mirrored`], without the start of the cluster.
fn assert_story(told: &str) {
    let (_, story) = told
        .split_once("what happened in the cluster (EVENKEEL_SEED=5, newest last):\n")
        .unwrap_or_else(|| panic!("it has no heading:\n{told}"));
    let first = story.lines().next().unwrap_or_default();
    assert!(first.contains("apply configmaps/a → 201"), "{told}");
    assert!(
        story.contains("mirror                   woken for default/a: ConfigMap default/a created"),
        "{told}"
    );
}

#[test]
fn a_test_that_passes_tells_nothing() {
    let Played { passed, told } = play("worlds::it_tells_its_world", &[]);
    assert!(passed && !told.contains("what happened"), "{told}");
}

async fn mirrored(cluster: &Cluster) -> kube::Result<()> {
    cluster.run(mirror::controller);
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, embedded = "a part of another test")]
async fn it_panics(cluster: Cluster) -> kube::Result<()> {
    if child::is_this() {
        mirrored(&cluster).await?;
        let secret = cluster.get::<Secret>("a").await?;
        assert_eq!(value(&secret).as_deref(), Some("two"), "the secret differs");
    }
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, embedded = "a part of another test")]
async fn it_ends_in_an_error(cluster: Cluster) -> kube::Result<()> {
    if child::is_this() {
        mirrored(&cluster).await?;
        cluster.get::<Secret>("b").await?;
    }
    Ok(())
}

#[test]
fn variables_choose_seed_and_time() {
    let check = |variables: &[(&str, &str)], world: &str| {
        let Played { passed, told } = play("worlds::it_tells_its_world", variables);
        assert!(passed && told.contains(world), "{variables:?}: no {world:?} in {told}");
    };
    check(&[], "world: seed Some(0), paused true, CurrentThread, in default");
    check(&[("EVENKEEL_SEED", "12")], "world: seed Some(12), paused true, CurrentThread, in default");
    check(&[("EVENKEEL_REAL_TIME", "1")], "world: seed None, paused false, MultiThread, in default");
}

/// A malformed seed used to become the default seed, so that a failure could not be reproduced.
#[test]
fn a_malformed_variable_fails_the_test() {
    for (name, value) in [("EVENKEEL_SEED", "abc"), ("EVENKEEL_SEED", "-1"), ("EVENKEEL_REAL_TIME", "yes")] {
        let Played { passed, told } = play("worlds::it_tells_its_world", &[(name, value)]);
        assert!(!passed && told.contains(&format!("{name}={value:?}: ")), "{told}");
    }
}

/// Runs in each environment: the operator follows changes, writes nothing after a restart, and a user without a role is
/// refused.
#[evenkeel_macros::test(crate = evenkeel_cluster)]
async fn it_tells_its_world(cluster: Cluster) -> kube::Result<()> {
    if !child::is_this() {
        return Ok(());
    }
    let flavor = tokio::runtime::Handle::current().runtime_flavor();
    let (seed, paused) = (cluster.env().seed(), evenkeel_env::time_is_paused());
    println!("world: seed {seed:?}, paused {paused}, {flavor:?}, in {}", cluster.namespace());
    mirrored(&cluster).await?;
    assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("one"));
    cluster.mark();
    cluster.apply(config("a", "one")).await?;
    cluster.restart(mirror::NAME);
    cluster.settled().await;
    cluster.assert_no_writes();
    cluster.patch::<ConfigMap>("a", serde_json::json!({"data": {"key": "two"}})).await?;
    cluster.settled().await;
    let by: Vec<_> = cluster.writes().iter().map(|write| format!("{} {}", write.by, write.method)).collect();
    assert_eq!(by, ["client PATCH", "mirror PATCH"]);
    let alice = cluster.acting_as(User::new("alice", ["system:authenticated"]));
    assert!(alice.get_opt::<Secret>("a").await.is_err(), "alice has no role");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, embedded = "it looks for itself alone")]
async fn it_needs_this_process(_cluster: Cluster) {
    if child::is_this() {
        println!("it ran");
    }
}

/// The test kit on a remote cluster, here an embedded one that is served over TLS. `just real kit` uses a real one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubeconfig_chooses_the_cluster() -> kube::Result<()> {
    let cluster = Cluster::start().await.expect("a cluster in memory starts");
    let server = cluster.serve(ServeOptions::default()).await.expect("a port is free");
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("worlds-{}", std::process::id()));
    server.write_kubeconfig(&kubeconfig).expect("the folder is the tests' own");
    let serving = tokio::spawn(server.run(std::future::pending()));
    // An object in another namespace, which the test's operator must not touch.
    cluster.apply(config("b", "one")).await?;

    let path = kubeconfig.display().to_string();
    let played = tokio::task::spawn_blocking(move || {
        let variables = [("EVENKEEL_KUBECONFIG", path.as_str())];
        ["worlds::it_tells_its_world", "worlds::it_needs_this_process"].map(|test| play(test, &variables))
    });
    let [told, skipped] = played.await.expect("it does not panic");
    std::fs::remove_file(&kubeconfig).expect("it was written");

    let world = "world: seed None, paused false, MultiThread, in evenkeel-test-";
    assert!(told.passed && told.told.contains(world), "{}", told.told);
    assert!(told.told.contains("remote: passed worlds::it_tells_its_world"), "{}", told.told);
    let why = "worlds::it_needs_this_process: it looks for itself alone";
    assert!(skipped.passed && skipped.told.contains(why), "{}", skipped.told);
    assert!(!skipped.told.contains("it ran"), "{}", skipped.told);

    assert!(cluster.get_opt::<Secret>("b").await?.is_none(), "its operator saw another namespace");
    cluster.settled().await;
    let namespaces: Vec<_> = cluster.list::<Namespace>().await?.iter().map(|it| it.name_any()).collect();
    assert!(!namespaces.iter().any(|name| name.starts_with("evenkeel-test-")), "{namespaces:?}");
    serving.abort();
    Ok(())
}
