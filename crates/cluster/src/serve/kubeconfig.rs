//! The kubeconfig that lets clients in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::authority::Pair;

/// The name of cluster, user and context.
const NAME: &str = "evenkeel";

/// A kubeconfig for the administrator. It is JSON, which is YAML.
pub(crate) fn kubeconfig(server: &str, authority: &str, client: &Pair) -> String {
    let data = |pem: &str| Value::from(STANDARD.encode(pem));
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": NAME,
            "cluster": {"server": server, "certificate-authority-data": data(authority)},
        }],
        "users": [{
            "name": NAME,
            "user": {
                "client-certificate-data": data(&client.certificate),
                "client-key-data": data(&client.key),
            },
        }],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    });
    format!("{config:#}\n")
}
