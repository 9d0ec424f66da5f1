//! Fields of the workload kinds whose effect no other test shows.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{Outcome, is_ready, object, with_nodes};

async fn act(cluster: &Cluster, yaml: &str) -> Outcome {
    cluster.apply_yaml(yaml).await?;
    cluster.settled().await;
    Ok(())
}

fn pod(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{{labels}}}}}, spec: {{{spec} containers: [{{name: c, image: i}}]}}}}"
    )
}

async fn label(cluster: &Cluster, node: &str, labels: Value) -> Outcome {
    cluster.patch::<Node>(node, json!({"metadata": {"labels": labels}})).await?;
    Ok(())
}

/// Returns the node of a pod, or why it has none.
async fn place(cluster: &Cluster, name: &str) -> kube::Result<String> {
    let pod = cluster.get::<Pod>(name).await?;
    if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
        return Ok(node);
    }
    let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
    let scheduled = conditions.into_iter().find(|it| it.type_ == "PodScheduled");
    Ok(scheduled.and_then(|it| it.message).unwrap_or_default())
}

#[test]
fn a_container_ends_after_its_pre_stop_hook() {
    with_nodes(1, |cluster| async move {
        let hook = "lifecycle: {preStop: {sleep: {seconds: 8}}}";
        act(&cluster, &format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{terminationGracePeriodSeconds: 30, containers: [{{name: c, image: i, {hook}}}]}}}}")).await?;
        cluster.delete::<Pod>("a").await?;
        cluster.advance(Duration::from_secs(7)).await;
        assert!(cluster.get_opt::<Pod>("a").await?.is_some(), "the hook runs");
        cluster.advance(Duration::from_secs(3)).await;
        assert!(cluster.get_opt::<Pod>("a").await?.is_none());
        Ok(())
    });
}

