//! Quotas: admission and the controller agree on the usage of an object.

use evenkeel_cluster::Cluster;
use evenkeel_env::Env;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service};
use serde_json::{Value, json};

use crate::world::{Outcome, object, with_nodes};

/// Returns the usage in the status of a quota.
async fn used(cluster: &Cluster) -> kube::Result<Value> {
    let quota = cluster.get::<ResourceQuota>("q").await?;
    Ok(serde_json::to_value(quota.status.and_then(|status| status.used)).unwrap())
}

/// Creates an object of the kind that it names.
async fn create(cluster: &Cluster, value: &Value) -> kube::Result<()> {
    match value["kind"].as_str() {
        Some("Pod") => {
            cluster.api::<Pod>().create(&Default::default(), &object(value.clone())).await.map(drop)
        }
        Some("Service") => {
            cluster.api::<Service>().create(&Default::default(), &object(value.clone())).await.map(drop)
        }
        _ => cluster
            .api::<PersistentVolumeClaim>()
            .create(&Default::default(), &object(value.clone()))
            .await
            .map(drop),
    }
}

async fn quota(cluster: &Cluster, spec: Value) -> Outcome {
    let quota = json!({"metadata": {"name": "q"}, "spec": spec});
    cluster.api::<ResourceQuota>().create(&Default::default(), &object(quota)).await?;
    cluster.settled().await;
    Ok(())
}

/// Makes the controller count everything anew.
async fn count_anew(cluster: &Cluster) -> Outcome {
    cluster
        .patch::<ResourceQuota>("q", json!({"spec": {"hard": {"count/leases.coordination.k8s.io": "9"}}}))
        .await?;
    cluster.settled().await;
    cluster
        .patch::<ResourceQuota>("q", json!({"spec": {"hard": {"count/leases.coordination.k8s.io": null}}}))
        .await?;
    cluster.settled().await;
    Ok(())
}

/// Checks that admission and the controller both compute the usage `expected` for the objects, and that admission rejects one
/// more of the last object if it exceeds a limit.
fn check(spec: Value, objects: Vec<Value>, expected: Value) {
    with_nodes(0, |cluster| async move {
        quota(&cluster, spec).await?;
        for value in &objects {
            create(&cluster, value).await?;
        }
        assert_eq!(used(&cluster).await?, expected, "as admission charges it");
        cluster.settled().await;
        count_anew(&cluster).await?;
        assert_eq!(used(&cluster).await?, expected, "as the controller counts it");
        let mut again = objects.last().unwrap().clone();
        again["metadata"]["name"] = "again".into();
        let refused = create(&cluster, &again).await.expect_err("the quota is used up").to_string();
        assert!(refused.contains("exceeded quota: q"), "{refused}");
        Ok(())
    });
}

fn claim(name: &str, class: &str, storage: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": class, "resources": {"requests": {"storage": storage}}}})
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[test]
fn storage_is_counted_by_its_class() {
    let gold = "gold.storageclass.storage.k8s.io";
    let hard = json!({format!("{gold}/requests.storage"): "3Gi", format!("{gold}/persistentvolumeclaims"): "9", "requests.storage": "9Gi"});
    let objects = vec![claim("a", "", "4Gi"), claim("b", "gold", "2Gi")];
    let used = json!({format!("{gold}/requests.storage"): "2Gi", format!("{gold}/persistentvolumeclaims"): "1", "requests.storage": "6Gi"});
    check(json!({"hard": hard}), objects, used);
}

#[test]
fn huge_pages_are_counted_by_both_names() {
    let hard = json!({"hugepages-2Mi": "5Mi", "requests.hugepages-2Mi": "5Mi"});
    let resources =
        json!({"requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}});
    let objects =
        vec![pod("a", json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}))];
    check(json!({"hard": hard}), objects, json!({"hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"}));
}

#[test]
fn a_load_balancer_without_node_ports_uses_those_that_it_names() {
    let service = json!({"kind": "Service", "metadata": {"name": "a"}, "spec": {"type": "LoadBalancer",
        "allocateLoadBalancerNodePorts": false, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}});
    let hard = json!({"services.nodeports": "1", "services.loadbalancers": "1"});
    check(
        json!({"hard": hard}),
        vec![service],
        json!({"services.nodeports": "0", "services.loadbalancers": "1"}),
    );
}

#[test]
fn limits_of_init_containers_and_sidecars_count() {
    let container = |name: &str, cpu: &str| json!({"name": name, "image": "i", "resources": {"limits": {"cpu": cpu}, "requests": {"cpu": cpu}}});
    let mut sidecar = container("s", "200m");
    sidecar["restartPolicy"] = "Always".into();
    let spec =
        json!({"initContainers": [sidecar, container("i", "1")], "containers": [container("c", "500m")]});
    let hard = json!({"limits.cpu": "1500m", "requests.cpu": "1500m", "cpu": "1500m"});
    let used = json!({"limits.cpu": "1200m", "requests.cpu": "1200m", "cpu": "1200m"});
    check(json!({"hard": hard}), vec![pod("a", spec)], used);
}

#[test]
fn the_resources_of_a_whole_pod_and_its_overhead_count() {
    let spec = json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}});
    let hard = json!({"limits.cpu": "3", "requests.cpu": "3", "memory": "3Gi"});
    check(
        json!({"hard": hard}),
        vec![pod("a", spec)],
        json!({"limits.cpu": "2", "requests.cpu": "1", "memory": "1Gi"}),
    );
}

