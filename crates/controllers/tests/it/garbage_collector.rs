//! The garbage collector.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::world::{object, with_nodes};

async fn map(cluster: &evenkeel_cluster::Cluster, name: &str, metadata: Value) -> kube::Result<String> {
    let mut full = json!({"name": name});
    full.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    let made =
        cluster.api::<ConfigMap>().create(&PostParams::default(), &object(json!({"metadata": full}))).await?;
    Ok(made.metadata.uid.unwrap())
}

fn owned(name: &str, uid: &str, block: bool) -> Value {
    json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": block}]})
}

#[test]
fn dependents_go_in_the_background() {
    with_nodes(0, |cluster| async move {
        let a = map(&cluster, "a", json!({})).await?;
        let b = map(&cluster, "b", owned("a", &a, false)).await?;
        map(&cluster, "c", owned("b", &b, false)).await?;
        map(&cluster, "free", json!({})).await?;
        cluster.delete::<ConfigMap>("a").await?;
        cluster.settled().await;
        let left: Vec<_> =
            cluster.list::<ConfigMap>().await?.into_iter().filter_map(|map| map.metadata.name).collect();
        assert_eq!(left, ["free", "kube-root-ca.crt"]);
        Ok(())
    });
}

#[test]
fn an_owner_that_never_was_counts_as_gone() {
    with_nodes(0, |cluster| async move {
        map(&cluster, "a", json!({})).await?;
        map(&cluster, "b", owned("a", "11111111-2222-3333-4444-555555555555", false)).await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<ConfigMap>("a").await?.is_some());
        assert!(cluster.get_opt::<ConfigMap>("b").await?.is_none());
        Ok(())
    });
}

#[test]
fn an_owner_in_another_namespace_counts_as_absent_with_an_event() {
    with_nodes(0, |cluster| async move {
        let other = cluster.namespaced("kube-public");
        let uid = map(&other, "owner", json!({})).await?;
        cluster.settled().await;
        map(&cluster, "child", owned("owner", &uid, false)).await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<ConfigMap>("child").await?.is_none());
        assert!(other.get_opt::<ConfigMap>("owner").await?.is_some());
        let reasons: Vec<_> = cluster.events().await?.into_iter().filter_map(|event| event.reason).collect();
        assert_eq!(reasons, ["OwnerRefInvalidNamespace"]);
        Ok(())
    });
}

#[test]
fn foreground_deletion_waits_for_what_blocks() {
    with_nodes(0, |cluster| async move {
        let a = map(&cluster, "a", json!({})).await?;
        let mut held = owned("a", &a, true);
        held["finalizers"] = json!(["example.com/hold"]);
        map(&cluster, "held", held).await?;
        cluster.settled().await;
        cluster.api::<ConfigMap>().delete("a", &DeleteParams::foreground()).await?;
        cluster.settled().await;
        assert!(cluster.get::<ConfigMap>("held").await?.metadata.deletion_timestamp.is_some());
        assert_eq!(
            cluster.get::<ConfigMap>("a").await?.metadata.finalizers,
            Some(vec!["foregroundDeletion".to_owned()])
        );
        cluster.patch::<ConfigMap>("held", json!({"metadata": {"finalizers": null}})).await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<ConfigMap>("a").await?.is_none());
        assert!(cluster.get_opt::<ConfigMap>("held").await?.is_none());
        Ok(())
    });
}

#[test]
fn orphans_stay_without_their_owner() {
    with_nodes(0, |cluster| async move {
        let a = map(&cluster, "a", json!({})).await?;
        map(&cluster, "b", owned("a", &a, true)).await?;
        cluster.settled().await;
        cluster.api::<ConfigMap>().delete("a", &DeleteParams::orphan()).await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<ConfigMap>("a").await?.is_none());
        assert_eq!(cluster.get::<ConfigMap>("b").await?.metadata.owner_references, None);
        Ok(())
    });
}

#[test]
fn custom_resources_that_appear_later_take_part() {
    with_nodes(0, |cluster| async move {
        let crd = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        cluster.api::<CustomResourceDefinition>().create(&PostParams::default(), &object(crd)).await?;
        cluster.settled().await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Thing"));
        let things: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &kind);
        let owner = map(&cluster, "owner", json!({})).await?;
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "ownerReferences": owned("owner", &owner, false)["ownerReferences"]}});
        let thing = things.create(&PostParams::default(), &object(thing)).await?;
        let secret = json!({"metadata": {"name": "s", "ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": thing.metadata.uid}]}});
        cluster.api::<Secret>().create(&PostParams::default(), &object(secret)).await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<Secret>("s").await?.is_some());
        cluster.delete::<ConfigMap>("owner").await?;
        cluster.settled().await;
        assert!(things.get_opt("t").await?.is_none());
        assert!(cluster.get_opt::<Secret>("s").await?.is_none());
        Ok(())
    });
}
