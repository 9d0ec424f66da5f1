//! `evenkeel open`: shows a saved record in the browser.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use evenkeel_dashboard::{Dashboard, Operator, Source};

use crate::record::SourceFlags;

/// Show a record in the browser, until Ctrl-C: a saved one, or that of a running operator, live.
///
/// FILE is written by `evenkeel record --save`. Without FILE, the operator is found as by `evenkeel record`, and the page
/// reads and writes the cluster as the user of the kubeconfig.
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// The saved record.
    #[arg(value_name = "FILE", conflicts_with_all = ["record", "address", "operator"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    source: SourceFlags,
    /// The loopback address to serve the page on; port 0 takes any free port.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    dashboard: SocketAddr,
}

impl Open {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(async {
            let ended = crate::os::shutdown_signal()?;
            let dashboard = Dashboard::bind(self.dashboard, self.source().await?).await?;
            crate::dashboard::announce(&dashboard)?;
            tokio::select! {
                biased;
                () = ended => Ok(()),
                () = dashboard.run() => Ok(()),
            }
        });
        runtime.shutdown_background();
        result
    }

    async fn source(&self) -> anyhow::Result<Source> {
        if let Some(path) = self.file.as_ref().or(self.source.saved()) {
            return Ok(Source::Record(Arc::new(crate::record::read(path)?)));
        }
        let feed = self.source.first_operator().await?;
        let client = self.source.kube().await.ok().map(|kube| kube.client);
        Ok(Source::Operator(Operator { client, feed: Arc::new(feed) }))
    }
}
