//! The one door to nondeterminism.
//!
//! Everything in Evenkeel that would differ between two runs comes through an [`Env`]: wall-clock time, uids, random
//! names, jitter. Monotonic time is `tokio::time`, which a test can pause. With [`Env::seeded`] on a current-thread
//! runtime with paused time, a run is a function of its seed.
//!
//! The second thing that lives here is the [`Ledger`]: every part that holds work says so in it, and
//! [`Ledger::settled`] waits until nobody does. It lives beside the clock because both are handed to every part.
//!
//! *Invariant:* no other crate reads the OS clock or OS randomness (`clippy.toml` forbids it).

mod clock;
mod hash;
mod ledger;
mod random;
mod settings;

pub use clock::{EPOCH, time_is_paused};
pub use hash::{HashMap, HashSet, Hashes};
pub use ledger::{Deadline, Ledger, Pending, Station, Tally, Turns, Unsettled, Work};
pub use settings::{SettingError, flag, setting};

use std::sync::Arc;

use clock::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use random::Random;

/// Clock, randomness and ledger of one world: a process on a real cluster, or one embedded cluster.
///
/// Cloning is cheap and shares the same world.
///
/// ```
/// let a = evenkeel_env::Env::seeded(7);
/// let b = evenkeel_env::Env::seeded(7);
/// assert_eq!(a.uid(), b.uid());
/// ```
#[derive(Clone, Debug)]
pub struct Env {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// How far the wall clock was moved.
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

    /// A world that is a function of `seed`: its wall clock starts at [`EPOCH`] and moves with `tokio::time`.
    pub fn seeded(seed: u64) -> Self {
        Self::with(Clock::virtual_from_now(), Random::seeded(seed), Some(seed))
    }

    fn with(clock: Clock, random: Random, seed: Option<u64>) -> Self {
        hash::note_world(seed.is_some());
        Self {
            shared: Arc::new(Shared { clock, shift: Mutex::default(), random, ledger: Ledger::new(), seed }),
        }
    }

    /// The seed, where this world has one.
    pub fn seed(&self) -> Option<u64> {
        self.shared.seed
    }

    /// Wall-clock time.
    pub fn now(&self) -> Timestamp {
        let shift = *self.shared.shift.lock();
        self.shared.clock.now().saturating_add(shift).unwrap_or(Timestamp::MAX)
    }

    /// Moves the wall clock of this world forward or back, as an administrator or a time server does. What
    /// `tokio::time` counts goes on as before.
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
        let mut shift = self.shared.shift.lock();
        *shift = shift.saturating_add(by);
    }

    /// A fresh version 4 UUID in its text form.
    pub fn uid(&self) -> String {
        random::uuid_text(self.random_u128())
    }

    /// A random suffix of `len` characters in the alphabet Kubernetes uses for generated names.
    pub fn suffix(&self, len: usize) -> String {
        self.shared.random.suffix(len)
    }

    /// The next random number.
    pub fn random_u64(&self) -> u64 {
        self.shared.random.next_u64()
    }

    /// A random number below `bound`; zero where `bound` is zero.
    pub fn random_below(&self, bound: u64) -> u64 {
        self.shared.random.below(bound)
    }

    /// A random fraction in `[0, 1)`.
    pub fn random_fraction(&self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.random_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `bytes` with randomness that is fit for secrets in the real world.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.shared.random.fill(bytes);
    }

    /// The ledger of pending work of this world.
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
