//! `evenkeel record`, `why`, `top` and `loops`: show what an operator did recently, and why.

mod operator;
mod services;
mod source;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use evenkeel::kube::Client;
use evenkeel_dashboard::Feed;
use evenkeel_dashboard::evidence::{self, Found};
use evenkeel_record::questions::{self, Activity};
use evenkeel_record::{Entry, Key, Record, duration};

use futures::StreamExt as _;

use crate::hint::Hinted;
pub(crate) use services::token;
pub(crate) use source::{SourceFlags, kube, read};

/// Print what an operator did recently, one line for each step, or save it to a file.
#[derive(Debug, Args)]
pub(crate) struct RecordCommand {
    /// Write the record as JSON to this file instead, for `evenkeel open`, or for --record of the other commands.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Go on and print what is new, until Ctrl-C.
    #[arg(long, conflicts_with_all = ["save", "record"])]
    follow: bool,
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

/// Print what each controller did, and which keys are reconciled most often, most slowly, with most failures, and not for
/// long.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// How many keys to print.
    #[arg(long, value_name = "N", default_value_t = 10)]
    most: usize,
    /// Print the keys whose last reconcile ended longer ago than this many minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    quiet_for: u64,
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
        if self.follow {
            return run(follow(&self.source));
        }
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
            let kube = self.source.kube().await;
            let client = kube.as_ref().map(|kube| kube.client.clone());
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
                // The objects alone explain much, if no operator gives its record.
                false => self.source.record().await.ok(),
            };
            let asked = match &client {
                Ok(client) => Asked::find(client, key).await?,
                // A saved record is enough to answer without a cluster.
                Err(_) if record.is_some() => Asked { key, resource: None, found: Found::default() },
                Err(error) => return Err(anyhow::anyhow!("{error:#}")),
            };
            print(&answer(&asked, record.as_ref()))
        })
    }
}

/// An object that is to be explained, and what the cluster knows about it.
struct Asked {
    key: Key,
    /// The plural of the object's kind.
    resource: Option<String>,
    found: Found,
}

impl Asked {
    async fn find(client: &Client, key: Key) -> anyhow::Result<Self> {
        let kinds = evidence::kinds(client).await?;
        let Some(kind) = evidence::called(&kinds, &key.kind) else {
            return Ok(Self { key, resource: None, found: Found::default() });
        };
        let key = evidence::canonical(&key, kind);
        let found = evidence::find(client, &kinds, kind, &key).await?;
        Ok(Self { key, resource: Some(kind.resource.plural.clone()), found })
    }
}

/// Prints the record of an operator, and then what is new in it.
async fn follow(source: &SourceFlags) -> anyhow::Result<()> {
    let operators = source.operators().await?;
    let mut news = futures::stream::select_all(operators.iter().map(|operator| operator.follow()));
    while let Some(record) = news.next().await {
        let lines = record.timeline();
        if !lines.is_empty() {
            print(&lines.join("\n"))?;
        }
    }
    anyhow::bail!(Hinted::new(
        "no operator can be followed any more",
        "is it running? `evenkeel record` says why not"
    ))
}

/// Returns the reason, followed by the object's history.
fn answer(asked: &Asked, record: Option<&Record>) -> String {
    let Asked { key, resource, found } = asked;
    let mut text = format!("{key}: {}", found.why(key, record).line);
    let Some(record) = record else { return text };
    let life: Vec<Entry> = questions::life(record, key, resource.as_deref()).into_iter().cloned().collect();
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
        print(&top(&record, self.most, self.quiet_for))
    }
}

fn top(record: &Record, most: usize, quiet_minutes: u64) -> String {
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
    let quiet = questions::not_reconciled(record, quiet_minutes.saturating_mul(MINUTE));
    if !quiet.is_empty() {
        lines.push(String::new());
        lines.push(format!("{:<28} {:<36} {:>9}", "NOT FOR LONG", "KEY", "ENDED AGO"));
    }
    let not_for_long = quiet.iter().take(most);
    lines.extend(
        not_for_long.map(|it| format!("{:<28} {:<36} {:>9}", it.controller, it.key, duration(it.since))),
    );
    for stuck in questions::stuck(record) {
        lines.push(format!(
            "stuck: {} {} after {} failures: {}",
            stuck.controller, stuck.key, stuck.failures, stuck.error
        ));
    }
    lines.join("\n")
}

/// The number of microseconds in a minute.
const MINUTE: u64 = 60 * 1_000_000;

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

#[cfg(test)]
mod tests {
    use evenkeel_record::Reconcile;

    use super::*;

    #[test]
    fn top_names_the_keys_that_were_not_reconciled_for_long() {
        let reconcile = |name: &str, minute: u64| {
            let (controller, name) = ("site".to_owned(), name.to_owned());
            Entry::Reconcile(Box::new(Reconcile {
                controller,
                name,
                at: minute * MINUTE,
                ..Reconcile::default()
            }))
        };
        let entries = vec![reconcile("a", 0), reconcile("b", 10), reconcile("c", 119)];
        let record = Record { entries, taken: 120 * MINUTE, ..Record::default() };
        let quiet = |most, minutes| {
            let text = top(&record, most, minutes);
            let (_, quiet) = text.split_once("NOT FOR LONG")?;
            Some(quiet.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect::<String>())
        };
        assert_eq!(quiet(10, 60).as_deref(), Some("ab"));
        assert_eq!(quiet(1, 60).as_deref(), Some("a"));
        assert_eq!(quiet(10, 120), None);
    }
}
