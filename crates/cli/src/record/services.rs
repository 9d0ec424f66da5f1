//! Finds operators by the Services of their metrics, which the API server's proxy reaches.

use anyhow::Context as _;
use evenkeel::k8s_openapi::api::core::v1::{Pod, Service};
use evenkeel::kube::api::{Api, ListParams};
use evenkeel::kube::{Client, ResourceExt as _};

use serde_json::{Value, json};

use super::operator::Operator;
use crate::hint::Hinted;

/// The name of the port at which a Service offers metrics over TLS.
const PORT: &str = "https";

/// The end of the name of a Service for metrics.
const SUFFIX: &str = "-metrics";

/// How long a token of an operator's account is valid, in seconds: the shortest time that Kubernetes allows.
const TOKEN_SECONDS: i64 = 600;

/// A port of a Service.
struct Port<'a> {
    namespace: &'a str,
    service: &'a str,
    port: &'a str,
}

impl Port<'_> {
    /// Reads `NAMESPACE/NAME:PORT`.
    fn read(text: &str) -> anyhow::Result<Port<'_>> {
        let parts = text.split_once('/').and_then(|(namespace, rest)| {
            let (service, port) = rest.split_once(':')?;
            let whole = [namespace, service, port].iter().all(|part| !part.is_empty() && !part.contains('/'));
            whole.then_some(Port { namespace, service, port })
        });
        let wrong = || Hinted::new(format!("{text} is not a Service"), "name it as NAMESPACE/NAME:PORT");
        parts.with_context(wrong)
    }

    /// The path at which the API server passes requests on to the port.
    fn proxy(&self) -> String {
        let Self { namespace, service, port } = self;
        format!("/api/v1/namespaces/{namespace}/services/https:{service}:{port}/proxy")
    }
}

/// The operator behind a Service that the user has named as `NAMESPACE/NAME:PORT`.
pub(super) async fn named(client: &Client, text: &str, given: Option<String>) -> anyhow::Result<Operator> {
    let port = Port::read(text)?;
    let token = match given {
        Some(token) => Some(token),
        None => Some(own_token(client, &port).await.with_context(|| {
            Hinted::new(
                format!("there is no token for the operator behind {text}"),
                "pass one with --token-file, such as that of `kubectl create token`",
            )
        })?),
    };
    Ok(Operator::behind(text, client.clone(), &port.proxy(), token))
}

/// All operators whose metrics have a Service over TLS, in the namespaces that the user may list.
pub(super) async fn all(client: &Client, given: Option<String>) -> Vec<Operator> {
    let params = ListParams::default();
    let everywhere = Api::<Service>::all(client.clone()).list(&params).await;
    let services = match everywhere {
        Ok(list) => list.items,
        Err(_) => {
            Api::default_namespaced(client.clone()).list(&params).await.map(|it| it.items).unwrap_or_default()
        }
    };
    let mut found = Vec::new();
    for service in services {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).into_iter().flatten();
        let has_port = ports.filter_map(|port| port.name.as_deref()).any(|port| port == PORT);
        if has_port && name.ends_with(SUFFIX) {
            let port = Port { namespace: &namespace, service: &name, port: PORT };
            let token = match &given {
                Some(token) => Some(token.clone()),
                None => own_token(client, &port).await.ok(),
            };
            let shown = format!("{namespace}/{name}");
            found.push(Operator::behind(&shown, client.clone(), &port.proxy(), token));
        }
    }
    found
}

/// Requests a token of the account under which the pods behind a Service run. That account may read its own record.
async fn own_token(client: &Client, port: &Port<'_>) -> anyhow::Result<String> {
    let service = Api::<Service>::namespaced(client.clone(), port.namespace).get(port.service).await?;
    let selector = service.spec.and_then(|spec| spec.selector).context("the Service has no selector")?;
    let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&labels.join(","));
    let pods = Api::<Pod>::namespaced(client.clone(), port.namespace).list(&params).await?;
    let accounts = pods.items.into_iter().filter_map(|pod| pod.spec?.service_account_name);
    let account = accounts.into_iter().next().context("no pod is behind the Service")?;
    token(client, port.namespace, &account, TOKEN_SECONDS).await
}

/// Requests a token of a ServiceAccount.
pub(crate) async fn token(
    client: &Client,
    namespace: &str,
    account: &str,
    seconds: i64,
) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": seconds },
    });
    let request = http::Request::post(path).header("content-type", "application/json");
    let made: Value = client.request(request.body(body.to_string().into_bytes())?).await?;
    Ok(made["status"]["token"].as_str().context("the API server gave no token")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_with_its_namespace_and_port() {
        let wanted = "/api/v1/namespaces/prod/services/https:database-metrics:8443/proxy";
        assert_eq!(Port::read("prod/database-metrics:8443").unwrap().proxy(), wanted);
        for wrong in ["database", "prod/database", "/a:1", "a/b:", "a/b/c:1"] {
            assert!(Port::read(wrong).is_err(), "{wrong}");
        }
    }
}
