//! Randomness: the operating system's, or a stream that is a function of its seed.

use parking_lot::Mutex;

/// The characters of generated names: no vowels and no digits that look like letters, so that no words appear.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

#[derive(Debug)]
pub(crate) enum Random {
    System,
    Seeded(Mutex<fastrand::Rng>),
}

impl Random {
    pub(crate) fn system() -> Self {
        Self::System
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        match self {
            Self::System => getrandom::fill(bytes).expect("the operating system gives randomness"),
            Self::Seeded(rng) => rng.lock().fill(bytes),
        }
    }

    pub(crate) fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Multiply-shift: its bias, below 2⁻⁶⁴ · bound, does not matter for names and jitter.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn suffix(&self, len: usize) -> String {
        (0..len).map(|_| ALPHABET[self.below(ALPHABET.len() as u64) as usize] as char).collect()
    }
}

/// The text form of a version 4 UUID made of these random bits.
pub(crate) fn uuid_text(bits: u128) -> String {
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
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
    fn a_bound_holds() {
        let random = Random::seeded(1);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }
}
