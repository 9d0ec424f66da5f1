//! Where the story is shown: progress lines on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::story::Line;

/// How often the progress lines turn.
const TICK: Duration = Duration::from_millis(100);
/// The progress line of all that is not an operator's.
const CLUSTER: &str = "cluster";

/// What the user looks at.
pub(super) enum Screen {
    /// A file or a pipe: one line after the other.
    Plain,
    /// A terminal: the same lines, and below them how far each operator is.
    Live(Box<Live>),
}

/// The progress lines of a terminal.
pub(super) struct Live {
    all: MultiProgress,
    /// By operator, and one for the cluster.
    progress: BTreeMap<&'static str, Progress>,
    colours: bool,
}

struct Progress {
    bar: ProgressBar,
    /// How often each station was passed, in the order in which they were first passed.
    passed: Mutex<Vec<(&'static str, usize)>>,
}

impl Screen {
    /// The screen that stdout is.
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

    /// Shows a text of the demo's own.
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

    /// Shows a line of the story.
    pub(super) fn tell(&self, line: &Line) -> anyhow::Result<()> {
        let Self::Live(live) = self else { return self.say(&line.to_string()) };
        if let Some(progress) = live.progress.get(&*line.by).or_else(|| live.progress.get(CLUSTER)) {
            progress.pass(line);
        }
        // A line that the terminal wraps would push the progress lines out of their place.
        let (_, width) = console::Term::stdout().size();
        let shown = console::truncate_str(&line.to_string(), usize::from(width), "…").into_owned();
        let coloured = format!("\u{1b}[{}m{:<9}\u{1b}[0m", colour(line.station), line.station);
        let padded = format!("{:<9}", line.station);
        self.say(&if live.colours { shown.replacen(&padded, &coloured, 1) } else { shown })
    }

    /// Takes the progress lines away; what was said stays.
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
        // A panic of another thread leaves counts that are as good as any.
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

/// The colour of a station, as terminals number them.
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
