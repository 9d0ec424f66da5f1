//! The events of the built-in controllers, the scheduler and the nodes, against the list of those that Kubernetes' have.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher, testing};
use http::Method;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, ResourceQuota,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::params::DeleteParams;
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

use crate::world::{Outcome, with, with_nodes};

/// One row of the list: an event that a component of Kubernetes v1.36 may record.
struct Row {
    line: &'static str,
    component: &'static str,
    event_type: &'static str,
    reason: &'static str,
    kind: &'static str,
    /// The message, with `*` for what varies.
    message: &'static str,
    ours: &'static str,
}

/// Reads the list: component, type, reason, kind of the object, message, whether it is recorded here too, and why not.
/// `emitted` events are seen in this test; `unseen` ones are recorded in cases to which the test does not come; `absent`
/// ones are never recorded.
fn rows() -> Vec<Row> {
    let row = |line: &'static str| {
        let cells: Vec<_> = line.split('\t').collect();
        let reasons = cells.len() - 6;
        assert!(["emitted", "unseen", "absent"].contains(&cells[5]), "{line}");
        assert_eq!(reasons, usize::from(cells[5] != "emitted"), "what is not seen needs a reason: {line}");
        Row {
            line,
            component: cells[0],
            event_type: cells[1],
            reason: cells[2],
            kind: cells[3],
            message: cells[4],
            ours: cells[5],
        }
    };
    include_str!("../events.tsv").lines().map(row).collect()
}

