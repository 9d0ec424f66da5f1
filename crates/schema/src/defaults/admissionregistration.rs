//! The API group `admissionregistration.k8s.io`: admission webhooks and policies.

use super::{Object, set};

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "ValidatingWebhook" => webhook(object),
        "MutatingWebhook" => {
            webhook(object);
            set(object, "reinvocationPolicy", "Never");
        }
        "Rule" | "RuleWithOperations" | "NamedRuleWithOperations" => set(object, "scope", "*"),
        "ServiceReference" => set(object, "port", 443),
        "ValidatingAdmissionPolicySpec" | "MutatingAdmissionPolicySpec" => {
            set(object, "failurePolicy", "Fail")
        }
        "MatchResources" => matching(object),
        _ => {}
    }
}

fn webhook(object: &mut Object) {
    set(object, "failurePolicy", "Fail");
    matching(object);
    set(object, "timeoutSeconds", 10);
}

fn matching(object: &mut Object) {
    set(object, "matchPolicy", "Equivalent");
    set(object, "namespaceSelector", Object::new());
    set(object, "objectSelector", Object::new());
}
