//! The pages about the server itself: `/metrics`, `/statusz` and `/flagz`.

use std::fmt::Write as _;

use evenkeel_schema::json::{Value, json};
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::{Method, Response};

use crate::body::Body;
use crate::metrics;
use crate::registry::storage_prefix;
use crate::request::Request;
use crate::respond;
use crate::services::Services;
use crate::status::{Result, Status};

/// The pages that `/statusz` lists.
const PATHS: [&str; 7] = ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];
/// The version of Kubernetes whose API is served, as the pages show it.
const VERSION: &str = "1.36";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// Answers a request for one of the pages; `None` for any other path.
pub(crate) fn answer(services: &Services, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let is_read = matches!(*request.method, Method::GET | Method::HEAD);
    Some(match &*request.path {
        "/metrics" if is_read => Ok(respond::text(200, all_metrics(services))),
        "/metrics" => Err(Status::method_not_allowed()),
        "/statusz" => page(request, "Statusz", statusz(services)),
        "/flagz" => page(request, "Flagz", flagz(services)),
        // As Go's router does for a folder without its slash. No profiles are served below it.
        "/debug/pprof" => {
            let mut response = respond::json(302, Body::empty());
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("/debug/pprof/"));
            Ok(response)
        }
        path => return added(services, path, is_read),
    })
}

/// Answers a request for a page that the process of the server has added.
fn added(services: &Services, path: &str, is_read: bool) -> Option<Result<Response<Body>>> {
    let page = services.pages.read().get(path)?.clone();
    if !is_read {
        return Some(Err(Status::method_not_allowed()));
    }
    let (media_type, body) = page();
    let mut response = respond::json(200, body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Some(Ok(response))
}

/// A page as text and as an object.
struct Page {
    text: String,
    object: Value,
}

/// Answers in the form that the client accepts: text, or the object of this kind.
fn page(request: &Request<'_>, kind: &str, page: Page) -> Result<Response<Body>> {
    let accept = request.header("accept");
    let wanted: Vec<String> = accept.split(',').map(|clause| clause.replace(' ', "")).collect();
    let as_object = ["as=".to_owned() + kind, "g=config.k8s.io".to_owned(), "v=v1alpha1".to_owned()];
    for clause in wanted {
        let mut parts = clause.split(';');
        let media = parts.next().unwrap_or_default();
        let params: Vec<&str> = parts.filter(|it| !it.starts_with("q=")).collect();
        let is_text = matches!(media, "" | "*/*" | "text/*" | "text/plain");
        if is_text && params.is_empty() {
            return Ok(respond::text(200, page.text));
        }
        if media == "application/json" && as_object.iter().all(|it| params.contains(&it.as_str())) {
            return Ok(respond::json(200, page.object.to_string().into_bytes()));
        }
    }
    let served = "application/json, application/yaml, text/plain";
    Err(Status::not_acceptable(format!("only the following media types are accepted: {served}")))
}

fn statusz(services: &Services) -> Page {
    let now = services.env.now();
    let up = now.duration_since(services.started).as_secs();
    let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
    let started = services.started.strftime("%a %b %e %H:%M:%S UTC %Y");
    let text = format!(
        "\napiserver statusz\n{WARNING}\n\nStarted: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
         Binary version: {VERSION}\nEmulation version: {VERSION}\nPaths: {}\n",
        PATHS.join(" ")
    );
    let object = json!({
        "kind": "Statusz", "apiVersion": "config.k8s.io/v1alpha1", "metadata": {"name": "apiserver"},
        "startTime": services.time(services.started), "uptimeSeconds": up,
        "binaryVersion": VERSION, "emulationVersion": VERSION, "paths": PATHS,
    });
    Page { text, object }
}

fn flagz(services: &Services) -> Page {
    let lines: String = services.flags.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let object = json!({
        "kind": "Flagz", "apiVersion": "config.k8s.io/v1alpha1", "metadata": {"name": "apiserver"},
        "flags": services.flags,
    });
    Page { text: format!("\napiserver flagz\n{WARNING}\n{lines}"), object }
}

fn all_metrics(services: &Services) -> String {
    let mut out = String::new();
    services.metrics.write(&mut out);
    metrics::head(&mut out, "apiserver_resource_objects", "gauge", "The stored objects of each resource.");
    for info in services.registry.all() {
        // A resource in several versions is stored once.
        let count = services.store.count(&storage_prefix(&info.group, &info.plural));
        let is_stored = info.verbs.iter().any(|verb| verb == "list");
        let (group, plural) = (&info.group, &info.plural);
        let line = format!("apiserver_resource_objects{{group=\"{group}\",resource=\"{plural}\"}} {count}\n");
        if is_stored && !out.contains(&line) {
            out += &line;
        }
    }
    metrics::head(
        &mut out,
        "evenkeel_apiserver_panics_total",
        "counter",
        "Panics that requests have caused.",
    );
    let _ = writeln!(out, "evenkeel_apiserver_panics_total {}", services.panics.count());
    metrics::head(
        &mut out,
        "kubernetes_build_info",
        "gauge",
        "The version of Kubernetes whose API is served.",
    );
    let version = env!("CARGO_PKG_VERSION");
    out += &format!(
        "kubernetes_build_info{{compiler=\"rustc\",git_version=\"v{VERSION}\",major=\"1\",minor=\"36\",platform=\"evenkeel/{version}\"}} 1\n"
    );
    metrics::head(
        &mut out,
        "process_start_time_seconds",
        "gauge",
        "When the server started, since the epoch.",
    );
    let _ = writeln!(out, "process_start_time_seconds {}", services.started.as_second());
    out
}
