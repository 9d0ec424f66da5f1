//! Measures elapsed time and CPU time.

use std::time::{Duration, Instant};

pub(crate) struct Meter {
    start: Instant,
    processor: Duration,
}

pub(crate) struct Spent {
    pub(crate) time: Duration,
    /// The CPU time of all threads of this process.
    pub(crate) processor: Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), processor: processor() }
    }

    pub(crate) fn read(&self) -> Spent {
        Spent { time: self.start.elapsed(), processor: processor().saturating_sub(self.processor) }
    }
}

/// The CPU time of all live threads, among them those of the runtime. In nanoseconds on Linux; zero elsewhere.
fn processor() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let nanos = threads.flatten().filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
