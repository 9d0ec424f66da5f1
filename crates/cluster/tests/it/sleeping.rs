//! Built-in controllers sleep until a resource that concerns them is used. Nobody can tell, except by the requests that
//! they do not make.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_cluster::{Builder, Cluster};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolumeClaim, Pod, ResourceQuota, Service, ServiceAccount,
};
use kube::Api;
use kube::core::DynamicObject;
use kube::core::params::ListParams;
use kube::discovery::{Discovery, verbs};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The name of the built-in controllers as an operator.
const CONTROLLERS: &str = "kube-controller-manager";

fn object<K: DeserializeOwned>(tree: Value) -> K {
    serde_json::from_value(tree).expect("the tree has the fields of its kind")
}

fn on_cluster<T>(builder: Builder, test: impl AsyncFnOnce(Cluster) -> kube::Result<T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let cluster = builder.start().await.expect("a cluster in memory starts");
        test(cluster).await.expect("the requests of the test succeed")
    })
}

/// Every object of a cluster by path. Uids are replaced by the paths of their objects, and generated names by their
/// beginnings.
async fn objects(cluster: &Cluster) -> kube::Result<BTreeMap<String, Value>> {
    let discovery = Discovery::new(cluster.client()).run().await?;
    let mut all = BTreeMap::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
        if !capabilities.supports_operation(verbs::LIST) || resource.plural == "events" {
            continue;
        }
        let api = Api::<DynamicObject>::all_with(cluster.client(), &resource);
        for object in api.list(&ListParams::default()).await? {
            let meta = &object.metadata;
            let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref());
            let path = format!("{}/{namespace}/{}", resource.plural, name.unwrap_or_default());
            all.insert(path, serde_json::to_value(object).expect("an object is a tree"));
        }
    }
    // The names of provisioned volumes contain the uids of their claims; no uid contains another.
    let uid = |tree: &Value| tree["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let mut uids: Vec<(String, String)> = all.iter().map(|(path, tree)| (uid(tree), path.clone())).collect();
    uids.retain(|(uid, _)| !uid.is_empty());
    uids.sort_by_key(|(uid, path)| (path.contains(uid.as_str()), path.clone()));
    let generated: Vec<(String, String)> = all.values().filter_map(generated_name).collect();
    let known = |mut text: String| {
        // Twice, because the path of a volume contains the uid of its claim.
        for (uid, path) in uids.iter().chain(&uids) {
            text = text.replace(uid.as_str(), &format!("<{path}>"));
        }
        generated.iter().for_each(|(name, beginning)| text = text.replace(name.as_str(), beginning));
        text
    };
    let shape = |(path, tree): (String, Value)| {
        let mut tree: Value = serde_json::from_str(&known(tree.to_string())).expect("it was a tree before");
        tree["metadata"]["resourceVersion"] = Value::Null;
        without_random(&mut tree);
        (known(path), tree)
    };
    Ok(all.into_iter().map(shape).collect())
}

/// Removes what is random, or made of uids: the names of token volumes and the ids of containers.
fn without_random(tree: &mut Value) {
    const TOKENS: &str = "kube-api-access-";
    match tree {
        Value::Object(fields) => {
            fields.remove("containerID");
            fields.values_mut().for_each(without_random);
        }
        Value::Array(items) => items.iter_mut().for_each(without_random),
        Value::String(text) if text.starts_with(TOKENS) => text.truncate(TOKENS.len()),
        _ => {}
    }
}

/// The name of an object that the server has generated, and its beginning.
fn generated_name(tree: &Value) -> Option<(String, String)> {
    let (name, beginning) = (tree["metadata"]["name"].as_str()?, tree["metadata"]["generateName"].as_str()?);
    (name.len() == beginning.len() + 5).then(|| (name.to_owned(), format!("{beginning}*")))
}

