//! When a node looks at a pod again.

use std::time::Duration;

/// A look that is this far away or farther is upkeep: a test that waits for rest does not wait for it. The limit of
/// `settled()` is this long.
const LONG: Duration = Duration::from_secs(60);

/// The next looks at a pod: as work, for which `settled()` waits, and as upkeep, for which it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wakes {
    pub(crate) work: Option<Duration>,
    pub(crate) upkeep: Option<Duration>,
}

impl Wakes {
    /// Looks again after this time, as work unless that is long.
    pub(crate) fn add(&mut self, after: Duration) {
        if after >= LONG {
            self.add_upkeep(after);
        } else {
            self.work = Some(self.work.map_or(after, |known| known.min(after)));
        }
    }

    /// Looks again after this time, as upkeep.
    pub(crate) fn add_upkeep(&mut self, after: Duration) {
        self.upkeep = Some(self.upkeep.map_or(after, |known| known.min(after)));
    }
}