/// A script that says what it does when it is told to stop, and another that takes no notice.
#[test]
fn a_script_that_handles_its_end_takes_its_time() {
    with_nodes(1, |cluster| async move {
        let pod = |name: &str, trap: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, finalizers: [example.com/held]}}, spec: {{restartPolicy: Never, terminationGracePeriodSeconds: 20, \
                containers: [{{name: c, image: i, command: [sh, -c, \"trap {trap} TERM; while true; do sleep 1; done\"]}}]}}}}"
            )
        };
        act(&cluster, &pod("slow", "'sleep 5; exit 9'")).await?;
        act(&cluster, &pod("deaf", "''")).await?;
        for name in ["slow", "deaf"] {
            cluster.delete::<Pod>(name).await?;
        }
        cluster.advance(Duration::from_secs(4)).await;
        let code = async |name: &str| -> kube::Result<Option<i32>> {
            let status =
                cluster.get::<Pod>(name).await?.status.unwrap().container_statuses.unwrap().remove(0);
            Ok(status.state.unwrap().terminated.map(|it| it.exit_code))
        };
        assert_eq!((code("slow").await?, code("deaf").await?), (None, None));
        cluster.advance(Duration::from_secs(3)).await;
        assert_eq!((code("slow").await?, code("deaf").await?), (Some(9), None));
        cluster.advance(Duration::from_secs(15)).await;
        assert_eq!(code("deaf").await?, Some(137), "it is killed at the end of the grace period");
        Ok(())
    });
}

#[test]
fn a_cron_job_keeps_as_many_failed_jobs_as_it_should() {
    with_nodes(1, |cluster| async move {
        let template = "{spec: {backoffLimit: 0, template: {metadata: {annotations: {node.evenkeel.dev/exit-code: '1'}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}";
        act(&cluster, &format!("{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: c}}, spec: {{schedule: '* * * * *', failedJobsHistoryLimit: 2, jobTemplate: {template}}}}}")).await?;
        cluster.advance(Duration::from_secs(60 * 6)).await;
        cluster.settled().await;
        assert_eq!(cluster.list::<Job>().await?.len(), 2);
        assert!(cluster.get::<CronJob>("c").await?.status.unwrap().last_schedule_time.is_some());
        Ok(())
    });
}

#[test]
fn jobs_with_another_manager_or_a_selector_of_their_own() {
    with_nodes(1, |cluster| async move {
        let template = "template: {metadata: {labels: {app: mine}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
        act(&cluster, &format!("{{apiVersion: batch/v1, kind: Job, metadata: {{name: foreign}}, spec: {{managedBy: example.com/queue, {template}}}}}")).await?;
        let foreign = cluster.get::<Job>("foreign").await?;
        assert!(
            foreign.status.is_none_or(|status| status.start_time.is_none()),
            "its manager has not started it"
        );
        act(&cluster, &format!("{{apiVersion: batch/v1, kind: Job, metadata: {{name: own}}, spec: {{manualSelector: true, selector: {{matchLabels: {{app: mine}}}}, {template}}}}}")).await?;
        let own = cluster.get::<Job>("own").await?;
        let labels = own.spec.unwrap().selector.unwrap().match_labels.unwrap();
        assert_eq!(labels, BTreeMap::from([("app".to_owned(), "mine".to_owned())]));
        assert_eq!(own.status.unwrap().succeeded, Some(1));
        Ok(())
    });
}

#[test]
fn an_endpoint_has_the_host_name_of_a_pod_in_the_domain_of_its_service() {
    with_nodes(1, |cluster| async move {
        act(&cluster, "{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {clusterIP: None, selector: {app: db}}}").await?;
        act(&cluster, &pod("in", "app: db", "hostname: first, subdomain: db,")).await?;
        act(&cluster, &pod("out", "app: db", "hostname: second, subdomain: other,")).await?;
        let slices = serde_json::to_value(cluster.list::<EndpointSlice>().await?)?;
        let endpoints =
            slices.as_array().unwrap().iter().flat_map(|slice| slice["endpoints"].as_array().unwrap());
        let of = |name: &str| {
            endpoints.clone().find(|it| it["targetRef"]["name"] == name).unwrap()["hostname"].clone()
        };
        assert_eq!((of("in"), of("out")), (json!("first"), Value::Null));
        Ok(())
    });
}

#[test]
fn a_claim_gets_no_volume_of_another_mode() {
    with_nodes(1, |cluster| async move {
        let class = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: hand}, provisioner: kubernetes.io/no-provisioner}";
        act(&cluster, class).await?;
        act(&cluster, "{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {storageClassName: hand, volumeMode: Block, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}}}").await?;
        for mode in ["Filesystem", "Block"] {
            let name = mode.to_lowercase();
            act(&cluster, &format!("{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{storageClassName: hand, volumeMode: {mode}, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}")).await?;
        }
        let phase = async |name: &str| -> kube::Result<Option<String>> {
            Ok(cluster.get::<PersistentVolumeClaim>(name).await?.status.unwrap().phase)
        };
        assert_eq!(phase("filesystem").await?.as_deref(), Some("Pending"));
        assert_eq!(phase("block").await?.as_deref(), Some("Bound"));
        Ok(())
    });
}

/// A pod used to become ready although its claim had no volume.
#[test]
fn a_pod_waits_for_its_claims() {
    with_nodes(1, |cluster| async move {
        let uses = |name: &str, extra: &str| {
            pod(
                name,
                "",
                &format!("{extra} volumes: [{{name: v, persistentVolumeClaim: {{claimName: data}}}}],"),
            )
        };
        act(&cluster, &uses("early", "")).await?;
        let missing = "0/1 nodes are available: persistentvolumeclaim \"data\" not found. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        assert_eq!(place(&cluster, "early").await?, missing);
        act(&cluster, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: slow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}").await?;
        let unbound =
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. no new claims";
        assert!(place(&cluster, "early").await?.starts_with(unbound), "{}", place(&cluster, "early").await?);
        act(&cluster, &uses("bound", "nodeName: node-1,")).await?;
        assert!(!is_ready(&cluster.get::<Pod>("bound").await?), "its node waits for the claim, too");
        act(&cluster, "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: slow}, provisioner: example.com/slow}").await?;
        for name in ["early", "bound"] {
            assert!(is_ready(&cluster.get::<Pod>(name).await?), "{name}: {}", place(&cluster, name).await?);
        }
        Ok(())
    });
}

