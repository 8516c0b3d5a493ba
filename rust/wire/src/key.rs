//! Keys of key-value buckets.

/// True for a valid key: tokens of letters, digits, `-`, `/`, `_` and `=`, separated by dots (ADR-8).
pub fn is_valid(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/' | b'_' | b'=');
    key.split('.').all(|token| !token.is_empty() && token.bytes().all(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_characters_are_validated() {
        for good in ["a", "a.b", "A-z_0/9=", "_kv.x", "a/b.c=d"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", ".", ".a", "a.", "a..b", "a b", "a\n", "a*", "a.>", "é", "a:b", "a\0"] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }
}
