//! The checks that every operator should pass, on the life of a database.

use std::sync::Arc;

use bytes::Bytes;
use database::{BackupError, Database, Dump, Http, NAME, NoBackup, Place, add_to, operator, v2};
use evenkeel::cluster::{Exec, PodSelector};
use evenkeel::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use evenkeel::prelude::*;
use evenkeel::testing::Scenario;

use crate::{GROWS, class, condition, growing};

/// Keeps no dump.
struct Nowhere;

impl Place for Nowhere {
    async fn keep(&self, _: &str, _: &str) -> Result<(), BackupError> {
        Ok(())
    }
}

/// Lets an application that works answer for the servers of `orders`.
fn run_application(cluster: &Cluster) {
    cluster
        .serve_service("orders", 9187, |_| async { http::Response::new(Bytes::from_static(b"pg_up 1\n")) });
    cluster.on_exec(PodSelector::all().image("postgres:*"), |mut exec: Exec| async move {
        exec.print("-- PostgreSQL database dump complete\n").await;
    });
}

/// Creates, updates, grows and deletes a database, and returns what it observed on the way.
async fn create_change_delete(cluster: Cluster) -> Vec<String> {
    let play = async {
        run_application(&cluster);
        cluster.apply(v2::definition()).await?;
        cluster.apply(class(GROWS, true)).await?;
        cluster.apply(growing("17", 1, "1Gi")).await?;
        cluster.settled().await;
        cluster.apply(growing("18", 1, "2Gi")).await?;
        cluster.settled().await;
        let mut end = vec![condition(&cluster, "Ready").await?];
        for pod in cluster.list::<Pod>().await? {
            end.push(format!("{:?} {:?}", pod.metadata.name, pod.spec.unwrap().containers[0].image));
        }
        for claim in cluster.list::<PersistentVolumeClaim>().await? {
            end.push(format!("{:?}", claim.spec.unwrap().resources));
        }
        let (secrets, services) =
            (cluster.list::<Secret>().await?.len(), cluster.list::<Service>().await?.len());
        end.push(format!("{secrets} secrets, {services} services"));
        cluster.delete::<Database>("orders").await?;
        cluster.settled().await;
        let left = cluster.list::<PersistentVolumeClaim>().await?.len() + cluster.list::<Pod>().await?.len();
        end.push(format!("left: {left}"));
        Ok::<_, evenkeel::kube::Error>(end)
    };
    play.await.expect("the scenario's own requests succeed")
}

#[test]
fn it_survives_crashes_and_needs_each_of_its_rules() {
    let manifests = || operator().manifests("operators").expect("verbs.txt is well-formed");
    let start = |cluster: &Cluster| {
        // On a remote cluster, the test cannot answer for the application.
        if cluster.is_remote() {
            return cluster.run_manager(NAME, |manager| add_to(manager, Arc::new(NoBackup)));
        }
        let http = Http::new(cluster.http(NAME));
        let backup = Arc::new(Dump::new(http, Nowhere));
        cluster.run_manager(NAME, move |manager| add_to(manager, backup.clone()));
    };
    Scenario::new(manifests, start, create_change_delete)
        .verbs_file("verbs.txt")
        .crash_runs_min(36)
        .unused_rules([
            // For servers that do not stream lists.
            "secrets: list",
            "services: list",
            "statefulsets.apps: list",
            // For an Event that is recorded again.
            "events.events.k8s.io: patch",
            // For a cache that is behind.
            "databases.example.com: get",
            // For servers that do not stream lists.
            "databases.example.com: list",
            // For servers that enforce permissions on owner references.
            "databases.example.com/finalizers: update",
            // For the certificates of the webhooks, which are called without TLS in process.
            "mutatingwebhookconfigurations.admissionregistration.k8s.io: get",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io: list",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io: patch",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io: watch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io: get",
            "validatingwebhookconfigurations.admissionregistration.k8s.io: list",
            "validatingwebhookconfigurations.admissionregistration.k8s.io: patch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io: watch",
            "customresourcedefinitions.apiextensions.k8s.io: get",
            "customresourcedefinitions.apiextensions.k8s.io: list",
            "customresourcedefinitions.apiextensions.k8s.io: patch",
            "customresourcedefinitions.apiextensions.k8s.io: watch",
            "secrets: get",
            "secrets: list",
            "secrets: update",
            "secrets: watch",
        ])
        .check();
}