/// Whether a text has the form of a pattern, in which `*` stands for any text.
fn has_form(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

impl Row {
    fn is_of(&self, event: &Event) -> bool {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let any = |cell: &str, value: &str| cell == "*" || cell == value;
        let message = text(&event.message);
        let message = message.strip_prefix("(combined from similar events): ").unwrap_or(&message);
        any(self.component, &text(&event.reporting_component))
            && any(self.event_type, &text(&event.type_))
            && any(self.reason, &text(&event.reason))
            && any(self.kind, &text(&event.involved_object.kind))
            && has_form(message, self.message)
    }
}

/// Events must say who tells them and when, in the form of their component: kube-scheduler records those of
/// `events.k8s.io`, all others those of core/v1.
fn check_form(event: &Event) {
    let reporter = event.reporting_component.as_deref().unwrap_or_default();
    let source = event.source.clone().unwrap_or_default();
    if reporter == "default-scheduler" {
        assert!(event.event_time.is_some() && event.first_timestamp.is_none(), "{event:?}");
        assert!(event.action.is_some() && event.reporting_instance.is_some(), "{event:?}");
        return;
    }
    assert_eq!(source.component.as_deref(), Some(reporter), "{event:?}");
    assert!(event.count >= Some(1) && event.event_time.is_none(), "{event:?}");
    assert!(event.first_timestamp.is_some() && event.first_timestamp <= event.last_timestamp, "{event:?}");
    if reporter == "kubelet" {
        let host = source.host.unwrap_or_default();
        assert!(host.starts_with("node-") && event.reporting_instance == Some(host), "{event:?}");
    }
}

/// The events that the scenarios have seen.
type Seen = Arc<Mutex<Vec<Event>>>;

async fn note(cluster: &Cluster, seen: &Seen) -> Outcome {
    let all: Api<Event> = Api::all(cluster.client());
    let events = all.list(&Default::default()).await?.items;
    seen.lock().extend(events);
    Ok(())
}

/// Applies a text and lets everything happen.
async fn act(cluster: &Cluster, yaml: &str) -> Outcome {
    cluster.apply_yaml(yaml).await?;
    cluster.settled().await;
    Ok(())
}

/// Lets the deletion of one pod fail once.
fn refuse_deletion(cluster: &Cluster) {
    cluster.fail(Matcher::any().method(Method::DELETE).path("/pods/"), Fault::Denied, 1);
}

const TEMPLATE: &str = "{metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}";

/// A namespace's quota of a resource.
async fn quota(cluster: &Cluster, resource: &str, number: u32) -> Outcome {
    act(cluster, &format!("{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q}}, spec: {{hard: {{{resource}: '{number}'}}}}}}")).await
}

async fn no_quota(cluster: &Cluster) -> Outcome {
    cluster.delete::<ResourceQuota>("q").await?;
    cluster.settled().await;
    Ok(())
}

fn workloads(seen: &Seen) {
    let seen = seen.clone();
    with_nodes(2, |cluster| async move {
        let replicated = |api: &str, kind: &str, selector: &str| {
            format!(
                "{{apiVersion: {api}, kind: {kind}, metadata: {{name: x}}, spec: {{replicas: 2, selector: {selector}, template: {TEMPLATE}}}}}"
            )
        };
        // Deployments and ReplicaSets.
        quota(&cluster, "count/replicasets.apps", 0).await?;
        cluster.apply_yaml(&replicated("apps/v1", "Deployment", "{matchLabels: {app: x}}")).await?;
        cluster.advance(Duration::from_secs(5)).await;
        no_quota(&cluster).await?;
        cluster.advance(Duration::from_secs(120)).await;
        refuse_deletion(&cluster);
        cluster.patch::<Deployment>("x", json!({"spec": {"replicas": 1}})).await?;
        cluster.advance(Duration::from_secs(30)).await;
        cluster.settled().await;
        cluster.delete::<Deployment>("x").await?;
        cluster.settled().await;
        quota(&cluster, "pods", 1).await?;
        cluster.apply_yaml(&replicated("apps/v1", "ReplicaSet", "{matchLabels: {app: x}}")).await?;
        cluster.advance(Duration::from_secs(5)).await;
        cluster.delete::<ReplicaSet>("x").await?;
        cluster.advance(Duration::from_secs(5)).await;
        cluster.apply_yaml(&replicated("v1", "ReplicationController", "{app: x}")).await?;
        cluster.advance(Duration::from_secs(5)).await;
        no_quota(&cluster).await?;
        cluster.advance(Duration::from_secs(120)).await;
        refuse_deletion(&cluster);
        cluster.patch::<ReplicationController>("x", json!({"spec": {"replicas": 0}})).await?;
        cluster.advance(Duration::from_secs(30)).await;
        cluster.delete::<ReplicationController>("x").await?;
        cluster.settled().await;
        // DaemonSets. One of the nodes has no free port.
        let port = "ports: [{containerPort: 80, hostPort: 80}]";
        act(&cluster, &format!("{{apiVersion: v1, kind: Pod, metadata: {{name: port}}, spec: {{nodeName: node-1, containers: [{{name: c, image: i, {port}}}]}}}}")).await?;
        quota(&cluster, "pods", 1).await?;
        cluster.apply_yaml(&format!("{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: x}}, spec: {{selector: {{matchLabels: {{app: x}}}}, template: {TEMPLATE}}}}}")).await?;
        cluster.advance(Duration::from_secs(5)).await;
        no_quota(&cluster).await?;
        cluster.advance(Duration::from_secs(120)).await;
        let daemon = cluster.list::<Pod>().await?.into_iter().find(|pod| pod.name_any() != "port").unwrap();
        let failed = json!({"status": {"phase": "Failed"}});
        cluster.patch_status::<Pod>(&daemon.name_any(), failed).await?;
        cluster.settled().await;
        refuse_deletion(&cluster);
        cluster
            .patch::<DaemonSet>(
                "x",
                json!({"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}}),
            )
            .await?;
        cluster.advance(Duration::from_secs(30)).await;
        cluster.settled().await;
        note(&cluster, &seen).await
    });
}

fn stateful_sets(seen: &Seen) {
    let seen = seen.clone();
    with_nodes(1, |cluster| async move {
        let set = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 1, serviceName: s, \
            selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}, \
            volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}";
        quota(&cluster, "persistentvolumeclaims", 0).await?;
        cluster.apply_yaml(set).await?;
        cluster.advance(Duration::from_secs(5)).await;
        no_quota(&cluster).await?;
        quota(&cluster, "pods", 0).await?;
        cluster.advance(Duration::from_secs(60)).await;
        no_quota(&cluster).await?;
        cluster.advance(Duration::from_secs(120)).await;
        refuse_deletion(&cluster);
        cluster.patch::<StatefulSet>("s", json!({"spec": {"replicas": 0}})).await?;
        cluster.advance(Duration::from_secs(30)).await;
        cluster.settled().await;
        note(&cluster, &seen).await
    });
}

fn jobs(seen: &Seen) {
    let seen = seen.clone();
    with_nodes(1, |cluster| async move {
        let job = |name: &str, spec: &str, word: &str| {
            format!(
                "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: {{{spec} template: {{metadata: {{annotations: {{{word}}}}}, \
                spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}"
            )
        };
        let fails = "node.evenkeel.dev/exit-code: '3'";
        let runs = "node.evenkeel.dev/exit-code: run";
        act(&cluster, &job("good", "", "a: b")).await?;
        act(&cluster, &job("bad", "backoffLimit: 0,", fails)).await?;
        let policy =
            "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [3]}}]},";
        act(&cluster, &job("policy", policy, fails)).await?;
        let indexed = "completionMode: Indexed, completions: 2, parallelism: 2, backoffLimitPerIndex: 0,";
        act(&cluster, &job("indexes", indexed, fails)).await?;
        act(&cluster, &job("many", &format!("{indexed} maxFailedIndexes: 0,"), fails)).await?;
        act(&cluster, &job("slow", "activeDeadlineSeconds: 5,", runs)).await?;
        act(&cluster, &job("paused", "", runs)).await?;
        refuse_deletion(&cluster);
        for suspend in [true, false] {
            cluster.patch::<Job>("paused", json!({"spec": {"suspend": suspend}})).await?;
            cluster.advance(Duration::from_secs(20)).await;
            cluster.settled().await;
        }
        quota(&cluster, "pods", 0).await?;
        cluster.apply_yaml(&job("refused", "", "a: b")).await?;
        cluster.advance(Duration::from_secs(5)).await;
        note(&cluster, &seen).await
    });
}

fn cron_jobs(seen: &Seen) {
    let seen = seen.clone();
    with_nodes(1, |cluster| async move {
        let cron = |name: &str, spec: &str, word: &str| {
            format!(
                "{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: {name}}}, spec: {{{spec} jobTemplate: {{spec: {{template: \
                {{metadata: {{annotations: {{{word}}}}}, spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}}}}}"
            )
        };
        let runs = "node.evenkeel.dev/exit-code: run";
        cluster
            .apply_yaml(&cron("short", "schedule: '* * * * *', successfulJobsHistoryLimit: 1,", "a: b"))
            .await?;
        cluster.apply_yaml(&cron("long", "schedule: '* * * * *', concurrencyPolicy: Forbid,", runs)).await?;
        cluster.apply_yaml(&cron("never", "schedule: '59 23 31 2 *',", "a: b")).await?;
        cluster.apply_yaml(&cron("late", "schedule: '* * * * *', suspend: true,", runs)).await?;
        cluster.advance(Duration::from_secs(250)).await;
        cluster.fail(Matcher::any().method(Method::DELETE).path("/jobs/"), Fault::Denied, 1);
        cluster.advance(Duration::from_secs(120)).await;
        let long = cluster.get::<CronJob>("long").await?;
        let active = long.status.and_then(|it| it.active).unwrap_or_default();
        cluster.api::<Job>().delete(active[0].name.as_deref().unwrap(), &DeleteParams::background()).await?;
        cluster.advance(Duration::from_secs(5)).await;
        let owner = long.metadata.uid.unwrap();
        cluster.apply_yaml(&format!("{{apiVersion: batch/v1, kind: Job, metadata: {{name: mine, ownerReferences: [{{apiVersion: batch/v1, kind: CronJob, \
            name: long, uid: {owner}, controller: true}}]}}, spec: {{template: {{metadata: {{annotations: {{{runs}}}}}, \
            spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}")).await?;
        cluster.advance(Duration::from_secs(120)).await;
        cluster.advance(Duration::from_secs(3 * 3600)).await;
        cluster.patch::<CronJob>("late", json!({"spec": {"suspend": false}})).await?;
        cluster.advance(Duration::from_secs(5)).await;
        quota(&cluster, "count/jobs.batch", 0).await?;
        cluster.advance(Duration::from_secs(70)).await;
        note(&cluster, &seen).await
    });
}

fn scaling_and_disruption(seen: &Seen) {
    let seen = seen.clone();
    with_nodes(1, |cluster| async move {
        let scaler = |name: &str, target: &str| {
            format!(
                "{{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {{name: {name}}}, spec: {{maxReplicas: 2, \
                scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {target}}}, metrics: [{{type: Resource, resource: {{name: cpu, \
                target: {{type: Utilization, averageUtilization: 50}}}}}}]}}}}"
            )
        };
        act(&cluster, &format!("{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 3, selector: {{matchLabels: {{app: x}}}}, template: {TEMPLATE}}}}}")).await?;
        act(&cluster, &scaler("lost", "nothing")).await?;
        cluster.fail(Matcher::any().method(Method::PATCH).path("/scale"), Fault::Denied, 1);
        cluster.apply_yaml(&scaler("web", "web")).await?;
        cluster.advance(Duration::from_secs(60)).await;
        let budget = |name: &str, app: &str| {
            format!(
                "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: {name}}}, spec: {{maxUnavailable: 1, selector: {{matchLabels: {{app: {app}}}}}}}}}"
            )
        };
        act(&cluster, &budget("empty", "nobody")).await?;
        act(&cluster, "{apiVersion: v1, kind: Pod, metadata: {name: lone, labels: {app: lone}}, spec: {containers: [{name: c, image: i}]}}").await?;
        act(&cluster, &budget("lone", "lone")).await?;
        let granted = json!({"status": {"disruptedPods": {"lone": "2020-01-01T00:00:00Z"}}});
        cluster.patch_status::<PodDisruptionBudget>("lone", granted).await?;
        cluster.settled().await;
        note(&cluster, &seen).await
    });
}

fn claim(name: &str, extra: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 2Gi}}}}{extra}}}}}"
    )
}

