//! The recipes of the book's page about pods do what the page says.

use std::time::Duration;

use evenkeel_cluster::Cluster;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Node, Pod};
use serde_json::json;

use crate::world::{Outcome, is_ready, with_nodes};

const PAGE: &str = include_str!("../../../../docs/src/pods.md");

/// Returns the first block of code of a recipe.
fn block(title: &str) -> String {
    let recipe = PAGE.split(&format!("**{title}.**")).nth(1).unwrap_or_else(|| panic!("no recipe {title}"));
    let recipe = recipe.split("\n**").next().unwrap();
    let code = recipe.split("```").nth(1).unwrap_or_else(|| panic!("no code in the recipe {title}"));
    code.split_once('\n').unwrap().1.to_owned()
}

/// Applies a pod with the annotations of a recipe, and lets everything happen that comes within a minute.
async fn cook(cluster: &Cluster, title: &str, spec: &str) -> Outcome {
    let words: Vec<_> = block(title)
        .lines()
        .filter(|line| line.contains("node.evenkeel.dev/"))
        .map(|line| format!("    {}", line.trim()))
        .collect();
    assert!(!words.is_empty(), "{title}");
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  finalizers: [example.com/held]\n  annotations:\n{}\nspec:\n{spec}",
        words.join("\n")
    );
    cluster.apply_yaml(&text).await?;
    Ok(())
}

const CONTAINER: &str = "  containers: [{name: db, image: i}]\n";

async fn status(cluster: &Cluster) -> kube::Result<ContainerStatus> {
    let status = cluster.get::<Pod>("a").await?.status.unwrap();
    Ok(status.container_statuses.unwrap().remove(0))
}

fn waiting(status: &ContainerStatus) -> String {
    let state = status.state.clone().unwrap();
    state.waiting.and_then(|it| it.reason).unwrap_or_default()
}

