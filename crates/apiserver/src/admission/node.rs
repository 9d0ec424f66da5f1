//! The TaintNodesByCondition plugin: taints new nodes, so that no pods are scheduled to them until they are
//! ready.

use evenkeel_schema::json::{Value, json};

use super::plugin::{Admission, Handles, Plugin};
use crate::registry::GroupResource;
use crate::status::Result;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

#[derive(Debug)]
pub(super) struct TaintByCondition;

impl Plugin for TaintByCondition {
    fn handles(&self) -> Handles {
        Handles::creation_of(&[GroupResource::NODES])
    }

    fn mutate(&self, _: &Admission<'_>, node: &mut Value) -> Result<()> {
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        if !taints.iter().any(|it| it["key"] == NOT_READY && it["effect"] == EFFECT) {
            taints.push(json!({"effect": EFFECT, "key": NOT_READY}));
            node["spec"]["taints"] = taints.into();
        }
        Ok(())
    }
}