fn volumes(seen: &Seen) {
    let (first, second) = (seen.clone(), seen.clone());
    with_nodes(1, |cluster| async move {
        let volume = |name: &str, extra: &str| {
            format!(
                "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}}}, spec: {{accessModes: [ReadWriteOnce], capacity: {{storage: 1Gi}}, hostPath: {{path: /x}}{extra}}}}}"
            )
        };
        act(&cluster, &volume("small", ", storageClassName: hand")).await?;
        act(&cluster, &volume("taken", ", claimRef: {namespace: default, name: other}")).await?;
        let class = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: hand}, provisioner: kubernetes.io/no-provisioner}";
        act(&cluster, class).await?;
        act(&cluster, &claim("no-class", ", storageClassName: ''")).await?;
        act(&cluster, &claim("no-such-class", ", storageClassName: none")).await?;
        act(&cluster, &claim("by-hand", ", storageClassName: hand")).await?;
        act(&cluster, &claim("too-large", ", storageClassName: hand, volumeName: small")).await?;
        act(&cluster, &claim("too-late", ", storageClassName: '', volumeName: taken")).await?;
        act(&cluster, &claim("good", "")).await?;
        let good = cluster.get::<PersistentVolumeClaim>("good").await?.spec.unwrap().volume_name.unwrap();
        let api: Api<PersistentVolume> = Api::all(cluster.client());
        api.patch(
            &good,
            &Default::default(),
            &kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}})),
        )
        .await?;
        api.delete(&good, &DeleteParams::default()).await?;
        cluster.settled().await;
        note(&cluster, &first).await
    });
    with(testing::options().nodes(0), |cluster| async move {
        let class = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: far}, provisioner: example.com/far}";
        act(&cluster, class).await?;
        act(&cluster, &claim("far", ", storageClassName: far")).await?;
        note(&cluster, &second).await
    });
}

