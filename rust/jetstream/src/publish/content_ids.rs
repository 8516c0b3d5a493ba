//! Message IDs from a message's content, for rows without an ID. Rows that are written again, in any order, get the
//! same IDs. The n-th row of equal content has n in its ID, so none counts as a duplicate.
//!
//! The hash is BLAKE3 with a key from the scope. An attacker with the scope still cannot construct a row with another
//! row's ID, to have either discarded as a duplicate. The ID has 128 bits of the hash: a collision with a given ID
//! takes 2^128 attempts.

use rustc_hash::FxBuildHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Number of times each row was seen, in about 16 bytes per row: 64 bits of its hash, and a count only for repeated
/// rows. Two rows with the same fingerprint share a count and still have different IDs.
#[derive(Default)]
struct Seen {
    rows: HashSet<u64, FxBuildHasher>,
    again: HashMap<u64, u32, FxBuildHasher>,
}

impl Seen {
    /// Records a row, and returns how often it was seen before.
    fn add(&mut self, fingerprint: u64) -> u32 {
        // One lookup for a new row: most are, and each lookup is a cache miss.
        if self.rows.insert(fingerprint) {
            return 0;
        }
        let count = self.again.entry(fingerprint).or_insert(1);
        let before = *count;
        *count = before.saturating_add(1);
        before
    }
}

/// Key derivation context of BLAKE3, so that no other use has the same key.
const CONTEXT: &str = "jetarrow message ids from content, v1";

/// Message IDs of one task.
pub struct ContentIds {
    /// Keyed with the scope.
    hasher: blake3::Hasher,
    seen: Seen,
    own: OwnIds,
    head: Vec<u8>,
}

/// IDs that rows bring themselves. The server would discard all but the first of equal ones.
///
/// 8 bytes of each are kept, hashed with a key per process. Two different IDs collide with a probability of 2^-64, and
/// not again on the next attempt.
#[derive(Default)]
struct OwnIds {
    key: RandomState,
    seen: HashSet<u64, FxBuildHasher>,
}

impl ContentIds {
    /// Creates the IDs of one scope, for example one partition of one write. Equal rows of different scopes have
    /// different IDs.
    pub fn new(scope: &[u8]) -> Self {
        let hasher = blake3::Hasher::new_keyed(&blake3::derive_key(CONTEXT, scope));
        ContentIds { hasher, seen: Seen::default(), own: OwnIds::default(), head: Vec::new() }
    }

    /// Appends the ID of one message to `out`: 22 characters, and `.n` after n rows of equal content.
    ///
    /// Sorts the headers, because the order of different headers is not part of the content. The order of one header's
    /// values is.
    pub fn write(&mut self, subject: &str, headers: &mut [(&str, &str)], payload: &[u8], out: &mut String) {
        headers.sort_by_key(|(name, _)| *name);
        // Every part before the payload has a length prefix.
        let head = &mut self.head;
        head.clear();
        push_text(head, subject);
        head.extend_from_slice(&(headers.len() as u64).to_le_bytes());
        for (name, value) in headers.iter() {
            push_text(head, name);
            push_text(head, value);
        }
        let whole = self.hasher.reset().update(head).update(payload).finalize();
        let hash: [u8; 16] = std::array::from_fn(|at| whole.as_bytes()[at]);
        URL_SAFE_NO_PAD.encode_string(hash, out);
        let fingerprint = u128::from_le_bytes(hash) as u64;
        let before = self.seen.add(fingerprint);
        if before > 0 {
            out.push('.');
            out.push_str(&before.to_string());
        }
    }

    /// Records a row's own ID; false if another row has it.
    pub fn own(&mut self, id: &str) -> bool {
        let OwnIds { key, seen } = &mut self.own;
        seen.insert(key.hash_one(id))
    }
}

fn push_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(&(text.len() as u64).to_le_bytes());
    to.extend_from_slice(text.as_bytes());
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
    fn ids_are_stable_across_versions() {
        // Attempts may run on other machines, and with another version of this library.
        let mut ids = ContentIds::new(b"query:7:3");
        assert_eq!(id(&mut ids, "a.b", &[("X", "1")], b"hello"), "EixTU_AB6Y2atd5o2MyweQ");
    }

    #[test]
    fn ids_are_the_blake3_hash_of_the_content() {
        // The hash computed by hand: the key is the scope's, and every text has its length before it.
        let mut hasher = blake3::Hasher::new_keyed(&blake3::derive_key(CONTEXT, b"s"));
        for number in [3u64.to_le_bytes().as_slice(), b"a.b", &1u64.to_le_bytes(), &1u64.to_le_bytes(), b"X"] {
            hasher.update(number);
        }
        hasher.update(&2u64.to_le_bytes()).update(b"12").update(b"payload");
        let expected = URL_SAFE_NO_PAD.encode(&hasher.finalize().as_bytes()[..16]);
        assert_eq!(id(&mut ContentIds::new(b"s"), "a.b", &[("X", "12")], b"payload"), expected);
    }

    #[test]
    fn rows_in_any_order_get_the_same_ids() {
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
    fn repeated_own_ids_are_rejected() {
        let mut ids = ContentIds::new(b"s");
        let mut own = |id: &str| ids.own(id);
        assert_eq!(["a", "b", "a", "", ""].map(&mut own), [true, true, false, true, false]);
    }

    #[test]
    fn every_part_changes_the_id() {
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
    fn order_of_different_headers_keeps_the_id() {
        let id = |headers: &[(&str, &str)]| id(&mut ContentIds::new(b"s"), "a", headers, b"x");
        assert_eq!(id(&[("B", "1"), ("A", "2")]), id(&[("A", "2"), ("B", "1")]));
    }

    #[test]
    fn equal_rows_are_numbered() {
        let mut ids = ContentIds::new(b"s");
        let first = id(&mut ids, "a", &[], b"x");
        assert_eq!(id(&mut ids, "a", &[], b"x"), format!("{first}.1"));
        assert_eq!(id(&mut ids, "a", &[], b"x"), format!("{first}.2"));
    }
}
