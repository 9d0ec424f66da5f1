//! When a node looks at a pod again.

use std::time::Duration;

/// A look at least this far away counts as upkeep: a test that waits for rest does not wait for it. It equals the limit
/// of `settled()`.
const LONG: Duration = Duration::from_secs(60);

/// The next looks at a pod: one as work, for which `settled()` waits, and one as upkeep, for which it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wakes {
    pub(crate) work: Option<Duration>,
    pub(crate) upkeep: Option<Duration>,
}

impl Wakes {
    /// Schedules a look after this time, as work unless the time is long.
    pub(crate) fn add(&mut self, after: Duration) {
        if after >= LONG {
            self.add_upkeep(after);
        } else {
            self.work = Some(self.work.map_or(after, |known| known.min(after)));
        }
    }

    /// Schedules a look after this time, as upkeep.
    pub(crate) fn add_upkeep(&mut self, after: Duration) {
        self.upkeep = Some(self.upkeep.map_or(after, |known| known.min(after)));
    }
}
