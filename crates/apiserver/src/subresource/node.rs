//! Subresources that the kubelet would serve, such as logs and exec.

use http::Response;
use serde_json::Value;

use crate::body::Body;
use crate::call::Call;
use crate::status::{Result, Status};
use crate::stored;

/// Refuses a request that the kubelet would serve, because nodes are simulated. Kubernetes' own errors take
/// precedence.
pub(super) fn unreachable(call: &Call<'_>) -> Result<Response<Body>> {
    let entry = call.server.store().get(&call.key()).ok_or_else(|| call.not_found())?;
    let name = &call.path.name;
    if call.info.kind == "Pod" {
        let pod: Value = stored::read(&entry)?;
        if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
    }
    let what = &call.path.subresource;
    Err(Status::unavailable(format!(
        "{what} of {} {name} is not served: its node is simulated and runs no containers",
        call.info.singular
    )))
}
