//! Reads a record from a file, from the address of an operator, or through the API server from a Service.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use evenkeel::kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use evenkeel::kube::{Client, Config};
use evenkeel::kubeconfig::without_quotes;
use evenkeel_record::Record;

use crate::hint::Hinted;

/// The path at which an operator serves its record.
const PATH: &str = "/debug/evenkeel";

const NAME_A_SOURCE: &str = "name the operator with --address URL, or its Service with --operator NAMESPACE/NAME:PORT, or a saved record with --record FILE";

/// The flags that say which record to read.
#[derive(Debug, Args)]
pub(super) struct SourceFlags {
    /// Read a saved record.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Ask the operator at this address, such as https://127.0.0.1:8443.
    #[arg(long, value_name = "URL", conflicts_with = "record")]
    address: Option<String>,
    /// Ask the operator behind this Service, through the proxy of the kubeconfig's API server, if it has one.
    #[arg(long, value_name = "NAMESPACE/NAME:PORT", conflicts_with_all = ["record", "address"])]
    operator: Option<String>,
    /// A file with the bearer token for --address.
    #[arg(long, value_name = "FILE", requires = "address")]
    token_file: Option<PathBuf>,
    /// Do not verify the certificate at --address.
    #[arg(long, requires = "address")]
    insecure_skip_tls_verify: bool,
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or else ~/.kube/evenkeel.kubeconfig].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

impl SourceFlags {
    /// Whether a source for the record is given.
    pub(super) fn is_given(&self) -> bool {
        self.record.is_some() || self.address.is_some() || self.operator.is_some()
    }

    /// Reads the record.
    pub(super) async fn record(&self) -> anyhow::Result<Record> {
        let bytes = match (&self.record, &self.address, &self.operator) {
            (Some(path), _, _) => return read(path),
            (_, Some(address), _) => get(&self.client_at(address)?, PATH).await?,
            (_, _, Some(operator)) => get(&self.client().await?, &proxy_path(operator)?).await?,
            _ => return None.context(Hinted::new("no operator is given", NAME_A_SOURCE)),
        };
        Ok(Record::read(bytes.as_bytes())?)
    }

    fn client_at(&self, address: &str) -> anyhow::Result<Client> {
        let mut config = Config::new(address.parse().with_context(|| format!("{address} is not a URL"))?);
        config.accept_invalid_certs = self.insecure_skip_tls_verify;
        let token_file = self.token_file.as_ref().map(|path| path.display().to_string());
        config.auth_info = AuthInfo { token_file, ..AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    /// Makes a client for the cluster of the kubeconfig.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let read = |path: &Path| {
            let failed =
                || Hinted::new(format!("cannot read {}", path.display()), crate::snapshot::NAME_KUBECONFIG);
            Kubeconfig::read_from(path).map_err(without_quotes).with_context(failed)
        };
        let kubeconfig = match &self.kubeconfig {
            Some(path) => read(path)?,
            None => match Kubeconfig::from_env().map_err(without_quotes)? {
                Some(found) => found,
                None => read(&crate::up::default_kubeconfig()?)?,
            },
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Ok(Client::try_from(config.context("cannot use the kubeconfig")?)?)
    }
}

/// Reads a saved record.
pub(crate) fn read(path: &Path) -> anyhow::Result<Record> {
    let failed = || {
        Hinted::new(format!("cannot read {}", path.display()), "write one with `evenkeel record --save FILE`")
    };
    let json = std::fs::read(path).with_context(failed)?;
    Record::read(&json).with_context(failed)
}

async fn get(client: &Client, path: &str) -> anyhow::Result<String> {
    let request = http::Request::get(path).body(Vec::new())?;
    client.request_text(request).await.with_context(|| {
        Hinted::new(
            "cannot read the record of the operator",
            "its user needs permission to `get` the path /debug/evenkeel",
        )
    })
}

/// Returns the path at which the API server proxies requests to a Service.
fn proxy_path(operator: &str) -> anyhow::Result<String> {
    let parts = operator.split_once('/').and_then(|(namespace, rest)| {
        let (name, port) = rest.split_once(':')?;
        let whole = [namespace, name, port].iter().all(|part| !part.is_empty() && !part.contains('/'));
        whole.then_some((namespace, name, port))
    });
    let wrong = || Hinted::new(format!("{operator} is not a Service"), "name it as NAMESPACE/NAME:PORT");
    let (namespace, name, port) = parts.with_context(wrong)?;
    Ok(format!("/api/v1/namespaces/{namespace}/services/https:{name}:{port}/proxy{PATH}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_with_its_namespace_and_port() {
        let wanted = "/api/v1/namespaces/prod/services/https:database-metrics:8443/proxy/debug/evenkeel";
        assert_eq!(proxy_path("prod/database-metrics:8443").unwrap(), wanted);
        for wrong in ["database", "prod/database", "/a:1", "a/b:", "a/b/c:1"] {
            assert!(proxy_path(wrong).is_err(), "{wrong}");
        }
    }
}
