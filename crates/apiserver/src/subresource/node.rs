//! What only a node can answer.

use http::Response;
use serde_json::Value;

use crate::body::Body;
use crate::call::Call;
use crate::status::{Result, Status};
use crate::stored;

/// Nodes are simulated: there is nobody to ask. The refusals before that are Kubernetes' own.
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
