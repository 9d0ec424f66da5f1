//! The kubeconfig of the administrator.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::authority::Pair;

/// The name of the cluster, the user and the context in the kubeconfig.
const NAME: &str = "evenkeel";

/// A kubeconfig for the administrator, as JSON, which is valid YAML.
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
