//! A range of numbers, each of which is allocated at most once.

use std::collections::BTreeSet;

use evenkeel_env::Env;

/// How many random numbers are tried before the range is searched in order.
const GUESSES: usize = 32;

/// A range of numbers with its allocations: the cluster IPs or the node ports of services.
#[derive(Debug)]
pub(super) struct Pool {
    first: u32,
    count: u32,
    /// The allocated numbers. Services that were stored earlier may have numbers outside of the range.
    taken: BTreeSet<u32>,
}

impl Pool {
    /// Creates a pool of `count` free numbers, beginning with `first`.
    pub(super) fn new(first: u32, count: u32) -> Self {
        Self { first, count, taken: BTreeSet::new() }
    }

    /// Whether a number is in the range.
    pub(super) fn contains(&self, number: u32) -> bool {
        (self.first..self.first + self.count).contains(&number)
    }

    /// Allocates a number; `false` if it was already allocated.
    pub(super) fn take(&mut self, number: u32) -> bool {
        self.taken.insert(number)
    }

    /// Allocates a free number: a random one, or the first free one if the range is nearly full.
    pub(super) fn take_free(&mut self, env: &Env) -> Result<u32, &'static str> {
        let guesses = (0..GUESSES).map(|_| self.first + env.random_below(u64::from(self.count)) as u32);
        let mut guesses = guesses.filter(|it| !self.taken.contains(it));
        let in_order = || (self.first..self.first + self.count).find(|it| !self.taken.contains(it));
        let free = guesses.next().or_else(in_order).ok_or("range is full")?;
        self.taken.insert(free);
        Ok(free)
    }

    /// Releases a number.
    pub(super) fn release(&mut self, number: u32) {
        self.taken.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_given_out_once() {
        let (mut pool, env) = (Pool::new(10, 40), Env::seeded(1));
        let mut given: Vec<u32> = (0..40).map(|_| pool.take_free(&env).unwrap()).collect();
        given.sort_unstable();
        assert_eq!(given, (10..50).collect::<Vec<_>>());
        assert_eq!(pool.take_free(&env), Err("range is full"));
        pool.release(17);
        assert_eq!(pool.take_free(&env), Ok(17));
        assert!(!pool.take(17) && !pool.contains(50));
    }
}
