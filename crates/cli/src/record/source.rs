//! Where a record comes from: a file, the address of an operator, a Service, or what the kubeconfig's cluster has.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use evenkeel::kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use evenkeel::kube::{Client, Config};
use evenkeel::kubeconfig::without_quotes;
use evenkeel_record::Record;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;

use super::operator::Operator;
use super::services;
use crate::hint::Hinted;

const NAME_A_SOURCE: &str = "name the operator with --address URL, or its Service with --operator NAMESPACE/NAME:PORT, or a saved record with --record FILE";

/// The flags that say which record to read.
#[derive(Debug, Args)]
pub(crate) struct SourceFlags {
    /// Read a saved record [default: ask the cluster of the kubeconfig: its API server, if that is `evenkeel up` or
    /// `evenkeel demo`, and every operator with a Service whose name ends with `-metrics` and that has a port named
    /// `https`].
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Ask the operator at this address, such as https://127.0.0.1:8443.
    #[arg(long, value_name = "URL", conflicts_with = "record")]
    address: Option<String>,
    /// Ask the operator behind this Service, through the proxy of the kubeconfig's API server.
    #[arg(long, value_name = "NAMESPACE/NAME:PORT", conflicts_with_all = ["record", "address"])]
    operator: Option<String>,
    /// A file with the bearer token for the operators [default: for --operator the token of the kubeconfig's user; for
    /// operators that are found, and for a user without a token, one of the operator's own ServiceAccount, valid for ten
    /// minutes].
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    token_file: Option<PathBuf>,
    /// Do not verify the certificate at --address.
    #[arg(long, requires = "address")]
    insecure_skip_tls_verify: bool,
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or else ~/.kube/evenkeel.kubeconfig].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

/// The cluster of a kubeconfig.
#[derive(Clone)]
pub(crate) struct Kube {
    pub(crate) client: Client,
    /// The bearer token of the kubeconfig's user, if it has one.
    token: Option<String>,
}

impl SourceFlags {
    /// Whether the user has named a source.
    pub(super) fn is_given(&self) -> bool {
        self.record.is_some() || self.address.is_some() || self.operator.is_some()
    }

    /// The file of a saved record, if the user has named one.
    pub(crate) fn saved(&self) -> Option<&PathBuf> {
        self.record.as_ref()
    }

    /// Finds the first operator that gives its record.
    pub(crate) async fn first_operator(&self) -> anyhow::Result<Operator> {
        let mut refusals = Vec::new();
        for operator in self.operators().await? {
            match operator.record().await {
                Ok(_) => return Ok(operator),
                Err(error) => refusals.push(format!("{}: {error:#}", operator.name)),
            }
        }
        Err(refused(&refusals))
    }

    /// Reads the record.
    pub(super) async fn record(&self) -> anyhow::Result<Record> {
        if let Some(path) = &self.record {
            return read(path);
        }
        let operators = self.operators().await?;
        let (mut records, mut refusals) = (Vec::new(), Vec::new());
        for operator in operators {
            match operator.record().await {
                Ok(record) => records.push(record),
                Err(error) => refusals.push(format!("{}: {error:#}", operator.name)),
            }
        }
        match records.is_empty() {
            true => Err(refused(&refusals)),
            false => Ok(joined(records)),
        }
    }

    /// Finds the operators whose records can be asked for: the one that is named, or all that the cluster has.
    pub(crate) async fn operators(&self) -> anyhow::Result<Vec<Operator>> {
        if let Some(address) = &self.address {
            return Ok(vec![self.at(address)?]);
        }
        let kube = self.kube().await?;
        let of_file = self.token_file.as_deref().map(read_token).transpose()?;
        let Tokens { for_named, for_found } = tokens(of_file, kube.token.clone());
        if let Some(operator) = &self.operator {
            return Ok(vec![services::named(&kube.client, operator, for_named).await?]);
        }
        let mut found = vec![Operator::api_server(kube.client.clone())];
        // The record of an embedded cluster includes the operators that run in its process. Others have Services.
        found.extend(services::all(&kube.client, for_found).await);
        Ok(found)
    }

