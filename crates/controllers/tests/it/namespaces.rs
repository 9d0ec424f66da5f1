//! The default content of namespaces, and their deletion.

use evenkeel_cluster::testing;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::world::{deployment, object, with, with_nodes};

#[test]
fn every_namespace_has_an_account_and_the_root_certificate() {
    with_nodes(0, |cluster| async move {
        cluster
            .api::<Namespace>()
            .create(&PostParams::default(), &object(json!({"metadata": {"name": "new"}})))
            .await?;
        cluster.settled().await;
        let new = cluster.namespaced("new");
        assert!(new.get_opt::<ServiceAccount>("default").await?.is_some());
        assert!(new.get_opt::<ConfigMap>("kube-root-ca.crt").await?.is_some());
        new.delete::<ServiceAccount>("default").await?;
        new.delete::<ConfigMap>("kube-root-ca.crt").await?;
        cluster.settled().await;
        assert!(new.get_opt::<ServiceAccount>("default").await?.is_some());
        assert!(new.get_opt::<ConfigMap>("kube-root-ca.crt").await?.is_some());
        Ok(())
    });
}

#[test]
fn the_certificate_of_the_authority_is_published_and_restored() {
    with(testing::options().nodes(0).root_ca(true), |cluster| async move {
        let published = |cluster: evenkeel_cluster::Cluster| async move {
            let map = cluster.get::<ConfigMap>("kube-root-ca.crt").await?;
            Ok::<_, kube::Error>(map.data.unwrap_or_default()["ca.crt"].clone())
        };
        let certificate = published(cluster.clone()).await?;
        assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{certificate}");
        let patch = Patch::Merge(json!({"data": {"ca.crt": "forged", "more": "x"}}));
        cluster.api::<ConfigMap>().patch("kube-root-ca.crt", &PatchParams::default(), &patch).await?;
        cluster.settled().await;
        assert_eq!(published(cluster.clone()).await?, certificate);
        Ok(())
    });
}

#[test]
fn a_deleted_namespace_takes_its_content_with_it() {
    with_nodes(1, |cluster| async move {
        cluster
            .api::<Namespace>()
            .create(&PostParams::default(), &object(json!({"metadata": {"name": "old"}})))
            .await?;
        cluster.settled().await;
        let old = cluster.namespaced("old");
        old.apply::<Deployment>(object(deployment("web", 2, "i"))).await?;
        cluster.settled().await;
        assert_eq!(old.list::<Pod>().await?.len(), 2);
        cluster.delete::<Namespace>("old").await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<Namespace>("old").await?.is_none());
        assert_eq!(old.list::<Pod>().await?.len(), 0);
        assert_eq!(old.list::<Deployment>().await?.len(), 0);
        Ok(())
    });
}

#[test]
fn content_that_is_held_is_named_in_the_conditions() {
    with_nodes(0, |cluster| async move {
        cluster
            .api::<Namespace>()
            .create(&PostParams::default(), &object(json!({"metadata": {"name": "old"}})))
            .await?;
        cluster.settled().await;
        let old = cluster.namespaced("old");
        let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
        old.api::<ConfigMap>().create(&PostParams::default(), &object(held)).await?;
        cluster.delete::<Namespace>("old").await?;
        cluster.settled().await;
        let status = cluster.get::<Namespace>("old").await?.status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Terminating"));
        let messages: Vec<_> =
            status.conditions.unwrap().into_iter().filter_map(|condition| condition.message).collect();
        assert!(
            messages
                .contains(&"Some resources are remaining: configmaps. has 1 resource instances".to_owned()),
            "{messages:?}"
        );
        assert!(
            messages.iter().any(|message| message.ends_with("example.com/hold in 1 resource instances")),
            "{messages:?}"
        );
        old.patch::<ConfigMap>("held", json!({"metadata": {"finalizers": null}})).await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<Namespace>("old").await?.is_none());
        Ok(())
    });
}
