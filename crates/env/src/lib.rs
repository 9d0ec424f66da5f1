//! The one source of nondeterminism, and the ledger of pending work.
//!
//! Everything in Evenkeel that would differ between two runs comes through an [`Env`]: wall-clock time, uids, random
//! names, jitter. Monotonic time is `tokio::time`, which a test can pause. With [`Env::seeded`] on a current-thread
//! runtime with paused time, a run is a function of its seed.
//!
//! An [`Env`] also carries the [`Ledger`]: every part that has work enters it there, and [`Ledger::settled`] waits until
//! no work is left. Clock and ledger are in one crate because both are passed to every part.
//!
//! *Invariant:* no other crate reads the OS clock or OS randomness (`clippy.toml` forbids it).

mod clock;
mod footprint;
mod hash;
mod ledger;
mod random;
mod settings;

pub use clock::{EPOCH, Stopwatch, time_is_paused};
pub use footprint::Footprint;
pub use hash::{HashMap, HashSet, Hashes};
pub use ledger::{Deadline, Ledger, Pending, Purpose, Station, Tally, Turns, Unsettled, Work};
pub use settings::{SettingError, flag, setting};

use std::sync::Arc;

use clock::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use random::Random;

/// Clock, randomness and ledger of one world: a process on a real cluster, or one embedded cluster.
///
/// Cloning is cheap. Clones belong to the same world.
///
/// ```
/// let a = evenkeel_env::Env::seeded(7);
/// let b = evenkeel_env::Env::seeded(7);
/// assert_eq!(a.uid(), b.uid());
/// ```
#[derive(Clone, Debug)]
pub struct Env {
    shared: Arc<Shared>,
    /// How far the clock of one process is ahead of that of its world, if it has a clock of its own.
    skew: Option<Arc<Mutex<SignedDuration>>>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// How far [`Env::shift_clock`] has moved the wall clock.
    shift: Mutex<SignedDuration>,
    random: Random,
    ledger: Ledger,
    seed: Option<u64>,
}

impl Env {
    /// The real world: the OS clock and OS randomness.
    pub fn system() -> Self {
        Self::with(Clock::System, Random::system(), None)
    }

    /// A world that is a function of `seed`. Its wall clock starts at [`EPOCH`] and moves with `tokio::time`.
    pub fn seeded(seed: u64) -> Self {
        Self::with(Clock::virtual_from_now(), Random::seeded(seed), Some(seed))
    }

    fn with(clock: Clock, random: Random, seed: Option<u64>) -> Self {
        hash::note_world(seed.is_some());
        Self {
            shared: Arc::new(Shared { clock, shift: Mutex::default(), random, ledger: Ledger::new(), seed }),
            skew: None,
        }
    }

    /// Returns the seed, if this world has one.
    pub fn seed(&self) -> Option<u64> {
        self.shared.seed
    }

    /// Returns the wall-clock time.
    pub fn now(&self) -> Timestamp {
        let skew = self.skew.as_ref().map_or(SignedDuration::ZERO, |skew| *skew.lock());
        let shift = self.shared.shift.lock().saturating_add(skew);
        self.shared.clock.now().saturating_add(shift).unwrap_or(Timestamp::MAX)
    }

    /// Returns this world as seen by a process with a wall clock of its own: [`Env::shift_clock`] of the result moves the clock
    /// of the result and its clones, and not that of the world.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// use jiff::SignedDuration;
    ///
    /// let world = evenkeel_env::Env::seeded(1);
    /// let process = world.with_own_clock();
    /// process.shift_clock(SignedDuration::from_hours(1));
    /// assert_eq!(process.now().duration_since(world.now()), SignedDuration::from_hours(1));
    /// # });
    /// ```
    pub fn with_own_clock(&self) -> Self {
        let skew = self.skew.as_ref().map_or(SignedDuration::ZERO, |skew| *skew.lock());
        Self { shared: self.shared.clone(), skew: Some(Arc::new(Mutex::new(skew))) }
    }

    /// Moves the wall clock of this world, or of this process if it has [its own](Env::with_own_clock), forward or back, as
    /// an administrator or a time server does. Monotonic time (`tokio::time`) does not change.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// use jiff::SignedDuration;
    ///
    /// let env = evenkeel_env::Env::seeded(1);
    /// let before = env.now();
    /// env.shift_clock(SignedDuration::from_hours(-1));
    /// assert_eq!(before.duration_since(env.now()), SignedDuration::from_hours(1));
    /// # });
    /// ```
    pub fn shift_clock(&self, by: SignedDuration) {
        let mut shift = self.skew.as_deref().unwrap_or(&self.shared.shift).lock();
        *shift = shift.saturating_add(by);
    }

    /// Returns a new version 4 UUID as text.
    pub fn uid(&self) -> String {
        random::uuid_text(self.random_u128())
    }

    /// Returns a random suffix of `len` characters of the alphabet that Kubernetes uses for generated names.
    pub fn suffix(&self, len: usize) -> String {
        self.shared.random.suffix(len)
    }

    /// Returns the next random number.
    pub fn random_u64(&self) -> u64 {
        self.shared.random.next_u64()
    }

    /// Returns a random number below `bound`, or zero if `bound` is zero.
    pub fn random_below(&self, bound: u64) -> u64 {
        self.shared.random.below(bound)
    }

    /// Returns a random fraction in `[0, 1)`.
    pub fn random_fraction(&self) -> f64 {
        // An f64 represents integers of 53 bits exactly.
        (self.random_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `bytes` with random bytes. In [`Env::system`] they are fit for secrets.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.shared.random.fill(bytes);
    }

    /// Returns the ledger of pending work of this world.
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    fn random_u128(&self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }
}

impl Default for Env {
    fn default() -> Self {
        Self::system()
    }
}
