//! Fields of pods whose effect is small: each of these tests fails if the controllers do not see one of them.

use std::time::Duration;

use evenkeel_cluster::Cluster;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::Patch;
use serde_json::{Value, json};

use crate::world::{Outcome, is_ready, with_nodes};

async fn act(cluster: &Cluster, yaml: &str) -> Outcome {
    cluster.apply_yaml(yaml).await?;
    cluster.settled().await;
    Ok(())
}

/// A pod with these fields of its spec, and of its container.
fn pod(name: &str, words: &str, spec: &str, container: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {{{words}}}}}, spec: {{{spec} containers: [{{name: c, image: i{container}}}]}}}}"
    )
}

async fn ready(cluster: &Cluster, name: &str) -> kube::Result<bool> {
    Ok(is_ready(&cluster.get::<Pod>(name).await?))
}

async fn node_of(cluster: &Cluster, name: &str) -> kube::Result<Option<String>> {
    Ok(cluster.get::<Pod>(name).await?.spec.unwrap().node_name)
}

#[test]
fn probes_have_their_times() {
    with_nodes(1, |cluster| async move {
        let http = "httpGet: {port: 80}";
        let readiness = format!(
            ", readinessProbe: {{{http}, initialDelaySeconds: 20, periodSeconds: 5, successThreshold: 3}}"
        );
        let startup = format!(", startupProbe: {{{http}, initialDelaySeconds: 8}}");
        let liveness = format!(", livenessProbe: {{{http}, periodSeconds: 7, failureThreshold: 5}}");
        cluster.apply_yaml(&pod("slow", "a: b", "", &readiness)).await?;
        cluster.apply_yaml(&pod("starts", "a: b", "", &startup)).await?;
        cluster.apply_yaml(&pod("dies", "node.evenkeel.dev/fail-liveness: 0s", "", &liveness)).await?;
        let restarts = async |name: &str| -> kube::Result<i32> {
            let status = cluster.get::<Pod>(name).await?.status.unwrap();
            Ok(status.container_statuses.unwrap()[0].restart_count)
        };
        cluster.advance(Duration::from_secs(7)).await;
        assert!(!ready(&cluster, "starts").await?, "its first probe comes after eight seconds");
        cluster.advance(Duration::from_secs(3)).await;
        assert!(ready(&cluster, "starts").await?);
        cluster.advance(Duration::from_secs(17)).await;
        assert_eq!((ready(&cluster, "slow").await?, restarts("dies").await?), (false, 0));
        cluster.advance(Duration::from_secs(5)).await;
        assert_eq!((ready(&cluster, "slow").await?, restarts("dies").await?), (true, 1));
        Ok(())
    });
}

#[test]
fn a_resize_restarts_the_containers_that_say_so() {
    with_nodes(1, |cluster| async move {
        let container = ", resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]";
        act(&cluster, &pod("a", "a: b", "", container)).await?;
        let bigger = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "200m"}}}]}});
        let pods = cluster.api::<Pod>();
        pods.patch_subresource("resize", "a", &Default::default(), &Patch::Strategic(bigger)).await?;
        cluster.settled().await;
        let status = cluster.get::<Pod>("a").await?.status.unwrap();
        assert_eq!(status.container_statuses.unwrap()[0].restart_count, 1);
        Ok(())
    });
}

#[test]
fn affinity_to_nodes_is_required_or_preferred() {
    with_nodes(3, |cluster| async move {
        for (node, zone) in [("node-1", "a"), ("node-2", "b"), ("node-3", "c")] {
            cluster.patch::<Node>(node, json!({"metadata": {"labels": {"zone": zone}}})).await?;
        }
        let affinity = |terms: &str| format!("affinity: {{nodeAffinity: {{{terms}}}}},");
        let required = |term: &str| {
            affinity(&format!(
                "requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}"
            ))
        };
        let in_c = "matchExpressions: [{key: zone, operator: In, values: [c]}]";
        act(&cluster, &pod("by-label", "a: b", &required(&format!("{{{in_c}}}")), "")).await?;
        let field = "{matchFields: [{key: metadata.name, operator: In, values: [node-2]}]}";
        act(&cluster, &pod("by-field", "a: b", &required(field), "")).await?;
        let preferred = affinity(&format!(
            "preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, preference: {{matchExpressions: [{{key: zone, operator: In, values: [b]}}]}}}}, {{weight: 90, preference: {{{in_c}}}}}]"
        ));
        act(&cluster, &pod("by-weight", "a: b", &preferred, "")).await?;
        assert_eq!(node_of(&cluster, "by-label").await?.as_deref(), Some("node-3"));
        assert_eq!(node_of(&cluster, "by-field").await?.as_deref(), Some("node-2"));
        assert_eq!(node_of(&cluster, "by-weight").await?.as_deref(), Some("node-3"));
        Ok(())
    });
}

