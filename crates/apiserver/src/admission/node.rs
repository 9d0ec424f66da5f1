//! What admission fills into new nodes: the taint that keeps pods away until the node is seen to be ready.

use serde_json::{Value, json};

use super::{Admission, Operation, Plugin};
use crate::status::Result;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

/// The TaintNodesByCondition plugin.
#[derive(Debug)]
pub(super) struct TaintByCondition;

impl Plugin for TaintByCondition {
    fn mutate(&self, admission: &Admission<'_>, node: &mut Value) -> Result<()> {
        let ctx = admission.ctx;
        let is_node = ctx.info.kind == "Node" && ctx.info.group.is_empty();
        if !is_node || admission.operation != Operation::Create || !ctx.path.subresource.is_empty() {
            return Ok(());
        }
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        if !taints.iter().any(|it| it["key"] == NOT_READY && it["effect"] == EFFECT) {
            taints.push(json!({"effect": EFFECT, "key": NOT_READY}));
            node["spec"]["taints"] = taints.into();
        }
        Ok(())
    }
}
