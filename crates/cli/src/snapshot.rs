//! `evenkeel snapshot`: saves the state of a running cluster.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use evenkeel::cluster::snapshot::save;
use evenkeel::kube::config::{KubeConfigOptions, Kubeconfig};
use evenkeel::kube::{Client, Config};
use evenkeel::kubeconfig::without_quotes;

use crate::hint::Hinted;

/// The hint for a kubeconfig that cannot be read.
pub(crate) const NAME_KUBECONFIG: &str =
    "is `evenkeel up` running? pass its kubeconfig with --kubeconfig or KUBECONFIG";

/// Save the state of a running cluster, for `evenkeel up --restore`.
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Save(Save),
}

/// Save all objects of a running cluster, as of one revision, to a file that only you can read.
///
/// The file contains Secrets in clear text. It does not contain the certificate authority and the key that signs
/// service account tokens, which are files in DATA_DIR/pki. An existing file is replaced once the new one is complete
/// and checked.
#[derive(Debug, Args)]
struct Save {
    /// The file to write.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The kubeconfig of the cluster. Its user needs permission to `get` /evenkeel/snapshot
    /// [default: $KUBECONFIG, or else ~/.kube/evenkeel.kubeconfig].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
}

impl Snapshot {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Command::Save(save) = self.command;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(save.run())
    }
}

impl Save {
    async fn run(self) -> anyhow::Result<()> {
        let kubeconfig = self.kubeconfig()?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.context("cannot use the kubeconfig")?)?;
        let saved = save(&client, &self.file).await?;
        println!(
            "saved {}: revision {}, {} objects, {} bytes",
            self.file.display(),
            saved.revision,
            saved.entries,
            saved.bytes
        );
        Ok(())
    }

    fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        let read = |path: &Path| {
            let failed = || Hinted::new(format!("cannot read {}", path.display()), NAME_KUBECONFIG);
            Kubeconfig::read_from(path).map_err(without_quotes).with_context(failed)
        };
        if let Some(path) = &self.kubeconfig {
            return read(path);
        }
        let environment = Kubeconfig::from_env().map_err(without_quotes);
        if let Some(kubeconfig) =
            environment.context(Hinted::new("cannot read $KUBECONFIG", NAME_KUBECONFIG))?
        {
            return Ok(kubeconfig);
        }
        read(&crate::up::default_kubeconfig()?)
    }
}