fn nodes_and_scheduling(seen: &Seen) {
    let seen = seen.clone();
    with_nodes(2, |cluster| async move {
        let pod = |name: &str, spec: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{spec} containers: [{{name: c, image: i}}]}}}}"
            )
        };
        let taint = |taints: serde_json::Value| json!({"spec": {"taints": taints}});
        act(&cluster, &pod("evicted", "nodeName: node-1,")).await?;
        act(
            &cluster,
            &pod(
                "spared",
                "nodeName: node-1, tolerations: [{key: evict, operator: Exists, effect: NoExecute, tolerationSeconds: 300}],",
            ),
        )
        .await?;
        cluster.patch::<Node>("node-1", taint(json!([{"key": "evict", "effect": "NoExecute"}]))).await?;
        cluster.settled().await;
        act(&cluster, &pod("refused", "nodeName: node-1,")).await?;
        cluster.patch::<Node>("node-1", taint(json!(null))).await?;
        cluster.settled().await;
        // Preemption.
        let slots = json!({"status": {"capacity": {"example.com/slots": "1"}, "allocatable": {"example.com/slots": "1"}}});
        cluster.patch_status::<Node>("node-1", slots).await?;
        act(
            &cluster,
            "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}",
        )
        .await?;
        let takes = |name: &str, class: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{class} containers: [{{name: c, image: i, resources: {{limits: {{example.com/slots: '1'}}}}}}]}}}}"
            )
        };
        act(&cluster, &takes("low", "")).await?;
        act(&cluster, &takes("high", "priorityClassName: high,")).await?;
        act(&cluster, &pod("nowhere", "nodeSelector: {no: node},")).await?;
        // An owner that cannot be.
        let owner = cluster
            .apply_yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: kube-system}}")
            .await?;
        let owner = owner[0].metadata.uid.clone().unwrap();
        act(&cluster, &format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: child, ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: other, uid: {owner}}}]}}}}")).await?;
        cluster.advance(Duration::from_secs(5)).await;
        // A lost node, and nodes that are gone.
        cluster.stop_node("node-1").await?;
        cluster.advance(Duration::from_secs(120)).await;
        for node in ["node-1", "node-2"] {
            cluster.delete::<Node>(node).await?;
        }
        cluster.settled().await;
        act(&cluster, &pod("nobody", "")).await?;
        act(&cluster, "{apiVersion: v1, kind: Node, metadata: {name: new}}").await?;
        note(&cluster, &seen).await
    });
}

