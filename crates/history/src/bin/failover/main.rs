//! Runs two replicas of an operator: the leader is stopped, killed or cut off from the network, the other one takes over,
//! and the old one comes back. The order of the writes on the server shows whether a write of an old leader landed after
//! the first write of a new leader.

mod operator;
mod proxy;
mod replica;
mod rounds;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

/// Make the leader of two replicas fail again and again, and check the order of their writes.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The server binary.
    #[arg(long, value_name = "PATH", default_value = "target/debug/evenkeel")]
    evenkeel: PathBuf,
    /// How often to make the leader fail.
    #[arg(long, env = "EVENKEEL_FAILOVERS", value_name = "N", default_value_t = 6)]
    rounds: u32,
    /// Decides how long each failure lasts and when it comes.
    #[arg(long, env = "EVENKEEL_FAILOVER_SEED", value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run as one of the replicas.
    Operator(operator::Operator),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start");
    let run = runtime.and_then(|runtime| match arguments.command {
        Some(Command::Operator(operator)) => runtime.block_on(operator.run()),
        None => runtime.block_on(rounds::play(&arguments.evenkeel, arguments.rounds, arguments.seed)),
    });
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