#[test]
fn what_is_optional_is_not_waited_for_and_what_is_named_is() {
    with_nodes(1, |cluster| async move {
        let volume = |source: &str| format!("volumes: [{{name: v, {source}}}],");
        for (name, spec, container) in [
            ("env-map", String::new(), ", envFrom: [{configMapRef: {name: none, optional: true}}]"),
            (
                "env-secret",
                String::new(),
                ", env: [{name: A, valueFrom: {secretKeyRef: {name: none, key: k, optional: true}}}]",
            ),
            (
                "env-key",
                String::new(),
                ", env: [{name: A, valueFrom: {configMapKeyRef: {name: none, key: k, optional: true}}}]",
            ),
            ("secret-volume", volume("secret: {secretName: none, optional: true}"), ""),
            (
                "projected-map",
                volume("projected: {sources: [{configMap: {name: none, optional: true}}]}"),
                "",
            ),
            (
                "projected-secret",
                volume("projected: {sources: [{secret: {name: none, optional: true}}]}"),
                "",
            ),
        ] {
            act(&cluster, &pod(name, "a: b", &spec, container)).await?;
            assert!(ready(&cluster, name).await?, "{name}");
        }
        act(&cluster, "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {there: x}}").await?;
        act(&cluster, "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {there: x}}").await?;
        let items = "items: [{key: absent, path: p}]";
        for (name, spec, container) in [
            ("key", String::new(), ", env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: absent}}}]"),
            ("no-secret", String::new(), ", envFrom: [{secretRef: {name: none}}]"),
            ("no-map-volume", volume("configMap: {name: none}"), ""),
            ("no-projected-map", volume("projected: {sources: [{configMap: {name: none}}]}"), ""),
            ("no-projected-secret", volume("projected: {sources: [{secret: {name: none}}]}"), ""),
            ("map-items", volume(&format!("configMap: {{name: m, {items}}}")), ""),
            ("secret-items", volume(&format!("secret: {{secretName: s, {items}}}")), ""),
            (
                "projected-map-items",
                volume(&format!("projected: {{sources: [{{configMap: {{name: m, {items}}}}}]}}")),
                "",
            ),
            (
                "projected-secret-items",
                volume(&format!("projected: {{sources: [{{secret: {{name: s, {items}}}}}]}}")),
                "",
            ),
        ] {
            act(&cluster, &pod(name, "a: b", &spec, container)).await?;
            assert!(!ready(&cluster, name).await?, "{name}");
        }
        Ok(())
    });
}

#[test]
fn pods_of_another_scheduler_wait_for_it() {
    with_nodes(1, |cluster| async move {
        act(&cluster, &pod("other", "a: b", "schedulerName: other,", "")).await?;
        assert_eq!(node_of(&cluster, "other").await?, None);
        Ok(())
    });
}

#[test]
fn a_host_port_of_another_protocol_is_another_port() {
    with_nodes(1, |cluster| async move {
        let port =
            |protocol: &str| format!(", ports: [{{containerPort: 80, hostPort: 80, protocol: {protocol}}}]");
        act(&cluster, &pod("tcp", "a: b", "", &port("TCP"))).await?;
        act(&cluster, &pod("udp", "a: b", "", &port("UDP"))).await?;
        assert!(ready(&cluster, "tcp").await? && ready(&cluster, "udp").await?);
        Ok(())
    });
}

