//! The health endpoints `/healthz`, `/livez` and `/readyz`, and their single checks.
//!
//! The checks have Kubernetes' names. All parts of this server start before it answers requests, so that only
//! the store can fail: if a journal cannot make writes durable, the checks `etcd` and `etcd-readiness` fail.
//!
//! Everybody may read the three endpoints, so, as in Kubernetes, they name the failed checks but withhold the
//! reason. The reason is in the log, and in the response of the single check (`/readyz/etcd`), which requires
//! a permission.

use evenkeel_store::Store;
use http::Response;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::Header;
use crate::body::Body;
use crate::request::Request;
use crate::respond;
use crate::status::{Result, Status};

/// The checks of all three endpoints.
const CHECKS: [&str; 8] = [
    "ping",
    "log",
    ETCD,
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/start-system-namespaces-controller",
];

/// The additional checks of `/readyz`.
const READINESS: [&str; 3] = [ETCD_READINESS, "informer-sync", "shutdown"];

/// Kubernetes' names for the checks of the store.
const ETCD: &str = "etcd";
const ETCD_READINESS: &str = "etcd-readiness";

/// Answers a request for a health endpoint; `None` for any other path.
pub(crate) fn answer(store: &Store<Header>, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let path = request.path.strip_prefix('/')?;
    let (group, check) = match path.split_once('/') {
        // Unlike a resource, a check with a trailing slash does not exist.
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (path, ""),
    };
    if !matches!(group, "healthz" | "livez" | "readyz") {
        return None;
    }
    let checks = CHECKS.iter().chain(READINESS.iter().filter(|_| group == "readyz"));
    let report = Report { group, failure: store.journal_failure() };
    Some(match check {
        "" => {
            let excluded: Vec<&str> = request.query.all("exclude").collect();
            let is_verbose = request.query.get("verbose").is_some();
            Ok(report.whole(checks.copied(), &excluded, is_verbose))
        }
        check if checks.clone().any(|it| *it == check) => Ok(report.single(check)),
        _ => Err(Status::page_not_found()),
    })
}

/// The health of the server at one moment.
struct Report<'a> {
    /// The endpoint: `healthz`, `livez` or `readyz`.
    group: &'a str,
    /// Why the store cannot make writes durable; `None` if it can.
    failure: Option<String>,
}

impl Report<'_> {
    /// Why a check fails; `None` if it passes.
    fn failure_of(&self, check: &str) -> Option<&str> {
        self.failure.as_deref().filter(|_| matches!(check, ETCD | ETCD_READINESS))
    }

    fn single(&self, check: &str) -> Response<Body> {
        match self.failure_of(check) {
            None => respond::text(200, "ok"),
            Some(why) => error(format!("internal server error: {why}\n")),
        }
    }

    fn whole(
        &self,
        checks: impl Iterator<Item = &'static str>,
        excluded: &[&str],
        is_verbose: bool,
    ) -> Response<Body> {
        let group = self.group;
        let (mut lines, mut failed, mut unknown) = (String::new(), Vec::new(), excluded.to_vec());
        for check in checks {
            if excluded.contains(&check) {
                unknown.retain(|name| *name != check);
                lines += &format!("[+]{check} excluded: ok\n");
            } else if self.failure_of(check).is_some() {
                lines += &format!("[-]{check} failed: reason withheld\n");
                failed.push(check);
            } else {
                lines += &format!("[+]{check} ok\n");
            }
        }
        if !unknown.is_empty() {
            lines += &cannot_exclude(unknown);
        }
        if !failed.is_empty() {
            let why = self.failure.as_deref().unwrap_or_default();
            tracing::warn!(why, "{} check failed: {group}", failed.join(","));
            return error(format!("{lines}{group} check failed\n"));
        }
        respond::text(
            200,
            if is_verbose { format!("{lines}{group} check passed\n") } else { "ok".to_owned() },
        )
    }
}

/// The warning about excluded names that are not checks, each one once and sorted.
fn cannot_exclude(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.dedup();
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!("warn: some health checks cannot be excluded: no matches for {}\n", quoted.join(","))
}

/// An error in plain text, as Go's HTTP server sends it.
fn error(text: String) -> Response<Body> {
    let mut response = respond::text(500, text);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
