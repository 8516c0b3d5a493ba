//! Closed sets of words that stand for values.

use crate::error::{JetError, Result};

/// Returns the value of `word`. The error names argument `what` and lists the known words.
pub fn choose<T: Copy>(what: &str, word: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        JetError::Value(format!("{what} must be one of {}, not {word:?}", words.join(", ")))
    })
}
