//! Calls webhooks: from the client configuration in an API object to an HTTP response.
//!
//! Admission and conversion share this module. A [`WebhookCaller`] sends the requests.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evenkeel_schema::json::Value;
use evenkeel_store::{Range, Store};
use http::Uri;

use crate::registry::storage_prefix;
use crate::status::quote;
use crate::{Header, WebhookAnswer, WebhookCaller, WebhookQuestion, storage};

/// The port of a webhook whose configuration has none.
const HTTPS_PORT: u64 = 443;

/// Why a webhook gave no response.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The client configuration cannot be used.
    Config(String),
    /// The request failed. The message names the URL, as in Go.
    Request(String),
}

/// Calls webhooks.
pub(crate) struct WebhookClient {
    /// The store, where Services and their endpoints are looked up.
    store: Store<Header>,
    /// Sends the requests. Without it, all calls fail.
    caller: Option<Arc<dyn WebhookCaller>>,
}

impl WebhookClient {
    /// Creates a client that finds the endpoints of Services in this store.
    pub(crate) fn new(store: Store<Header>, caller: Option<Arc<dyn WebhookCaller>>) -> Self {
        Self { store, caller }
    }

    /// Posts a review to the webhook of a client configuration, within `seconds`.
    pub(crate) async fn post(
        &self,
        config: &Value,
        seconds: u64,
        body: Bytes,
    ) -> Result<WebhookAnswer, CallError> {
        let place = Endpoint::of(config).map_err(CallError::Config)?;
        let path = format!("{}?timeout={seconds}s", place.path);
        let url = format!("https://{}{path}", place.authority);
        let failed = |why: String| CallError::Request(format!("Post {}: {why}", quote(&url)));
        let caller = self.caller.as_ref();
        let caller = caller.ok_or_else(|| failed("this API server has no client for webhooks".to_owned()))?;
        let address = match &place.service {
            // A webhook served in this process needs neither a Service nor endpoints.
            Some(_) if caller.serves(&place.destination) => place.destination.clone(),
            Some(service) => self.resolve(service).map_err(failed)?,
            None => place.destination.clone(),
        };
        let question = WebhookQuestion {
            address,
            server_name: place.server_name,
            destination: place.destination,
            authority: place.authority,
            path,
            ca_bundle: ca_bundle(config),
            body,
        };
        match tokio::time::timeout(Duration::from_secs(seconds), caller.post(question)).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    /// Resolves a Service to the address of one of its endpoints, because nothing here routes cluster IPs.
    fn resolve(&self, service: &Service<'_>) -> Result<String, String> {
        let Service { namespace, name, port } = service;
        let key = format!("{}{namespace}/{name}", storage_prefix("", "services"));
        let entry = self.store.get(&key).ok_or_else(|| format!("service {} not found", quote(name)))?;
        let found: Value = storage::read(&entry).map_err(|status| status.message)?;
        let spec = &found["spec"];
        if spec["type"] == "ExternalName" {
            return Ok(format!("{}:{port}", spec["externalName"].as_str().unwrap_or_default()));
        }
        let mut ports = spec["ports"].as_array().into_iter().flatten();
        let own = ports
            .find(|it| it["port"].as_u64() == Some(*port))
            .ok_or_else(|| format!("no service port {port} found for service {}", quote(name)))?;
        self.endpoint(service, own["name"].as_str().unwrap_or_default())
            .ok_or_else(|| format!("no endpoints available for service {}", quote(name)))
    }

    /// The address of the service's first ready endpoint.
    fn endpoint(&self, service: &Service<'_>, port: &str) -> Option<String> {
        let prefix =
            format!("{}{}/", storage_prefix("discovery.k8s.io", "endpointslices"), service.namespace);
        let slices = self.store.range(&Range { prefix, ..Range::default() }).ok()?.entries;
        let own =
            slices.iter().filter(|it| it.header.label("kubernetes.io/service-name") == Some(service.name));
        own.filter_map(|entry| {
            let slice: Value = storage::read_or_skip(entry)?;
            let mut ports = slice["ports"].as_array()?.iter();
            let number =
                ports.find(|it| it["name"].as_str().unwrap_or_default() == port)?["port"].as_u64()?;
            let mut endpoints = slice["endpoints"].as_array()?.iter();
            let ready = endpoints.find(|it| it["conditions"]["ready"] != false)?;
            let address = ready["addresses"][0].as_str()?;
            let v6 = address.contains(':');
            Some(if v6 { format!("[{address}]:{number}") } else { format!("{address}:{number}") })
        })
        .next()
    }
}

/// Returns the CA certificates of a client configuration. A bundle that is only whitespace counts as empty.
fn ca_bundle(config: &Value) -> Vec<u8> {
    let bundle = STANDARD.decode(config["caBundle"].as_str().unwrap_or_default()).unwrap_or_default();
    if bundle.trim_ascii().is_empty() { Vec::new() } else { bundle }
}

/// The endpoint in a client configuration.
struct Endpoint<'a> {
    /// The host and port of the URL, as written.
    authority: String,
    /// The host and port, with the default port if the URL has none.
    destination: String,
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

impl<'a> Endpoint<'a> {
    fn of(config: &'a Value) -> Result<Self, String> {
        let reference = &config["service"];
        if !reference.is_null() {
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let (namespace, name) = (text("namespace"), text("name"));
            let port = reference["port"].as_u64().unwrap_or(HTTPS_PORT);
            let server_name = format!("{name}.{namespace}.svc");
            let authority = format!("{server_name}:{port}");
            return Ok(Self {
                destination: authority.clone(),
                authority,
                server_name,
                path: clean(text("path")),
                service: Some(Service { namespace, name, port }),
            });
        }
        let url = config["url"].as_str().unwrap_or_default();
        let unparsable = || format!("Unparsable URL: {}", quote(url));
        let uri: Uri = url.parse().map_err(|_| unparsable())?;
        let host = uri.host().ok_or_else(unparsable)?;
        Ok(Self {
            authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
            destination: format!("{host}:{}", uri.port_u16().map_or(HTTPS_PORT, u64::from)),
            server_name: host.trim_matches(['[', ']']).to_owned(),
            path: clean(uri.path()),
            service: None,
        })
    }
}

/// Returns a path without empty steps, `.` and `..`, as Go's clients send it. A path of `//hook` would otherwise be
/// redirected by Go's servers, and the redirect loses the body.
fn clean(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    format!("/{}", steps.join("/"))
}

/// Returns the error message for a response that is not 2xx, in client-go's words, or `None` for a success.
pub(crate) fn refusal(answer: &WebhookAnswer) -> Option<String> {
    if (200..=206).contains(&answer.code) {
        return None;
    }
    // Like in Kubernetes' client, an error quotes the body only if it is text.
    let text = match answer.content_type.starts_with("text/") {
        true => String::from_utf8_lossy(&answer.body),
        false => "unknown".into(),
    };
    if let Ok(status) = serde_json::from_slice::<Value>(&answer.body)
        && status["kind"] == "Status"
        && let Some(message) = status["message"].as_str()
    {
        return Some(message.to_owned());
    }
    Some(match answer.code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => text.trim().to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the \
                request"
            .to_owned(),
        500.. => {
            let text = quote(text.trim());
            format!("an error on the server ({text}) has prevented the request from succeeding")
        }
        code => format!("the server responded with the status code {code} but did not return more information"),
    })
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn paths_are_cleaned_as_by_go() {
        for (path, cleaned) in [
            ("//failing", "/failing"),
            ("/a/../b/./c/", "/b/c"),
            ("", "/"),
            ("/..", "/"),
            ("mutate", "/mutate"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }
}
