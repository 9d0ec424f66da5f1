//! Admission webhooks end to end: a TLS server in this process with a self-signed certificate.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evenkeel_cluster::Cluster;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The webhook's logic: from the `request` of an AdmissionReview to its `response`, without the uid.
type Answer = fn(&Value) -> Value;

struct Hook {
    cluster: Cluster,
    port: u16,
    bundle: String,
}

impl Hook {
    /// A cluster and a webhook with this logic.
    async fn start(answer: Answer) -> Self {
        let own =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate is made");
        let (pem, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).expect("it is PEM")];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("it is PEM");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(chain, key))
            .expect("the certificate fits its key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        tokio::spawn(listen(listener, TlsAcceptor::from(Arc::new(config)), answer));
        let cluster =
            Cluster::builder().controllers(false).start().await.expect("a cluster in memory starts");
        Self { cluster, port, bundle: STANDARD.encode(pem) }
    }

    /// Registers the webhook in the cluster.
    async fn register(&self, kind: &str, more: Value) -> kube::Result<()> {
        let mut hook = json!({
            "name": "hook.example.com",
            "clientConfig": {"url": format!("https://localhost:{}/x", self.port), "caBundle": self.bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["configmaps", "pods"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            hook[field] = value.clone();
        }
        let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "hooks"}, "webhooks": [hook]});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase());
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).expect("it is a request");
        self.cluster.client().request::<Value>(request).await.map(drop)
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), "default")
    }
}

async fn listen(listener: TcpListener, acceptor: TlsAcceptor, answer: Answer) {
    while let Ok((socket, _)) = listener.accept().await {
        let Ok(stream) = acceptor.accept(socket).await else { continue };
        let service = service_fn(move |request| respond(request, answer));
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

async fn respond(request: Request<Incoming>, answer: Answer) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("it arrives").to_bytes();
    let review: Value = serde_json::from_slice(&body).expect("a review is JSON");
    let mut response = answer(&review["request"]);
    response["uid"] = review["request"]["uid"].clone();
    let review = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
    Ok(Response::new(Full::new(review.to_string().into())))
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("it is one")
}

fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

#[tokio::test]
async fn a_validating_webhook_refuses_in_its_own_words() -> kube::Result<()> {
    let hook = Hook::start(|request| {
        let keep = request["operation"] == "DELETE" && request["oldObject"]["metadata"]["name"] == "kept";
        let bad = request["object"]["metadata"]["name"] == "bad";
        json!({"allowed": !keep && !bad, "status": {"code": 409, "reason": "Conflict", "message": "no"}})
    })
    .await;
    hook.register("ValidatingWebhookConfiguration", json!({})).await?;
    let maps = hook.maps();
    maps.create(&PostParams::default(), &map("kept")).await?;
    let refused = [
        maps.create(&PostParams::default(), &map("bad")).await.map(drop),
        maps.delete("kept", &DeleteParams::default()).await.map(drop),
    ];
    for refused in refused {
        let Err(kube::Error::Api(status)) = refused else { panic!("it was not refused: {refused:?}") };
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert_eq!(status.message, "admission webhook \"hook.example.com\" denied the request: no");
    }
    Ok(())
}

#[tokio::test]
async fn a_mutating_webhook_changes_what_is_then_defaulted_and_admitted() -> kube::Result<()> {
    let hook = Hook::start(|_| {
        patch(json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "s"}}]))
    })
    .await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let request = Request::post("/api/v1/namespaces/default/serviceaccounts")
        .header("content-type", "application/json")
        .body(account.to_string().into_bytes())
        .expect("it is a request");
    hook.cluster.client().request::<Value>(request).await?;
    hook.register("MutatingWebhookConfiguration", json!({})).await?;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    let pods = Api::<Pod>::namespaced(hook.cluster.client(), "default");
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).expect("it is one")).await?;
    let spec = made.spec.expect("it has a spec");
    let side = &spec.containers[1];
    assert_eq!(side.image_pull_policy.as_deref(), Some("Always"));
    // The ServiceAccount plugin has seen the new container, and has used the existing volume.
    assert_eq!(side.volume_mounts.as_ref().map(Vec::len), Some(1));
    assert_eq!(spec.volumes.map(|it| it.len()), Some(1));
    Ok(())
}

#[tokio::test]
async fn an_earlier_webhook_is_asked_again_only_where_it_wants_it() -> kube::Result<()> {
    for (policy, rounds) in [("Never", "1"), ("IfNeeded", "2")] {
        let hook = Hook::start(|request| match request["object"]["data"]["rounds"].as_str() {
            None => patch(json!([{"op": "add", "path": "/data", "value": {"rounds": "1"}}])),
            Some(_) if request["object"]["metadata"]["labels"].is_null() => {
                patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"late": "yes"}}]))
            }
            Some(_) => patch(json!([{"op": "replace", "path": "/data/rounds", "value": "2"}])),
        })
        .await;
        let own = json!({"url": format!("https://localhost:{}/x", hook.port), "caBundle": hook.bundle});
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["configmaps"]}]);
        let one = |name: &str, policy: &str| {
            json!({"name": name, "clientConfig": own, "rules": rules, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "reinvocationPolicy": policy})
        };
        let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "hooks"}, "webhooks": [one("a.example.com", policy), one("b.example.com", "Never")]});
        let request = Request::post("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations")
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .expect("it is a request");
        hook.cluster.client().request::<Value>(request).await?;
        let made = hook.maps().create(&PostParams::default(), &map("a")).await?;
        assert_eq!(made.data.and_then(|it| it.get("rounds").cloned()).as_deref(), Some(rounds), "{policy}");
    }
    Ok(())
}

#[tokio::test]
async fn a_webhook_that_cannot_be_asked_fails_or_is_ignored_as_it_says() -> kube::Result<()> {
    for (policy, code) in [("Fail", Some(500)), ("Ignore", None)] {
        let hook = Hook::start(|_| json!({"allowed": true, "patch": "x"})).await;
        hook.register("ValidatingWebhookConfiguration", json!({"failurePolicy": policy})).await?;
        let made = hook.maps().create(&PostParams::default(), &map("a")).await;
        let refused = match made {
            Err(kube::Error::Api(status)) => Some(status),
            _ => None,
        };
        assert_eq!(refused.as_ref().map(|it| it.code), code);
        if let Some(status) = refused {
            assert_eq!(
                status.message,
                "Internal error occurred: failed calling webhook \"hook.example.com\": received invalid webhook \
                 response: validating webhook may not return response.patch"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_webhook_behind_another_certificate_is_not_believed() -> kube::Result<()> {
    let (hook, other) = (Hook::start(|_| json!({"allowed": true})).await, Hook::start(|_| json!({})).await);
    let config = json!({"url": format!("https://localhost:{}/x", hook.port), "caBundle": other.bundle});
    hook.register("ValidatingWebhookConfiguration", json!({"clientConfig": config})).await?;
    let refused = hook.maps().create(&PostParams::default(), &map("a")).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("it was believed: {refused:?}") };
    assert!(status.message.contains("tls: failed to verify certificate"), "{}", status.message);
    Ok(())
}