    fn at(&self, address: &str) -> anyhow::Result<Operator> {
        let mut config = Config::new(address.parse().with_context(|| format!("{address} is not a URL"))?);
        config.accept_invalid_certs = self.insecure_skip_tls_verify;
        let token_file = self.token_file.as_ref().map(|path| path.display().to_string());
        config.auth_info = AuthInfo { token_file, ..AuthInfo::default() };
        Ok(Operator::at(address, Client::try_from(config)?))
    }

    /// Makes a client for the cluster of the kubeconfig.
    pub(crate) async fn kube(&self) -> anyhow::Result<Kube> {
        kube(self.kubeconfig.as_deref()).await
    }
}

/// The tokens that are sent to operators instead of those of their own accounts.
#[derive(Debug, PartialEq)]
struct Tokens {
    /// For the operator that the user has named.
    for_named: Option<String>,
    /// For every operator that was found.
    for_found: Option<String>,
}

/// Decides who gets which token. Everybody who may create a Service can have it found, and would then get the token of whoever
/// looks for operators. So only a token that the user has named, or an operator's own one, goes to those that were found.
fn tokens(of_file: Option<String>, of_kubeconfig: Option<String>) -> Tokens {
    Tokens { for_named: of_file.clone().or(of_kubeconfig), for_found: of_file }
}

fn refused(refusals: &[String]) -> anyhow::Error {
    let text = format!("no operator gives its record:\n  {}", refusals.join("\n  "));
    anyhow::Error::msg(Hinted::new(text, NAME_A_SOURCE))
}

/// Joins records into one, whose times count from the start of the earliest.
fn joined(mut records: Vec<Record>) -> Record {
    let start = |record: &Record| record.started.parse::<Timestamp>().unwrap_or_default();
    let Some(first) = records.iter().map(start).min() else { return Record::default() };
    for record in &mut records {
        let later = start(record).duration_since(first).as_micros();
        record.shift(i64::try_from(later).unwrap_or(i64::MAX));
    }
    let names: Vec<&str> =
        records.iter().map(|record| record.name.as_str()).filter(|name| !name.is_empty()).collect();
    let mut whole = Record { name: names.join(", "), started: first.to_string(), ..Record::default() };
    records.into_iter().for_each(|record| whole.merge(record));
    whole
}

/// Makes a client for the cluster of a kubeconfig: of this file, of the environment, or of `evenkeel up`.
pub(crate) async fn kube(path: Option<&Path>) -> anyhow::Result<Kube> {
    let read = |path: &Path| {
        let failed =
            || Hinted::new(format!("cannot read {}", path.display()), crate::snapshot::NAME_KUBECONFIG);
        Kubeconfig::read_from(path).map_err(without_quotes).with_context(failed)
    };
    let kubeconfig = match path {
        Some(path) => read(path)?,
        None => match Kubeconfig::from_env().map_err(without_quotes)? {
            Some(found) => found,
            None => read(&crate::up::default_kubeconfig()?)?,
        },
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.context("cannot use the kubeconfig")?;
    let token = match (&config.auth_info.token, &config.auth_info.token_file) {
        (Some(token), _) => Some(token.expose_secret().to_owned()),
        (None, Some(path)) => Some(read_token(Path::new(path))?),
        (None, None) => None,
    };
    Ok(Kube { client: Client::try_from(config)?, token })
}

fn read_token(path: &Path) -> anyhow::Result<String> {
    let failed = || Hinted::new(format!("cannot read {}", path.display()), "write a bearer token to it");
    Ok(std::fs::read_to_string(path).with_context(failed)?.trim().to_owned())
}

/// Reads a saved record.
pub(crate) fn read(path: &Path) -> anyhow::Result<Record> {
    let failed = || {
        Hinted::new(format!("cannot read {}", path.display()), "write one with `evenkeel record --save FILE`")
    };
    let json = std::fs::read(path).with_context(failed)?;
    Record::read(&json).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_token_goes_only_to_an_operator_that_the_user_has_named() {
        let token = |text: &str| Some(text.to_owned());
        assert_eq!(tokens(None, token("user")), Tokens { for_named: token("user"), for_found: None });
        let of_file = Tokens { for_named: token("file"), for_found: token("file") };
        assert_eq!(tokens(token("file"), token("user")), of_file);
        assert_eq!(tokens(None, None), Tokens { for_named: None, for_found: None });
    }
}
