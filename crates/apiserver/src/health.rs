//! `/healthz`, `/livez` and `/readyz`, whole and by single checks.
//!
//! A server that answers is healthy: it has no parts that start later. The checks are those that a client can rely on
//! by name, the boot objects and the store among them.

use http::Response;

use crate::body::Body;
use crate::request::Request;
use crate::respond;
use crate::status::{Result, Status};

/// The checks of all three.
const CHECKS: [&str; 8] = [
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/start-system-namespaces-controller",
];

/// What readiness looks at beside them.
const READINESS: [&str; 3] = ["etcd-readiness", "informer-sync", "shutdown"];

/// Answers a path of health; none where the path is none.
pub(crate) fn answer(request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let path = request.path.strip_prefix('/')?;
    let (group, check) = match path.split_once('/') {
        // Unlike a resource, a check is not found with a slash behind it.
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (path, ""),
    };
    if !matches!(group, "healthz" | "livez" | "readyz") {
        return None;
    }
    let checks = CHECKS.iter().chain(READINESS.iter().filter(|_| group == "readyz"));
    Some(match check {
        "" => Ok(respond::text(200, whole(request, group, checks.copied()))),
        check if checks.clone().any(|it| *it == check) => Ok(respond::text(200, "ok")),
        _ => Err(Status::page_not_found()),
    })
}

fn whole(request: &Request<'_>, group: &str, checks: impl Iterator<Item = &'static str>) -> String {
    if request.query.get("verbose").is_none() {
        return "ok".to_owned();
    }
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    let line = |check: &str| match excluded.contains(&check) {
        true => format!("[+]{check} excluded: ok\n"),
        false => format!("[+]{check} ok\n"),
    };
    let lines: String = checks.map(line).collect();
    format!("{lines}{group} check passed\n")
}
