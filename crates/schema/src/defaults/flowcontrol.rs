//! The API group `flowcontrol.apiserver.k8s.io`: API priority and fairness.

use super::{Object, set, set_number};

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "FlowSchemaSpec" => set_number(object, "matchingPrecedence", 1000),
        "ExemptPriorityLevelConfiguration" => {
            set(object, "nominalConcurrencyShares", 0);
            set(object, "lendablePercent", 0);
        }
        "LimitedPriorityLevelConfiguration" => {
            set(object, "nominalConcurrencyShares", 30);
            set(object, "lendablePercent", 0);
        }
        "QueuingConfiguration" => {
            set_number(object, "handSize", 8);
            set_number(object, "queues", 64);
            set_number(object, "queueLengthLimit", 50);
        }
        _ => {}
    }
}
