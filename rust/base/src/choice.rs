//! Words that stand for values.

use crate::error::{JetError, Result};

/// The value that `word` stands for; the error of argument `what` lists the words there are.
pub fn choose<T: Copy>(what: &str, word: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        JetError::Value(format!("{what} must be one of {}, not {word:?}", words.join(", ")))
    })
}
