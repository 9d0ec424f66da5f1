//! The output of the demo: lines, and below them progress bars if it is a terminal.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::story::Line;

/// How often the progress bars are redrawn.
const TICK: Duration = Duration::from_millis(100);
/// The name of the progress bar for everything that is not an operator's.
const CLUSTER: &str = "cluster";

/// The output of the demo.
pub(super) enum Screen {
    /// A file or a pipe: lines only.
    Plain,
    /// A terminal: lines, and below them a progress bar for each operator.
    Live(Box<Live>),
}

/// The progress bars of a terminal.
pub(super) struct Live {
    all: MultiProgress,
    /// The progress bars by operator, and one for the cluster.
    progress: BTreeMap<&'static str, Progress>,
    colours: bool,
}

struct Progress {
    bar: ProgressBar,
    /// How often each step was observed, in the order in which the steps first occurred.
    passed: Mutex<Vec<(&'static str, usize)>>,
}

impl Screen {
    /// A screen on stdout.
    pub(super) fn new(operators: &[&'static str]) -> Self {
        let out = std::io::stdout();
        if !out.is_terminal() {
            return Self::Plain;
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let progress =
            operators.iter().copied().chain([CLUSTER]).map(|name| (name, Progress::new(&all, name)));
        Self::Live(Box::new(Live { progress: progress.collect(), all, colours: crate::colours(&out) }))
    }

    /// Prints a text.
    pub(super) fn say(&self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Plain => {
                let mut out = std::io::stdout().lock();
                writeln!(out, "{text}")?;
                out.flush()?;
            }
            Self::Live(live) => live.all.println(text)?,
        }
        Ok(())
    }

    /// Prints a line about a step, and counts the step in its progress bar.
    pub(super) fn tell(&self, line: &Line) -> anyhow::Result<()> {
        let Self::Live(live) = self else { return self.say(&line.to_string()) };
        if let Some(progress) = live.progress.get(&*line.by).or_else(|| live.progress.get(CLUSTER)) {
            progress.pass(line);
        }
        // A line that is wrapped by the terminal would displace the progress bars.
        let (_, width) = console::Term::stdout().size();
        let shown = console::truncate_str(&line.to_string(), usize::from(width), "…").into_owned();
        let coloured = format!("\u{1b}[{}m{:<9}\u{1b}[0m", colour(line.station), line.station);
        let padded = format!("{:<9}", line.station);
        self.say(&if live.colours { shown.replacen(&padded, &coloured, 1) } else { shown })
    }

    /// Removes the progress bars. Printed lines stay.
    pub(super) fn clear(&self) {
        if let Self::Live(live) = self {
            live.progress.values().for_each(|progress| progress.bar.finish_and_clear());
        }
    }
}

impl Progress {
    fn new(all: &MultiProgress, name: &'static str) -> Self {
        let bar = all.add(ProgressBar::new_spinner());
        let style = ProgressStyle::with_template("{spinner} {prefix:<24} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_prefix(name);
        bar.enable_steady_tick(TICK);
        Self { bar, passed: Mutex::default() }
    }

    fn pass(&self, line: &Line) {
        // The counts stay valid even if another thread has panicked.
        let mut passed = self.passed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match passed.iter_mut().find(|(station, _)| *station == line.station) {
            Some((_, times)) => *times += 1,
            None => passed.push((line.station, 1)),
        }
        let counts: Vec<String> =
            passed.iter().map(|(station, times)| format!("{station} {times}")).collect();
        self.bar.set_message(counts.join("  "));
    }
}

/// The ANSI colour code of a step.
fn colour(station: &str) -> u8 {
    match station {
        "accepted" => 36,
        "woken" => 33,
        "applied" | "status" | "finalizer" => 34,
        "ready" => 32,
        "deleted" | "collected" | "stopped" => 35,
        "failed" => 31,
        _ => 37,
    }
}
