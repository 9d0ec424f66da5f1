//! Pods on simulated nodes: what they wait for, how they fail, what is told about them.

use std::time::Duration;

use evenkeel_cluster::{Behaviour, Cluster, Matcher, PodRule};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::core::params::DeleteParams;
use serde_json::{Value, json};

use crate::world::{is_ready, object, with_nodes};

fn pod(name: &str, words: &[(&str, &str)], spec: Value) -> Pod {
    let mut full = json!({"containers": [{"name": "c", "image": "i:1"}]});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let words: serde_json::Map<_, _> =
        words.iter().map(|(word, value)| (format!("node.evenkeel.dev/{word}"), json!(value))).collect();
    object(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": words}, "spec": full}),
    )
}

/// Returns the state of the first container, in words.
async fn state(cluster: &Cluster, name: &str) -> kube::Result<String> {
    let pod = serde_json::to_value(cluster.get::<Pod>(name).await?).unwrap();
    let status = &pod["status"]["containerStatuses"][0];
    let (state, detail) = status["state"].as_object().unwrap().iter().next().unwrap();
    let reason = detail["reason"].as_str().unwrap_or_default();
    Ok(format!("{} {state} {reason} {}", pod["status"]["phase"].as_str().unwrap(), status["restartCount"]))
}

/// Returns the events about an object, as reason and message.
async fn events(cluster: &Cluster, name: &str) -> kube::Result<Vec<String>> {
    let events = cluster.list::<Event>().await?;
    let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
    let text =
        |event: Event| format!("{} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default());
    Ok(about.map(text).collect())
}

#[test]
fn a_pod_waits_for_what_its_environment_refers_to() {
    with_nodes(1, |cluster| async move {
        let env =
            json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}}]);
        let optional = json!([{"secretRef": {"name": "none", "optional": true}}]);
        let spec = json!({"containers": [{"name": "c", "image": "i", "env": env, "envFrom": optional}]});
        cluster.apply(pod("a", &[], spec)).await?;
        cluster.settled().await;
        assert_eq!(state(&cluster, "a").await?, "Pending waiting CreateContainerConfigError 0");
        let told = events(&cluster, "a").await?;
        assert!(told.contains(&"Failed Error: configmap \"settings\" not found".to_owned()), "{told:?}");
        let map = |data: Value| object::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": data}));
        cluster.apply(map(json!({"size": "1"}))).await?;
        cluster.settled().await;
        let told = events(&cluster, "a").await?;
        let missing = "Failed Error: couldn't find key color in ConfigMap default/settings".to_owned();
        assert!(told.contains(&missing), "{told:?}");
        cluster.apply(map(json!({"color": "red"}))).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn a_pod_waits_for_its_volumes() {
    with_nodes(1, |cluster| async move {
        let volumes = json!([{"name": "v", "secret": {"secretName": "s"}}, {"name": "o", "configMap": {"name": "m", "optional": true}}]);
        cluster.apply(pod("a", &[], json!({"volumes": volumes}))).await?;
        cluster.settled().await;
        assert_eq!(state(&cluster, "a").await?, "Pending waiting ContainerCreating 0");
        let failed = "FailedMount MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found";
        assert!(events(&cluster, "a").await?.contains(&failed.to_owned()));
        cluster.apply(object::<Secret>(json!({"metadata": {"name": "s"}}))).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn a_missing_image_pull_secret_is_told() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", &[], json!({"imagePullSecrets": [{"name": "registry"}]}))).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        let told = events(&cluster, "a").await?;
        assert!(told.iter().any(|event| event.starts_with("FailedToRetrieveImagePullSecret")), "{told:?}");
        Ok(())
    });
}

#[test]
fn a_plain_pod_tells_its_life() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", &[], json!({}))).await?;
        cluster.settled().await;
        cluster.delete::<Pod>("a").await?;
        cluster.settled().await;
        let told = events(&cluster, "a").await?;
        for reason in ["Scheduled", "Pulled", "Created", "Started", "Killing"] {
            assert!(told.iter().any(|event| event.starts_with(reason)), "{reason}: {told:?}");
        }
        Ok(())
    });
}

