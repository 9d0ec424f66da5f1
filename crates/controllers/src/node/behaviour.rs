//! What a container does on a simulated node, in one vocabulary for annotations, rules and the test kit.
//!
//! By default, a container does what its spec says, as far as a simulated node understands it. Words change that. Each
//! word has a value, and the same words can be set in three places:
//!
//! - as an *annotation* of the pod: `node.evenkeel.dev/WORD` for all containers of the pod, or
//!   `node.evenkeel.dev/WORD.CONTAINER` for one of them;
//! - as a *rule* over image, labels, namespace and container name ([`Rule`](super::rules::Rule)), from the file of
//!   `evenkeel up --pod-rules` or from a test;
//! - as a method of [`Behaviour`], which a test gives to a rule.
//!
//! | word | value | what the container does |
//! |---|---|---|
//! | `pull` | `fail`, `fail:N`, `ok` | its image cannot be pulled; the first N times only; or it can |
//! | `start-after` | a duration, `never` | how long it takes until it runs: 50 ms unless set |
//! | `exit-code` | `0` to `255`, `run`, or a list such as `1,1,0` | it exits with this code after `run-for`; a list has one item for each run, and its last item counts for all further runs; with `run` it does not exit |
//! | `run-for` | a duration | how long a run lasts: 500 ms unless set; without `exit-code`, it then exits with code 0 |
//! | `exit-reason` | text, such as `OOMKilled` | the reason of its end in the status: `Completed` or `Error` unless set |
//! | `exit-message` | text | its termination message |
//! | `ready-after` | a duration, `never` | when it becomes ready after its start: with its first successful readiness probe unless set |
//! | `fail-readiness` | a duration | its readiness probe fails from this time after its start on |
//! | `fail-liveness` | a duration | its liveness probe fails from this time after its start on, and the node restarts it |
//! | `fail-startup` | a duration | its startup probe fails from its start on, for at least this time |
//! | `stop-after` | a duration, `never` | how long it takes to end after it was told to stop: 50 ms unless set. The node kills it at the end of the grace period |
//! | `log` | lines of text | what it prints in each run. A line that begins with `@DURATION ` is printed that long after the start, others with the line before |
//! | `behaviour` | a name below | several words at once |
//!
//! A duration is a number with a unit: `250ms`, `5s`, `2m`, `1h`. The names for `behaviour`:
//!
//! | name | stands for |
//! |---|---|
//! | `crash-loop` | `exit-code: 1`, `run-for: 50ms` |
//! | `fail`, `succeed` | `exit-code: 1`, `exit-code: 0` |
//! | `never-ready` | `ready-after: never` |
//! | `never-start` | `start-after: never` |
//! | `image-pull-error` | `pull: fail` |
//!
//! *Precedence:* words precede commands. An annotation for the container precedes one for the pod, and any annotation precedes any rule. If
//! several rules match, the one added last applies. Words are independent of each other: a rule may set the exit code,
//! and an annotation the log. A value that is invalid for its word is ignored, and the pod gets a warning event
//! `InvalidBehaviour`.
//!
//! *Without words* a container starts after 50 ms, and its probes succeed: it is ready at once, or after the
//! `initialDelaySeconds` of its startup and readiness probes. An init container exits with code 0. A container
//! of a pod with the restart policy `Always`, a sidecar and a debug container run until they are stopped; so does the
//! image `pause`, and `agnhost` without arguments. A container of a pod with another restart policy exits with code 0 after 500 ms, so that the pods of a
//! Job succeed.
//!
//! *Commands:* a container whose command the node understands does what the command says: it prints, writes files, takes
//! its time and exits. The node understands `sh -c SCRIPT` (and `bash`, `ash`, `dash`), and these programs without a shell:
//! `true`, `false`, `sleep`, `echo`, `cat`, `touch`, `rm`, `test`, `expr`, `seq`, `date`, `hostname` and `tail -f /dev/null`.
//! `mkdir`, `chmod`, `chown` and `wait` succeed and do nothing. `trap … TERM` says what happens when the container is told
//! to stop. Of the shell's language it understands:
//!
//! - `;`, `&&`, `||`, `!`, `{ …; }`, `if`, `while`, `until`, `for`, functions, `exit`, `exec`, `return`, `break`, `continue`,
//!   `set -e`, comments and quotes
//! - variables, also those of `env` with a value or a `fieldRef`, `$?`, `${NAME:-DEFAULT}`, `$(…)`, `$((…))`, `$RANDOM`
//! - `>` and `>>` to files, `2>&1`, `2>/dev/null`; a termination message in its file
//! - files in an `emptyDir`, which belong to the pod, in a `hostPath`, which belong to the node, and in the container itself,
//!   which end with its run. A script finds what others have written before it started.
//!
//! There are no pipes, no background and no other programs. If a script comes to something that is not understood, the
//! container does what it would do without a command. A loop without end runs until it is stopped, and so does a script that
//! takes too much. There are bounds for what the containers of a pod compute together, for what is in the volumes of a pod,
//! of a node and of the cluster, and for all lines that are printed; lines for which there is no room are lost.
//!
//! *How runs are counted for a list:* within one container of one pod. For a pod of a Job, the runs of all pods of that
//! Job count (for an indexed Job, of that index), so that `exit-code: 1,1,0` makes a Job fail twice and then succeed.
//!
//! *Time:* the restart of a crashed container is *upkeep*: a test's `settled()` does not wait for it. It also does not
//! wait for an exit or a probe failure that is a minute or more away.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::bounds::Printed;

