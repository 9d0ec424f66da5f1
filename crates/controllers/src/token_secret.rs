//! Secrets with the token of a ServiceAccount: filled in while the account exists, deleted when it is gone.
//!
//! Kubernetes signs these tokens without an expiration. This controller has no signing key, so that it requests the token
//! through the API: bound to the Secret, with the longest lifetime that the API grants.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, Source};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use crate::MANAGER;
use crate::openapi_compat::into_field;

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const TYPE: &str = "kubernetes.io/service-account-token";
const CA_KEY: &str = "ca.crt";
const NAMESPACE_KEY: &str = "namespace";
const TOKEN_KEY: &str = "token";

/// The longest lifetime of a token that the API accepts: more than a century.
const LIFETIME_SECONDS: i64 = 1 << 32;

/// The controller. Unless `certificate` is empty, the PEM certificate is written into the Secrets.
pub(crate) fn controller(certificate: String) -> Controller<Secret> {
    let by_account = Index::new("service account", |secret: &Secret| {
        let namespace = secret.namespace().unwrap_or_default();
        account_name(secret).map(|name| format!("{namespace}/{name}")).into_iter().collect()
    });
    let tokens = Source::<Secret>::new().fields(format!("type={TYPE}"));
    Controller::new_with("tokens-controller", tokens, reconcile)
        .watches_indexed(by_account, |account: &ServiceAccount| vec![Request::of(account).to_string()])
        .field_manager(MANAGER)
        .state(certificate)
}

fn account_name(secret: &Secret) -> Option<&String> {
    secret.annotations().get(ACCOUNT_NAME)
}

async fn reconcile(secret: Arc<Secret>, ctx: Ctx<String>) -> Result<Action> {
    let Some(name) = account_name(&secret) else { return Ok(Action::await_change()) };
    let key = Request::new(secret.namespace().as_deref(), name.as_str());
    let fits = |account: &ServiceAccount| {
        let uid = secret.annotations().get(ACCOUNT_UID).filter(|uid| !uid.is_empty());
        uid.is_none_or(|uid| account.metadata.uid.as_ref() == Some(uid))
    };
    if let Some(account) = ctx.get_at::<ServiceAccount>(&key)?.filter(|account| fits(account)) {
        return fill(&ctx, &account, &secret).await;
    }
    // The API server is asked before a Secret is deleted, because the cache may lag behind.
    match ctx.fetch_at::<ServiceAccount>(&key).await?.filter(fits) {
        Some(account) => fill(&ctx, &account, &secret).await,
        None => {
            ctx.delete(&secret).await?;
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
    fn of(data: &BTreeMap<String, ByteString>, certificate: &str) -> Self {
        let bytes = |key: &str| data.get(key).map(|value| value.0.as_slice()).unwrap_or_default();
        Self {
            certificate: !certificate.is_empty() && bytes(CA_KEY) != certificate.as_bytes(),
            namespace: bytes(NAMESPACE_KEY).is_empty(),
            token: bytes(TOKEN_KEY).is_empty(),
        }
    }

    fn nothing(self) -> bool {
        !(self.certificate || self.namespace || self.token)
    }
}

async fn fill(ctx: &Ctx<String>, account: &ServiceAccount, secret: &Secret) -> Result<Action> {
    let mut filled = secret.clone();
    let data = filled.data.get_or_insert_default();
    let lacks = Lacks::of(data, ctx.state());
    if lacks.nothing() || secret.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if lacks.certificate {
        data.insert(CA_KEY.to_owned(), ByteString(ctx.state().clone().into_bytes()));
    }
    if lacks.namespace {
        let namespace = secret.namespace().unwrap_or_default();
        data.insert(NAMESPACE_KEY.to_owned(), ByteString(namespace.into_bytes()));
    }
    if lacks.token {
        let Some(token) = token(ctx, account, secret).await? else { return Ok(Action::await_change()) };
        data.insert(TOKEN_KEY.to_owned(), ByteString(token.into_bytes()));
    }
    let annotations = filled.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCOUNT_NAME.to_owned(), account.name_any());
    annotations.insert(ACCOUNT_UID.to_owned(), account.uid().unwrap_or_default());
    match ctx.update(&filled).await {
        // The watch shows the conflicting write and triggers another reconcile.
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::await_change()),
    }
}

/// Requests a token of the account that is bound to the Secret; `None` if one of them was deleted or recreated.
async fn token(ctx: &Ctx<String>, account: &ServiceAccount, secret: &Secret) -> Result<Option<String>> {
    let request = TokenRequest {
        spec: into_field(TokenRequestSpec {
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Secret".to_owned()),
                name: Some(secret.name_any()),
                uid: secret.uid(),
            }),
            expiration_seconds: Some(LIFETIME_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let namespace = account.namespace().unwrap_or_default();
    let accounts = Api::<ServiceAccount>::namespaced(ctx.client().clone(), &namespace);
    match accounts.create_token_request(&account.name_any(), &PostParams::default(), &request).await {
        Ok(answer) => Ok(answer.status.and_then(|status| into_field(status.token))),
        Err(kube::Error::Api(refusal)) if refusal.code == 404 || refusal.code == 409 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_filled_in() {
        let mut data = BTreeMap::new();
        let all = Lacks { certificate: true, namespace: true, token: true };
        assert_eq!(Lacks::of(&data, "pem"), all);
        assert_eq!(Lacks::of(&data, ""), Lacks { certificate: false, ..all });
        for (key, value) in [(CA_KEY, "pem"), (NAMESPACE_KEY, "ns"), (TOKEN_KEY, "a.b.c")] {
            data.insert(key.to_owned(), ByteString(value.into()));
        }
        assert!(Lacks::of(&data, "pem").nothing());
        assert!(Lacks::of(&data, "").nothing());
        assert_eq!(Lacks::of(&data, "renewed"), Lacks { certificate: true, namespace: false, token: false });
    }
}