#[test]
fn keys_of_labels_are_added_to_the_selectors_of_affinity_and_spread() {
    with_nodes(2, |cluster| async move {
        let term = |keys: &str| {
            format!(
                "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: x}}}}, {keys}}}]}}}},"
            )
        };
        act(&cluster, &pod("old-1", "app: x, version: '1'", "nodeName: node-1,")).await?;
        act(&cluster, &pod("old-2", "app: x, version: '1'", "nodeName: node-2,")).await?;
        // Only pods of its own version keep it away.
        act(&cluster, &pod("new", "app: x, version: '2'", &term("matchLabelKeys: [version]"))).await?;
        assert!(place(&cluster, "new").await?.starts_with("node-"));
        // Only pods of other versions do, and there are some on both nodes.
        act(&cluster, &pod("other", "app: x, version: '3'", &term("mismatchLabelKeys: [version]"))).await?;
        assert!(place(&cluster, "other").await?.contains("didn't match pod anti-affinity rules"));
        // All pods of version 4 count, and no others.
        let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}, matchLabelKeys: [version]}],";
        for name in ["spread-1", "spread-2"] {
            act(&cluster, &pod(name, "app: x, version: '4'", spread)).await?;
        }
        assert_ne!(place(&cluster, "spread-1").await?, place(&cluster, "spread-2").await?);
        Ok(())
    });
}

#[test]
fn nodes_that_a_pod_cannot_use_count_for_its_spread_or_not() {
    with_nodes(2, |cluster| async move {
        label(&cluster, "node-1", json!({"pool": "a"})).await?;
        let spread = |policy: &str| {
            format!(
                "nodeSelector: {{pool: a}}, topologySpreadConstraints: [{{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: {policy}}}}}, nodeAffinityPolicy: {policy}}}],"
            )
        };
        for policy in ["Honor", "Ignore"] {
            for number in 1..=2 {
                let name = format!("{}-{number}", policy.to_lowercase());
                act(&cluster, &pod(&name, &format!("app: {policy}"), &spread(policy))).await?;
            }
        }
        assert_eq!(place(&cluster, "honor-2").await?, "node-1", "the other node does not count");
        assert!(place(&cluster, "ignore-2").await?.contains("didn't match pod topology spread constraints"));
        cluster
            .patch::<Node>("node-2", json!({"spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}}))
            .await?;
        let tainted = |policy: &str| {
            format!(
                "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{taints: {policy}}}}}, nodeTaintsPolicy: {policy}}}],"
            )
        };
        for policy in ["Honor", "Ignore"] {
            for number in 1..=2 {
                let name = format!("taints-{}-{number}", policy.to_lowercase());
                act(&cluster, &pod(&name, &format!("taints: {policy}"), &tainted(policy))).await?;
            }
        }
        assert_eq!(place(&cluster, "taints-honor-2").await?, "node-1");
        assert!(
            place(&cluster, "taints-ignore-2")
                .await?
                .contains("didn't match pod topology spread constraints")
        );
        Ok(())
    });
}

#[test]
fn accounts_and_addresses_of_pods() {
    with_nodes(1, |cluster| async move {
        act(&cluster, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}").await?;
        act(&cluster, &pod("old-name", "", "serviceAccount: robot,")).await?;
        act(&cluster, &pod("no-token", "", "automountServiceAccountToken: false,")).await?;
        act(&cluster, &pod("host", "", "hostNetwork: true,")).await?;
        let old = cluster.get::<Pod>("old-name").await?.spec.unwrap();
        assert_eq!(old.service_account_name.as_deref(), Some("robot"));
        assert!(old.volumes.unwrap().iter().any(|volume| volume.name.starts_with("kube-api-access-")));
        assert!(cluster.get::<Pod>("no-token").await?.spec.unwrap().volumes.is_none());
        let host = cluster.get::<Pod>("host").await?.status.unwrap();
        assert_eq!(host.pod_ip, host.host_ip);
        let plain = cluster.get::<Pod>("old-name").await?.status.unwrap();
        assert_ne!(plain.pod_ip, plain.host_ip);
        Ok(())
    });
}

#[test]
fn a_sub_path_is_a_directory_of_its_volume() {
    with_nodes(1, |cluster| async move {
        let container = |name: &str, mount: &str, script: &str| {
            format!(
                "{{name: {name}, image: i, command: [sh, -c, '{script}'], volumeMounts: [{{name: v, {mount}}}]}}"
            )
        };
        let writes = container("writes", "mountPath: /data, subPath: inner", "echo -n hello > /data/file");
        let reads = container("reads", "mountPath: /data", "sleep 1; test -f /data/inner/file && exit 7");
        act(&cluster, &format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{restartPolicy: Never, volumes: [{{name: v, emptyDir: {{}}}}], initContainers: [{writes}], containers: [{reads}]}}}}")).await?;
        let status = cluster.get::<Pod>("a").await?.status.unwrap().container_statuses.unwrap().remove(0);
        assert_eq!(status.state.unwrap().terminated.unwrap().exit_code, 7);
        Ok(())
    });
}

/// With `maxSurge`, an update used to delete the old pods first, as without.
#[test]
fn a_daemon_set_that_surges_is_never_without_a_pod() {
    with_nodes(2, |cluster| async move {
        let set = |image: &str| {
            json!({"metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"app": "d"}, "annotations": {"node.evenkeel.dev/ready-after": "5s"}},
                "spec": {"containers": [{"name": "c", "image": image}]}}}})
        };
        cluster.apply(object::<DaemonSet>(set("i:1"))).await?;
        cluster.settled().await;
        cluster.apply(object::<DaemonSet>(set("i:2"))).await?;
        let mut most = 0;
        for _ in 0..200 {
            cluster.advance(Duration::from_millis(200)).await;
            let pods = cluster.list::<Pod>().await?;
            let ready = |node: &str| {
                pods.iter()
                    .filter(|pod| {
                        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
                            && is_ready(pod)
                    })
                    .count()
            };
            assert!(ready("node-1") > 0 && ready("node-2") > 0, "a node has no ready pod");
            most = most.max(pods.len());
        }
        assert_eq!(most, 3, "one node at a time has two pods");
        let revisions = cluster.list::<ControllerRevision>().await?;
        let hashed = |it: &ControllerRevision| it.labels().contains_key("controller-revision-hash");
        assert!(revisions.len() == 2 && revisions.iter().all(hashed));
        let pods = cluster.list::<Pod>().await?;
        let images: Vec<_> =
            pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect();
        assert_eq!(
            images,
            ["i:2", "i:2"],
            "{:?}",
            pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        );
        Ok(())
    });
}

