//! The values of a chart: `values.yaml`, its schema, and the parts of the templates that depend on them.

use serde_json::{Value, json};

use super::{OPERATOR, Source};
use crate::cli::replica::{Bind, Serves};

/// Where certificates are mounted if the flags name no folder.
const METRICS_FOLDER: &str = "/var/run/metrics-certificates";
const WEBHOOKS_FOLDER: &str = "/var/run/webhook-certificates";

/// The default values of a chart.
pub(super) struct Values<'a> {
    source: &'a Source<'a>,
    serves: Serves,
    /// The port of the webhooks, if the operator has any.
    webhooks: Option<u16>,
}

impl<'a> Values<'a> {
    /// Collects the defaults, including what the manifests say about webhooks.
    pub(super) fn of(source: &'a Source<'a>, variants: &[Vec<Value>]) -> anyhow::Result<Self> {
        let deployment = variants.iter().flatten().find(|object| object["kind"] == "Deployment");
        let container = deployment.map(|it| &it["spec"]["template"]["spec"]["containers"][0]["ports"]);
        let ports = container.and_then(Value::as_array).into_iter().flatten();
        let webhooks = ports
            .filter(|port| port["name"] == "webhooks")
            .find_map(|port| port["containerPort"].as_u64().and_then(|port| u16::try_from(port).ok()));
        Ok(Self { source, serves: source.replica.serves()?, webhooks })
    }

    /// The file `values.yaml`.
    pub(super) fn yaml(&self) -> anyhow::Result<String> {
        let (repository, tag, digest) = image_parts(self.source.image);
        let elected = self.source.replica.lease_flags();
        let (health, metrics) = (self.serves.probes, self.serves.metrics);
        let replicas = self.source.replicas.unwrap_or(if elected.is_some() { 2 } else { 1 });
        let (lease, lease_namespace) = elected.clone().unwrap_or_default();
        let cert_secret = format!("{}-metrics-cert", self.source.name);
        let folder = self.serves.metrics_certificates.clone();
        let fields = [
            ("IMAGE_REPOSITORY", json!(repository)),
            ("IMAGE_TAG", json!(tag)),
            ("IMAGE_DIGEST", json!(digest)),
            ("REPLICAS", json!(replicas)),
            ("LEADER_ENABLED", json!(elected.is_some())),
            ("LEADER_NAMESPACE", json!(lease_namespace)),
            ("LEADER_NAME", json!(lease)),
            ("HEALTH_ENABLED", json!(health.address().is_some())),
            ("HEALTH_HOST", json!(host(health))),
            ("HEALTH_PORT", json!(port(health, 8081))),
            ("METRICS_ENABLED", json!(metrics.address().is_some())),
            ("METRICS_HOST", json!(host(metrics))),
            ("METRICS_PORT", json!(port(metrics, 8443))),
            ("METRICS_SECURE", json!(self.serves.secured)),
            ("METRICS_CERT_SECRET", json!(if folder.is_some() { cert_secret } else { String::new() })),
            ("METRICS_CERT_DIR", json!(folder.unwrap_or_else(|| METRICS_FOLDER.to_owned()))),
            ("MONITORING", json!(self.source.monitoring)),
        ];
        let mut text = include_str!("files/values.yaml")
            .replace(OPERATOR, self.source.name)
            .replace("WEBHOOK_VALUES\n", &self.webhook_values());
        for (token, value) in fields {
            // JSON is YAML.
            text = text.replace(token, &serde_json::to_string(&value)?);
        }
        Ok(text)
    }

    fn webhook_values(&self) -> String {
        let Some(port) = self.webhooks else { return String::new() };
        let (given, folder) = self.source.replica.webhook_flags();
        format!(
            "\nwebhooks:\n  # The address that webhooks are served at; empty for every interface.\n  host: {:?}\n  port: {port}\n  \
             # cert-manager makes the certificate, in the Secret {}-webhook-cert, and keeps the CA bundles. Otherwise the\n  \
             # operator does.\n  certManager: {}\n  certDir: {:?}\n",
            given.map(host).unwrap_or_default(),
            self.source.name,
            folder.is_some(),
            folder.as_deref().unwrap_or(WEBHOOKS_FOLDER),
        )
    }

