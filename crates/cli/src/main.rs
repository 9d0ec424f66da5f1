//! The binary `evenkeel`.
//!
//! Data goes to stdout, logs to stderr. A command that fails prints the error, and a `hint:` if the user can do
//! something about it.

mod about;
mod audit;
mod dashboard;
mod demo;
mod generate;
mod hint;
mod new;
mod open;
mod os;
mod record;
mod snapshot;
mod token;
mod up;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Write, run and test Kubernetes operators.
///
/// `evenkeel up` starts a Kubernetes API server for development; kubectl and operators use it like any other cluster.
/// `evenkeel demo` shows example operators at work. `evenkeel snapshot` saves the state of a running cluster. `evenkeel
/// new` creates the project of an operator, and `evenkeel generate types` writes Rust types for existing CRDs.
/// `evenkeel why` says why an object is in its current state; `record`, `top` and `loops` show what an operator did
/// recently.
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
    Completions(about::Completions),
    Demo(demo::Demo),
    Generate(generate::Generate),
    Loops(record::Loops),
    Man(about::Man),
    New(new::New),
    Open(open::Open),
    Record(record::RecordCommand),
    Snapshot(snapshot::Snapshot),
    Token(token::Token),
    Top(record::Top),
    Up(up::Up),
    Version(about::Version),
    Why(record::WhyCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = cli.log.as_deref().unwrap_or(match cli.command {
        Command::Demo(_) => "off",
        _ => "warn",
    });
    let result = logs(filter).and_then(|()| match cli.command {
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Demo(demo) => demo.run(),
        Command::Generate(generate) => generate.run(),
        Command::Loops(loops) => loops.run(),
        Command::Man(man) => man.run(Cli::command()),
        Command::New(new) => new.run(),
        Command::Open(open) => open.run(),
        Command::Record(record) => record.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::Token(token) => token.run(),
        Command::Top(top) => top.run(),
        Command::Up(up) => up.run(),
        Command::Version(version) => version.run(),
        Command::Why(why) => why.run(),
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