#[test]
fn an_autoscaler_keeps_its_target_within_its_bounds() {
    with_nodes(1, |cluster| async move {
        act(&cluster, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}}").await?;
        act(&cluster, "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 3, maxReplicas: 5}}").await?;
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(cluster.get::<Deployment>("web").await?.spec.unwrap().replicas, Some(3));
        Ok(())
    });
}

#[test]
fn a_budget_counts_the_pods_that_it_selects() {
    with_nodes(1, |cluster| async move {
        for (name, app) in [("a", "web"), ("b", "other")] {
            act(&cluster, &format!("{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: {name}}}, spec: {{replicas: 2, selector: {{matchLabels: {{app: {app}}}}}, template: {{metadata: {{labels: {{app: {app}}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}}}}}")).await?;
        }
        act(&cluster, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}").await?;
        let status = cluster.get::<PodDisruptionBudget>("web").await?.status.unwrap();
        assert_eq!((status.expected_pods, status.disruptions_allowed), (Some(2), Some(1)));
        Ok(())
    });
}

#[test]
fn a_failure_policy_looks_at_the_container_and_the_condition_that_it_names() {
    with_nodes(1, |cluster| async move {
        let job = |name: &str, rule: &str| {
            format!(
                "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: {{backoffLimit: 0, podFailurePolicy: {{rules: [{rule}]}}, template: {{spec: {{restartPolicy: Never, containers: [{{name: good, image: i}}, {{name: bad, image: i, command: [sh, -c, exit 3]}}]}}}}}}}}"
            )
        };
        let reason = async |name: &str| -> kube::Result<Option<String>> {
            let conditions = cluster.get::<Job>(name).await?.status.unwrap().conditions.unwrap();
            Ok(conditions.into_iter().find(|it| it.type_ == "Failed").and_then(|it| it.reason))
        };
        let codes = |container: &str, value: i32| {
            format!(
                "{{action: FailJob, onExitCodes: {{containerName: {container}, operator: In, values: [{value}]}}}}"
            )
        };
        for (name, rule, expected) in [
            ("named", codes("bad", 3), "PodFailurePolicy"),
            ("other", codes("good", 3), "BackoffLimitExceeded"),
            ("another-code", codes("bad", 4), "BackoffLimitExceeded"),
            (
                "condition",
                "{action: FailJob, onPodConditions: [{type: Ready, status: 'False'}]}".to_owned(),
                "PodFailurePolicy",
            ),
        ] {
            act(&cluster, &job(name, &rule)).await?;
            assert_eq!(reason(name).await?.as_deref(), Some(expected), "{name}");
        }
        Ok(())
    });
}

/// Returns the termination message of the first container.
async fn message(cluster: &Cluster, name: &str) -> kube::Result<Option<String>> {
    let status = cluster.get::<Pod>(name).await?.status.unwrap();
    Ok(status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.and_then(|it| it.message))
}

#[test]
fn a_command_has_arguments_an_environment_and_a_last_message() {
    with_nodes(1, |cluster| async move {
        let never = "restartPolicy: Never,";
        let file = ", command: [sh, -c], args: ['echo $A > /tmp/m; exit 3'], env: [{name: A, value: hello}], terminationMessagePath: /tmp/m";
        act(&cluster, &pod("file", "a: b", never, file)).await?;
        let log =
            ", command: [sh, -c, 'echo printed; exit 3'], terminationMessagePolicy: FallbackToLogsOnError";
        act(&cluster, &pod("log", "a: b", never, log)).await?;
        assert_eq!(message(&cluster, "file").await?.as_deref(), Some("hello\n"));
        assert_eq!(message(&cluster, "log").await?.as_deref(), Some("printed\n"));
        Ok(())
    });
}

