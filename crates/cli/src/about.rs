//! The commands about the binary itself: its version, shell completions, and man pages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

/// The version of Kubernetes that the API server implements.
const KUBERNETES: &str = "v1.36.4";

/// Print the version of Evenkeel, and the Kubernetes version that its API server implements.
#[derive(Debug, Args)]
pub(crate) struct Version {}

/// Print completions for a shell.
///
/// For bash: `source <(evenkeel completions bash)`. For zsh, write them to a file `_evenkeel` in a folder of $fpath.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

/// Write man pages, one for each command.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder to write to, for example ~/.local/share/man/man1.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Version {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        println!("evenkeel {}\nKubernetes {KUBERNETES}", env!("CARGO_PKG_VERSION"));
        Ok(())
    }
}

impl Completions {
    pub(crate) fn run(self, mut command: Command) -> anyhow::Result<()> {
        // Written in one piece, so that a reader that stops early (`| head`) causes no panic.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "evenkeel", &mut script);
        Ok(std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?)
    }
}

impl Man {
    pub(crate) fn run(self, command: Command) -> anyhow::Result<()> {
        let failed = || format!("cannot write man pages to {}", self.folder.display());
        std::fs::create_dir_all(&self.folder).with_context(failed)?;
        clap_mangen::generate_to(command, &self.folder).with_context(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_server() {
        let found = evenkeel::testing::run(evenkeel::testing::options(), |cluster| async move {
            let version = cluster.client().apiserver_version().await?;
            assert_eq!(version.git_version, KUBERNETES);
            Ok::<_, evenkeel::kube::Error>(())
        });
        found.expect("the cluster starts");
    }
}
