//! `evenkeel up` under load: 4,000 connections and 10,000 watches for a minute, with 1,000 writes a second that reach
//! ten watches each; then SIGTERM under the same load.
//!
//! Clients and server share the machine. The bench prints the figures. It fails on any client error, a missing or
//! surplus event, or a server that does not shut down cleanly within five seconds. For settings see
//! `Load::or_settings`.

mod driver;

use std::process::ExitCode;
use std::time::Duration;

use driver::Load;

/// How long the server may take to shut down.
const END_MAX: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), String> {
    let load =
        Load { connections: 4000, watches: 10_000, writes_per_second: 1000, seconds: 60 }.or_settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let report = runtime.map_err(|error| error.to_string())?.block_on(driver::run(load))?;
    println!("{report}");
    if report.exit_code != Some(0) || report.ended_in > END_MAX {
        return Err(format!("the server ended with {:?} after {:?}", report.exit_code, report.ended_in));
    }
    Ok(())
}
