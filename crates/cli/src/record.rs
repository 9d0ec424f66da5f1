//! `evenkeel record`, `why`, `top` and `loops`: show what an operator did recently, and why.

mod objects;
mod source;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use evenkeel_record::questions::{self, Activity};
use evenkeel_record::why::{Evidence, why};
use evenkeel_record::{Entry, Key, Record, duration};

use crate::hint::Hinted;
use source::SourceFlags;
pub(crate) use source::read;

/// Print what an operator did recently, one line for each step, or save it to a file.
#[derive(Debug, Args)]
pub(crate) struct RecordCommand {
    /// Write the record as JSON to this file instead, for `evenkeel open`, or for --record of the other commands.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    source: SourceFlags,
}

/// Say in one line why an object is in its current state, and print its history.
///
/// The reason comes from the record of the operator that reconciles the object, from the object itself, and from the
/// objects that it owns: for instance a reconcile loop and the field that flips, a finalizer that nobody removes, a
/// missing permission, a webhook that denies a write, or a pod that does not become ready.
#[derive(Debug, Args)]
pub(crate) struct WhyCommand {
    /// The object, such as `database/orders`.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// The namespace of the object [default: that of the kubeconfig's context].
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    source: SourceFlags,
}

/// Print what each controller did, and which keys are reconciled most often, most slowly, and with most failures.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// How many keys to print.
    #[arg(long, value_name = "N", default_value_t = 10)]
    most: usize,
    #[command(flatten)]
    source: SourceFlags,
}

/// Print the keys that trigger themselves, with the write that causes it and the fields that it changes.
#[derive(Debug, Args)]
pub(crate) struct Loops {
    #[command(flatten)]
    source: SourceFlags,
}

fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Prints text to stdout without control characters: text from a cluster could otherwise control the terminal.
fn print(text: &str) -> anyhow::Result<()> {
    let safe: String =
        text.chars().map(|it| if it.is_control() && it != '\n' { '\u{fffd}' } else { it }).collect();
    writeln!(std::io::stdout().lock(), "{safe}")?;
    Ok(())
}

impl RecordCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let record = run(self.source.record())?;
        let Some(path) = self.save else { return print(&record.timeline().join("\n")) };
        let failed =
            || Hinted::new(format!("cannot write {}", path.display()), "choose another file with --save");
        std::fs::write(&path, record.to_json()).with_context(failed)?;
        println!("saved {}: {} entries of {}", path.display(), record.entries.len(), record.name);
        Ok(())
    }
}

impl WhyCommand {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        run(async {
            let client = self.source.client().await;
            let namespace = self.namespace.clone();
            let namespace =
                namespace.or_else(|| client.as_ref().ok().map(|it| it.default_namespace().to_owned()));
            let key = Key::parse(&self.object, Some(namespace.as_deref().unwrap_or("default")));
            let wrong = || {
                Hinted::new(
                    format!("{} is not an object", self.object),
                    "name it as KIND/NAME, such as database/orders",
                )
            };
            let key = key.with_context(wrong)?;
            let record = match self.source.is_given() {
                true => Some(self.source.record().await?),
                false => None,
            };
            let found = match &client {
                Ok(client) => objects::find(client, &key).await?,
                // A saved record is enough to answer without a cluster.
                Err(_) if record.is_some() => objects::Found::none(&key),
                Err(error) => return Err(anyhow::anyhow!("{error:#}")),
            };
            print(&answer(&found.key, record.as_ref(), &found))
        })
    }
}

/// Returns the reason, followed by the object's history.
fn answer(key: &Key, record: Option<&Record>, found: &objects::Found) -> String {
    let evidence = Evidence { record, object: found.object.as_ref(), descendants: &found.descendants };
    let mut text = format!("{key}: {}", why(key, evidence).line);
    let Some(record) = record else { return text };
    let life: Vec<Entry> =
        questions::life(record, key, found.resource.as_deref()).into_iter().cloned().collect();
    let life = Record { entries: life, ..Record::default() }.timeline();
    if !life.is_empty() {
        text.push_str("\n\n");
        text.push_str(&life[life.len().saturating_sub(LIFE_LINES)..].join("\n"));
    }
    text
}

/// How many lines of an object's history are printed: about a screen.
const LIFE_LINES: usize = 40;

impl Top {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let record = run(self.source.record())?;
        print(&top(&record, self.most))
    }
}

fn top(record: &Record, most: usize) -> String {
    let mut lines = vec![format!(
        "{:<28} {:>9} {:>8} {:>7} {:>7} {:>9} {:>9} {:>9}",
        "CONTROLLER", "RECONCILES", "RATE/S", "FAILED", "RETRIES", "MEDIAN", "P99", "WAIT P99"
    )];
    lines.extend(questions::controllers(record).iter().map(|it| {
        format!(
            "{:<28} {:>9} {:>8.2} {:>7} {:>7} {:>9} {:>9} {:>9}",
            it.controller,
            it.reconciles,
            it.rate,
            it.failures,
            it.retries,
            duration(it.took[0]),
            duration(it.took[2]),
            duration(it.waited[2])
        )
    }));
    lines.push(String::new());
    lines.push(format!(
        "{:<28} {:<36} {:>9} {:>7} {:>7} {:>9}",
        "MOST FREQUENT", "KEY", "RECONCILES", "FAILED", "WRITES", "TOOK"
    ));
    lines.extend(questions::most_frequent(record, most).iter().map(frequent));
    lines.push(String::new());
    lines.push(format!("{:<28} {:<36} {:>9}  {}", "SLOWEST", "KEY", "TOOK", "BECAUSE OF"));
    lines.extend(questions::slowest(record, most).iter().map(|it| {
        format!("{:<28} {:<36} {:>9}  {}", it.controller, it.key(), duration(it.took), it.causes_text())
    }));
    for stuck in questions::stuck(record) {
        lines.push(format!(
            "stuck: {} {} after {} failures: {}",
            stuck.controller, stuck.key, stuck.failures, stuck.error
        ));
    }
    lines.join("\n")
}

fn frequent(it: &Activity) -> String {
    let Activity { controller, key, reconciles, failures, took, writes, .. } = it;
    format!("{controller:<28} {key:<36} {reconciles:>9} {failures:>7} {writes:>7} {:>9}", duration(*took))
}

impl Loops {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let record = run(self.source.record())?;
        let loops = questions::loops(&record);
        if loops.is_empty() {
            return print("no key triggers itself");
        }
        let lines: Vec<String> = loops
            .iter()
            .map(|found| {
                let key = Key {
                    kind: found.kind.clone(),
                    namespace: found.namespace.clone(),
                    name: found.name.clone(),
                };
                format!("{key}: {found}")
            })
            .collect();
        print(&lines.join("\n"))
    }
}
