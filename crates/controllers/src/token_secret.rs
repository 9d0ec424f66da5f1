//! Secrets with the token of a ServiceAccount: filled in while the account exists, deleted when it is gone.
//!
//! Kubernetes signs these tokens without an expiration. This controller has no signing key, so that it requests the token
//! through the API: bound to the Secret, with the longest lifetime that the API grants.

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result};
use evenkeel_tree::Tree;
use k8s_openapi::ByteString;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::MANAGER;
use crate::kinds::{SECRET, SERVICE_ACCOUNT, Secret, ServiceAccount};
use crate::object::{Object, OfKind};

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const TYPE: &str = "kubernetes.io/service-account-token";
const CA_KEY: &str = "ca.crt";
const NAMESPACE_KEY: &str = "namespace";
const TOKEN_KEY: &str = "token";

/// The longest lifetime of a token that the API accepts: more than a century.
const LIFETIME_SECONDS: i64 = 1 << 32;

/// The controller. Unless `certificate` is empty, the PEM certificate is written into the Secrets.
pub(crate) fn controller(certificate: String) -> Controller<Object> {
    let by_account = Index::new("service account", |secret: &Secret| {
        account_key(secret).map(|key| key.to_string()).into_iter().collect()
    });
    let tokens = SECRET.source().fields(format!("type={TYPE}"));
    Controller::new_with("tokens-controller", tokens, reconcile)
        .watches_indexed_with(SERVICE_ACCOUNT.source(), by_account, |account: &ServiceAccount| {
            vec![Request::of(account).to_string()]
        })
        .field_manager(MANAGER)
        .state(certificate)
}

/// Returns the key of the ServiceAccount that a Secret refers to.
fn account_key(secret: &Secret) -> Option<Request> {
    Some(Request::new(secret.metadata.namespace.as_deref(), secret.annotation(ACCOUNT_NAME)?))
}

async fn reconcile(secret: Arc<Secret>, ctx: Ctx<String>) -> Result<Action> {
    let Some(key) = account_key(&secret) else { return Ok(Action::await_change()) };
    let accounts = ctx.kind(&SERVICE_ACCOUNT);
    let fits = |account: &ServiceAccount| {
        let uid = secret.annotation(ACCOUNT_UID).filter(|uid| !uid.is_empty());
        uid.is_none_or(|uid| account.metadata.uid.as_deref() == Some(uid))
    };
    if let Some(account) = accounts.get(&key)?.filter(|account| fits(account)) {
        return fill(&ctx, &account, &secret).await;
    }
    // The API server is asked before a Secret is deleted, because the cache may lag behind.
    match accounts.fetch(&key).await?.filter(fits) {
        Some(account) => fill(&ctx, &account, &secret).await,
        None => {
            ctx.kind(&SECRET).delete(&secret).await?;
            Ok(Action::await_change())
        }
    }
}

/// Which entries a token Secret lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lacks {
    certificate: bool,
    namespace: bool,
    token: bool,
}

impl Lacks {
    fn of(secret: &Secret, certificate: &str) -> Self {
        let data = secret.at("data");
        Self {
            certificate: !certificate.is_empty() && *data.get(CA_KEY) != encoded(certificate),
            namespace: data.get(NAMESPACE_KEY).is_empty(),
            token: data.get(TOKEN_KEY).is_empty(),
        }
    }

    fn nothing(self) -> bool {
        !(self.certificate || self.namespace || self.token)
    }
}

/// Encodes a text in base64, as in the data of a Secret.
fn encoded(text: &str) -> Tree {
    json!(ByteString(text.into())).into()
}

async fn fill(ctx: &Ctx<String>, account: &ServiceAccount, secret: &Secret) -> Result<Action> {
    let lacks = Lacks::of(secret, ctx.state());
    if lacks.nothing() || secret.is_deleting() {
        return Ok(Action::await_change());
    }
    let mut filled = secret.clone();
    if lacks.certificate {
        filled.set(&format!("data/{CA_KEY}"), encoded(ctx.state()));
    }
    if lacks.namespace {
        filled.set(&format!("data/{NAMESPACE_KEY}"), encoded(secret.in_namespace()));
    }
    if lacks.token {
        let Some(token) = token(ctx, account, secret).await? else { return Ok(Action::await_change()) };
        filled.set(&format!("data/{TOKEN_KEY}"), encoded(&token));
    }
    let annotations = filled.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT_NAME.to_owned(), account.name().to_owned());
    annotations.insert(ACCOUNT_UID.to_owned(), account.metadata.uid.clone().unwrap_or_default());
    match ctx.kind(&SECRET).update(&filled).await {
        // The watch shows the conflicting write and triggers another reconcile.
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::await_change()),
    }
}

/// Requests a token of the account that is bound to the Secret; `None` if one of them was deleted or recreated.
async fn token(ctx: &Ctx<String>, account: &ServiceAccount, secret: &Secret) -> Result<Option<String>> {
    let bound =
        json!({"apiVersion": "v1", "kind": "Secret", "name": secret.name(), "uid": secret.metadata.uid});
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "boundObjectRef": bound, "expirationSeconds": LIFETIME_SECONDS},
    });
    let accounts =
        Api::<Object>::namespaced_with(ctx.client().clone(), account.in_namespace(), &&SERVICE_ACCOUNT);
    let params = PostParams::default();
    match accounts.create_subresource::<_, Value>("token", account.name(), &params, &request).await {
        Ok(answer) => Ok(answer.pointer("/status/token").and_then(Value::as_str).map(str::to_owned)),
        Err(kube::Error::Api(refusal)) if refusal.code == 404 || refusal.code == 409 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_filled_in() {
        let mut secret = Secret::default();
        let all = Lacks { certificate: true, namespace: true, token: true };
        assert_eq!(Lacks::of(&secret, "pem"), all);
        assert_eq!(Lacks::of(&secret, ""), Lacks { certificate: false, ..all });
        for (key, value) in [(CA_KEY, "pem"), (NAMESPACE_KEY, "ns"), (TOKEN_KEY, "a.b.c")] {
            secret.set(&format!("data/{key}"), encoded(value));
        }
        assert!(Lacks::of(&secret, "pem").nothing());
        assert!(Lacks::of(&secret, "").nothing());
        assert_eq!(
            Lacks::of(&secret, "renewed"),
            Lacks { certificate: true, namespace: false, token: false }
        );
    }
}