fn pods(seen: &Seen) {
    let seen = seen.clone();
    with_nodes(1, |cluster| async move {
        let pod = |name: &str, words: &str, spec: &str, container: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{{words}}}}}, spec: {{{spec} containers: [{{name: c, image: 'i:1'{container}}}]}}}}"
            )
        };
        let probe = |kind: &str| {
            format!(", {kind}: {{exec: {{command: [x]}}, periodSeconds: 1, failureThreshold: 1}}")
        };
        act(&cluster, &pod("pulls", "a: b", "", ", imagePullPolicy: Always")).await?;
        act(&cluster, &pod("bad-image", "node.evenkeel.dev/pull: fail", "", "")).await?;
        act(&cluster, &pod("crash", "node.evenkeel.dev/behaviour: crash-loop", "", "")).await?;
        act(&cluster, &pod("odd", "node.evenkeel.dev/behaviour: odd", "", "")).await?;
        act(&cluster, &pod("no-map", "a: b", "", ", envFrom: [{configMapRef: {name: none}}]")).await?;
        act(&cluster, &pod("no-secret", "a: b", "volumes: [{name: v, secret: {secretName: none}}],", ""))
            .await?;
        act(
            &cluster,
            &pod(
                "no-claim",
                "a: b",
                "nodeName: node-1, volumes: [{name: v, persistentVolumeClaim: {claimName: none}}],",
                "",
            ),
        )
        .await?;
        act(&cluster, &pod("no-pull-secret", "a: b", "imagePullSecrets: [{name: none}],", "")).await?;
        act(&cluster, &pod("ready", "node.evenkeel.dev/fail-readiness: 2s", "", &probe("readinessProbe")))
            .await?;
        act(&cluster, &pod("live", "node.evenkeel.dev/fail-liveness: 2s", "", &probe("livenessProbe")))
            .await?;
        act(&cluster, &pod("starts", "node.evenkeel.dev/fail-startup: 2s", "", &probe("startupProbe")))
            .await?;
        act(&cluster, &pod("slow", "a: b", "activeDeadlineSeconds: 5,", "")).await?;
        let port = ", ports: [{containerPort: 80, hostPort: 80}]";
        act(&cluster, &pod("port", "a: b", "nodeName: node-1,", port)).await?;
        act(&cluster, &pod("port-again", "a: b", "nodeName: node-1,", port)).await?;
        // Pods that their node refuses.
        act(&cluster, &pod("elsewhere", "a: b", "nodeName: node-1, nodeSelector: {no: node},", "")).await?;
        act(&cluster, &pod("windows", "a: b", "nodeName: node-1, os: {name: windows},", "")).await?;
        let labelled = "{apiVersion: v1, kind: Pod, metadata: {name: labelled, labels: {kubernetes.io/os: windows}}, spec: {nodeName: node-1, containers: [{name: c, image: i}]}}";
        act(&cluster, labelled).await?;
        for resource in ["cpu", "memory", "ephemeral-storage"] {
            let much = format!(", resources: {{requests: {{{resource}: 1Pi}}}}");
            act(&cluster, &pod(&format!("much-{resource}"), "a: b", "nodeName: node-1,", &much)).await?;
        }
        // A container that lets all others start again.
        let rule =
            "restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]";
        act(&cluster, &format!("{{apiVersion: v1, kind: Pod, metadata: {{name: again, annotations: {{node.evenkeel.dev/exit-code.c: '42,run'}}}}, spec: {{containers: [{{name: c, image: i, restartPolicy: Never, {rule}}}, {{name: d, image: i}}]}}}}")).await?;
        cluster.advance(Duration::from_secs(60)).await;
        let other = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}]}});
        let pods = cluster.api::<Pod>();
        pods.patch("pulls", &Default::default(), &kube::api::Patch::Strategic(other)).await?;
        let resources = |cpu: &str| {
            format!(
                ", resources: {{requests: {{cpu: {cpu}}}, limits: {{cpu: {cpu}}}}}, resizePolicy: [{{resourceName: cpu, restartPolicy: RestartContainer}}]"
            )
        };
        act(&cluster, &pod("grows", "a: b", "", &resources("100m"))).await?;
        let bigger = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "200m"}}}]}});
        let api = cluster.api::<Pod>();
        api.patch_subresource("resize", "grows", &Default::default(), &kube::api::Patch::Strategic(bigger))
            .await?;
        cluster.settled().await;
        cluster.delete::<Pod>("pulls").await?;
        cluster.settled().await;
        note(&cluster, &seen).await
    });
}

