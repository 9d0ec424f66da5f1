//! Maintains the `caBundle` of webhook configurations and CustomResourceDefinitions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::webhook::{Endpoint, Webhooks};

/// An object that tells the API server which CAs to trust for the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trusting {
    pub(super) resource: ApiResource,
    pub(super) name: String,
}

/// Returns the configurations with this name, and the CustomResourceDefinitions whose objects the webhooks convert.
pub(super) fn trusting(webhooks: &Webhooks, name: &str) -> Vec<Trusting> {
    let nowhere = Endpoint::url("");
    let configurations = webhooks.configurations(name, &nowhere);
    let configurations = configurations.iter().map(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        (GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind), name.to_owned())
    });
    let definition = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let conversions = webhooks.conversions(&nowhere);
    let definitions = conversions.into_iter().map(|(name, _)| (definition.clone(), name));
    let all = configurations.chain(definitions);
    all.map(|(gvk, name)| Trusting { resource: ApiResource::from_gvk(&gvk), name }).collect()
}

/// Returns the patch that makes the object trust the bundle for this endpoint, or `None` if it already does. Only
/// entries that lead to this endpoint are changed. The resource version makes the patch conditional; the documentation
/// of `certificates` says why.
pub(super) fn change(object: &Value, endpoint: &Endpoint, bundle: &str) -> Option<Value> {
    let encoded = STANDARD.encode(bundle);
    let fields = match object["webhooks"].as_array() {
        Some(hooks) => ("webhooks", entries(hooks, endpoint, &encoded)?),
        None => ("spec", conversion(&object["spec"]["conversion"], endpoint, &encoded)?),
    };
    let metadata = &object["metadata"];
    Some(json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": { "name": metadata["name"], "resourceVersion": metadata["resourceVersion"] },
        fields.0: fields.1,
    }))
}

/// Returns whether all entries of the object that lead to the endpoint trust the CA.
pub(super) fn trusts(object: &Value, endpoint: &Endpoint, ca: &str) -> bool {
    let hooks = object["webhooks"].as_array().into_iter().flatten().map(|hook| &hook["clientConfig"]);
    let configs = hooks.chain([&object["spec"]["conversion"]["webhook"]["clientConfig"]]);
    let mut own = configs.filter(|config| endpoint.is_called_by(config));
    own.all(|config| {
        let bundle = STANDARD.decode(config["caBundle"].as_str().unwrap_or_default()).unwrap_or_default();
        String::from_utf8_lossy(&bundle).contains(ca.trim())
    })
}

/// Returns all entries of a configuration that lead to the endpoint, if at least one of them has another bundle.
fn entries(hooks: &[Value], endpoint: &Endpoint, encoded: &str) -> Option<Value> {
    let own = || hooks.iter().filter(|hook| endpoint.is_called_by(&hook["clientConfig"]));
    own().any(|hook| hook["clientConfig"]["caBundle"] != *encoded).then(|| {
        own().map(|hook| json!({ "name": hook["name"], "clientConfig": { "caBundle": encoded } })).collect()
    })
}

fn conversion(conversion: &Value, endpoint: &Endpoint, encoded: &str) -> Option<Value> {
    let config = &conversion["webhook"]["clientConfig"];
    let outdated = endpoint.is_called_by(config) && config["caBundle"] != *encoded;
    outdated.then(|| json!({ "conversion": { "webhook": { "clientConfig": { "caBundle": encoded } } } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(name: &str, service: &str, bundle: &str) -> Value {
        let service = json!({ "namespace": "ops", "name": service, "path": "/x" });
        json!({ "name": name, "clientConfig": { "service": service, "caBundle": bundle } })
    }

    #[test]
    fn only_entries_of_the_endpoint_change() {
        let endpoint = Endpoint::service("ops", "op");
        let encoded = STANDARD.encode("new");
        let object = |hooks: Value| json!({ "apiVersion": "g/v1", "kind": "K", "metadata": { "name": "n", "resourceVersion": "7" }, "webhooks": hooks });
        let old =
            object(json!([hook("a", "op", "b2xk"), hook("b", "other", "b2xk"), hook("c", "op", &encoded)]));
        let applied = |name: &str| json!({ "name": name, "clientConfig": { "caBundle": encoded } });
        assert_eq!(
            change(&old, &endpoint, "new"),
            Some(object(json!([applied("a"), applied("c")]))),
            "what was applied before is applied again, or it would be removed"
        );
        let current = object(json!([hook("a", "op", &encoded), hook("b", "other", "b2xk")]));
        assert_eq!(change(&current, &endpoint, "new"), None);
    }

    #[test]
    fn every_entry_of_the_endpoint_must_trust_a_ca() {
        let endpoint = Endpoint::service("ops", "op");
        let [both, old] = ["old\nnew\n", "old\n"].map(|bundle| STANDARD.encode(bundle));
        let object = |hooks: Value| json!({ "webhooks": hooks });
        let all = object(json!([hook("a", "op", &both), hook("b", "other", &old)]));
        assert!(trusts(&all, &endpoint, "new\n") && trusts(&all, &endpoint, "old\n"));
        let part = object(json!([hook("a", "op", &both), hook("b", "op", &old)]));
        assert!(!trusts(&part, &endpoint, "new\n") && trusts(&part, &endpoint, "old\n"));
        let without = json!({ "spec": { "conversion": { "strategy": "None" } } });
        assert!(trusts(&without, &endpoint, "new\n"), "it does not lead here");
        let service = json!({ "namespace": "ops", "name": "op", "path": "/convert" });
        let webhook = json!({ "clientConfig": { "service": service } });
        assert!(!trusts(&json!({ "spec": { "conversion": { "webhook": webhook } } }), &endpoint, "new\n"));
    }

    #[test]
    fn a_definition_may_convert_elsewhere_or_not_at_all() {
        let endpoint = Endpoint::url("https://192.0.2.1:9443/");
        let with = |conversion: Value| {
            let object = json!({ "metadata": {}, "spec": { "conversion": conversion } });
            change(&object, &endpoint, "new").map(|change| change["spec"].clone())
        };
        assert_eq!(with(json!({ "strategy": "None" })), None);
        let at = |url: &str| json!({ "webhook": { "clientConfig": { "url": url } } });
        assert_eq!(with(at("https://192.0.2.1:94430/convert")), None, "another port");
        let bundle = json!({ "webhook": { "clientConfig": { "caBundle": STANDARD.encode("new") } } });
        assert_eq!(with(at("https://192.0.2.1:9443/convert")), Some(json!({ "conversion": bundle })));
    }
}
