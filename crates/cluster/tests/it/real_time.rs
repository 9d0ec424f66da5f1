//! One test body in three environments: paused time on one thread, real time on several threads, and a remote cluster
//! if `EVENKEEL_KUBECONFIG` names one (`just real kit`).

use evenkeel_cluster::{Cluster, CrashPoint, Fault, Matcher, testing};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::json;

use crate::mirror::{self, NAME, config, value};

/// Runs a test body in paused time and in real time. If there is a remote cluster, it runs there twice instead.
fn check<F: Future<Output = kube::Result<()>>>(test: impl Fn(Cluster) -> F) {
    for real_time in [false, true] {
        let result = testing::run(testing::options().real_time(real_time), &test);
        assert!(result.is_ok(), "real_time: {real_time}: {result:?}");
    }
}

#[test]
fn an_operator_follows_and_survives() {
    check(|cluster| async move {
        cluster.run(mirror::controller);
        cluster.crash(NAME, CrashPoint::AnswerLost(1));
        cluster.apply(config("a", "one")).await?;
        cluster.settled().await;
        assert_eq!(cluster.crashes(NAME), 1);
        cluster.fail(Matcher::writes().by(NAME), Fault::Conflict, 2);
        cluster.cut_watch(Matcher::any().by(NAME));
        cluster.patch::<ConfigMap>("a", json!({"data": {"key": "two"}})).await?;
        cluster.settled().await;
        assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("two"));
        cluster.mark();
        cluster.restart(NAME);
        cluster.settled().await;
        cluster.assert_no_writes();
        Ok(())
    });
}

#[test]
fn pods_run() {
    check(|cluster| async move {
        let pod =
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
        cluster.apply::<Pod>(serde_json::from_value(pod).expect("it is one")).await?;
        cluster.settled().await;
        cluster.assert_has::<Pod>("a", json!({"status": {"phase": "Running"}})).await;
        cluster.delete::<Pod>("a").await?;
        cluster.settled().await;
        cluster.assert_none::<Pod>().await;
        Ok(())
    });
}

#[evenkeel_macros::test(crate = evenkeel_cluster, real_time = true)]
async fn real_time_passes_by_itself(cluster: Cluster) {
    assert!(!evenkeel_env::time_is_paused());
    cluster.settled().await;
}
