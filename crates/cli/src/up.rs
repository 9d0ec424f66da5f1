//! `evenkeel up`: serves the embedded cluster on a port.

mod handlers;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use evenkeel::Cluster;
use evenkeel::cluster::serve::{ServeOptions, Server, Tokens};
use evenkeel_dashboard::{Dashboard, Source};

use crate::audit::{AuditFlags, OpenAudit};
use crate::hint::Hinted;

/// The descriptions of the built-in types, which `build.rs` collects.
pub(crate) const DESCRIPTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions"));

/// The hint for a kubeconfig that cannot be written.
pub(crate) const CHOOSE_KUBECONFIG: &str = "choose a file that you can write to with --kubeconfig";

/// Start a Kubernetes cluster in this process and serve its API.
///
/// When the cluster is ready, the command prints its address and how to use it:
///
///     ready: https://127.0.0.1:6443
///     export KUBECONFIG=/home/me/.kube/evenkeel.kubeconfig
///
/// Ctrl-C or SIGTERM stops it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Up {
    /// The address to listen on; port 0 takes any free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    bind: SocketAddr,
    /// Where to write the kubeconfig, readable only by you
    /// [default: `kubeconfig` in the data directory, or else ~/.kube/evenkeel.kubeconfig].
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Keep the state of the cluster in this directory; acknowledged writes survive a crash [default: in memory].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Start with the state of this snapshot, written by `evenkeel snapshot save`. With --data-dir, the directory must
    /// not hold the state of a cluster yet. A damaged snapshot is refused before anything is written.
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// The number of simulated nodes that run pods. With 0 there is no scheduler either, and pods stay pending.
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: usize,
    /// A CSV file of bearer tokens, one per line: token,user,uid,"group1,group2".
    #[arg(long, value_name = "CSV")]
    token_auth_file: Option<PathBuf>,
    /// Start only the API server: no controllers, no scheduler, no nodes.
    #[arg(long)]
    no_controllers: bool,
    /// Serve the dashboard on this loopback address; port 0 takes any free port. A printed one-time link logs in as the
    /// administrator; otherwise the page asks for a bearer token. A login lasts eight hours.
    #[arg(long, value_name = "ADDR:PORT")]
    dashboard: Option<SocketAddr>,
    #[command(flatten)]
    handlers: handlers::Handlers,
    #[command(flatten)]
    audit: AuditFlags,
}

impl Up {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        crate::os::raise_open_files_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(self.serve());
        // Do not wait for tasks that are still running.
        runtime.shutdown_background();
        result
    }

    async fn serve(self) -> anyhow::Result<()> {
        evenkeel::cluster::serve::describe_types(DESCRIPTIONS);
        // Catch signals before anything listens, so that an early signal also leads to an orderly shutdown.
        let ended = crate::os::shutdown_signal()?;
        let tokens = self.token_auth_file.as_deref().map(Tokens::read).transpose()?.unwrap_or_default();
        let kubeconfig = self.kubeconfig_path()?;
        let audit = self.audit.open()?;
        let cluster = self.cluster(audit.as_ref()).await?;
        self.handlers.install(&cluster)?;
        let mut options = ServeOptions::default();
        options.bind = self.bind;
        options.tokens = tokens;
        options.records = self.dashboard.is_some();
        let server = cluster.serve(options).await?;
        cluster.serve_record();
        announce(&server, &kubeconfig)?;
        if let Some(address) = self.dashboard {
            let dashboard = Dashboard::bind(address, Source::Cluster(cluster.clone())).await?;
            crate::dashboard::announce(&dashboard)?;
            tokio::spawn(dashboard.run());
        }
        server.run(ended).await;
        if let Some(audit) = audit {
            audit.log.close().await;
        }
        Ok(())
    }

    async fn cluster(&self, audit: Option<&OpenAudit>) -> anyhow::Result<Cluster> {
        // Without nodes there is no scheduler either, so that nothing but the user changes pods.
        let (nodes, controllers) = (self.nodes, !self.no_controllers);
        let mut options = Cluster::builder()
            .nodes(nodes)
            .scheduler(nodes > 0)
            .controllers(controllers)
            .records(false)
            .root_ca(true);
        for (name, value) in self.flags() {
            options = options.flag(name, value);
        }
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

    /// The flags and their values, for `/flagz`. What they name may be read by whoever may read that page.
    fn flags(&self) -> [(&'static str, String); 8] {
        let path =
            |path: &Option<PathBuf>| path.as_ref().map_or(String::new(), |it| it.display().to_string());
        [
            ("bind", self.bind.to_string()),
            ("kubeconfig", path(&self.kubeconfig)),
            ("data-dir", path(&self.data_dir)),
            ("restore", path(&self.restore)),
            ("nodes", self.nodes.to_string()),
            ("token-auth-file", path(&self.token_auth_file)),
            ("no-controllers", self.no_controllers.to_string()),
            ("dashboard", self.dashboard.map_or(String::new(), |it| it.to_string())),
        ]
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

/// The default path of the kubeconfig.
pub(crate) fn default_kubeconfig() -> anyhow::Result<PathBuf> {
    let home = std::env::home_dir()
        .context(Hinted::new("there is no home directory for the kubeconfig", CHOOSE_KUBECONFIG))?;
    Ok(home.join(".kube").join("evenkeel.kubeconfig"))
}

fn announce(server: &Server, kubeconfig: &Path) -> anyhow::Result<()> {
    let failed =
        |verb: &str, path: &Path| Hinted::new(format!("cannot {verb} {}", path.display()), CHOOSE_KUBECONFIG);
    if let Some(folder) = kubeconfig.parent() {
        std::fs::create_dir_all(folder).with_context(|| failed("create", folder))?;
    }
    server.write_kubeconfig(kubeconfig).with_context(|| failed("write", kubeconfig))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready: {}\nexport KUBECONFIG={}", server.url(), kubeconfig.display())?;
    out.flush()?;
    Ok(())
}