    /// The file `values.schema.json`.
    pub(super) fn schema(&self) -> anyhow::Result<String> {
        let mut schema: Value =
            serde_json::from_str(&include_str!("files/schema.json").replace(OPERATOR, self.source.name))?;
        if self.webhooks.is_some() {
            schema["properties"]["webhooks"] = json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "host": { "type": "string" },
                    "port": { "$ref": "#/definitions/port" },
                    "certManager": { "type": "boolean" },
                    "certDir": { "type": "string", "pattern": "^/" },
                },
            });
        }
        Ok(format!("{schema:#}\n"))
    }

    /// Fills in the parts of the named templates that depend on webhooks.
    pub(super) fn helpers(&self, text: &str) -> String {
        let [args, ports, mounts, volumes] = match self.webhooks {
            Some(port) => self.webhook_helpers(port),
            None => [(); 4].map(|()| String::new()),
        };
        text.replace("WEBHOOK_ARGS\n", &args)
            .replace("WEBHOOK_PORTS\n", &ports)
            .replace("WEBHOOK_MOUNTS\n", &mounts)
            .replace("WEBHOOK_VOLUMES\n", &volumes)
            .replace(OPERATOR, self.source.name)
    }

    fn webhook_helpers(&self, port: u16) -> [String; 4] {
        const ADDRESS: &str = "{{- $args = append $args (printf \"--webhook-bind-address=%s:%d\" .Values.webhooks.host (int .Values.webhooks.port)) -}}\n";
        // The argument is present if the flags had it, or if the value was changed.
        let address = match self.source.replica.webhook_flags().0 {
            Some(_) => ADDRESS.to_owned(),
            None => format!(
                "{{{{- if or .Values.webhooks.host (ne (int .Values.webhooks.port) {port}) -}}}}\n{ADDRESS}{{{{- end -}}}}\n"
            ),
        };
        let certified =
            |then: &str| format!("{{{{- if .Values.webhooks.certManager -}}}}\n{then}\n{{{{- end -}}}}\n");
        let folder =
            "{{- $args = append $args (printf \"--webhook-cert-dir=%s\" .Values.webhooks.certDir) -}}";
        let ports = "{{- $ports = append $ports (dict \"name\" \"webhooks\" \"containerPort\" (int .Values.webhooks.port)) -}}\n";
        let mounts = "{{- $mounts = append $mounts (dict \"name\" \"webhook-certificates\" \"mountPath\" .Values.webhooks.certDir \"readOnly\" true) -}}";
        let volumes = "{{- $volumes = append $volumes (dict \"name\" \"webhook-certificates\" \"secret\" (dict \"secretName\" \"@operator@-webhook-cert\")) -}}";
        [address + &certified(folder), ports.to_owned(), certified(mounts), certified(volumes)]
    }
}

/// The file `Chart.yaml`.
pub(super) fn chart_yaml(source: &Source<'_>) -> anyhow::Result<String> {
    let chart = json!({
        "apiVersion": "v2",
        "name": source.name,
        "description": source.about.map_or_else(|| format!("The operator {}", source.name), str::to_owned),
        "type": "application",
        "version": chart_version(source.version),
        "appVersion": source.version,
    });
    Ok(serde_saphyr::to_string(&chart)?)
}

/// Returns the version of the chart: the operator's version, if Helm accepts it.
fn chart_version(version: &str) -> String {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    let semantic = numbers.len() == 3
        && numbers.iter().all(|number| {
            !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && (*number == "0" || !number.starts_with('0'))
        });
    if semantic { version.to_owned() } else { "0.1.0".to_owned() }
}

/// Splits an image into repository, tag and digest.
fn image_parts(image: &str) -> (&str, &str, &str) {
    let (named, digest) = image.split_once('@').unwrap_or((image, ""));
    // A colon before the last slash belongs to the registry's port.
    match named.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag, digest),
        _ => (named, "", digest),
    }
}

/// Returns the host of an address in the form of the flags: empty for every interface.
fn host(bind: Bind) -> String {
    let spelled = crate::cli::replica::spelled(bind);
    spelled.rsplit_once(':').map(|(host, _)| host.to_owned()).unwrap_or_default()
}

fn port(bind: Bind, usual: u16) -> u16 {
    bind.address().map_or(usual, |address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_repository_and_perhaps_a_tag_and_a_digest() {
        let check =
            |image: &str, wanted: (&str, &str, &str)| assert_eq!(image_parts(image), wanted, "{image}");
        check("op", ("op", "", ""));
        check("op:1", ("op", "1", ""));
        check("registry.example.com:5000/team/op", ("registry.example.com:5000/team/op", "", ""));
        check("registry.example.com:5000/op:1.2", ("registry.example.com:5000/op", "1.2", ""));
        check("op:1@sha256:abc", ("op", "1", "sha256:abc"));
        check("op@sha256:abc", ("op", "", "sha256:abc"));
    }

    #[test]
    fn a_chart_has_a_version_that_helm_accepts() {
        for (version, wanted) in [
            ("1.2.3", "1.2.3"),
            ("1.2.3-rc.1", "1.2.3-rc.1"),
            ("1.2.3+build.7", "1.2.3+build.7"),
            ("1.2", "0.1.0"),
            ("01.2.3", "0.1.0"),
            ("latest", "0.1.0"),
            ("", "0.1.0"),
        ] {
            assert_eq!(chart_version(version), wanted, "{version}");
        }
    }
}
