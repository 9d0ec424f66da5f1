//! Snapshots of a cluster in process: what they contain, who may take them, and how damaged ones are refused.

use evenkeel_cluster::snapshot::{SnapshotError, save};
use evenkeel_cluster::{Cluster, StartError, testing};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn run<F: Future<Output = Outcome>>(test: impl FnOnce(Cluster) -> F) {
    let outcome = testing::run(testing::options(), |cluster| async {
        cluster.settled().await;
        test(cluster).await.map_err(|error| error.to_string())
    });
    outcome.expect("the test's requests are answered");
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("the test writes a right object")
}

fn config(name: &str, value: usize) -> ConfigMap {
    object(
        json!({"metadata": {"name": name}, "data": {"value": value.to_string(), "more": "x".repeat(20_000)}}),
    )
}

/// All objects of a kind.
async fn all<K>(cluster: &Cluster) -> kube::Result<Vec<Value>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let list = Api::<K>::all(cluster.client()).list(&Default::default()).await?;
    Ok(list.items.iter().map(|item| serde_json::to_value(item).expect("it was JSON")).collect())
}

async fn everything(cluster: &Cluster) -> kube::Result<Vec<Vec<Value>>> {
    Ok(vec![
        all::<ConfigMap>(cluster).await?,
        all::<Secret>(cluster).await?,
        all::<Pod>(cluster).await?,
        all::<Namespace>(cluster).await?,
        all::<ServiceAccount>(cluster).await?,
        all::<ClusterRole>(cluster).await?,
    ])
}

#[test]
fn a_restored_cluster_has_what_was_saved_at_its_revisions() {
    run(|cluster| async move {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("a.snap");
        for nth in 0..40 {
            cluster.apply(config(&format!("c{nth}"), nth)).await?;
        }
        cluster
            .apply::<Pod>(object(
                json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            ))
            .await?;
        cluster.settled().await;
        let before = everything(&cluster).await?;
        let saved = cluster.save_snapshot(&file).await?;
        assert_eq!(saved.bytes, std::fs::metadata(&file)?.len());

        let restored = Cluster::builder().controllers(false).restore(&file).start().await?;
        assert_eq!(everything(&restored).await?, before);
        let written = restored.apply(config("new", 0)).await?;
        let revision: u64 = written.metadata.resource_version.as_deref().unwrap_or_default().parse()?;
        assert!(revision > saved.revision + 1_000_000, "{revision}");
        let old = format!("/api/v1/configmaps?resourceVersion={}&resourceVersionMatch=Exact", saved.revision);
        let request = http::Request::get(old).body(Vec::new())?;
        let gone = restored.client().request::<Value>(request).await;
        assert!(matches!(gone, Err(kube::Error::Api(status)) if status.code == 410));
        Ok(())
    });
}

#[test]
fn a_snapshot_under_writes_is_the_state_of_its_revision() {
    run(|cluster| async move {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("a.snap");
        for nth in 0..60 {
            cluster.apply(config(&format!("c{nth}"), 0)).await?;
        }
        let writer = {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                for nth in 0..600_usize {
                    cluster.apply(config(&format!("c{}", nth % 60), nth)).await?;
                }
                Ok::<(), kube::Error>(())
            })
        };
        tokio::task::yield_now().await;
        let saved = cluster.save_snapshot(&file).await?;
        writer.await??;
        let then =
            format!("/api/v1/configmaps?resourceVersion={}&resourceVersionMatch=Exact", saved.revision);
        let request = http::Request::get(then).body(Vec::new())?;
        let then: Value = cluster.client().request(request).await?;
        let restored = Cluster::builder().controllers(false).restore(&file).start().await?;
        let request = http::Request::get("/api/v1/configmaps").body(Vec::new())?;
        let now: Value = restored.client().request(request).await?;
        assert_eq!(now["items"], then["items"]);
        Ok(())
    });
}

#[test]
fn only_those_whom_a_rule_allows_take_snapshots() {
    run(|cluster| async move {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("a.snap");
        let jane = cluster.client_as("jane", ["system:authenticated"]);
        for client in [&jane, &cluster.client_anonymous()] {
            let refused = save(client, &file).await;
            assert!(matches!(refused, Err(SnapshotError::Refused { status: 403, .. })), "{refused:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 0, "no file is left behind");
        let rule = json!({"nonResourceURLs": ["/evenkeel/snapshot"], "verbs": ["get"]});
        cluster
            .apply::<ClusterRole>(object(json!({"metadata": {"name": "backup"}, "rules": [rule]})))
            .await?;
        let binding = json!({"metadata": {"name": "backup"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "backup"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
        cluster.apply::<ClusterRoleBinding>(object(binding)).await?;
        save(&jane, &file).await?;
        let names: Vec<_> =
            std::fs::read_dir(folder.path())?.map(|it| it.expect("it is there").file_name()).collect();
        assert_eq!(names, ["a.snap"]);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file)?) & 0o777, 0o600);
        Ok(())
    });
}

#[test]
fn a_damaged_snapshot_starts_nothing() {
    run(|cluster| async move {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("a.snap");
        cluster.save_snapshot(&file).await?;
        let whole = std::fs::read(&file)?;
        let middle = whole.len() / 2;
        let mut flipped = whole.clone();
        flipped[middle] ^= 1;
        for damaged in [&whole[..middle], &flipped, b""] {
            std::fs::write(&file, damaged)?;
            let refused = Cluster::builder().restore(&file).start().await;
            assert!(matches!(refused, Err(StartError::Restore(_))), "{:?}", refused.err());
        }
        Ok(())
    });
}