/// A crash loop used to keep the ledger busy, and a year of it took minutes.
#[test]
fn a_crash_loop_settles_and_a_month_of_it_costs_little() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", &[("behaviour", "crash-loop")], json!({}))).await?;
        cluster.settled().await;
        assert_eq!(state(&cluster, "a").await?, "Running waiting CrashLoopBackOff 1");
        cluster.mark();
        cluster.advance(Duration::from_secs(3600 * 6)).await;
        let writes =
            cluster.writes().into_iter().filter(|write| format!("{write:?}").contains("pods")).count();
        assert!(writes < 120, "{writes} writes of pods");
        cluster
            .patch::<Pod>("a", json!({"metadata": {"annotations": {"node.evenkeel.dev/behaviour": null}}}))
            .await?;
        cluster.advance(Duration::from_secs(301)).await;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn two_pods_cannot_have_one_port_of_a_node() {
    with_nodes(1, |cluster| async move {
        let ports = json!([{"containerPort": 80, "hostPort": 80}]);
        let spec = json!({"nodeName": "node-1", "containers": [{"name": "c", "image": "i", "ports": ports}]});
        cluster.apply(pod("a", &[], spec.clone())).await?;
        cluster.settled().await;
        cluster.apply(pod("b", &[], spec)).await?;
        cluster.settled().await;
        let status = cluster.get::<Pod>("b").await?.status.unwrap();
        assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("NodePorts")));
        Ok(())
    });
}

