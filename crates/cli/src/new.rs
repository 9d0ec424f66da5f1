//! `evenkeel new`: creates the project of an operator, which the user owns from then on.

mod names;
mod questions;
mod template;

use std::io::{BufRead, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::hint::Hinted;
use names::Names;
use questions::{Questions, yes_or_no};
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
    /// The API version of its resource [default: v1].
    #[arg(long = "version", value_name = "VERSION")]
    api_version: Option<String>,
    /// The resource does not live in a namespace.
    #[arg(long)]
    cluster_scoped: bool,
    /// Add webhooks: one that changes objects before they are stored, and one that refuses them.
    #[arg(long)]
    webhook: bool,
    /// The licence [default: apache-2.0].
    #[arg(long, value_enum)]
    license: Option<License>,
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

/// The choices of the user, which are asked for if no flag gives them.
struct Answers {
    names: Names,
    cluster_scoped: bool,
    webhook: bool,
    license: License,
}

impl New {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        find_cargo()?;
        let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let answers = match asks {
            true => self.answers(Questions::to(std::io::stdin().lock(), std::io::stderr()))?,
            false => self.answers(Questions::<std::io::Empty, std::io::Sink>::to_nobody())?,
        };
        let folder = PathBuf::from(&answers.names.name);
        let checkout = self.path.as_deref().map(checkout).transpose()?;
        let Answers { names, cluster_scoped, webhook, license } = &answers;
        let choices = Choices {
            names,
            cluster_scoped: *cluster_scoped,
            webhook: *webhook,
            license: *license,
            checkout,
        };
        write(&folder, &choices.files())?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "created {}: a {} that becomes a ConfigMap", folder.display(), names.kind)?;
        writeln!(out, "try it: cd {} && cargo test && cargo run -- --embedded --samples", folder.display())?;
        Ok(())
    }

    /// Checks what the flags say, before anything is asked.
    fn check_flags(&self) -> anyhow::Result<()> {
        type Check = fn(&str) -> anyhow::Result<()>;
        let checks = [
            (&self.name, check_folder as Check),
            (&self.kind, names::check_kind),
            (&self.group, names::check_group),
            (&self.api_version, names::check_version),
        ];
        let given = checks.iter().filter_map(|(given, check)| Some((given.as_deref()?, check)));
        given.into_iter().try_for_each(|(given, check)| check(given))
    }

    /// Returns the choices of the user: from the flags, otherwise from the answers, otherwise the defaults.
    fn answers<I: BufRead, O: Write>(&self, mut questions: Questions<I, O>) -> anyhow::Result<Answers> {
        let checked = |check: fn(&str) -> anyhow::Result<()>| {
            move |answer: &str| check(answer).map(|()| answer.to_owned())
        };
        if self.name.is_none() && !questions.somebody_is_there() {
            return Err(refusal("the operator has no name", "evenkeel new NAME"));
        }
        self.check_flags()?;
        let name = questions.ask(self.name.clone(), "The name of the operator", "my-operator", |answer| {
            check_folder(answer).map(|()| answer.to_owned())
        })?;
        let kind = questions.ask(
            self.kind.clone(),
            "The kind of its resource",
            &names::kind_of(&name),
            checked(names::check_kind),
        )?;
        let group = questions.ask(
            self.group.clone(),
            "The API group, a domain of yours",
            "example.com",
            checked(names::check_group),
        )?;
        let version = questions.ask(
            self.api_version.clone(),
            "The API version",
            "v1",
            checked(names::check_version),
        )?;
        let names = Names::new(name, kind, group, version)?;
        let flag = |set: bool| set.then_some(true);
        Ok(Answers {
            cluster_scoped: questions.ask(
                flag(self.cluster_scoped),
                &format!("Does a {} live outside of namespaces?", names.kind),
                "no",
                yes_or_no,
            )?,
            webhook: questions.ask(flag(self.webhook), "Webhooks?", "no", yes_or_no)?,
            license: questions.ask(self.license, "The licence", "apache-2.0", |answer| {
                License::from_str(answer, true)
                    .map_err(|_| anyhow::anyhow!("`{answer}` is none of apache-2.0, mit and none"))
            })?,
            names,
        })
    }
}

/// The source of every refusal: nothing was written.
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

/// Checks the name of an operator, and that nothing has the name of its folder.
fn check_folder(name: &str) -> anyhow::Result<()> {
    names::check_name(name)?;
    if Path::new(name).symlink_metadata().is_ok() {
        return Err(refusal(format!("{name} already exists"), "choose another name or another folder"));
    }
    Ok(())
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
