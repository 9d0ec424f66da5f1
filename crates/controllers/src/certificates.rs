//! CertificateSigningRequests: approves those of nodes, signs for the built-in signers, and deletes old ones.
//!
//! Certificates are made by a [`CertificateSigner`], because this crate has no cryptography.

mod age;
mod signers;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Request, Result};
use evenkeel_schema::certificate_request::CertificateRequest;
use evenkeel_tree::Tree;
use jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use kube::core::params::{DeleteParams, Patch};
use serde_json::{Value, json};

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::expiration;
use crate::kinds::{CERTIFICATE_SIGNING_REQUEST, CertificateSigningRequest, SUBJECT_ACCESS_REVIEW};
use crate::object::{Object, OfKind, time};

/// How long after a refusal the rules are asked again whether a node may have its certificate.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Signs certificates in the name of the cluster.
pub trait CertificateSigner: Debug + Send + Sync {
    /// Returns the certificate for a request in PEM, with these usages, valid for this time from now on.
    ///
    /// # Errors
    /// Fails if the request's own signature is wrong, or if its key cannot be certified.
    fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>>;
}

/// The controller that approves the client certificates of nodes, if the rules allow the requesting user to have them.
pub(crate) fn approval() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    Controller::new_with("csrapproving", CERTIFICATE_SIGNING_REQUEST.source(), approve)
        .stream("refused", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn approve(csr: Arc<CertificateSigningRequest>, ctx: Ctx<Reminders>) -> Result<Action> {
    let is_open =
        !signers::is_issued(&csr) && !["Approved", "Denied"].iter().any(|it| signers::has(&csr, it));
    let Some(rules) = is_open.then(|| signers::approvals(&csr)).filter(|rules| !rules.is_empty()) else {
        return Ok(Action::await_change());
    };
    for rule in rules {
        if is_allowed(&ctx, &csr, rule.subresource).await? {
            let condition = json!({
                "type": "Approved", "status": "True", "reason": "AutoApproved", "message": rule.message,
            });
            return add_condition(&ctx, &csr, "approval", condition).await;
        }
    }
    ctx.state().set(ctx.request(), Some(ASK_AGAIN));
    Ok(Action::await_change())
}

/// Whether the user of a request may create requests with this subresource, which stands for a kind of certificate.
async fn is_allowed<S>(ctx: &Ctx<S>, csr: &CertificateSigningRequest, subresource: &str) -> Result<bool> {
    let review = json!({
        "apiVersion": SUBJECT_ACCESS_REVIEW.api_version(), "kind": SUBJECT_ACCESS_REVIEW.kind,
        "spec": {
            "user": csr.at("spec/username").to_value(), "uid": csr.at("spec/uid").to_value(),
            "groups": csr.at("spec/groups").to_value(), "extra": csr.at("spec/extra").to_value(),
            "resourceAttributes": {
                "group": CERTIFICATE_SIGNING_REQUEST.group, "resource": CERTIFICATE_SIGNING_REQUEST.plural,
                "subresource": subresource, "verb": "create", "version": "*",
            },
        },
    });
    let review = Object::new(Default::default(), Tree::from(review));
    let reviews = Api::<Object>::all_with(ctx.client().clone(), &&SUBJECT_ACCESS_REVIEW);
    Ok(reviews.create(&PostParams::default(), &review).await?.is_true("status/allowed"))
}

/// The controller that signs approved requests for the built-in signers.
pub(crate) fn signing(signer: Arc<dyn CertificateSigner>) -> Controller<Object> {
    Controller::new_with("csrsigning", CERTIFICATE_SIGNING_REQUEST.source(), sign)
        .field_manager(MANAGER)
        .state(signer)
}

async fn sign(csr: Arc<CertificateSigningRequest>, ctx: Ctx<Arc<dyn CertificateSigner>>) -> Result<Action> {
    if signers::is_issued(&csr) || !signers::has(&csr, "Approved") || signers::has(&csr, "Failed") {
        return Ok(Action::await_change());
    }
    let Some(request) = signers::request(&csr) else { return Ok(Action::await_change()) };
    let usages: Vec<&str> = csr.texts("spec/usages").collect();
    match signers::verdict(csr.str("spec/signerName").unwrap_or_default(), &request, &usages) {
        None => Ok(Action::await_change()),
        Some(Err(message)) => {
            let condition = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": message,
            });
            add_condition(&ctx, &csr, "status", condition).await
        }
        Some(Ok(())) => {
            let lifetime = signers::lifetime(csr.i64("spec/expirationSeconds"));
            match ctx.state().sign(&request, &usages, lifetime, ctx.now()) {
                Ok(certificate) => {
                    let encoded = json!(k8s_openapi::ByteString(certificate.into_bytes()));
                    write(&ctx, &csr, "status", json!({"certificate": encoded})).await
                }
                // Kubernetes retries forever. The request cannot change, so a retry would fail again.
                Err(error) => {
                    tracing::warn!(request = csr.name(), %error, "cannot sign the certificate");
                    Ok(Action::await_change())
                }
            }
        }
    }
}

/// Adds a condition through a subresource.
async fn add_condition<S>(
    ctx: &Ctx<S>,
    csr: &CertificateSigningRequest,
    subresource: &'static str,
    mut condition: Value,
) -> Result<Action> {
    condition["lastUpdateTime"] = time(clock::seconds(ctx.now())).to_value();
    let mut conditions: Vec<Value> = csr.list("status/conditions").iter().map(Tree::to_value).collect();
    conditions.push(condition);
    write(ctx, csr, subresource, json!({ "conditions": conditions })).await
}

/// Writes fields of the status, unless the request has changed meanwhile.
async fn write<S>(
    ctx: &Ctx<S>,
    csr: &CertificateSigningRequest,
    subresource: &'static str,
    status: Value,
) -> Result<Action> {
    let version = &csr.metadata.resource_version;
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": status}));
    let written = ctx
        .kind(&CERTIFICATE_SIGNING_REQUEST)
        .patch_subresource_unread(subresource, &Request::of(csr), &patch)
        .await;
    match written {
        // The watch shows the conflicting write and triggers another reconcile.
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::await_change()),
    }
}

/// The controller that deletes requests that nobody needs any more.
pub(crate) fn cleaning() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    Controller::new_with("csrcleaner", CERTIFICATE_SIGNING_REQUEST.source(), clean)
        .stream("lifetime", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn clean(csr: Arc<CertificateSigningRequest>, ctx: Ctx<Reminders>) -> Result<Action> {
    expiration::delete_at(&ctx, (&CERTIFICATE_SIGNING_REQUEST, &csr), age::end(&csr), DeleteParams::default())
        .await
}
