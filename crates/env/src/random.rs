//! Randomness: that of the operating system, or a stream that is a function of its seed.

use parking_lot::Mutex;

/// The characters of generated names: no vowels and no digits that look like vowels, so that no words appear.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many bytes are read from the operating system at a time. A system call for every uid would cost more than the uid.
const POOL_BYTES: usize = 512;

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a world has one, behind a pointer")]
pub(crate) enum Random {
    System(Mutex<Pool>),
    Seeded(Mutex<fastrand::Rng>),
}

/// Random bytes of the operating system that are not used yet.
pub(crate) struct Pool {
    bytes: [u8; POOL_BYTES],
    left: usize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The unused bytes may become secrets.
        f.debug_struct("Pool").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Pool {
    fn fill(&mut self, out: &mut [u8]) {
        if out.len() > POOL_BYTES {
            return ask(out);
        }
        if self.left < out.len() {
            ask(&mut self.bytes);
            self.left = POOL_BYTES;
        }
        let taken = &mut self.bytes[self.left - out.len()..self.left];
        out.copy_from_slice(taken);
        taken.fill(0);
        self.left -= out.len();
    }
}

/// Fills `bytes` with randomness of the operating system.
#[expect(clippy::disallowed_methods, reason = "this crate is the one place that may use it")]
pub(crate) fn ask(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives randomness");
}

impl Random {
    pub(crate) fn system() -> Self {
        Self::System(Mutex::new(Pool { bytes: [0; POOL_BYTES], left: 0 }))
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        match self {
            Self::System(pool) => pool.lock().fill(bytes),
            Self::Seeded(rng) => rng.lock().fill(bytes),
        }
    }

    pub(crate) fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a number below `bound`. The bias of multiply-shift, below 2⁻⁶⁴ · bound, does not matter for names and jitter.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn suffix(&self, len: usize) -> String {
        (0..len).map(|_| ALPHABET[self.below(ALPHABET.len() as u64) as usize] as char).collect()
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Makes a version 4 UUID of random bits and returns it as text.
pub(crate) fn uuid_text(bits: u128) -> String {
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let mut text = String::with_capacity(36);
    for (at, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for half in [byte >> 4, byte & 0xf] {
            text.push(char::from(HEX[usize::from(half)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        for bits in [0, u128::MAX] {
            let text = uuid_text(bits);
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "4");
            assert!("89ab".contains(&text[19..20]));
        }
    }

    #[test]
    fn a_uuid_is_its_bits_in_hexadecimal() {
        let bits = 0x0123_4567_89ab_4def_8123_4567_89ab_cdef;
        assert_eq!(uuid_text(bits), "01234567-89ab-4def-8123-456789abcdef");
    }

    #[test]
    fn the_system_gives_nothing_twice() {
        let random = Random::system();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mut bytes = [0; 16];
            random.fill(&mut bytes);
            assert!(seen.insert(bytes));
        }
        let mut many = [0; 2 * POOL_BYTES];
        random.fill(&mut many);
        assert!(many.chunks(16).all(|it| seen.insert(it.try_into().unwrap())));
    }

    #[test]
    fn a_bound_holds() {
        let random = Random::seeded(1);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }
}
