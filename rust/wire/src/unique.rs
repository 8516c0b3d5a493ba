//! Random unique names.

use base::error::{JetError, Result};

const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Digits of 128 bits in base 62.
const ID_LENGTH: usize = 22;
/// Digits of 71 bits in base 62.
const SHORT_ID_LENGTH: usize = 12;

/// Returns 22 random letters and digits.
///
/// They are from the operating system, because a generator in this process would repeat its numbers in a forked
/// process.
pub fn id() -> Result<String> {
    digits(ID_LENGTH)
}

/// Returns 12 random letters and digits (71 bits), for subjects that every message carries.
pub fn short_id() -> Result<String> {
    digits(SHORT_ID_LENGTH)
}

fn digits(length: usize) -> Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|err| JetError::Internal(format!("no random numbers: {err}")))?;
    let mut number = u128::from_le_bytes(random);
    let digits = (0..length).map(|_| {
        let digit = BASE_62[(number % 62) as usize];
        number /= 62;
        char::from(digit)
    });
    Ok(digits.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_alphanumeric() {
        let ids: HashSet<_> = (0..10_000).map(|_| super::id().unwrap()).collect();
        assert_eq!(ids.len(), 10_000);
        let short: HashSet<_> = (0..10_000).map(|_| super::short_id().unwrap()).collect();
        assert!(short.len() == 10_000 && short.iter().all(|id| id.len() == 12));
        assert!(ids.iter().all(|id| id.len() == 22 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    }
}
