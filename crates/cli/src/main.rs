//! The binary `evenkeel`.
//!
//! Data goes to stdout, logs to stderr. A command that fails prints the error, and a `hint:` if the user can do
//! something about it.

mod audit;
mod demo;
mod hint;
mod os;
mod snapshot;
mod up;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Write, run and test Kubernetes operators.
///
/// `evenkeel up` starts a Kubernetes API server for development; kubectl and operators use it like any other cluster.
/// `evenkeel demo` shows example operators at work. `evenkeel snapshot` saves the state of a running cluster.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Which log messages to write to stderr, for example `debug` or `info,evenkeel_runtime=trace`
    /// [default: warn; off for the demo].
    #[arg(long, global = true, env = "EVENKEEL_LOG", value_name = "FILTER")]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Snapshot(snapshot::Snapshot),
    Up(up::Up),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = cli.log.as_deref().unwrap_or(match cli.command {
        Command::Demo(_) => "off",
        Command::Snapshot(_) | Command::Up(_) => "warn",
    });
    let result = logs(filter).and_then(|()| match cli.command {
        Command::Demo(demo) => demo.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
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

/// Writes the log messages that `filter` selects to stderr.
fn logs(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).with_context(|| {
        hint::Hinted::new(
            format!("cannot read --log {filter}"),
            "filters look like `debug` or `info,evenkeel_runtime=trace`",
        )
    })?;
    let colours = colours(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
    Ok(())
}

/// Whether to use colours: only on a terminal, and not if `NO_COLOR` is set (<https://no-color.org>).
fn colours(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}
