//! CertificateSigningRequests: approval, signing, and who may do it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_cluster::Cluster;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{object, with_nodes};

const CLIENT: &str = include_str!("certificates/client.pem");
const NODE: &str = include_str!("certificates/node.pem");
const MASTERS: &str = include_str!("certificates/masters.pem");
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

fn request(name: &str, signer: &str, pem: &str, usages: &[&str]) -> CertificateSigningRequest {
    object(json!({
        "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": usages},
    }))
}

async fn create(
    requests: &Api<CertificateSigningRequest>,
    request: CertificateSigningRequest,
) -> kube::Result<()> {
    requests.create(&PostParams::default(), &request).await.map(|_| ())
}

async fn approve(requests: &Api<CertificateSigningRequest>, name: &str) -> kube::Result<()> {
    let condition = json!({"type": "Approved", "status": "True", "reason": "Test", "message": "m"});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    requests.patch_subresource("approval", name, &PatchParams::default(), &patch).await.map(|_| ())
}

/// The types of the conditions of a request, and whether it has a certificate.
async fn state(cluster: &Cluster, name: &str) -> kube::Result<(Vec<String>, bool)> {
    let status = cluster.api::<CertificateSigningRequest>().get(name).await?.status.unwrap_or_default();
    let kinds = status.conditions.into_iter().flatten().map(|it| it.type_).collect();
    let issued = status.certificate.is_some_and(|it| it.0.starts_with(b"-----BEGIN CERTIFICATE-----"));
    Ok((kinds, issued))
}

#[test]
fn an_approved_request_is_signed_and_a_wrong_one_fails() {
    with_nodes(0, |cluster| async move {
        let requests = cluster.api::<CertificateSigningRequest>();
        create(&requests, request("good", CLIENT_SIGNER, CLIENT, &["client auth"])).await?;
        create(&requests, request("wrong", CLIENT_SIGNER, CLIENT, &["server auth"])).await?;
        create(&requests, request("other", "example.com/signer", CLIENT, &["client auth"])).await?;
        cluster.settled().await;
        assert_eq!(state(&cluster, "good").await?, (vec![], false), "nobody has approved it");
        for name in ["good", "wrong", "other"] {
            approve(&requests, name).await?;
        }
        cluster.settled().await;
        assert_eq!(state(&cluster, "good").await?, (vec!["Approved".to_owned()], true));
        let failed = vec!["Approved".to_owned(), "Failed".to_owned()];
        assert_eq!(state(&cluster, "wrong").await?, (failed, false));
        assert_eq!(state(&cluster, "other").await?, (vec!["Approved".to_owned()], false));
        let failed = requests.get("wrong").await?.status.unwrap().conditions.unwrap().remove(1);
        assert_eq!(failed.reason.as_deref(), Some("SignerValidationFailure"));
        assert_eq!(failed.message.as_deref(), Some("invalid usage for client certificate: server auth"));
        tokio::time::sleep(Duration::from_secs(3601)).await;
        cluster.settled().await;
        assert!(requests.get_opt("good").await?.is_none(), "issued requests are kept for an hour");
        assert!(requests.get_opt("other").await?.is_some(), "requests that wait are kept for a day");
        Ok(())
    });
}

#[test]
fn the_certificate_of_a_node_is_approved_by_the_rules() {
    with_nodes(0, |cluster| async move {
        let node = cluster.client_as("system:node:a", ["system:nodes", "system:authenticated"]);
        let binding: ClusterRoleBinding = object(json!({
            "metadata": {"name": "nodes-create"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
        }));
        let bindings = cluster.api::<ClusterRoleBinding>();
        bindings.create(&PostParams::default(), &binding).await?;
        let requests: Api<CertificateSigningRequest> = Api::all(node);
        let usages = ["client auth", "digital signature"];
        create(&requests, request("node", KUBELET_SIGNER, NODE, &usages)).await?;
        cluster.settled().await;
        assert_eq!(state(&cluster, "node").await?, (vec![], false), "no rule allows it");
        let role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
        let mut binding = binding;
        binding.metadata.name = Some("nodes-renew".to_owned());
        binding.role_ref.name = role.to_owned();
        bindings.create(&PostParams::default(), &binding).await?;
        tokio::time::sleep(Duration::from_secs(61)).await;
        cluster.settled().await;
        assert_eq!(state(&cluster, "node").await?, (vec!["Approved".to_owned()], true));
        Ok(())
    });
}

#[test]
fn only_those_who_may_approve_and_sign_do() {
    with_nodes(0, |cluster| async move {
        let requests = cluster.api::<CertificateSigningRequest>();
        let refused = |result: kube::Result<()>| match result {
            Err(kube::Error::Api(status)) => status.message.clone(),
            other => panic!("{other:?}"),
        };
        let masters = request("masters", CLIENT_SIGNER, MASTERS, &["client auth"]);
        assert_eq!(
            refused(create(&requests, masters).await),
            "certificatesigningrequests.certificates.k8s.io \"masters\" is forbidden: use of \
             kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        );
        create(&requests, request("a", CLIENT_SIGNER, CLIENT, &["client auth"])).await?;
        let role: k8s_openapi::api::rbac::v1::ClusterRole = object(json!({
            "metadata": {"name": "approver"},
            "rules": [{"apiGroups": ["certificates.k8s.io"], "verbs": ["*"],
                "resources": ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"]}],
        }));
        cluster.api().create(&PostParams::default(), &role).await?;
        let binding: ClusterRoleBinding = object(json!({
            "metadata": {"name": "approver"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }));
        cluster.api().create(&PostParams::default(), &binding).await?;
        let alice: Api<CertificateSigningRequest> =
            Api::all(cluster.client_as("alice", ["system:authenticated"]));
        let forbidden = |verb: &str| {
            format!(
                "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted to {verb} \
                 requests with signerName \"{CLIENT_SIGNER}\""
            )
        };
        assert_eq!(refused(approve(&alice, "a").await), forbidden("approve"));
        let patch: Patch<Value> = Patch::Merge(json!({"status": {"certificate": STANDARD.encode(
            "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n")}}));
        let signed = alice.patch_status("a", &PatchParams::default(), &patch).await.map(|_| ());
        assert_eq!(refused(signed), forbidden("sign"));
        Ok(())
    });
}
