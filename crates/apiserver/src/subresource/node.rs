//! Subresources that the kubelet would serve, such as logs and exec.

use http::Response;
use serde_json::Value;

use crate::body::Body;
use crate::context::RequestContext;
use crate::status::{Result, Status};
use crate::storage;

/// Refuses a request that the kubelet would serve, because nodes are simulated. Kubernetes' own errors take
/// precedence.
pub(super) fn unreachable(ctx: &RequestContext<'_>) -> Result<Response<Body>> {
    let entry = ctx.services.store.get(&ctx.key()).ok_or_else(|| ctx.not_found())?;
    let name = &ctx.path.name;
    if ctx.info.strategy.runs_on_node {
        let pod: Value = storage::read(&entry)?;
        if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
    }
    let what = &ctx.path.subresource;
    Err(Status::unavailable(format!(
        "{what} of {} {name} is not served: its node is simulated and runs no containers",
        ctx.info.singular
    )))
}
