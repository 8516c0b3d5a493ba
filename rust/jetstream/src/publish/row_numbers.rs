//! The rows of a table that each message has, for errors.

use std::sync::{Arc, Mutex};

use base::lock::lock;
use columns::varint::write;

/// The numbers of each message's rows, as runs: two or three bytes for rows that follow each other.
#[derive(Default)]
pub struct RowNumbers {
    runs: Vec<u8>,
    /// End of each message in `runs`.
    ends: Vec<usize>,
}

/// Row numbers that are read while messages are added.
#[derive(Clone, Default)]
pub struct SharedRowNumbers(Arc<Mutex<RowNumbers>>);

impl SharedRowNumbers {
    /// Adds a message with these rows, which ascend.
    pub fn add(&self, rows: impl IntoIterator<Item = u64>) {
        lock(&self.0).add(rows);
    }

    /// Returns the rows of a message.
    pub fn of(&self, message: u64) -> Vec<u64> {
        lock(&self.0).of(message)
    }
}

impl RowNumbers {
    fn add(&mut self, rows: impl IntoIterator<Item = u64>) {
        let mut rows = rows.into_iter().peekable();
        let mut end = 0;
        while let Some(first) = rows.next() {
            let mut next = first + 1;
            while rows.next_if_eq(&next).is_some() {
                next += 1;
            }
            write(first - end, &mut self.runs);
            write(next - first, &mut self.runs);
            end = next;
        }
        self.ends.push(self.runs.len());
    }

    fn of(&self, message: u64) -> Vec<u64> {
        let Some(end) = usize::try_from(message).ok().and_then(|message| self.ends.get(message)) else {
            return Vec::new();
        };
        let start = message.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        let (mut bytes, mut rows, mut next) = (&self.runs[start..*end], Vec::new(), 0);
        while !bytes.is_empty() {
            let first = next + read(&mut bytes);
            next = first + read(&mut bytes);
            rows.extend(first..next);
        }
        rows
    }
}

fn read(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some(byte) = bytes.split_off_first() else { break };
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_its_rows() {
        let messages: [&[u64]; 6] =
            [&[0, 1, 2], &[], &[5], &[3, 4, 6, 7, 200, 40_000], &[1 << 40, (1 << 40) + 1], &[u64::MAX - 1]];
        let numbers = SharedRowNumbers::default();
        for rows in messages {
            numbers.add(rows.iter().copied());
        }
        for (message, rows) in (0..).zip(messages) {
            assert_eq!(numbers.of(message), rows);
        }
        assert!(numbers.of(6).is_empty());
        let long = SharedRowNumbers::default();
        long.add(0..1_000_000);
        assert_eq!(long.of(0).len(), 1_000_000);
        assert_eq!(lock(&long.0).runs.len(), 4);
    }
}