#[test]
fn an_image_is_pulled_always_if_the_policy_says_so() {
    with_nodes(1, |cluster| async move {
        act(&cluster, &pod("always", "a: b", "", ", imagePullPolicy: Always")).await?;
        act(&cluster, &pod("if-not-present", "a: b", "", ", imagePullPolicy: IfNotPresent")).await?;
        let events = cluster.list::<Event>().await?;
        let pulled = events.into_iter().filter(|it| it.reason.as_deref() == Some("Pulling"));
        let pulled: Vec<_> = pulled.filter_map(|it| it.involved_object.name).collect();
        assert_eq!(pulled, ["always"]);
        Ok(())
    });
}

#[test]
fn a_service_leads_to_the_ports_that_it_names() {
    with_nodes(1, |cluster| async move {
        let app = "{apiVersion: v1, kind: Pod, metadata: {name: app, labels: {app: web}}, spec: {containers: [{name: c, image: i, ports: [{name: query, containerPort: 5353, protocol: UDP}]}]}}";
        act(&cluster, app).await?;
        act(&cluster, "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{name: dns, port: 53, protocol: UDP, appProtocol: example.com/dns, targetPort: query}, {name: plain, port: 80}]}}").await?;
        act(&cluster, "{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: web}}}").await?;
        let slices = serde_json::to_value(cluster.list::<EndpointSlice>().await?)?;
        let of = |service: &str| {
            let name = |it: &&Value| it["metadata"]["labels"]["kubernetes.io/service-name"] == service;
            slices.as_array().unwrap().iter().find(name).unwrap().clone()
        };
        let ports = json!([
            {"name": "dns", "port": 5353, "protocol": "UDP", "appProtocol": "example.com/dns"},
            {"name": "plain", "port": 80, "protocol": "TCP"},
        ]);
        let mut found = of("web")["ports"].as_array().unwrap().clone();
        found.sort_by_key(|it| it["name"].to_string());
        assert_eq!(Value::from(found), ports);
        let labels = of("headless")["metadata"]["labels"].clone();
        assert!(labels.get("service.kubernetes.io/headless").is_some(), "{labels}");
        Ok(())
    });
}

#[test]
fn pods_are_replaced_by_hand_with_the_strategy_on_delete() {
    with_nodes(1, |cluster| async move {
        for kind in ["StatefulSet", "DaemonSet"] {
            let set = |image: &str| {
                format!(
                    "{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: s}}, spec: {{updateStrategy: {{type: OnDelete}}, revisionHistoryLimit: 1, selector: {{matchLabels: {{app: s}}}}, template: {{metadata: {{labels: {{app: s}}}}, spec: {{containers: [{{name: c, image: '{image}'}}]}}}}}}}}"
                )
            };
            for image in ["i:1", "i:2", "i:3", "i:4", "i:5"] {
                act(&cluster, &set(image)).await?;
            }
            let pods = cluster.list::<Pod>().await?;
            let images: Vec<_> = pods
                .iter()
                .map(|pod| pod.spec.clone().unwrap().containers[0].image.clone().unwrap())
                .collect();
            assert_eq!(images, ["i:1"], "{kind}");
            // That of the pod, the newest one, and one more.
            assert_eq!(cluster.list::<ControllerRevision>().await?.len(), 3, "{kind}");
            match kind {
                "StatefulSet" => cluster.delete::<StatefulSet>("s").await.map(drop)?,
                _ => cluster.delete::<DaemonSet>("s").await.map(drop)?,
            }
            cluster.settled().await;
        }
        Ok(())
    });
}

#[test]
fn a_toleration_is_of_a_value_and_an_effect() {
    with_nodes(1, |cluster| async move {
        let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        cluster.patch::<Node>("node-1", json!({"spec": {"taints": taint}})).await?;
        let tolerates = |text: &str| format!("tolerations: [{{key: k, {text}}}],");
        for (name, text, placed) in [
            ("equal", "operator: Equal, value: v, effect: NoSchedule", true),
            ("exists", "operator: Exists", true),
            ("another-value", "operator: Equal, value: w, effect: NoSchedule", false),
            ("another-effect", "operator: Exists, effect: NoExecute", false),
        ] {
            act(&cluster, &pod(name, "a: b", &tolerates(text), "")).await?;
            assert_eq!(node_of(&cluster, name).await?.is_some(), placed, "{name}");
        }
        Ok(())
    });
}