/// A node that had not seen yet that its pod was replaced by another one of the same name told of it how the old one ended.
#[test]
fn the_end_of_a_pod_is_not_told_of_its_successor() {
    with_nodes(1, |cluster| async move {
        let spec = |policy: &str| json!({"nodeName": "node-1", "restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]});
        cluster.apply(pod("a", &[("run-for", "5s")], spec("Never"))).await?;
        cluster.advance(Duration::from_secs(1)).await;
        cluster.hold_watches(Matcher::any().kind::<Pod>());
        cluster.api::<Pod>().delete("a", &DeleteParams::default().grace_period(0)).await?;
        cluster.apply(pod("a", &[], spec("Always"))).await?;
        cluster.advance(Duration::from_secs(10)).await;
        let phase = cluster.get::<Pod>("a").await?.status.unwrap().phase;
        assert_eq!(phase.as_deref(), Some("Pending"), "no node has seen the new pod");
        cluster.release_watches();
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn pods_that_name_their_node_must_fit() {
    with_nodes(1, |cluster| async move {
        let takes = |cpu: &str| json!({"nodeName": "node-1", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
        cluster.apply(pod("a", &[], takes("20"))).await?;
        cluster.settled().await;
        cluster.apply(pod("b", &[], takes("20"))).await?;
        cluster.settled().await;
        let status = cluster.get::<Pod>("b").await?.status.unwrap();
        assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("OutOfcpu")));
        assert_eq!(status.observed_generation, Some(1));
        cluster.delete::<Pod>("a").await?;
        cluster.settled().await;
        cluster.apply(pod("c", &[], takes("20"))).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("c").await?));
        Ok(())
    });
}

#[test]
fn a_job_fails_twice_and_then_succeeds() {
    with_nodes(1, |cluster| async move {
        let template = json!({"metadata": {"annotations": {"node.evenkeel.dev/exit-code": "1,1,0"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let job: Job = object(json!({"metadata": {"name": "j"}, "spec": {"template": template}}));
        cluster.apply(job).await?;
        cluster.settled().await;
        let status = cluster.get::<Job>("j").await?.status.unwrap();
        assert_eq!((status.succeeded, status.failed), (Some(1), Some(2)));
        Ok(())
    });
}

#[test]
fn a_rule_counts_for_running_containers_too() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", &[], json!({}))).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        cluster.tell_pods(PodRule::new(Behaviour::new().never_ready()).image("i:*"));
        cluster.settled().await;
        assert!(!is_ready(&cluster.get::<Pod>("a").await?));
        cluster.clear_pod_rules();
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn a_container_prints_its_lines() {
    with_nodes(1, |cluster| async move {
        cluster
            .apply(pod("a", &[("log", "one\n@2s two"), ("exit-code", "1"), ("run-for", "3s")], json!({})))
            .await?;
        cluster.settled().await;
        let pod: evenkeel_tree::Tree = serde_json::to_value(cluster.get::<Pod>("a").await?)?.into();
        let lines = cluster.pod_logs().lines(&pod, "c", true, cluster.env().now());
        let lines: Vec<_> = lines.unwrap().into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["one", "two"]);
        Ok(())
    });
}

/// Returns a container that runs a script and mounts an emptyDir at `/data`.
fn scripted(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "busybox", "command": ["/bin/sh", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]})
}

#[test]
fn a_script_decides_how_a_pod_ends() {
    with_nodes(1, |cluster| async move {
        let volumes = json!([{"name": "data", "emptyDir": {}}]);
        let spec = |policy: &str, script: &str| json!({"restartPolicy": policy, "volumes": volumes, "containers": [scripted("c", script)]});
        cluster.apply(pod("fails", &[], spec("Never", "echo oops; sleep 2; exit 3"))).await?;
        cluster
            .apply(pod(
                "recovers",
                &[],
                spec("OnFailure", "if [ -f /data/foo ]; then exit 0; else touch /data/foo; exit 1; fi"),
            ))
            .await?;
        cluster.apply(pod("told", &[], spec("Never", "echo -n DONE > /dev/termination-log"))).await?;
        cluster.apply(pod("runs", &[], spec("Never", "while true; do sleep 1; done"))).await?;
        cluster.settled().await;
        assert_eq!(state(&cluster, "fails").await?, "Failed terminated Error 0");
        assert_eq!(state(&cluster, "recovers").await?, "Succeeded terminated Completed 1");
        assert_eq!(state(&cluster, "runs").await?, "Running running  0");
        let told = serde_json::to_value(cluster.get::<Pod>("told").await?)?;
        assert_eq!(
            told.pointer("/status/containerStatuses/0/state/terminated/message"),
            Some(&json!("DONE"))
        );
        let fails: evenkeel_tree::Tree = serde_json::to_value(cluster.get::<Pod>("fails").await?)?.into();
        let lines = cluster.pod_logs().lines(&fails, "c", false, cluster.env().now()).unwrap();
        assert_eq!(lines.into_iter().map(|line| line.text).collect::<Vec<_>>(), ["oops"]);
        Ok(())
    });
}

/// A script that always fails is a crash loop like any other.
#[test]
fn a_day_of_a_failing_script_costs_little() {
    with_nodes(1, |cluster| async move {
        cluster
            .apply(pod(
                "a",
                &[],
                json!({"containers": [{"name": "c", "image": "i", "command": ["sh", "-c", "exit 1"]}]}),
            ))
            .await?;
        cluster.settled().await;
        assert_eq!(state(&cluster, "a").await?, "Running waiting CrashLoopBackOff 1");
        cluster.mark();
        cluster.advance(Duration::from_secs(3600 * 24)).await;
        let writes =
            cluster.writes().into_iter().filter(|write| format!("{write:?}").contains("pods")).count();
        assert!(writes < 160, "{writes} writes of pods");
        Ok(())
    });
}

/// As in the conformance tests of Jobs whose pods fail once.
#[test]
fn a_job_whose_indexes_fail_once_completes() {
    with_nodes(1, |cluster| async move {
        let script = "if [[ -r /data/foo-$JOB_COMPLETION_INDEX ]]\nthen exit 0\nelse\n touch /data/foo-$JOB_COMPLETION_INDEX\n exit 42\nfi";
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [scripted("c", script)],
            "volumes": [{"name": "data", "hostPath": {"path": "/tmp/job"}}]}});
        let job: Job =
            object(json!({"metadata": {"name": "j"}, "spec": {"completionMode": "Indexed", "completions": 3,
            "parallelism": 3, "backoffLimitPerIndex": 1, "template": template}}));
        cluster.apply(job).await?;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.settled().await;
        let status = cluster.get::<Job>("j").await?.status.unwrap();
        assert_eq!((status.succeeded, status.failed), (Some(3), Some(3)));
        assert_eq!(status.completed_indexes.as_deref(), Some("0-2"));
        Ok(())
    });
}

#[test]
fn a_pod_is_active_no_longer_than_its_deadline() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", &[], json!({"activeDeadlineSeconds": 30}))).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        cluster.advance(Duration::from_secs(35)).await;
        cluster.settled().await;
        let status = cluster.get::<Pod>("a").await?.status.unwrap();
        assert_eq!(
            (status.phase.as_deref(), status.reason.as_deref()),
            (Some("Failed"), Some("DeadlineExceeded"))
        );
        Ok(())
    });
}
