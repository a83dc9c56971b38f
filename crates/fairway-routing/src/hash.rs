//! The hash of names and path elements: short keys, many lookups. Seeded per process, so that clients cannot prepare
//! colliding keys. Its values must not leave the process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Makes [`FastHasher`]s with the seed of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastHashState {
    seed: u64,
}

/// Folded multiplication over chunks of eight bytes.
pub(crate) struct FastHasher {
    state: u64,
}

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;

impl Default for FastHashState {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self { seed: *SEED.get_or_init(|| RandomState::new().hash_one(FIRST)) }
    }
}

impl FastHashState {
    /// The hash of `bytes` below `parent`.
    #[inline]
    pub(crate) fn hash_below(self, parent: u32, bytes: &[u8]) -> u64 {
        let mut hasher = FastHasher { state: self.seed ^ u64::from(parent).wrapping_mul(SECOND) };
        hasher.write(bytes);
        hasher.finish()
    }
}

impl BuildHasher for FastHashState {
    type Hasher = FastHasher;

    #[inline]
    fn build_hasher(&self) -> FastHasher {
        FastHasher { state: self.seed }
    }
}

impl Hasher for FastHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.state = folded(self.state ^ u64::from_le_bytes(*chunk), FIRST);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let length = (bytes.len() as u64) << 56;
        self.state = folded(self.state ^ u64::from_le_bytes(last) ^ length, SECOND);
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.state = folded(self.state ^ u64::from(byte), FIRST);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[inline]
fn folded(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn spreads_names_that_differ_in_one_byte() {
        let state = FastHashState::default();
        let hashes: HashSet<u64> =
            (0..100_000).map(|n| state.hash_below(7, format!("host-{n}.example.com").as_bytes())).collect();
        assert_eq!(hashes.len(), 100_000);
        let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0xffff).collect();
        assert!(low.len() > 45_000, "{} of 65,536 buckets used", low.len());
    }

    #[test]
    fn length_and_parent_count() {
        let state = FastHashState::default();
        assert_ne!(state.hash_below(0, b"a"), state.hash_below(0, b"a\0"));
        assert_ne!(state.hash_below(0, b"a"), state.hash_below(1, b"a"));
        assert_ne!(state.hash_below(0, b""), state.hash_below(0, b"\0\0\0\0\0\0\0\0"));
    }
}