/// How long containers take to start: long enough that a watch shows each state, short enough for a demonstration in
/// real time.
pub(crate) const START: Duration = Duration::from_millis(50);

/// How long containers run before they exit.
pub(crate) const RUN: Duration = Duration::from_millis(500);

/// How many lines of one run are kept: of a word `log` the first ones, of lines that are added later the last ones.
pub(crate) const LINES_MAX: usize = 10_000;

/// How long a container takes to stop.
pub(crate) const STOP: Duration = Duration::from_millis(50);

/// The prefix of annotations that set words.
pub(crate) const PREFIX: &str = "node.evenkeel.dev/";

/// What a container does. Anything that is not set follows from a less specific behaviour, or from the container's
/// spec.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_controllers::node::behaviour::Behaviour;
///
/// let crashes_twice = Behaviour::new().exit_codes([Some(1), Some(1), None]).log("@20ms cannot open /data");
/// assert_eq!(crashes_twice, Behaviour::from_words([("exit-code", "1,1,run"), ("log", "@20ms cannot open /data")])?);
///
/// let slow = Behaviour::new().start_after(Duration::from_secs(3)).ready_after(Duration::from_secs(20));
/// assert_eq!(slow, Behaviour::from_words([("start-after", "3s"), ("ready-after", "20s")])?);
/// # Ok::<_, evenkeel_controllers::node::behaviour::InvalidWord>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    pub(crate) pull: Option<Pull>,
    pub(crate) start_after: Option<Delay>,
    pub(crate) exit_codes: Option<Arc<[Option<i32>]>>,
    pub(crate) run_for: Option<Duration>,
    pub(crate) exit_reason: Option<String>,
    pub(crate) exit_message: Option<String>,
    pub(crate) ready_after: Option<Delay>,
    pub(crate) fail_readiness: Option<Duration>,
    pub(crate) fail_liveness: Option<Duration>,
    pub(crate) fail_startup: Option<Duration>,
    pub(crate) stop_after: Option<Delay>,
    pub(crate) log: Option<Printed>,
}

/// Whether the container's image can be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pull {
    /// The image can be pulled after this many failed attempts.
    FailsTimes(u32),
    /// The image can never be pulled.
    Fails,
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// After this time.
    After(Duration),
    /// Never.
    Never,
}

/// A line that a container prints, with its time after the container's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The time after the start of the container.
    pub after: Duration,
    /// The line, without its end.
    pub text: String,
}

/// A word or value that is not in the vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word}: {value:?} {why}")]
pub struct InvalidWord {
    word: String,
    value: String,
    why: &'static str,
}