#[test]
fn extended_resources_count_by_their_requests() {
    let resources = json!({"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}});
    let spec = json!({"containers": [{"name": "c", "image": "i", "resources": resources}]});
    let hard = json!({"requests.example.com/gpu": "3"});
    check(json!({"hard": hard}), vec![pod("a", spec)], json!({"requests.example.com/gpu": "2"}));
}

#[test]
fn affinity_to_other_namespaces_is_a_scope() {
    let term = json!({"topologyKey": "zone", "namespaces": ["other"], "labelSelector": {}});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let objects = vec![pod("a", json!({})), pod("b", json!({"affinity": affinity}))];
    let scope = json!([{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]);
    let spec = json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": scope}});
    check(spec, objects, json!({"pods": "1"}));
}

#[test]
fn a_scope_that_is_about_claims_counts_no_pods() {
    let mut fast = claim("b", "", "2Gi");
    fast["spec"]["volumeAttributesClassName"] = "fast".into();
    let scope = json!([{"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}]);
    let spec = json!({"hard": {"requests.storage": "3Gi", "persistentvolumeclaims": "3"}, "scopeSelector": {"matchExpressions": scope}});
    let used = json!({"requests.storage": "2Gi", "persistentvolumeclaims": "1"});
    check(spec, vec![claim("a", "", "5Gi"), fast], used);
}

#[test]
fn stored_pods_are_counted_even_when_they_have_ended() {
    with_nodes(0, |cluster| async move {
        quota(&cluster, json!({"hard": {"pods": "2", "count/pods": "2"}})).await?;
        create(&cluster, &pod("a", json!({}))).await?;
        create(&cluster, &pod("b", json!({}))).await?;
        let ended = json!({"status": {"phase": "Succeeded"}});
        let ended = kube::api::Patch::Merge(ended);
        cluster.api::<Pod>().patch_status("a", &Default::default(), &ended).await?;
        cluster.settled().await;
        assert_eq!(used(&cluster).await?, json!({"pods": "1", "count/pods": "2"}));
        Ok(())
    });
}

#[test]
fn what_an_update_gives_back_is_counted() {
    with_nodes(0, |cluster| async move {
        quota(&cluster, json!({"hard": {"services.nodeports": "5", "services.loadbalancers": "1"}})).await?;
        let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
        let service = json!({"kind": "Service", "metadata": {"name": "a"}, "spec": {"type": "LoadBalancer", "ports": ports}});
        create(&cluster, &service).await?;
        assert_eq!(used(&cluster).await?, json!({"services.nodeports": "2", "services.loadbalancers": "1"}));
        cluster.patch::<Service>("a", json!({"spec": {"type": "ClusterIP"}})).await?;
        cluster.settled().await;
        assert_eq!(used(&cluster).await?, json!({"services.nodeports": "0", "services.loadbalancers": "0"}));
        Ok(())
    });
}

#[test]
fn a_pod_that_gets_a_deadline_moves_to_the_other_quota() {
    with_nodes(0, |cluster| async move {
        quota(&cluster, json!({"hard": {"pods": "1"}, "scopes": ["NotTerminating"]})).await?;
        create(&cluster, &pod("a", json!({}))).await?;
        assert_eq!(used(&cluster).await?, json!({"pods": "1"}));
        cluster.patch::<Pod>("a", json!({"spec": {"activeDeadlineSeconds": 60}})).await?;
        cluster.settled().await;
        assert_eq!(used(&cluster).await?, json!({"pods": "0"}));
        create(&cluster, &pod("b", json!({}))).await?;
        Ok(())
    });
}

#[test]
fn plain_counts_follow_what_is_created_and_deleted() {
    with_nodes(0, |cluster| async move {
        quota(&cluster, json!({"hard": {"secrets": "1", "count/secrets": "9"}})).await?;
        let secret = |name: &str| object::<Secret>(json!({"metadata": {"name": name}}));
        cluster.api().create(&Default::default(), &secret("a")).await?;
        assert!(cluster.api().create(&Default::default(), &secret("b")).await.is_err());
        cluster.delete::<Secret>("a").await?;
        cluster.settled().await;
        assert_eq!(used(&cluster).await?, json!({"secrets": "0", "count/secrets": "0"}));
        Ok(())
    });
}

/// Returns a random object that uses resource names that quotas track.
fn random(env: &Env, index: usize) -> Value {
    let pick = |from: &[&str]| {
        let at = usize::try_from(env.random_below(from.len() as u64)).unwrap_or_default();
        from[at].to_owned()
    };
    let amounts = || {
        let resources = ["ephemeral-storage", "example.com/gpu", "hugepages-2Mi"];
        let mut amounts = json!({"cpu": pick(&["100m", "0.3", "2"]), "memory": pick(&["1Mi", "5M"])});
        for name in resources.iter().filter(|_| env.random_below(3) == 0) {
            amounts[*name] =
                pick(if name.starts_with("huge") { &["2Mi", "4Mi"] } else { &["1", "3", "7"] }).into();
        }
        json!({"requests": amounts, "limits": amounts})
    };
    let name = format!("o{index}");
    match env.random_below(3) {
        0 => claim(&name, &pick(&["", "gold", "lead"]), &pick(&["1", "1500m", "3Gi"])),
        1 => {
            let kind = pick(&["ClusterIP", "NodePort", "LoadBalancer"]);
            let mut spec =
                json!({"type": kind, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
            if kind == "LoadBalancer" {
                spec["allocateLoadBalancerNodePorts"] = (env.random_below(2) == 0).into();
            }
            json!({"kind": "Service", "metadata": {"name": name}, "spec": spec})
        }
        _ => {
            let container = |name: &str| json!({"name": name, "image": "i", "resources": amounts()});
            let mut sidecar = container("s");
            sidecar["restartPolicy"] = "Always".into();
            let init: Vec<Value> = [container("i"), sidecar, container("j")]
                .into_iter()
                .filter(|_| env.random_below(2) == 0)
                .collect();
            let mut spec = json!({"initContainers": init, "containers": [container("c"), container("d")]});
            if env.random_below(4) == 0 {
                spec["resources"] = json!({"requests": {"cpu": "20"}, "limits": {"cpu": "20"}});
            }
            pod(&name, spec)
        }
    }
}

#[test]
fn random_objects_are_counted_as_they_were_charged() {
    const OBJECTS: usize = 60;
    with_nodes(0, |cluster| async move {
        let many = "1000000Gi";
        let names = [
            "pods",
            "count/pods",
            "cpu",
            "memory",
            "ephemeral-storage",
            "requests.cpu",
            "requests.memory",
            "requests.ephemeral-storage",
            "limits.cpu",
            "limits.memory",
            "limits.ephemeral-storage",
            "hugepages-2Mi",
            "requests.hugepages-2Mi",
            "requests.example.com/gpu",
            "services",
            "count/services",
            "services.nodeports",
            "services.loadbalancers",
            "persistentvolumeclaims",
            "requests.storage",
            "gold.storageclass.storage.k8s.io/requests.storage",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
            "count/persistentvolumeclaims",
        ];
        let hard: Value = names.iter().map(|name| ((*name).to_owned(), Value::from(many))).collect();
        quota(&cluster, json!({"hard": hard})).await?;
        let objects: Vec<Value> = (0..OBJECTS).map(|index| random(cluster.env(), index)).collect();
        for value in &objects {
            create(&cluster, value).await?;
        }
        let charged = used(&cluster).await?;
        cluster.settled().await;
        count_anew(&cluster).await?;
        assert_eq!(used(&cluster).await?, charged, "{objects:#?}");
        assert!(charged.as_object().unwrap().values().all(|amount| amount != "0"), "{charged}");
        Ok(())
    });
}