/// An operator's tests look at events, and so do its users. One with other words than Kubernetes', or from another
/// component, is found by neither.
#[test]
fn the_events_are_those_of_kubernetes() {
    let seen = Seen::default();
    for scenario in [
        workloads,
        stateful_sets,
        jobs,
        cron_jobs,
        scaling_and_disruption,
        volumes,
        nodes_and_scheduling,
        pods,
    ] {
        scenario(&seen);
    }
    let rows = rows();
    let mut found = BTreeSet::new();
    let mut strange = BTreeSet::new();
    for event in seen.lock().iter() {
        check_form(event);
        let matching: Vec<_> = rows.iter().filter(|row| row.is_of(event)).collect();
        if matching.iter().all(|row| row.ours == "absent") {
            let [by, kind, reason, text] =
                [&event.reporting_component, &event.type_, &event.reason, &event.message]
                    .map(|field| field.clone().unwrap_or_default());
            strange.insert(format!("{by} {kind} {reason} {text}"));
        }
        found.extend(matching.iter().map(|row| row.line));
    }
    let missing: Vec<_> = rows
        .iter()
        .filter(|row| row.ours == "emitted" && !found.contains(row.line))
        .map(|row| row.line)
        .collect();
    assert!(
        missing.is_empty() && strange.is_empty(),
        "listed but not seen:\n{}\nseen but not listed:\n{}",
        missing.join("\n"),
        strange.into_iter().collect::<Vec<_>>().join("\n")
    );
}

/// The ten thousandth pod of a set is not told by an event of its own.
#[test]
fn events_that_are_alike_are_combined() {
    with_nodes(1, |cluster| async move {
        act(&cluster, &format!("{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: x}}, spec: {{replicas: 20, selector: {{matchLabels: {{app: x}}}}, template: {TEMPLATE}}}}}")).await?;
        let about = |event: &&Event| event.involved_object.name.as_deref() == Some("x");
        let events = cluster.list::<Event>().await?;
        let events: Vec<_> = events.iter().filter(about).collect();
        assert_eq!(events.len(), 10);
        let combined = events
            .iter()
            .find(|event| {
                event
                    .message
                    .as_deref()
                    .is_some_and(|text| text.starts_with("(combined from similar events): "))
            })
            .unwrap();
        assert_eq!(combined.count, Some(11));
        Ok(())
    });
}
