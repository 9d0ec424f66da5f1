//! `evenkeel generate`: writes code that the user then owns.

mod check;
mod input;
mod types;

use clap::{Args, Subcommand};

/// Write code for you.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Types(types::Types),
}

impl Generate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Command::Types(types) = self.command;
        types.run()
    }
}
