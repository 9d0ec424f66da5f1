//! `evenkeel new`: creates the project of an operator, which the user owns from then on.

mod names;
mod template;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::hint::Hinted;
use names::Names;
use template::Choices;

/// Create the project of an operator: a resource, its reconcile, tests, a Dockerfile and CI, all yours to change.
///
/// Its tests pass at once, and `cargo run -- --embedded` runs it at once. On a terminal, this asks for what no flag says.
#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(crate) struct New {
    /// The name of the operator and of the folder, for example web-shop.
    name: Option<String>,
    /// The kind of its resource, for example WebShop [default: made from the name].
    #[arg(long)]
    kind: Option<String>,
    /// The API group of its resource: a domain of yours [default: example.com].
    #[arg(long)]
    group: Option<String>,
    /// The API version of its resource.
    #[arg(long = "version", value_name = "VERSION", default_value = "v1")]
    api_version: String,
    /// The resource does not live in a namespace.
    #[arg(long)]
    cluster_scoped: bool,
    /// The licence.
    #[arg(long, value_enum, default_value_t = License::Apache)]
    license: License,
    /// Depend on this checkout of Evenkeel instead of the released version.
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
}

/// The licence of a new operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum License {
    /// Apache License 2.0.
    #[value(name = "apache-2.0")]
    Apache,
    /// MIT.
    Mit,
    /// No licence: nobody else may use the code.
    None,
}

impl New {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let names = self.names()?;
        let folder = PathBuf::from(&names.name);
        if folder.symlink_metadata().is_ok() {
            let message = format!("{} already exists", folder.display());
            return Err(refusal(message, "choose another name or another folder"));
        }
        find_cargo()?;
        let checkout = self.path.as_deref().map(checkout).transpose()?;
        let choices =
            Choices { names: &names, cluster_scoped: self.cluster_scoped, license: self.license, checkout };
        write(&folder, &choices.files())?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "created {}: a {} that becomes a ConfigMap", folder.display(), names.kind)?;
        writeln!(out, "try it: cd {} && cargo test && cargo run -- --embedded --samples", folder.display())?;
        Ok(())
    }

    /// The names from the flags, and from the user for those that no flag gives.
    fn names(&self) -> anyhow::Result<Names> {
        let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let name = match &self.name {
            Some(name) => name.clone(),
            None if asks => ask("The name of the operator", "my-operator")?,
            None => return Err(refusal("the operator has no name", "evenkeel new NAME")),
        };
        names::check_name(&name)?;
        let usual = names::kind_of(&name);
        let kind = match &self.kind {
            Some(kind) => kind.clone(),
            None if asks => ask("The kind of its resource", &usual)?,
            None => usual,
        };
        let group = match &self.group {
            Some(group) => group.clone(),
            None if asks => ask("The API group, a domain of yours", "example.com")?,
            None => "example.com".to_owned(),
        };
        Names::new(name, kind, group, self.api_version.clone())
    }
}

/// The source of an error that only says what to do.
#[derive(Debug)]
struct NotDone;

impl std::fmt::Display for NotDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nothing was written")
    }
}

impl std::error::Error for NotDone {}

/// Returns the error of a command that has written nothing.
fn refusal(message: impl Into<String>, hint: &'static str) -> anyhow::Error {
    anyhow::Error::new(NotDone).context(Hinted::new(message, hint))
}

/// Asks the user on the terminal. An empty answer selects the default.
fn ask(question: &str, usual: &str) -> anyhow::Result<String> {
    eprint!("{question} [{usual}]: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    let answer = answer.trim();
    Ok(if answer.is_empty() { usual.to_owned() } else { answer.to_owned() })
}

fn find_cargo() -> anyhow::Result<()> {
    let found = Command::new("cargo").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(refusal("cannot run cargo", "install Rust: https://rustup.rs"))
}

/// Returns the absolute path of the crate `evenkeel` in a checkout.
fn checkout(path: &Path) -> anyhow::Result<PathBuf> {
    let path = path.join("crates").join("evenkeel");
    let failed =
        || Hinted::new(format!("there is no {}", path.display()), "--path names a checkout of Evenkeel");
    path.join("Cargo.toml").metadata().with_context(failed)?;
    std::path::absolute(&path).with_context(failed)
}

/// Formats the code, because line breaks depend on the names. The code also works without rustfmt.
fn format(folder: &Path, files: &[(&str, String)]) {
    let code = files.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".rs"));
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024"]).args(code).current_dir(folder);
    let _ = rustfmt.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A folder that is removed unless it gets its final name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename nothing is left to remove, and failing to remove the folder changes no result.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the files into a temporary folder beside the new one, which gets its name when it is complete.
fn write(folder: &Path, files: &[(&str, String)]) -> anyhow::Result<()> {
    let failed = |path: &Path| format!("cannot write {}", path.display());
    let unfinished = PathBuf::from(format!(".{}-{}", folder.display(), std::process::id()));
    std::fs::create_dir(&unfinished)
        .context(Hinted::new("cannot create a folder here", "choose a folder that you can write to"))?;
    let unfinished = Unfinished(unfinished);
    for (name, text) in files {
        let path = unfinished.0.join(name);
        let parent = path.parent().unwrap_or(&unfinished.0);
        std::fs::create_dir_all(parent).with_context(|| failed(parent))?;
        std::fs::write(&path, text).with_context(|| failed(&path))?;
    }
    format(&unfinished.0, files);
    std::fs::rename(&unfinished.0, folder).with_context(|| failed(folder))
}
