//! Webhooks in this process, and their failures.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::BoxError;

use crate::cluster::Cluster;
use crate::transport::{ServedWebhook, WebhookAddress, WebhookFault};

impl Cluster {
    /// Serves an admission or conversion webhook by a [`tower::Service`] in this process: no port, no TLS, in virtual
    /// time. The API server calls it wherever a webhook's `clientConfig` has this URL or Service. Calls are in the
    /// ledger, in the record and in the timeline.
    ///
    /// The webhook is served until the result is dropped; then connections to it are refused. Several services at one
    /// address take turns, like the replicas behind a Service. A remote cluster does not call it.
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

    /// Makes the next `times` calls of webhooks fail whose URL contains `url_part`. The URL of a Service is
    /// `https://NAME.NAMESPACE.svc:PORT/PATH`. Webhooks outside of this process can fail, too.
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