impl Behaviour {
    /// A behaviour that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a behaviour from words with their values.
    ///
    /// # Errors
    /// Fails at the first word or value that is not in the vocabulary.
    pub fn from_words<'a>(words: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, InvalidWord> {
        let mut behaviour = Self::default();
        words.into_iter().try_for_each(|(word, value)| behaviour.set(word, value))?;
        Ok(behaviour)
    }

    /// Makes every image pull fail.
    #[must_use]
    pub fn pull_fails(mut self) -> Self {
        self.pull = Some(Pull::Fails);
        self
    }

    /// Makes the first `times` image pulls fail.
    #[must_use]
    pub fn pull_fails_times(mut self, times: u32) -> Self {
        self.pull = Some(Pull::FailsTimes(times));
        self
    }

    /// Delays the start of the container by this time.
    #[must_use]
    pub fn start_after(mut self, delay: Duration) -> Self {
        self.start_after = Some(Delay::After(delay));
        self
    }

    /// Never starts the container.
    #[must_use]
    pub fn never_starts(mut self) -> Self {
        self.start_after = Some(Delay::Never);
        self
    }

    /// Makes every run exit with this code.
    #[must_use]
    pub fn exit_code(self, code: i32) -> Self {
        self.exit_codes([Some(code)])
    }

    /// Makes each run exit with the code at its position, and further runs with the last code. A run with `None` does
    /// not exit.
    #[must_use]
    pub fn exit_codes(mut self, codes: impl IntoIterator<Item = Option<i32>>) -> Self {
        self.exit_codes = Some(codes.into_iter().collect());
        self
    }

    /// Makes each run last this long.
    #[must_use]
    pub fn run_for(mut self, length: Duration) -> Self {
        self.run_for = Some(length);
        self
    }

    /// Sets the reason in the terminated status, such as `OOMKilled`.
    #[must_use]
    pub fn exit_reason(mut self, reason: impl Into<String>) -> Self {
        self.exit_reason = Some(reason.into());
        self
    }

    /// Sets the termination message.
    #[must_use]
    pub fn exit_message(mut self, message: impl Into<String>) -> Self {
        self.exit_message = Some(message.into());
        self
    }

    /// Makes the container ready this long after its start.
    #[must_use]
    pub fn ready_after(mut self, delay: Duration) -> Self {
        self.ready_after = Some(Delay::After(delay));
        self
    }

    /// Never makes the container ready.
    #[must_use]
    pub fn never_ready(mut self) -> Self {
        self.ready_after = Some(Delay::Never);
        self
    }

    /// Makes the readiness probe fail from this time after the start on.
    #[must_use]
    pub fn fail_readiness(mut self, after: Duration) -> Self {
        self.fail_readiness = Some(after);
        self
    }

    /// Makes the liveness probe fail from this time after the start on.
    #[must_use]
    pub fn fail_liveness(mut self, after: Duration) -> Self {
        self.fail_liveness = Some(after);
        self
    }

    /// Makes the startup probe fail for this time after the start.
    #[must_use]
    pub fn fail_startup(mut self, length: Duration) -> Self {
        self.fail_startup = Some(length);
        self
    }

    /// Makes the container end this long after it was told to stop.
    #[must_use]
    pub fn stop_after(mut self, delay: Duration) -> Self {
        self.stop_after = Some(Delay::After(delay));
        self
    }

    /// Makes the container print these lines in each run, in the format of the word `log`.
    #[must_use]
    pub fn log(mut self, lines: &str) -> Self {
        self.log = Some(log_lines(lines));
        self
    }

    /// Sets one word.
    ///
    /// # Errors
    /// Fails if the word or its value is not in the vocabulary.
    pub fn set(&mut self, word: &str, value: &str) -> Result<(), InvalidWord> {
        let invalid = |why: &'static str| InvalidWord { word: word.to_owned(), value: value.to_owned(), why };
        let length =
            || duration(value).ok_or_else(|| invalid("is not a duration such as 250ms, 5s, 2m or 1h"));
        let delay = || match value {
            "never" => Ok(Delay::Never),
            _ => length().map(Delay::After),
        };
        match word {
            "behaviour" => return self.set_named(value).ok_or_else(|| invalid("is not a known behaviour")),
            "pull" => self.pull = Some(pull(value).ok_or_else(|| invalid("is not ok, fail or fail:N"))?),
            "start-after" => self.start_after = Some(delay()?),
            "exit-code" => {
                let codes: Option<Arc<[_]>> = value.split(',').map(|code| exit_code(code.trim())).collect();
                self.exit_codes =
                    Some(codes.ok_or_else(|| invalid("is not a list of exit codes and `run`"))?);
            }
            "run-for" => self.run_for = Some(length()?),
            "exit-reason" => self.exit_reason = Some(value.to_owned()),
            "exit-message" => self.exit_message = Some(value.to_owned()),
            "ready-after" => self.ready_after = Some(delay()?),
            "fail-readiness" => self.fail_readiness = Some(length()?),
            "fail-liveness" => self.fail_liveness = Some(length()?),
            "fail-startup" => self.fail_startup = Some(length()?),
            "stop-after" => self.stop_after = Some(delay()?),
            "log" => self.log = Some(log_lines(value)),
            _ => return Err(invalid("has an unknown word")),
        }
        Ok(())
    }

    /// Sets the words that a name stands for. Returns `None` if the name is unknown.
    fn set_named(&mut self, name: &str) -> Option<()> {
        match name {
            "crash-loop" => {
                self.exit_codes = Some([Some(1)].into());
                self.run_for = Some(START);
            }
            "fail" => self.exit_codes = Some([Some(1)].into()),
            "succeed" => self.exit_codes = Some([Some(0)].into()),
            "never-ready" => self.ready_after = Some(Delay::Never),
            "never-start" => self.start_after = Some(Delay::Never),
            "image-pull-error" => self.pull = Some(Pull::Fails),
            _ => return None,
        }
        Some(())
    }

    /// Fills what this behaviour leaves unset from a less specific one.
    pub(crate) fn over(self, under: &Self) -> Self {
        macro_rules! or {
            ($($field:ident),*) => {
                Self { $($field: self.$field.or_else(|| under.$field.clone()),)* }
            };
        }
        or!(
            pull,
            start_after,
            exit_codes,
            run_for,
            exit_reason,
            exit_message,
            ready_after,
            fail_readiness,
            fail_liveness,
            fail_startup,
            stop_after,
            log
        )
    }
}

