//! Message ids made of a message's content, for rows that bring none: rows that are written again, in whatever order,
//! get their ids again. Among rows of equal content the n-th has its n in the id, so none is taken for another.
//!
//! The hash is BLAKE3: whoever knows the scope still cannot make a row that has another row's id, and is dropped in its
//! place or has it dropped. 128 bits of it are kept: to meet a given row's id takes 2^128 tries.

use rustc_hash::FxBuildHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// How often each row was seen, in about 16 bytes a row: 64 bits of its hash, and a count only where it came again. Two
/// rows with the same fingerprint count on together, and still have different ids.
#[derive(Default)]
struct Seen {
    rows: HashSet<u64, FxBuildHasher>,
    again: HashMap<u64, u32, FxBuildHasher>,
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

/// Says what the hash is for, so that nothing else has the same key.
const CONTEXT: &str = "jetarrow message ids from content, v1";

/// The ids of one task.
pub struct ContentIds {
    /// Keyed with the scope.
    hasher: blake3::Hasher,
    new: Seen,
    old: Seen,
    own: OwnIds,
    head: Vec<u8>,
}

/// The ids that rows bring themselves: the server would drop all but the first of those that are equal.
///
/// 8 bytes of each are kept. The key is another one in every process, so that two ids that are taken for each other, one
/// pair in 2^64, are not so at the next attempt.
#[derive(Default)]
struct OwnIds {
    key: RandomState,
    new: HashSet<u64, FxBuildHasher>,
    old: HashSet<u64, FxBuildHasher>,
}

impl ContentIds {
    /// `scope` names the rows that may be taken for each other: those of one partition of one write. Rows of another
    /// scope have other ids.
    pub fn new(scope: &[u8]) -> Self {
        let hasher = blake3::Hasher::new_keyed(&blake3::derive_key(CONTEXT, scope));
        ContentIds { hasher, new: Seen::default(), old: Seen::default(), own: OwnIds::default(), head: Vec::new() }
    }

    /// Appends the id of one message to `out`: 22 characters, and `.n` after n rows of equal content. The headers are
    /// sorted here; their order is not part of what a message says, that of a header's values is.
    pub fn write(&mut self, subject: &str, headers: &mut [(&str, &str)], payload: &[u8], out: &mut String) {
        headers.sort_by_key(|(name, _)| *name);
        // What comes before the payload says itself where it ends.
        let head = &mut self.head;
        head.clear();
        push_text(head, subject);
        head.extend_from_slice(&(headers.len() as u64).to_le_bytes());
        for (name, value) in headers.iter() {
            push_text(head, name);
            push_text(head, value);
        }
        let mut hash = [0; 16];
        self.hasher.reset().update(head).update(payload).finalize_xof().fill(&mut hash);
        URL_SAFE_NO_PAD.encode_string(hash, out);
        let fingerprint = u128::from_le_bytes(hash) as u64;
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

    /// Notes the id that a row has itself; false where another row had it.
    pub fn own(&mut self, id: &str) -> bool {
        let OwnIds { key, new, old } = &mut self.own;
        let fingerprint = key.hash_one(id);
        !old.contains(&fingerprint) && new.insert(fingerprint)
    }

    /// Forgets the rows that were not seen since the last call of this: the memory of a long task is bounded by what it
    /// writes between two calls. Only for rows whose ids the server has forgotten as well.
    pub fn forget(&mut self) {
        self.old = std::mem::take(&mut self.new);
        self.own.old = std::mem::take(&mut self.own.new);
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
    fn ids_stay_what_they_are() {
        // Attempts may run on other machines, and under another version of this library.
        let mut ids = ContentIds::new(b"query:7:3");
        assert_eq!(id(&mut ids, "a.b", &[("X", "1")], b"hello"), "EixTU_AB6Y2atd5o2MyweQ");
    }

    #[test]
    fn ids_are_blake3_of_what_a_row_says() {
        // Written out once more, by hand: the key is the scope's, and every text has its length before it.
        let mut hasher = blake3::Hasher::new_keyed(&blake3::derive_key(CONTEXT, b"s"));
        for number in [3u64.to_le_bytes().as_slice(), b"a.b", &1u64.to_le_bytes(), &1u64.to_le_bytes(), b"X"] {
            hasher.update(number);
        }
        hasher.update(&2u64.to_le_bytes()).update(b"12").update(b"payload");
        let expected = URL_SAFE_NO_PAD.encode(&hasher.finalize().as_bytes()[..16]);
        assert_eq!(id(&mut ContentIds::new(b"s"), "a.b", &[("X", "12")], b"payload"), expected);
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
    fn own_ids_are_refused_the_second_time() {
        let mut ids = ContentIds::new(b"s");
        let mut own = |id: &str| ids.own(id);
        assert_eq!(["a", "b", "a", "", ""].map(&mut own), [true, true, false, true, false]);
        ids.forget();
        assert!(!ids.own("b"));
        assert!(ids.own("c"));
        ids.forget();
        // Seen again after the first of two calls or not at all: the id's time is over.
        assert!(ids.own("a") && !ids.own("c"));
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
