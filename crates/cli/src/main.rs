//! The binary `evenkeel`.
//!
//! Data goes to stdout, logs to stderr. A command that fails says why, and gives a `hint:` where the user can do
//! something.

mod demo;
mod hint;
mod signals;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// How many reconciles may wait to be shown.
const MOST_CAUSES: usize = 4096;

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
    Demo(demo::Demo),
    Up(up::Up),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (causes, reconciled) = tokio::sync::mpsc::channel(MOST_CAUSES);
    let causes = matches!(cli.command, Command::Demo(_)).then(|| demo::causes::Causes::new(causes));
    let result = logs(&cli.log, causes).and_then(|()| match cli.command {
        Command::Demo(demo) => demo.run(reconciled),
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

/// Logs go to stderr by `filter`; `causes` sees every reconcile, whatever the filter says.
fn logs(filter: &str, causes: Option<demo::causes::Causes>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)?;
    // Colours only for a person, and not for one who said no (https://no-color.org).
    let is_no = |value: std::ffi::OsString| !value.is_empty();
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && !std::env::var_os("NO_COLOR").is_some_and(is_no);
    let written = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let reconciles = Targets::new().with_target("evenkeel_runtime", LevelFilter::DEBUG);
    tracing_subscriber::registry()
        .with(written.with_filter(filter))
        .with(causes.map(|causes| causes.with_filter(reconciles)))
        .init();
    Ok(())
}
