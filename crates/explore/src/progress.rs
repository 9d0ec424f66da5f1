//! The progress bar of an exploration, on a terminal.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The width of the bar, in characters.
const WIDTH: usize = 30;

/// Shows how many plans have been played, if the standard error is a terminal.
pub(crate) struct Progress<'a> {
    name: &'a str,
    plans: usize,
    played: AtomicUsize,
    shows: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(name: &'a str, plans: usize) -> Self {
        Self { name, plans, played: AtomicUsize::new(0), shows: stderr().is_terminal() }
    }

    /// Counts one more plan as played.
    pub(crate) fn step(&self) {
        let played = self.played.fetch_add(1, Ordering::SeqCst) + 1;
        if self.shows {
            // Failing to draw the bar must not stop the exploration.
            let _ = stderr().write_all(format!("\r{}", self.line(played)).as_bytes());
        }
    }

    fn line(&self, played: usize) -> String {
        let done = (played * WIDTH).checked_div(self.plans).unwrap_or(WIDTH);
        let bar: String = (0..WIDTH).map(|at| if at < done { '=' } else { ' ' }).collect();
        format!("{} [{bar}] {played}/{} plans", self.name, self.plans)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.shows {
            let _ = stderr().write_all(b"\r\x1b[2K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let progress = Progress { name: "a_life", plans: 60, played: AtomicUsize::new(0), shows: false };
        assert_eq!(progress.line(0), format!("a_life [{}] 0/60 plans", " ".repeat(30)));
        assert_eq!(progress.line(60), format!("a_life [{}] 60/60 plans", "=".repeat(30)));
        progress.step();
        assert_eq!(progress.played.load(Ordering::SeqCst), 1);
    }
}