fn pull(value: &str) -> Option<Pull> {
    match value {
        "ok" => Some(Pull::FailsTimes(0)),
        "fail" => Some(Pull::Fails),
        _ => Some(Pull::FailsTimes(value.strip_prefix("fail:")?.parse().ok()?)),
    }
}

fn exit_code(text: &str) -> Option<Option<i32>> {
    match text {
        "run" => Some(None),
        _ => text.parse().ok().filter(|code| (0..=255).contains(code)).map(Some),
    }
}

fn log_lines(text: &str) -> Printed {
    let mut after = Duration::ZERO;
    let line = |line: &str| {
        let timed = line.strip_prefix('@').and_then(|line| line.split_once(' '));
        let text = match timed.and_then(|(time, text)| Some((duration(time)?, text))) {
            Some((time, text)) => {
                after = time;
                text
            }
            None => line,
        };
        LogLine { after, text: text.to_owned() }
    };
    text.lines().take(LINES_MAX).map(line).collect::<Vec<_>>().into()
}

/// Parses a number with the unit `ms`, `s`, `m` or `h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..unit].parse().ok()?;
    match &text[unit..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_values_of_their_own() {
        for (word, value) in [
            ("pull", "fail:3"),
            ("start-after", "never"),
            ("exit-code", "1, 255,run"),
            ("run-for", "2m"),
            ("ready-after", "250ms"),
            ("behaviour", "crash-loop"),
            ("log", ""),
        ] {
            assert!(Behaviour::from_words([(word, value)]).is_ok(), "{word}: {value}");
        }
        for (word, value, said) in [
            ("pull", "fail:x", "pull: \"fail:x\" is not ok, fail or fail:N"),
            ("start-after", "5 s", "start-after: \"5 s\" is not a duration such as 250ms, 5s, 2m or 1h"),
            ("exit-code", "256", "exit-code: \"256\" is not a list of exit codes and `run`"),
            ("exit-code", "", "exit-code: \"\" is not a list of exit codes and `run`"),
            ("run-for", "never", "run-for: \"never\" is not a duration such as 250ms, 5s, 2m or 1h"),
            ("behaviour", "dance", "behaviour: \"dance\" is not a known behaviour"),
            ("explode", "1", "explode: \"1\" has an unknown word"),
        ] {
            assert_eq!(Behaviour::from_words([(word, value)]).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn lines_have_times() {
        let lines = Behaviour::new().log("a\n@2s b\nc\n@x d").log.unwrap();
        let lines: Vec<_> = lines.iter().map(|line| (line.after.as_secs(), line.text.as_str())).collect();
        assert_eq!(lines, [(0, "a"), (2, "b"), (2, "c"), (2, "@x d")]);
    }

    #[test]
    fn the_more_specific_counts_word_by_word() {
        let rule = Behaviour::new().exit_code(1).run_for(Duration::from_secs(1));
        let annotation = Behaviour::new().exit_code(2);
        assert_eq!(annotation.over(&rule), Behaviour::new().exit_code(2).run_for(Duration::from_secs(1)));
    }
}
