//! The binary `evenkeel`.
//!
//! Data goes to stdout, logs to stderr. A command that fails says why, and gives a `hint:` where the user can do
//! something.

mod hint;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Write, run and test Kubernetes operators.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Which logs are written to stderr, for example `debug` or `info,evenkeel_runtime=trace`.
    #[arg(long, global = true, env = "EVENKEEL_LOG", default_value = "warn", value_name = "FILTER")]
    log: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Up),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = logs(&cli.log).and_then(|()| match cli.command {
        Command::Up(up) => up.run(),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if let Some(hint) = hint::hint(&error) {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn logs(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)?;
    // Colours only for a person, and not for one who said no (https://no-color.org).
    let is_no = |value: std::ffi::OsString| !value.is_empty();
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && !std::env::var_os("NO_COLOR").is_some_and(is_no);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    Ok(())
}