#[test]
fn a_crash_loop_and_a_crash_that_heals() {
    with_nodes(1, |cluster| async move {
        cook(&cluster, "A crash loop", CONTAINER).await?;
        cluster.settled().await;
        assert_eq!(waiting(&status(&cluster).await?), "CrashLoopBackOff");
        Ok(())
    });
    with_nodes(1, |cluster| async move {
        cook(&cluster, "A crash that heals", CONTAINER).await?;
        cluster.settled().await;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(status(&cluster).await?.restart_count, 2);
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn a_slow_start() {
    with_nodes(1, |cluster| async move {
        cook(&cluster, "A slow start", CONTAINER).await?;
        cluster.advance(Duration::from_secs(2)).await;
        assert!(status(&cluster).await?.state.unwrap().running.is_none());
        cluster.advance(Duration::from_secs(10)).await;
        assert!(status(&cluster).await?.state.unwrap().running.is_some());
        assert!(!is_ready(&cluster.get::<Pod>("a").await?));
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn a_failing_probe() {
    with_nodes(1, |cluster| async move {
        let probe = "livenessProbe: {periodSeconds: 5, failureThreshold: 2, tcpSocket: {port: 1}}";
        cook(&cluster, "A failing probe", &format!("  containers: [{{name: db, image: i, {probe}}}]\n"))
            .await?;
        cluster.settled().await;
        cluster.advance(Duration::from_secs(16)).await;
        cluster.settled().await;
        assert!(status(&cluster).await?.restart_count >= 1);
        let reasons: Vec<_> =
            cluster.list::<Event>().await?.into_iter().filter_map(|event| event.reason).collect();
        for reason in ["Unhealthy", "Killing"] {
            assert!(reasons.iter().any(|it| it == reason), "{reason}: {reasons:?}");
        }
        Ok(())
    });
}

#[test]
fn a_bad_image() {
    with_nodes(1, |cluster| async move {
        cook(&cluster, "A bad image", CONTAINER).await?;
        cluster.settled().await;
        assert_eq!(waiting(&status(&cluster).await?), "ImagePullBackOff");
        let twice = json!({"metadata": {"annotations": {"node.evenkeel.dev/pull": "fail:2"}}});
        cluster.patch::<Pod>("a", twice).await?;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn a_job_that_fails_twice() {
    with_nodes(1, |cluster| async move {
        cluster.apply_yaml(&block("A job that fails twice")).await?;
        cluster.settled().await;
        let status = cluster.get::<Job>("import").await?.status.unwrap();
        assert_eq!((status.failed, status.succeeded), (Some(2), Some(1)));
        Ok(())
    });
}

#[test]
fn out_of_memory_and_a_container_that_does_not_stop() {
    with_nodes(1, |cluster| async move {
        cook(&cluster, "Out of memory", CONTAINER).await?;
        cluster.settled().await;
        let ended = status(&cluster).await?.last_state.unwrap().terminated.unwrap();
        assert_eq!((ended.exit_code, ended.reason.as_deref()), (137, Some("OOMKilled")));
        Ok(())
    });
    with_nodes(1, |cluster| async move {
        let spec = format!("  terminationGracePeriodSeconds: 20\n{CONTAINER}");
        cook(&cluster, "A container that does not stop", &spec).await?;
        cluster.settled().await;
        cluster.delete::<Pod>("a").await?;
        cluster.advance(Duration::from_secs(15)).await;
        assert!(status(&cluster).await?.state.unwrap().running.is_some());
        cluster.advance(Duration::from_secs(10)).await;
        assert_eq!(status(&cluster).await?.state.unwrap().terminated.unwrap().exit_code, 137);
        Ok(())
    });
}

#[test]
fn a_script() {
    with_nodes(1, |cluster| async move {
        let script = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n{}", block("A script"));
        cluster.apply_yaml(&script).await?;
        cluster.settled().await;
        let pod = cluster.get::<Pod>("a").await?.status.unwrap();
        assert_eq!(pod.phase.as_deref(), Some("Succeeded"));
        assert_eq!(status(&cluster).await?.restart_count, 1);
        Ok(())
    });
}

#[test]
fn a_lost_node_an_eviction_and_a_preemption() {
    with_nodes(2, |cluster| async move {
        let command = block("A lost node");
        let (key, value) = command.trim().rsplit(' ').next().unwrap().split_once('=').unwrap();
        cluster.apply_yaml("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: node-1, containers: [{name: db, image: i}]}}").await?;
        cluster.settled().await;
        cluster.patch::<Node>("node-1", json!({"metadata": {"annotations": {key: value}}})).await?;
        cluster.advance(Duration::from_secs(60)).await;
        assert!(!is_ready(&cluster.get::<Pod>("a").await?));
        cluster.advance(Duration::from_secs(310)).await;
        assert!(cluster.get::<Pod>("a").await?.metadata.deletion_timestamp.is_some());
        // kubectl taint node NODE KEY=VALUE:EFFECT
        let command = block("An eviction");
        let (key, rest) = command.trim().rsplit(' ').next().unwrap().split_once('=').unwrap();
        let (value, effect) = rest.split_once(':').unwrap();
        cluster.apply_yaml("{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {nodeName: node-2, containers: [{name: db, image: i}]}}").await?;
        cluster.settled().await;
        cluster
            .patch::<Node>(
                "node-2",
                json!({"spec": {"taints": [{"key": key, "value": value, "effect": effect}]}}),
            )
            .await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<Pod>("b").await?.is_none());
        cluster.patch::<Node>("node-2", json!({"spec": {"taints": null}})).await?;
        // kubectl patch node … -p 'PATCH'
        let command = block("A preemption");
        let patch = serde_json::from_str(command.split('\'').nth(1).unwrap())?;
        cluster.patch_status::<Node>("node-2", patch).await?;
        cluster
            .apply_yaml(
                "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}",
            )
            .await?;
        for (name, class) in
            [("low", ""), ("first", "priorityClassName: high,"), ("second", "priorityClassName: high,")]
        {
            cluster.apply_yaml(&format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{class} containers: [{{name: c, image: i, resources: {{limits: {{example.com/slots: '1'}}}}}}]}}}}")).await?;
            cluster.settled().await;
        }
        assert!(cluster.get_opt::<Pod>("low").await?.is_none());
        assert!(is_ready(&cluster.get::<Pod>("second").await?));
        Ok(())
    });
}