#[track_caller]
fn assert_equal(asleep: &BTreeMap<String, Value>, awake: &BTreeMap<String, Value>) {
    let mut differences = Vec::new();
    for path in asleep.keys().chain(awake.keys()).collect::<std::collections::BTreeSet<_>>() {
        let (asleep, awake) = (asleep.get(path), awake.get(path));
        if asleep != awake {
            differences.push(format!("{path}\n  asleep: {asleep:?}\n  awake: {awake:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_new_cluster_has_the_same_objects_and_makes_no_request() {
    let at_rest = async |cluster: Cluster| {
        cluster.settled().await;
        let requests = cluster.requests().len();
        Ok((objects(&cluster).await?, requests))
    };
    let (asleep, requests) = on_cluster(Cluster::builder().nodes(2), at_rest);
    let (awake, all) = on_cluster(Cluster::builder().nodes(2).lazy_controllers(false), at_rest);
    assert_eq!(requests, 0);
    assert!(all > 70, "{all}");
    assert_equal(&asleep, &awake);
}

/// Uses most of the controllers: workloads, storage, Services, namespaces, quotas, owners, and the objects of a new
/// cluster.
async fn play(cluster: Cluster) -> kube::Result<BTreeMap<String, Value>> {
    let template = json!({"metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "main", "image": "i:1", "ports": [{"containerPort": 80}]}]}});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let set: StatefulSet =
        object(json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}}, "template": template, "volumeClaimTemplates": [claim]}}));
    cluster.apply(set).await?;
    cluster.settled().await;
    let service = json!({"metadata": {"name": "db"}, "spec": {"clusterIP": "10.96.0.77",
        "selector": {"app": "db"}, "ports": [{"port": 80}]}});
    cluster.apply(object::<Service>(service)).await?;
    cluster.apply(object::<Namespace>(json!({"metadata": {"name": "team"}}))).await?;
    cluster.settled().await;
    let quota =
        json!({"metadata": {"name": "some"}, "spec": {"hard": {"count/configmaps": "5", "pods": "9"}}});
    cluster.apply(object::<ResourceQuota>(quota)).await?;
    cluster.settled().await;
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await?;
    cluster.settled().await;
    cluster.delete::<Namespace>("team").await?;
    cluster.delete::<ConfigMap>("kube-root-ca.crt").await?;
    cluster.settled().await;
    assert_eq!(cluster.list::<PersistentVolumeClaim>().await?.len(), 3);
    objects(&cluster).await
}

#[test]
fn the_same_work_leaves_the_same_objects() {
    let asleep = on_cluster(Cluster::builder().seed(3), play);
    let awake = on_cluster(Cluster::builder().seed(3).lazy_controllers(false), play);
    assert_equal(&asleep, &awake);
    let pod = &asleep["pods/default/db-0"];
    assert_eq!(pod["status"]["phase"], "Running", "{pod}");
}

fn owned_by(name: &str, api_version: &str, kind: &str, owner: &kube::core::ObjectMeta) -> ConfigMap {
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": owner.name, "uid": owner.uid});
    object(json!({"metadata": {"name": name, "ownerReferences": [owner]}}))
}

/// The garbage collector does not follow the resources of initial objects until they are used, and the first use may be
/// the deletion of an owner.
#[test]
fn dependents_of_initial_objects_are_deleted_with_them() {
    on_cluster(Cluster::builder(), async |cluster| {
        let account = cluster.get::<ServiceAccount>("default").await?;
        cluster.apply(owned_by("of-account", "v1", "ServiceAccount", &account.metadata)).await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<ConfigMap>("of-account").await?.is_some());
        cluster.delete::<ServiceAccount>("default").await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<ConfigMap>("of-account").await?.is_none());
        let again = cluster.get::<ServiceAccount>("default").await?;
        assert_ne!(again.metadata.uid, account.metadata.uid, "the account was created again");
        Ok(())
    });
}

#[test]
fn the_lease_of_a_node_is_deleted_with_it_and_both_stay_deleted() {
    on_cluster(Cluster::builder(), async |cluster| {
        let leases = cluster.namespaced("kube-node-lease");
        cluster.delete::<Node>("node-1").await?;
        cluster.settled().await;
        assert!(leases.get_opt::<Lease>("node-1").await?.is_none());
        cluster.advance(Duration::from_secs(11)).await;
        cluster.settled().await;
        assert!(cluster.get_opt::<Node>("node-1").await?.is_none());
        assert!(leases.get_opt::<Lease>("node-1").await?.is_none());
        Ok(())
    });
}

#[test]
fn a_quota_counts_initial_objects() {
    on_cluster(Cluster::builder(), async |cluster| {
        let quota = json!({"metadata": {"name": "q"},
            "spec": {"hard": {"count/configmaps": "9", "count/serviceaccounts": "9", "count/secrets": "9"}}});
        cluster.apply(object::<ResourceQuota>(quota)).await?;
        cluster.settled().await;
        let used = cluster
            .get::<ResourceQuota>("q")
            .await?
            .status
            .and_then(|status| status.used)
            .unwrap_or_default();
        let counted: Vec<_> = used.iter().map(|(name, used)| format!("{name}={}", used.0)).collect();
        assert_eq!(counted, ["count/configmaps=1", "count/secrets=0", "count/serviceaccounts=1"]);
        Ok(())
    });
}

#[test]
fn after_a_crash_the_controllers_of_used_resources_work_on() {
    on_cluster(Cluster::builder(), async |cluster| {
        let pod = |name: &str| -> Pod {
            object(
                json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "i"}]}}),
            )
        };
        cluster.restart(CONTROLLERS);
        cluster.settled().await;
        cluster.apply(pod("a")).await?;
        cluster.settled().await;
        cluster.restart(CONTROLLERS);
        cluster.apply(pod("b")).await?;
        cluster.settled().await;
        for name in ["a", "b"] {
            let status = cluster.get::<Pod>(name).await?.status.unwrap_or_default();
            assert_eq!(status.phase.as_deref(), Some("Running"), "{name}");
        }
        Ok(())
    });
}

/// Virtual time has passed for this runtime, so that the second cluster cannot begin with the prepared state.
#[tokio::test(start_paused = true)]
async fn a_later_cluster_in_virtual_time_makes_its_own_objects() {
    tokio::time::advance(Duration::from_secs(100)).await;
    let env = evenkeel_env::Env::seeded(1);
    tokio::time::advance(Duration::from_secs(100)).await;
    let cluster = Cluster::builder().env(env).nodes(3).start().await.expect("a cluster in memory starts");
    cluster.settled().await;
    let nodes = cluster.list::<Node>().await.expect("nodes are listed");
    assert_eq!(nodes.len(), 3);
    let created = nodes[0].metadata.creation_timestamp.as_ref().expect("it was created").0;
    assert_eq!(created, evenkeel_env::EPOCH + Duration::from_secs(100));
}
