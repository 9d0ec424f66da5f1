//! How the commands tell where their dashboard is.

use std::io::Write as _;

use evenkeel_dashboard::Dashboard;

/// Prints the link that logs in.
pub(crate) fn announce(dashboard: &Dashboard) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "dashboard: {}", dashboard.one_time_link())?;
    out.flush()?;
    Ok(())
}
