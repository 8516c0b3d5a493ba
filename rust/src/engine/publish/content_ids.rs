//! Message ids made of a message's content, for rows that bring none: rows that are written again, in whatever order,
//! get their ids again. Among rows of equal content the n-th has its n in the id, so none is taken for another.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

type Build = BuildHasherDefault<AsIs>;

/// How often each row was seen, in about 16 bytes a row: 64 bits of its hash, and a count only where it came again. Two
/// rows with the same fingerprint count on together, and still have different ids.
#[derive(Default)]
struct Seen {
    rows: HashSet<u64, Build>,
    again: HashMap<u64, u32, Build>,
}

impl Seen {
    fn count(&self, fingerprint: u64) -> u32 {
        match self.rows.contains(&fingerprint) {
            true => self.again.get(&fingerprint).copied().unwrap_or(1),
            false => 0,
        }
    }

    fn set(&mut self, fingerprint: u64, count: u32) {
        self.rows.insert(fingerprint);
        if count > 1 {
            self.again.insert(fingerprint, count);
        }
    }
}

/// The ids of one task.
pub struct ContentIds {
    scope: Vec<u8>,
    seed: u64,
    new: Seen,
    old: Seen,
    head: Vec<u8>,
}

impl ContentIds {
    /// `scope` names the rows that may be taken for each other: those of one partition of one write. Rows of another
    /// scope have other ids.
    pub fn new(scope: &[u8]) -> Self {
        let (new, old) = (Seen::default(), Seen::default());
        ContentIds { scope: scope.to_vec(), seed: xxh3_64(scope), new, old, head: Vec::new() }
    }

    /// Appends the id of one message to `out`: 22 characters, and `.n` after n rows of equal content. The headers are
    /// sorted here; their order is not part of what a message says, that of a header's values is.
    pub fn write(&mut self, subject: &str, headers: &mut [(&str, &str)], payload: &[u8], out: &mut String) {
        headers.sort_by_key(|(name, _)| *name);
        let head = &mut self.head;
        head.clear();
        head.extend_from_slice(&self.scope);
        head.extend_from_slice(&xxh3_128_with_seed(payload, self.seed).to_le_bytes());
        head.extend_from_slice(&(subject.len() as u64).to_le_bytes());
        head.extend_from_slice(subject.as_bytes());
        for (name, value) in headers.iter() {
            for text in [name, value] {
                head.extend_from_slice(&(text.len() as u64).to_le_bytes());
                head.extend_from_slice(text.as_bytes());
            }
        }
        let hash = xxh3_128_with_seed(head, self.seed);
        URL_SAFE_NO_PAD.encode_string(hash.to_le_bytes(), out);
        let fingerprint = hash as u64;
        let before = match self.new.count(fingerprint) {
            0 => self.old.count(fingerprint),
            count => count,
        };
        self.new.set(fingerprint, before.saturating_add(1));
        if before > 0 {
            out.push('.');
            out.push_str(&before.to_string());
        }
    }

    /// Forgets the rows that were not seen since the last call of this: the memory of a long task is bounded by what it
    /// writes between two calls. Only for rows whose ids the server has forgotten as well.
    pub fn forget(&mut self) {
        self.old = std::mem::take(&mut self.new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ids: &mut ContentIds, subject: &str, headers: &[(&str, &str)], payload: &[u8]) -> String {
        let mut out = String::new();
        ids.write(subject, &mut headers.to_vec(), payload, &mut out);
        out
    }

    #[test]
    fn ids_stay_what_they_are() {
        // Attempts may run on other machines, and under another version of this library.
        let mut ids = ContentIds::new(b"query:7:3");
        assert_eq!(id(&mut ids, "a.b", &[("X", "1")], b"hello"), "U0SAzfRo2EkINnfePUeL3Q");
    }

    #[test]
    fn any_order_gives_the_same_ids() {
        let rows = [b"a", b"b", b"a", b"c", b"a", b"b"];
        let all = |order: &mut dyn Iterator<Item = usize>| {
            let mut ids = ContentIds::new(b"s");
            let mut found: Vec<_> = order.map(|i| id(&mut ids, "x", &[], rows[i])).collect();
            found.sort();
            found
        };
        let found = all(&mut (0..rows.len()));
        assert_eq!(found, all(&mut (0..rows.len()).rev()));
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), rows.len());
    }

    #[test]
    fn every_part_counts() {
        let mut found = HashSet::new();
        for scope in ["s", "t"] {
            for subject in ["a", "ab", "b"] {
                for headers in [
                    &[][..],
                    &[("X", "1")],
                    &[("X", "")],
                    &[("X1", "")],
                    &[("X", "1"), ("X", "2")],
                    &[("X", "2"), ("X", "1")],
                ] {
                    for payload in [&b""[..], b"b", b"bb"] {
                        found.insert(id(&mut ContentIds::new(scope.as_bytes()), subject, headers, payload));
                    }
                }
            }
        }
        assert_eq!(found.len(), 2 * 3 * 6 * 3);
        assert!(found.iter().all(|id| id.len() == 22));
    }

    #[test]
    fn the_order_of_different_headers_does_not_count() {
        let id = |headers: &[(&str, &str)]| id(&mut ContentIds::new(b"s"), "a", headers, b"x");
        assert_eq!(id(&[("B", "1"), ("A", "2")]), id(&[("A", "2"), ("B", "1")]));
    }

    #[test]
    fn what_was_seen_between_is_not_forgotten() {
        let mut ids = ContentIds::new(b"s");
        let first = id(&mut ids, "a", &[], b"x");
        ids.forget();
        assert_eq!(id(&mut ids, "a", &[], b"x"), format!("{first}.1"));
        ids.forget();
        assert_eq!(id(&mut ids, "a", &[], b"x"), format!("{first}.2"));
        ids.forget();
        ids.forget();
        assert_eq!(id(&mut ids, "a", &[], b"x"), first);
    }
}
