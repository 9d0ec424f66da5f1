//! Serves the webhooks of an operator in this process while its simulated process lives, and registers them with the
//! API server.

pub(super) mod over_tls;

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::User;
use evenkeel_runtime::webhook::{Endpoint, Webhooks};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::BoxError;

use crate::transport::{
    OperatorProcess, Registered, Registration, ServedWebhook, WebhookAddress, Wire, installer,
};

/// The host domain for webhooks of operators that do not run as a ServiceAccount. It is reserved for tests (RFC 2606).
const DOMAIN: &str = "webhooks.test";
/// The prefix of a ServiceAccount's user name, before its namespace and name.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The suffix of the name of the Service for an operator's webhooks.
const SERVICE_SUFFIX: &str = "-webhook";
/// The port of the Service for webhooks.
const HTTPS_PORT: u16 = 443;

/// Where the API server finds the webhooks of an operator. Replicas of one operator share it.
struct Deployment {
    /// The name of the configurations.
    name: String,
    endpoint: Endpoint,
    address: WebhookAddress,
}

impl Deployment {
    /// Returns the deployment of an operator with this name. An operator that runs as the ServiceAccount of its
    /// manifests is reached through their Service. Any other is reached by URL and reviews objects in all namespaces,
    /// because it has no namespace of its own that must be left out.
    fn new(operator: &str, user: &User) -> Self {
        let account = user.name.strip_prefix(SERVICE_ACCOUNT).and_then(|account| account.split_once(':'));
        if let Some((namespace, name)) = account {
            let service = format!("{name}{SERVICE_SUFFIX}");
            return Self {
                name: name.to_owned(),
                address: WebhookAddress::service(namespace, &service, HTTPS_PORT),
                endpoint: Endpoint::service(namespace, service),
            };
        }
        let name = dns_name(operator);
        let url = format!("https://{name}.{DOMAIN}");
        Self { address: WebhookAddress::url(&url), endpoint: Endpoint::url(url), name }
    }

    /// Returns the deployment of an operator with these webhooks. Operators with equal webhooks are replicas of one
    /// deployment.
    fn of(wire: &Wire, operator: &str, user: &User, webhooks: &Webhooks) -> Self {
        let is_same = |name: &str, _, registered: &Registered| {
            Self::new(name, user).registered(webhooks) == *registered
        };
        let name = wire.registrations.replica_of(is_same);
        Self::new(name.as_deref().unwrap_or(operator), user)
    }

    fn registered(&self, webhooks: &Webhooks) -> Registered {
        Registered {
            configurations: webhooks.configurations(&self.name, &self.endpoint),
            conversions: webhooks.conversions(&self.endpoint).into_iter().collect(),
        }
    }
}

/// Serves the webhooks of an operator until the returned value is dropped or the process dies, and begins to register
/// them. Several operators with equal webhooks take turns.
pub(crate) fn serve(
    wire: &Wire,
    operator: &str,
    user: &User,
    webhooks: Webhooks,
    process: Option<Arc<OperatorProcess>>,
) -> (ServedWebhook, Option<Registration>) {
    let deployment = Deployment::of(wire, operator, user, &webhooks);
    let registration = wire.registrations.begin(operator, &deployment.name, deployment.registered(&webhooks));
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let (webhooks, process) = (webhooks.clone(), process.clone());
        async move { answer(webhooks, process.as_deref(), request).await }
    });
    (wire.webhooks.serve(deployment.address, service), registration)
}

/// Registers the webhooks of an operator with the API server. A failure is logged and shown in the timeline.
pub(crate) async fn register(wire: &Arc<Wire>, operator: &str, registration: Registration) {
    if let Err(error) = registration.carry_out(&installer(wire)).await {
        tracing::error!(operator, %error, "cannot register the webhooks of an operator");
        wire.recorder.disturbed(format!("cannot register the webhooks of {operator}: {error}"));
    }
}

/// Answers a review, unless the process is dead or dies in the meantime.
async fn answer(
    webhooks: Webhooks,
    process: Option<&OperatorProcess>,
    request: Request<Full<Bytes>>,
) -> Result<Response<Full<Bytes>>, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let died = async {
        match process {
            Some(process) => drop(process.died().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        // The API server sees a connection that closes without a response.
        () = died => Err("EOF".into()),
        response = webhooks.answer(Request::from_parts(head, body)) => Ok(response.map(Full::new)),
    }
}

/// Makes a string from an operator's name that is valid in host names and object names.
fn dns_name(operator: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name: String = operator.to_lowercase().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    name.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_reached_by_its_service_or_by_a_url() {
        let admin = Deployment::new("My operator", &User::admin());
        assert_eq!(admin.address, WebhookAddress::url("https://my-operator.webhooks.test/"));
        let account = User::new("system:serviceaccount:operators:site", ["system:authenticated"]);
        let installed = Deployment::new("site-0", &account);
        assert_eq!(
            (installed.name.as_str(), installed.endpoint),
            ("site", Endpoint::service("operators", "site-webhook"))
        );
    }
}
