//! The endpoint of a webhook, and the call to it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evenkeel_store::Range;
use http::Uri;
use serde_json::Value;

use crate::admission_registration::Webhook;
use crate::context::RequestContext;
use crate::registry::storage_prefix;
use crate::status::quote;
use crate::storage;
use crate::{WebhookAnswer, WebhookQuestion};

/// The default timeout of a webhook, as in Kubernetes.
const TIMEOUT_SECONDS: u64 = 10;
const HTTPS_PORT: u64 = 443;

/// Posts a review to a webhook, within its timeout.
pub(super) async fn post(
    ctx: &RequestContext<'_>,
    hook: &Webhook,
    body: Bytes,
) -> Result<WebhookAnswer, String> {
    let seconds = hook.spec["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS);
    let config = &hook.spec["clientConfig"];
    let place = Place::of(config)?;
    let path = format!("{}?timeout={seconds}s", place.path);
    let url = format!("https://{}{path}", place.authority);
    let failed = |why: String| format!("failed to call webhook: Post {}: {why}", quote(&url));
    let address = match &place.service {
        Some(service) => resolve(ctx, service).map_err(failed)?,
        None => place.address.clone(),
    };
    let ca_bundle = STANDARD.decode(config["caBundle"].as_str().unwrap_or_default()).unwrap_or_default();
    let caller = ctx.services.webhooks.as_ref();
    let caller = caller.ok_or_else(|| failed("this API server has no client for webhooks".to_owned()))?;
    let question = WebhookQuestion {
        address,
        server_name: place.server_name,
        authority: place.authority,
        path,
        ca_bundle,
        body,
    };
    match tokio::time::timeout(Duration::from_secs(seconds), caller.post(question)).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => Err(failed("context deadline exceeded".to_owned())),
    }
}

/// The endpoint in a client configuration.
struct Place<'a> {
    authority: String,
    address: String,
    server_name: String,
    path: String,
    /// The service that must be resolved, if the endpoint is a service.
    service: Option<Service<'a>>,
}

struct Service<'a> {
    namespace: &'a str,
    name: &'a str,
    port: u64,
}

impl<'a> Place<'a> {
    fn of(config: &'a Value) -> Result<Self, String> {
        let reference = &config["service"];
        if !reference.is_null() {
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let (namespace, name) = (text("namespace"), text("name"));
            let port = reference["port"].as_u64().unwrap_or(HTTPS_PORT);
            let server_name = format!("{name}.{namespace}.svc");
            return Ok(Self {
                authority: format!("{server_name}:{port}"),
                address: String::new(),
                server_name,
                path: format!("/{}", text("path").trim_start_matches('/')),
                service: Some(Service { namespace, name, port }),
            });
        }
        let url = config["url"].as_str().unwrap_or_default();
        let unparsable = || format!("could not get REST client: Unparsable URL: {}", quote(url));
        let uri: Uri = url.parse().map_err(|_| unparsable())?;
        let host = uri.host().ok_or_else(unparsable)?;
        Ok(Self {
            authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
            address: format!("{host}:{}", uri.port_u16().map_or(HTTPS_PORT, u64::from)),
            server_name: host.trim_matches(['[', ']']).to_owned(),
            path: uri.path().to_owned(),
            service: None,
        })
    }
}

/// Resolves a service to the address of one of its endpoints, because nothing routes cluster IPs here.
fn resolve(ctx: &RequestContext<'_>, service: &Service<'_>) -> Result<String, String> {
    let Service { namespace, name, port } = service;
    let key = format!("{}{namespace}/{name}", storage_prefix("", "services"));
    let entry = ctx.services.store.get(&key).ok_or_else(|| format!("service {} not found", quote(name)))?;
    let found: Value = storage::read(&entry).map_err(|status| status.message)?;
    let spec = &found["spec"];
    if spec["type"] == "ExternalName" {
        return Ok(format!("{}:{port}", spec["externalName"].as_str().unwrap_or_default()));
    }
    let mut ports = spec["ports"].as_array().into_iter().flatten();
    let own = ports
        .find(|it| it["port"].as_u64() == Some(*port))
        .ok_or_else(|| format!("no service port {port} found for service {}", quote(name)))?;
    endpoint(ctx, service, own["name"].as_str().unwrap_or_default())
        .ok_or_else(|| format!("no endpoints available for service {}", quote(name)))
}

/// The address of the service's first ready endpoint.
fn endpoint(ctx: &RequestContext<'_>, service: &Service<'_>, port: &str) -> Option<String> {
    let prefix = format!("{}{}/", storage_prefix("discovery.k8s.io", "endpointslices"), service.namespace);
    let slices = ctx.services.store.range(&Range { prefix, ..Range::default() }).ok()?.entries;
    let own = slices.iter().filter(|it| it.header.label("kubernetes.io/service-name") == Some(service.name));
    own.filter_map(|entry| {
        let slice: Value = storage::read_or_skip(entry)?;
        let mut ports = slice["ports"].as_array()?.iter();
        let number = ports.find(|it| it["name"].as_str().unwrap_or_default() == port)?["port"].as_u64()?;
        let mut endpoints = slice["endpoints"].as_array()?.iter();
        let ready = endpoints.find(|it| it["conditions"]["ready"] != false)?;
        let address = ready["addresses"][0].as_str()?;
        let v6 = address.contains(':');
        Some(if v6 { format!("[{address}]:{number}") } else { format!("{address}:{number}") })
    })
    .next()
}
