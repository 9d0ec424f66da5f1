//! The subresources `proxy` of pods, Services and nodes: HTTP requests that the API server passes on.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_request_info::ResourcePath;
use evenkeel_schema::json::{Value, json};
use evenkeel_store::Range;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, Response, header};

use super::pod;
use crate::body::Body;
use crate::context::RequestContext;
use crate::destination;
use crate::node_api::{Destination, HttpFailure};
use crate::registry::storage_prefix;
use crate::status::{Result, Status, quote};
use crate::{respond, storage};

/// The headers of one connection, which are not passed on, and those that are the API server's own.
const OWN_HEADERS: [HeaderName; 11] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::AUTHORIZATION,
    header::CONTENT_LENGTH,
];
/// How the headers begin that say on whose behalf a request is made, which is the API server's business alone.
const IMPERSONATION: &str = "impersonate-";

/// Answers a request to the subresource `proxy`.
pub(super) async fn answer(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let path = path_behind(ctx.path, &ctx.request.path);
    let kind = format!("{}ProxyOptions", ctx.info.kind);
    pod::admit(ctx, &kind, json!({"path": path})).await?;
    // Only nodes are cluster-scoped. Of the others, only pods have a node.
    let (scheme, to) = if !ctx.info.namespaced {
        return node(ctx, &path);
    } else if ctx.info.strategy.runs_on_node {
        to_pod(ctx)?
    } else {
        let (scheme, name, port) = target(ctx, "service")?;
        (scheme, destination::of_service(ctx.services, &ctx.path.namespace, name, port)?)
    };
    let request = passed_on(ctx, &path, body)?;
    let answer = pod::nodes(ctx)?.http(to, scheme, request).await;
    match answer {
        Ok(answer) if answer.status().is_informational() => {
            let code = answer.status().as_u16();
            Err(Status::unavailable(format!("error trying to reach service: it answered with status {code}")))
        }
        Ok(answer) => Ok(passed_back(answer)),
        Err(HttpFailure::NotServed) => Err(pod::not_served(ctx, "nothing answers for its ports")),
        Err(HttpFailure::Failed(why)) => {
            Err(Status::unavailable(format!("error trying to reach service: {why}")))
        }
    }
}

/// What follows the subresource in a path. It begins with a slash, unless nothing follows.
fn path_behind(path: &ResourcePath<'_>, whole: &str) -> String {
    let beginning = format!("/{}/{}/proxy", path.resource, path.name);
    whole.find(&beginning).map_or("", |at| &whole[at + beginning.len()..]).to_owned()
}

/// The scheme, the name and the port in `[scheme:]name[:port]`. The port is empty if none is named.
fn target<'a>(ctx: &'a RequestContext<'_>, what: &str) -> Result<(Scheme, &'a str, &'a str)> {
    let text = &*ctx.path.name;
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [name] if !name.is_empty() => Ok((Scheme::HTTP, name, "")),
        [name, port] if !name.is_empty() => Ok((Scheme::HTTP, name, port)),
        ["" | "http", name, port] if !name.is_empty() => Ok((Scheme::HTTP, name, port)),
        ["https", name, port] if !name.is_empty() => Ok((Scheme::HTTPS, name, port)),
        _ => Err(Status::bad_request(format!("invalid {what} request {}", quote(text)))),
    }
}

fn to_pod(ctx: &RequestContext<'_>) -> Result<(Scheme, Destination)> {
    let (scheme, name, port) = target(ctx, "pod")?;
    let key = ctx.info.key(&ctx.path.namespace, name);
    let entry = ctx.services.store.get(&key).ok_or_else(|| Status::not_found("", "pods", name))?;
    let pod: Value = storage::read(&entry)?;
    if pod["status"]["podIP"].as_str().is_none_or(str::is_empty) {
        return Err(Status::bad_request("address not allowed"));
    }
    let first_port = || {
        let containers = pod["spec"]["containers"].as_array()?;
        let mut ports = containers.iter().filter_map(|it| it["ports"].as_array()).flatten();
        ports.find_map(|it| it["containerPort"].as_u64())
    };
    let port = if port.is_empty() { first_port().or(Some(80)) } else { port.parse().ok() };
    let port = port.and_then(|port| u16::try_from(port).ok());
    let port =
        port.ok_or_else(|| Status::bad_request(format!("invalid pod request {}", quote(&ctx.path.name))))?;
    Ok((scheme, Destination::Pod(Arc::new(pod), port)))
}

