//! `evenkeel token`: prints a bearer token, for the dashboard or another client.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use evenkeel::k8s_openapi::api::core::v1::ServiceAccount;
use evenkeel::k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use evenkeel::kube::Client;
use evenkeel::kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::record::{kube, token};

/// The account that is used unless the user names one.
const ACCOUNT: (&str, &str) = ("kube-system", "evenkeel-dashboard");

/// The field manager of the account and its binding.
const MANAGER: &str = "evenkeel-token";

/// Print a bearer token of a ServiceAccount, to log in to the dashboard.
///
/// Without an argument, the account is kube-system/evenkeel-dashboard: it is created if it is missing, and bound to the
/// role cluster-admin. Name another account to show the dashboard to somebody who may do less.
#[derive(Debug, Args)]
pub(crate) struct Token {
    /// The ServiceAccount, such as `default/viewer`. It must exist.
    #[arg(value_name = "NAMESPACE/NAME")]
    account: Option<String>,
    /// How many minutes the token is valid.
    #[arg(long, value_name = "N", default_value_t = 480, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    minutes: u32,
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or else ~/.kube/evenkeel.kubeconfig].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

impl Token {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let token = runtime.block_on(self.token())?;
        println!("{token}");
        Ok(())
    }

    async fn token(&self) -> anyhow::Result<String> {
        let client = kube(self.kubeconfig.as_deref()).await?.client;
        let (namespace, name) = match &self.account {
            Some(account) => account.split_once('/').with_context(|| {
                crate::hint::Hinted::new(
                    format!("{account} is not a ServiceAccount"),
                    "name it as NAMESPACE/NAME, such as default/viewer",
                )
            })?,
            None => {
                make_account(&client).await.context("cannot create the ServiceAccount of the dashboard")?;
                ACCOUNT
            }
        };
        token(&client, namespace, name, i64::from(self.minutes) * 60).await
    }
}

/// Creates the default account and its binding to the role cluster-admin, if they are missing.
async fn make_account(client: &Client) -> anyhow::Result<()> {
    let (namespace, name) = ACCOUNT;
    let params = PatchParams::apply(MANAGER);
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    accounts.patch(name, &params, &Patch::Apply(account)).await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": name }],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.patch(name, &params, &Patch::Apply(binding)).await?;
    Ok(())
}
