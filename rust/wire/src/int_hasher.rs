//! Tables by numbers that nobody outside chooses: counted, or hashes already.

use std::hash::{BuildHasherDefault, Hasher};

pub type BuildIntHasher = BuildHasherDefault<IntHasher>;

/// Spreads a number over all bits, of which tables look at the highest and the lowest.
#[derive(Default)]
pub struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        // Odd, so that no two numbers become one: 2^64 by the golden ratio.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