/// A pod that its node refuses used to be replaced without end, so that the cluster never came to rest.
#[test]
fn a_daemon_pod_that_fails_again_and_again_is_replaced_at_intervals() {
    with_nodes(1, |cluster| async move {
        act(&cluster, "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}, spec: {containers: [{name: c, image: i}]}}}}").await?;
        let name = cluster.list::<Pod>().await?[0].name_any();
        let failed = json!({"status": {"phase": "Failed"}});
        cluster.patch_status::<Pod>(&name, failed.clone()).await?;
        cluster.settled().await;
        let second = cluster.list::<Pod>().await?[0].name_any();
        assert_ne!(second, name, "the first failure is mended at once");
        cluster.patch_status::<Pod>(&second, failed).await?;
        cluster.settled().await;
        assert_eq!(cluster.list::<Pod>().await?[0].name_any(), second, "the next one waits");
        cluster.advance(Duration::from_secs(2)).await;
        cluster.settled().await;
        assert_ne!(cluster.list::<Pod>().await?[0].name_any(), second);
        Ok(())
    });
}

#[test]
fn what_is_added_to_the_capacity_of_a_node_can_be_used() {
    with_nodes(1, |cluster| async move {
        cluster
            .patch_status::<Node>("node-1", json!({"status": {"capacity": {"example.com/slots": "1"}}}))
            .await?;
        cluster.advance(Duration::from_secs(11)).await;
        let slots = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i, resources: {limits: {example.com/slots: '1'}}}]}}";
        act(&cluster, slots).await?;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

/// A Job whose pods run and are ready used to stay as it was when it was suspended: the API server refused its status.
#[test]
fn a_job_with_ready_pods_can_be_suspended() {
    with_nodes(1, |cluster| async move {
        let template = "template: {metadata: {annotations: {node.evenkeel.dev/exit-code: run}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}";
        act(&cluster, &format!("{{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, spec: {{completions: 4, parallelism: 2, {template}}}}}")).await?;
        assert_eq!(cluster.get::<Job>("j").await?.status.unwrap().ready, Some(2));
        cluster.patch::<Job>("j", json!({"spec": {"suspend": true}})).await?;
        cluster.settled().await;
        assert!(cluster.list::<Pod>().await?.is_empty());
        cluster.patch::<Job>("j", json!({"spec": {"suspend": false}})).await?;
        cluster.settled().await;
        assert_eq!(cluster.get::<Job>("j").await?.status.unwrap().ready, Some(2));
        Ok(())
    });
}

