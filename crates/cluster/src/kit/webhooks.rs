//! Webhooks served in this process, and faults in calls to them.

use bytes::Bytes;
use evenkeel_runtime::Manager;
use http::{Request, Response};
use http_body_util::Full;
use tower::BoxError;

use crate::cluster::Cluster;
use crate::operator;
use crate::transport::{ServedWebhook, WebhookAddress, WebhookFault};

impl Cluster {
    /// Serves an admission or conversion webhook by a [`tower::Service`] in this process, without a port or TLS and in
    /// virtual time. The API server calls it for every `clientConfig` with this URL or Service. Calls appear in the
    /// ledger, the record and the timeline.
    ///
    /// The webhook is served until the returned value is dropped; after that, connections to it are refused. Several
    /// services at one address take turns, like replicas behind a Service. A remote cluster does not call the webhook.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::WebhookAddress;
    /// use http_body_util::{BodyExt as _, Full};
    /// use serde_json::{Value, json};
    ///
    /// let no = tower::service_fn(|request: http::Request<Full<bytes::Bytes>>| async move {
    ///     let review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    ///     let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
    ///         "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"message": "no"}}});
    ///     Ok::<_, tower::BoxError>(http::Response::new(Full::new(bytes::Bytes::from(answer.to_string()))))
    /// });
    /// let _webhook = cluster.serve_webhook(WebhookAddress::service("default", "hooks", 443), no);
    ///
    /// # let configuration: k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration =
    /// #     serde_json::from_value(json!({"metadata": {"name": "hooks"}, "webhooks": [{"name": "hooks.example.com",
    /// #     "clientConfig": {"service": {"namespace": "default", "name": "hooks"}}, "sideEffects": "None",
    /// #     "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": [""], "apiVersions": ["v1"],
    /// #     "operations": ["CREATE"], "resources": ["configmaps"]}]}]}))?;
    /// cluster.apply(configuration).await?;
    /// let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}}))?;
    /// let refused = cluster.apply(map).await.unwrap_err();
    /// assert!(refused.to_string().contains("admission webhook \"hooks.example.com\" denied the request: no"));
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn serve_webhook<S, B>(&self, address: WebhookAddress, service: S) -> ServedWebhook
    where
        S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        self.inner.wire.webhooks.serve(address, service)
    }

    /// Serves the webhooks of a manager that you run yourself, in this process, until the returned value is dropped,
    /// and creates their configurations under this name. [`Cluster::run_manager`] does so for the operators that it
    /// runs. Returns `None` if the manager has no webhooks, and on a remote cluster, which could not call them here.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use evenkeel_runtime::{Manager, Result};
    /// # use evenkeel_runtime::webhook::{Admission, Verdict, Webhook};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// async fn refuse(_: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
    ///     Ok(Verdict::deny("no"))
    /// }
    ///
    /// let mut manager = Manager::new(cluster.client()).webhook(Webhook::validate(refuse));
    /// let served = cluster.take_webhooks("maps", &mut manager).await?;
    /// assert!(served.is_some());
    /// let map: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}}))?;
    /// let refused = cluster.apply(map).await.unwrap_err();
    /// assert!(refused.to_string().contains("denied the request: no"), "{refused}");
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Fails if two webhooks have one path or one name.
    pub async fn take_webhooks(
        &self,
        name: &str,
        manager: &mut Manager,
    ) -> Result<Option<ServedWebhook>, BoxError> {
        if self.is_remote() {
            return Ok(None);
        }
        let Some(webhooks) = manager.take_webhooks()? else { return Ok(None) };
        let wire = &self.inner.wire;
        let (served, registration) = operator::serve_webhooks(wire, name, self.user(), webhooks, None);
        if let Some(registration) = registration {
            operator::register_webhooks(wire, name, registration).await;
        }
        Ok(Some(served))
    }

    /// Makes the next `times` calls to webhooks fail whose URL contains `url_part`. The URL of a Service is
    /// `https://NAME.NAMESPACE.svc:PORT/PATH`. The URL of an operator's webhook contains the operator's name; see
    /// [`Cluster::run_manager`]. Calls to webhooks outside of this process can fail too.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::WebhookFault;
    /// cluster.fail_webhook("hooks.operators.svc", WebhookFault::Down, 3);
    /// cluster.fail_webhook("/convert", WebhookFault::Slow(std::time::Duration::from_secs(31)), usize::MAX);
    /// # });
    /// ```
    pub fn fail_webhook(&self, url_part: impl Into<String>, fault: WebhookFault, times: usize) {
        self.inner.wire.webhooks.arm(url_part.into(), fault, times);
    }
}