fn passed_on(ctx: &RequestContext<'_>, path: &str, body: Bytes) -> Result<http::Request<Bytes>> {
    let path = if path.is_empty() { "/" } else { path };
    let (path, query) = (escape(path), ctx.request.query.encoded());
    let uri = if query.is_empty() { path } else { format!("{path}?{query}") };
    let mut request = http::Request::new(body);
    *request.method_mut() = ctx.request.method.clone();
    *request.uri_mut() = uri.parse().map_err(|_| Status::bad_request("the path cannot be passed on"))?;
    *request.headers_mut() = without_own(ctx.request.headers.clone());
    Ok(request)
}

/// Escapes the characters that cannot stand in a path.
fn escape(path: &str) -> String {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match allowed(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn without_own(mut headers: HeaderMap) -> HeaderMap {
    let connection = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = connection.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok());
    let impersonating = headers.keys().filter(|name| name.as_str().starts_with(IMPERSONATION)).cloned();
    let own: Vec<HeaderName> = OWN_HEADERS.into_iter().chain(named).chain(impersonating).collect();
    own.iter().for_each(|name| {
        headers.remove(name);
    });
    headers
}

fn passed_back(mut answer: Response<Body>) -> Response<Body> {
    let headers = without_own(std::mem::take(answer.headers_mut()));
    *answer.headers_mut() = headers;
    // Otherwise the content type of the API server's own answers would be added.
    let unknown = header::HeaderValue::from_static("application/octet-stream");
    answer.headers_mut().entry(header::CONTENT_TYPE).or_insert(unknown);
    answer
}

/// Answers for a node: its health, and its pods.
fn node(ctx: &RequestContext<'_>, path: &str) -> Result<Response<Body>> {
    let (_, name, _) = target(ctx, "node")?;
    let key = ctx.info.key("", name);
    ctx.services.store.get(&key).ok_or_else(|| Status::not_found("", "nodes", name))?;
    match path.trim_end_matches('/') {
        "/healthz" => Ok(respond::text(200, "ok")),
        "/pods" => {
            let range = Range { prefix: storage_prefix("", "pods"), ..Range::default() };
            let page = ctx.services.store.range(&range).map_err(Status::internal)?;
            let pods = page.entries.iter().filter_map(|entry| storage::read::<Value>(entry).ok());
            let items: Vec<_> = pods.filter(|pod| pod["spec"]["nodeName"] == name).collect();
            let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
            Ok(respond::json(200, list.to_string()))
        }
        _ => Err(Status::page_not_found()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_behind_the_proxy_is_passed_on() {
        for (whole, behind) in [
            ("/api/v1/namespaces/a/services/web:80/proxy/x/y", "/x/y"),
            ("/api/v1/namespaces/a/services/web:80/proxy/", "/"),
            ("/api/v1/namespaces/a/services/web:80/proxy", ""),
            ("/api/v1/namespaces/a/services/web:80/proxy/services/web:80/proxy", "/services/web:80/proxy"),
        ] {
            let path = ResourcePath::parse(whole).unwrap();
            assert_eq!(path_behind(&path, whole), behind, "{whole}");
        }
    }

    #[test]
    fn headers_of_the_connection_and_of_the_api_server_are_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("connection", "x-other, not a name"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("authorization", "Bearer secret"),
            ("impersonate-user", "a"),
            ("impersonate-extra-scopes", "b"),
            ("accept", "text/plain"),
        ] {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let passed = without_own(headers);
        assert_eq!(passed.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
