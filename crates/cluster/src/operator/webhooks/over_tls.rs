//! Serves the webhooks of an operator over TLS, for remote clusters and for tests in real time.
//!
//! The operator's own server listens on a port of this machine, with certificates that the operator makes itself, and
//! the webhooks are registered by URL. Replicas share the port. On a remote cluster, which others use at the same time,
//! the webhooks review only objects in the namespace of the test.

use std::sync::Arc;

use evenkeel_runtime::webhook::{Endpoint, Webhooks};
use evenkeel_runtime::{Manager, WebhookServer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use super::dns_name;
use crate::transport::{Probe, Reach, Registered, Registration, ServedWebhook, Wire, installer};

/// The namespace of the Secrets with certificates. The webhooks must not review it: otherwise an operator that reviews
/// Secrets could not write its own certificate.
const SECRETS: &str = "kube-system";

/// Webhooks in service, and their pending registration.
type Served = (ServedWebhook, Option<Registration>);

/// Serves the webhooks of a manager until the returned value is dropped, and begins to register them. Returns `None` if
/// the manager has no webhooks.
///
/// # Errors
/// Fails if two webhooks have one path or one name, or if no port can be bound.
pub(crate) fn serve(
    wire: &Arc<Wire>,
    operator: &str,
    namespace: &str,
    manager: Manager,
) -> Result<(Manager, Option<Served>), BoxError> {
    let probe = Probe::new(namespace);
    let mut manager = probe.add_to(manager);
    let Some(webhooks) = manager.take_webhooks()? else { return Ok((manager, None)) };
    let scope = Scope { namespace, reach: wire.registrations.reach() };
    let probes_only = scope.registered("", &webhooks, &Endpoint::url("")) == Registered::default();
    if probes_only {
        return Ok((manager, None));
    }
    let deployment = deployment(wire, operator, &scope, &webhooks);
    let (address, listener) = wire.registrations.listener(&deployment)?;
    let url = format!("https://{address}");
    let name = scope.object_name(&deployment);
    let wanted = scope.registered(&deployment, &webhooks, &Endpoint::url(&url));
    let registration = wire.registrations.begin(operator, &deployment, wanted);
    let secret = format!("{name}-webhook-cert");
    wire.registrations.note_secret(SECRETS, &secret);
    let server = WebhookServer::new(SECRETS, &name)
        .certificates_in_secret(SECRETS, &secret)
        .url(url)
        .listener(listener.try_clone()?);
    let serving = server.serve(webhooks, installer(wire), wire.env.clone(), CancellationToken::new());
    let operator = operator.to_owned();
    let task = tokio::spawn(async move {
        // The port is closed when the last replica ends.
        let _listener = listener;
        if let Err(error) = serving.await {
            tracing::error!(operator, %error, "cannot serve the webhooks of an operator");
        }
    });
    let registration = registration.map(|registration| registration.probe(&deployment, probe));
    Ok((manager, Some((ServedWebhook::server(task), registration))))
}

/// Returns the deployment of an operator with these webhooks. Operators with equal webhooks are replicas of one
/// deployment.
fn deployment(wire: &Wire, operator: &str, scope: &Scope<'_>, webhooks: &Webhooks) -> String {
    let registrations = &wire.registrations;
    let same = registrations.replica_of(|name, address, known| {
        let endpoint = address.map(|address| Endpoint::url(format!("https://{address}")));
        endpoint.is_some_and(|endpoint| scope.registered(name, webhooks, &endpoint) == *known)
    });
    same.unwrap_or_else(|| dns_name(operator))
}

/// Which objects the webhooks of a test review.
struct Scope<'a> {
    /// The namespace of the test.
    namespace: &'a str,
    reach: Reach,
}

impl Scope<'_> {
    /// Returns the name of a deployment's configurations, which no other test uses.
    fn object_name(&self, deployment: &str) -> String {
        format!("{deployment}.{}", self.namespace)
    }

    fn registered(&self, deployment: &str, webhooks: &Webhooks, endpoint: &Endpoint) -> Registered {
        let configurations = webhooks.configurations(&self.object_name(deployment), endpoint);
        Registered {
            configurations: configurations.into_iter().filter_map(|object| self.limited(object)).collect(),
            conversions: webhooks.conversions(endpoint).into_iter().collect(),
        }
    }

    /// Limits the webhooks of a configuration to objects in this scope. Returns `None` if only probing webhooks would
    /// be left.
    fn limited(&self, mut configuration: Value) -> Option<Value> {
        let hooks = configuration["webhooks"].as_array_mut()?;
        if hooks.iter().all(Probe::is) {
            return None;
        }
        for hook in hooks {
            let (operator, namespace) = match self.reach {
                Reach::Remote => ("In", self.namespace),
                _ => ("NotIn", SECRETS),
            };
            let limit =
                json!({ "key": "kubernetes.io/metadata.name", "operator": operator, "values": [namespace] });
            match hook["namespaceSelector"]["matchExpressions"].as_array_mut() {
                Some(expressions) => expressions.push(limit),
                None => hook["namespaceSelector"]["matchExpressions"] = json!([limit]),
            }
        }
        Some(configuration)
    }
}
