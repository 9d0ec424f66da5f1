//! Announces the address of a command's dashboard.

use std::io::Write as _;

use evenkeel_dashboard::Dashboard;

/// Prints the one-time link that logs in.
pub(crate) fn announce(dashboard: &Dashboard) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "dashboard: {}", dashboard.one_time_link())?;
    out.flush()?;
    Ok(())
}
