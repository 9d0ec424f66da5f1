//! Reads definitions from files, stdin, URLs and clusters.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube::client::Body;
use evenkeel::kube::config::{KubeConfigOptions, Kubeconfig};
use evenkeel::kube::{Api, Client, Config};
use evenkeel::kubeconfig::without_quotes;
use evenkeel::yaml;
use http::{Request, Uri, header};
use serde_json::Value;

use crate::hint::Hinted;

/// How many redirects of a URL are followed. Browsers and curl follow more, but a GitHub release needs two.
const REDIRECTS_MAX: usize = 5;

/// The hint for a URL that cannot be read.
const PIPE: &str = "or pipe it: curl -sSfL URL | evenkeel generate types -";

/// Reads the objects from a file, a URL, or stdin (`-`).
pub(super) async fn read(source: &str) -> anyhow::Result<Vec<Value>> {
    let text = match source {
        "-" => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).context("cannot read stdin")?;
            text
        }
        url if url.starts_with("http://") || url.starts_with("https://") => {
            download(url).await.with_context(|| Hinted::new(format!("cannot read {url}"), PIPE))?
        }
        file => std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?,
    };
    parse(&text).with_context(|| format!("cannot read {source}"))
}

/// Parses objects from JSON or from YAML documents.
fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    if text.trim_start().starts_with('{')
        && let Ok(object) = serde_json::from_str(text)
    {
        return Ok(vec![object]);
    }
    Ok(yaml::values(text)?)
}

async fn download(url: &str) -> anyhow::Result<String> {
    let mut url = url.to_owned();
    for _ in 0..REDIRECTS_MAX {
        let uri: Uri = url.parse()?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let base = Uri::builder()
            .scheme(uri.scheme().cloned().context("the URL has no scheme")?)
            .authority(uri.authority().cloned().context("the URL has no host")?)
            .path_and_query("/")
            .build()?;
        let client = Client::try_from(Config::new(base))?;
        let response = client.send(Request::get(path).body(Body::empty())?).await?;
        let status = response.status();
        if status.is_redirection() {
            let next = response.headers().get(header::LOCATION).context("the redirect has no Location")?;
            let next = next.to_str()?;
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            let scheme = uri.scheme_str().unwrap_or("https");
            url =
                if next.starts_with('/') { format!("{scheme}://{authority}{next}") } else { next.to_owned() };
            continue;
        }
        if !status.is_success() {
            bail!("the server answered {status}");
        }
        let bytes = response.into_body().collect_bytes().await?;
        return String::from_utf8(bytes.into()).context("the response is not text");
    }
    bail!("more than {REDIRECTS_MAX} redirects")
}

/// Reads a definition from a cluster.
pub(super) async fn from_cluster(name: &str, kubeconfig: Option<&Path>) -> anyhow::Result<Value> {
    let hint = "name the cluster's kubeconfig by --kubeconfig or KUBECONFIG";
    let failed = || Hinted::new("cannot use the kubeconfig", hint);
    let config = match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(without_quotes).with_context(failed)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(failed)?
        }
        None => Config::infer().await.with_context(failed)?,
    };
    let api: Api<CustomResourceDefinition> = Api::all(Client::try_from(config)?);
    let definition = api.get(name).await.with_context(|| {
        let message = format!("cannot read the definition {name}");
        Hinted::new(message, "its name is PLURAL.GROUP: kubectl get customresourcedefinitions lists them")
    })?;
    Ok(serde_json::to_value(definition)?)
}
