//! `evenkeel open`: shows a saved record in the browser.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use evenkeel_dashboard::{Dashboard, Source};

/// Show a record saved by `evenkeel record --save` in the browser, until Ctrl-C.
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// The record.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The loopback address to serve the page on; port 0 takes any free port.
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    dashboard: SocketAddr,
}

impl Open {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(async {
            let ended = crate::os::shutdown_signal()?;
            let record = crate::record::read(&self.file)?;
            let dashboard = Dashboard::bind(self.dashboard, Source::Record(Arc::new(record))).await?;
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
}
