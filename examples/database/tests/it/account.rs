//! The operator as it is deployed: under the account and the rules of its own manifests.

use std::sync::Arc;

use database::{Database, NAME, NoBackup, controller, operator};
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::Node;
use evenkeel::k8s_openapi::api::rbac::v1::ClusterRole;
use evenkeel::kube::Result;
use evenkeel::kube::api::PostParams;
use evenkeel::prelude::*;
use evenkeel::testing;

use crate::{condition, orders};

#[evenkeel::test(embedded = "claims without a class do not grow elsewhere")]
async fn it_runs_as_its_account_within_its_rules(cluster: Cluster) -> Result<()> {
    let account = cluster.install(&operator().manifests("operators").unwrap()).await?;
    account.run(|| controller(Arc::new(NoBackup)));
    cluster.apply(orders("17", 1)).await?;
    cluster.settled().await;
    let mut changed = orders("18", 2);
    changed.spec.storage = "2Gi".into();
    cluster.apply(changed).await?;
    cluster.settled().await;
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    cluster.delete::<Database>("orders").await?;
    cluster.settled().await;
    assert_eq!(testing::lines(&cluster.forbidden()), Vec::<String>::new());
    testing::kept("verbs.txt", &cluster.verbs(NAME));

    let outside = account.get::<Node>("node-0").await.unwrap_err().to_string();
    assert!(outside.contains("cannot get resource \"nodes\""), "{outside}");
    Ok(())
}

#[evenkeel::test(embedded = "a rule of the whole cluster is taken away")]
async fn without_a_rule_that_it_needs_it_gets_nowhere(cluster: Cluster) -> Result<()> {
    let account = cluster.install(&operator().manifests("operators").unwrap()).await?;
    let mut role = cluster.get::<ClusterRole>(NAME).await?;
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|resource| resource == "statefulsets") {
            rule.verbs.retain(|verb| verb != "create");
        }
    }
    cluster.api::<ClusterRole>().replace(NAME, &PostParams::default(), &role).await?;
    account.run(|| controller(Arc::new(NoBackup)));
    cluster.apply(orders("17", 1)).await?;
    cluster.idle().await;
    let refused = testing::lines(&cluster.forbidden());
    assert!(refused.iter().any(|request| request.contains(" statefulsets/")), "{refused:?}");
    assert_eq!(cluster.list::<StatefulSet>().await?.len(), 0);
    Ok(())
}

#[evenkeel::test]
async fn storage_that_may_not_grow_is_told(cluster: Cluster) -> Result<()> {
    let account = cluster.install(&operator().manifests("operators").unwrap()).await?;
    let mut role = cluster.get::<ClusterRole>(NAME).await?;
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|resource| resource == "persistentvolumeclaims") {
            rule.verbs.retain(|verb| verb != "patch");
        }
    }
    cluster.api::<ClusterRole>().replace(NAME, &PostParams::default(), &role).await?;
    account.run(|| controller(Arc::new(NoBackup)));
    cluster.apply(orders("17", 1)).await?;
    cluster.settled().await;
    let mut larger = orders("17", 1);
    larger.spec.storage = "2Gi".into();
    cluster.apply(larger).await?;
    // It comes to rest: a class that cannot grow will not grow by trying.
    cluster.settled().await;
    let told = condition(&cluster, "Accepted").await?;
    assert!(told.starts_with("False Refused: patch PersistentVolumeClaim"), "{told}");
    Ok(())
}