/// After a crash, a missing ConfigMap and a changed image, each run of a container has a number of its own.
#[test]
fn every_run_of_a_container_is_counted() {
    with_nodes(1, |cluster| async move {
        act(&cluster, "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}").await?;
        act(&cluster, "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {node.evenkeel.dev/exit-code: '1,1,run'}}, spec: {containers: [{name: c, image: 'i:1', envFrom: [{configMapRef: {name: m}}]}]}}").await?;
        let count = async || -> kube::Result<(i32, bool)> {
            let status = cluster.get::<Pod>("a").await?.status.unwrap().container_statuses.unwrap().remove(0);
            Ok((status.restart_count, status.state.unwrap().running.is_some()))
        };
        assert_eq!(count().await?, (1, false), "it waits for its second restart");
        cluster.delete::<k8s_openapi::api::core::v1::ConfigMap>("m").await?;
        cluster.advance(Duration::from_secs(15)).await;
        assert_eq!(count().await?, (1, false), "it cannot be started again");
        act(&cluster, "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}").await?;
        assert_eq!(count().await?, (2, true));
        let other = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}]}});
        let pods = cluster.api::<Pod>();
        pods.patch("a", &Default::default(), &kube::api::Patch::Strategic(other)).await?;
        cluster.settled().await;
        assert_eq!(count().await?, (3, true), "a changed image needs a restart");
        Ok(())
    });
}

#[test]
fn an_ephemeral_container_runs_its_command() {
    with_nodes(1, |cluster| async move {
        act(&cluster, "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: i}]}}").await?;
        let debug = |name: &str, extra: Value| {
            let mut container = json!({"name": name, "image": "debug", "command": ["sh", "-c"], "volumeMounts": [{"name": "v", "mountPath": "/data"}]});
            container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            container
        };
        let containers = json!({"spec": {"ephemeralContainers": [
            debug("writes", json!({"args": ["echo -n found > /data/x; echo -n told > /told"], "terminationMessagePath": "/told", "imagePullPolicy": "Always"})),
            debug("reads", json!({"args": ["sleep 1; cat /data/x; exit 4"], "terminationMessagePolicy": "FallbackToLogsOnError"})),
        ]}});
        let patch = kube::api::Patch::Strategic(containers);
        cluster.api::<Pod>().patch_ephemeral_containers("a", &Default::default(), &patch).await?;
        cluster.settled().await;
        let statuses = cluster.get::<Pod>("a").await?.status.unwrap().ephemeral_container_statuses.unwrap();
        let ended: Vec<_> = statuses
            .into_iter()
            .map(|status| status.state.unwrap().terminated.unwrap())
            .map(|it| (it.exit_code, it.message.unwrap_or_default()))
            .collect();
        assert_eq!(ended, [(0, "told".to_owned()), (4, "found".to_owned())]);
        let events = cluster.list::<k8s_openapi::api::core::v1::Event>().await?;
        assert!(events.iter().any(|event| event.message.as_deref() == Some("Pulling image \"debug\"")));
        Ok(())
    });
}

#[test]
fn services_publish_pods_and_get_ports() {
    use k8s_openapi::api::core::v1::Service;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    with_nodes(1, |cluster| async move {
        act(&cluster, "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: x}, annotations: {node.evenkeel.dev/behaviour: never-ready}}, spec: {containers: [{name: c, image: i}]}}").await?;
        for (name, publish) in [("quiet", false), ("eager", true)] {
            act(&cluster, &format!("{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{publishNotReadyAddresses: {publish}, selector: {{app: x}}, ports: [{{port: 80}}]}}}}")).await?;
            let slices = cluster.list::<EndpointSlice>().await?;
            let slice = slices.iter().find(|it| it.name_any().starts_with(name)).unwrap();
            let ready = slice.endpoints.as_ref().unwrap()[0].conditions.as_ref().unwrap().ready;
            assert_eq!(ready, Some(publish));
        }
        for (name, policy) in [("local", "Local"), ("far", "Cluster")] {
            act(&cluster, &format!("{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {{type: LoadBalancer, externalTrafficPolicy: {policy}, selector: {{app: x}}, ports: [{{port: 80}}]}}}}")).await?;
            let port = cluster.get::<Service>(name).await?.spec.unwrap().health_check_node_port;
            assert_eq!(port.is_some(), policy == "Local", "healthCheckNodePort");
        }
        Ok(())
    });
}
