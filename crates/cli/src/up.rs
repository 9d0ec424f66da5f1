//! `evenkeel up`: the embedded cluster on a port.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use evenkeel::Cluster;
use evenkeel::cluster::serve::{ServeOptions, Server, Tokens};

use crate::audit::{AuditFlags, OpenAudit};

/// Start a Kubernetes cluster in this process and serve its API.
///
/// When it is ready, the address and the kubeconfig are printed:
///
///     ready: https://127.0.0.1:6443
///     export KUBECONFIG=/home/me/.kube/evenkeel.kubeconfig
///
/// Ctrl-C and SIGTERM end it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Up {
    /// The address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    bind: SocketAddr,
    /// Where the kubeconfig is written when the cluster is ready, readable by you alone
    /// [default: kubeconfig in the data directory, else ~/.kube/evenkeel.kubeconfig].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Keep everything in this directory: acknowledged writes survive a crash. Without it the cluster lives in memory.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Begin with the state of this snapshot, which `evenkeel snapshot save` wrote: in memory, or with --data-dir in a
    /// directory that holds no store yet. A damaged snapshot is refused before anything is written.
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// How many simulated nodes run pods; 0 for none, and no scheduler: pods stay pending, untouched.
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: usize,
    /// Users with bearer tokens, one a line: token,user,uid,"group1,group2".
    #[arg(long, value_name = "CSV")]
    token_auth_file: Option<PathBuf>,
    /// Start the API alone: no controllers, no scheduler, no nodes.
    #[arg(long)]
    no_controllers: bool,
    #[command(flatten)]
    audit: AuditFlags,
}

impl Up {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        crate::files::raise_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(self.serve());
        // What still runs has nothing to say to anybody.
        runtime.shutdown_background();
        result
    }

    async fn serve(self) -> anyhow::Result<()> {
        // Before anything listens: a signal that comes early ends the process in order, too.
        let ended = crate::signals::ended()?;
        let tokens = self.token_auth_file.as_deref().map(Tokens::read).transpose()?.unwrap_or_default();
        let kubeconfig = self.kubeconfig_path()?;
        let audit = self.audit.open()?;
        let cluster = self.cluster(audit.as_ref()).await?;
        let mut options = ServeOptions::default();
        options.bind = self.bind;
        options.tokens = tokens;
        let server = cluster.serve(options).await?;
        announce(&server, &kubeconfig)?;
        server.run(ended).await;
        if let Some(audit) = audit {
            audit.log.close().await;
        }
        Ok(())
    }

    async fn cluster(&self, audit: Option<&OpenAudit>) -> anyhow::Result<Cluster> {
        // Without nodes nobody looks at pods at all: they stay as their author left them.
        let (nodes, controllers) = (self.nodes, !self.no_controllers);
        let mut options =
            Cluster::builder().nodes(nodes).scheduler(nodes > 0).controllers(controllers).records(false);
        if let Some(folder) = &self.data_dir {
            options = options.data_dir(folder);
        }
        if let Some(OpenAudit { audit, .. }) = audit {
            options = options.audit(audit.clone());
        }
        if let Some(snapshot) = &self.restore {
            options = options.restore(snapshot);
        }
        Ok(options.start().await?)
    }

    fn kubeconfig_path(&self) -> anyhow::Result<PathBuf> {
        let path = match (&self.kubeconfig, &self.data_dir) {
            (Some(path), _) => path.clone(),
            (None, Some(folder)) => folder.join("kubeconfig"),
            (None, None) => default_kubeconfig()?,
        };
        std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()))
    }
}

/// Where the kubeconfig is unless an option says otherwise.
pub(crate) fn default_kubeconfig() -> anyhow::Result<PathBuf> {
    let home = std::env::home_dir().context("there is no home directory: give --kubeconfig")?;
    Ok(home.join(".kube").join("evenkeel.kubeconfig"))
}

fn announce(server: &Server, kubeconfig: &std::path::Path) -> anyhow::Result<()> {
    if let Some(folder) = kubeconfig.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    server.write_kubeconfig(kubeconfig).with_context(|| format!("cannot write {}", kubeconfig.display()))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready: {}\nexport KUBECONFIG={}", server.url(), kubeconfig.display())?;
    out.flush()?;
    Ok(())
}
