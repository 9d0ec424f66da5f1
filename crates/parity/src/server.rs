//! The server whose answers are compared: in process, or the one that a kubeconfig names.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Serialize as _;
use serde_json::{Value, json};

use crate::ordered::Ordered;
use crate::step::Step;

/// The clients of a Kubernetes API: an administrator, and one without credentials for steps that bring a token.
#[derive(Clone)]
pub struct Server {
    admin: Client,
    nobody: Client,
}

impl Server {
    /// A server that `admin` may do everything on; `nobody` sends no bearer token.
    pub fn new(admin: Client, nobody: Client) -> Self {
        Self { admin, nobody }
    }

    /// The server that the current context of a kubeconfig file names.
    pub async fn from_kubeconfig(path: &Path) -> anyhow::Result<Self> {
        let kubeconfig =
            Kubeconfig::read_from(path).with_context(|| format!("cannot use {}", path.display()))?;
        Self::from_config(kubeconfig).await
    }

    /// The server that the current context of a kubeconfig names.
    pub async fn from_config(kubeconfig: Kubeconfig) -> anyhow::Result<Self> {
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A retry would hide an answer. The name in the certificate is not part of the comparison.
        config.default_retry = false;
        config.accept_invalid_certs = true;
        let admin = Client::try_from(config.clone())?;
        config.auth_info.token = None;
        config.auth_info.token_file = None;
        Ok(Self::new(admin, Client::try_from(config)?))
    }

    pub(crate) async fn send(&self, method: &str, path: &str, step: &Step) -> anyhow::Result<Response<Body>> {
        let client = if step.token.is_some() { &self.nobody } else { &self.admin };
        client.send(request(method, path, step)?).await.with_context(|| format!("{method} {path}"))
    }

    /// Sends a request and returns the answer: status, content type, warnings, and the body as JSON or else as text.
    pub(crate) async fn call(&self, method: &str, path: &str, step: &Step) -> anyhow::Result<Value> {
        let answer = self.send(method, path, step).await?;
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.with_context(|| format!("{method} {path}"))?.to_bytes();
        let mut out = json!({
            "status": parts.status.as_u16(),
            "type": content_type(&parts.headers),
            "body": body_value(&bytes),
        });
        let warnings: Vec<_> = parts
            .headers
            .get_all(header::WARNING)
            .iter()
            .map(|v| String::from_utf8_lossy(v.as_bytes()))
            .collect();
        if !warnings.is_empty() {
            out["warnings"] = json!(warnings);
        }
        Ok(out)
    }
}

fn request(method: &str, path: &str, step: &Step) -> anyhow::Result<Request<Body>> {
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes())?)
        .uri(path)
        .header(header::ACCEPT, step.accept.as_deref().unwrap_or("application/json"))
        .header(header::USER_AGENT, "parity/1");
    if let Some(token) = step.token.as_deref().filter(|token| !token.is_empty()) {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    if let Some(user) = &step.user {
        request = request.header("Impersonate-User", user);
    }
    for group in &step.groups {
        request = request.header("Impersonate-Group", group);
    }
    let body = match (&step.raw, &step.body) {
        (Some(raw), _) => Some(Bytes::from(raw.clone())),
        (None, Some(body)) => Some(Bytes::from(spaced(body)?)),
        (None, None) => None,
    };
    if body.is_some() {
        let content_type = step.content_type.as_deref().unwrap_or("application/json");
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    Ok(request.body(body.map_or_else(Body::empty, Body::from))?)
}

/// Serializes a body with the recorder's spaces: some errors quote the beginning of the request body.
fn spaced(body: &Ordered) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    body.serialize(&mut serde_json::Serializer::with_formatter(&mut text, Spaced))?;
    Ok(text)
}

struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    value.unwrap_or_default().replace(' ', "")
}

pub(crate) fn body_value(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into())
}
