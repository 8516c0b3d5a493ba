//! Rows that were sent and are not answered yet: a fixed number of slots, found by the token in the reply subject.

use tokio::time::Instant;

use crate::engine::publish::rows::Body;
use crate::error::About;

pub struct Sent {
    /// The number of its result.
    pub row: u64,
    /// Its place in the order of what was published; results may have numbers that were used before.
    pub place: u64,
    pub body: Body,
    /// On the wire, about.
    pub bytes: usize,
    /// When it counts as unanswered.
    pub deadline: Option<Instant>,
    /// When it went out first, if the server may have it.
    pub first: Option<Instant>,
    /// When it went out last.
    pub sent_at: Option<Instant>,
    /// How often nobody was there to take it.
    pub tries: u8,
}

impl Sent {
    /// How errors name it.
    pub fn about(&self) -> About {
        match &self.body {
            Body::Row(..) => About::Row(self.row),
            Body::Single(single) => About::Other(format!("the message for {:?}", single.subject.as_str())),
        }
    }

    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// More than anybody has in flight; a token with it in still has room for billions of rounds.
const MOST: usize = 1 << 24;

struct Slot {
    /// Rises at each use, so that a late answer to an earlier row is not taken for this one.
    round: u64,
    sent: Option<Sent>,
}

pub struct Inflight {
    slots: Vec<Slot>,
    free: Vec<u32>,
    bytes: usize,
    window: usize,
}

impl Inflight {
    pub fn new(window: usize) -> Self {
        Inflight { slots: Vec::new(), free: Vec::new(), bytes: 0, window: window.clamp(1, MOST) }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn window(&self) -> usize {
        self.window
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a slot and returns its token. Call only while not full.
    pub fn insert(&mut self, sent: Sent) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { round: 0, sent: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.round += 1;
        self.bytes += sent.bytes;
        slot.sent = Some(sent);
        slot.round * self.window as u64 + u64::from(index)
    }

    /// Whether a token's row is still without its answer.
    pub fn holds(&self, token: u64) -> bool {
        let slot = self.slots.get((token % self.window as u64) as usize);
        slot.is_some_and(|slot| slot.round == token / self.window as u64 && slot.sent.is_some())
    }

    /// The row that a token stands for, once; `None` for an answer that comes again or too late.
    pub fn remove(&mut self, token: u64) -> Option<Sent> {
        let index = (token % self.window as u64) as usize;
        let slot = self.slots.get_mut(index).filter(|slot| slot.round == token / self.window as u64)?;
        let sent = slot.sent.take()?;
        self.bytes -= sent.bytes;
        self.free.push(index as u32);
        Some(sent)
    }

    /// True where the row that a token stands for has no answer and is late by now.
    pub fn is_late(&self, token: u64, now: Instant) -> bool {
        let slot = self.slots.get((token % self.window as u64) as usize);
        slot.is_some_and(|slot| {
            slot.round == token / self.window as u64 && slot.sent.as_ref().is_some_and(|sent| sent.is_late(now))
        })
    }

    /// The oldest of the rows that are wanted.
    pub fn find(&self, want: impl Fn(&Sent) -> bool) -> Option<&Sent> {
        let rows = self.slots.iter().filter_map(|slot| slot.sent.as_ref());
        rows.filter(|sent| want(sent)).min_by_key(|sent| sent.place)
    }

    /// All rows that are late by now, oldest row first.
    pub fn expire(&mut self, now: Instant) -> Vec<Sent> {
        self.take(|sent| sent.is_late(now))
    }

    /// All rows, oldest row first.
    pub fn take_all(&mut self) -> Vec<Sent> {
        self.take(|_| true)
    }

    /// The rows that are wanted, oldest row first.
    pub fn take(&mut self, want: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let mut taken = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(sent) = slot.sent.take_if(|sent| want(sent)) {
                self.bytes -= sent.bytes;
                taken.push(sent);
                self.free.push(index as u32);
            }
        }
        taken.sort_unstable_by_key(|sent| sent.place);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::connection::token::{read_token, write_token};
    use crate::engine::publish::rows::Single;

    fn sent(row: u64) -> Sent {
        let single = Single { subject: "a".into(), payload: "".into(), headers: None, timeout: None };
        let body = Body::Single(Box::new(single));
        Sent { row, place: 100 - row, body, bytes: 1, deadline: None, first: None, sent_at: None, tries: 0 }
    }

    #[test]
    fn an_answer_counts_once_and_for_its_own_row() {
        let mut inflight = Inflight::new(2);
        let first = inflight.insert(sent(0));
        let second = inflight.insert(sent(1));
        assert_eq!((inflight.len(), inflight.bytes()), (2, 2));
        assert_eq!(inflight.remove(first).map(|s| s.row), Some(0));
        assert!(inflight.remove(first).is_none(), "answered twice");
        let third = inflight.insert(sent(2));
        assert!(inflight.remove(first).is_none(), "the slot is another row's now");
        assert_eq!(inflight.remove(third).map(|s| s.row), Some(2));
        assert_eq!(inflight.take_all().iter().map(|s| s.row).collect::<Vec<_>>(), [1]);
        assert!(inflight.remove(second).is_none());
        assert!(inflight.is_empty() && inflight.remove(u64::MAX).is_none());
        assert_eq!(inflight.bytes(), 0);
    }

    #[test]
    fn the_largest_window_has_tokens_too() {
        let mut inflight = Inflight::new(usize::MAX);
        for row in 0..1_000 {
            let token = inflight.insert(sent(row % 7));
            let mut text = Vec::new();
            write_token(token, &mut text);
            assert_eq!(read_token(&text), Some(token));
            assert!(inflight.holds(token));
            assert_eq!(inflight.remove(token).map(|sent| sent.row), Some(row % 7));
            assert!(!inflight.holds(token));
        }
    }

    #[test]
    fn rows_come_back_as_they_were_published() {
        // Numbers of results are used again: here the last published has the smallest.
        let mut inflight = Inflight::new(8);
        for row in [5, 3, 4, 1] {
            inflight.insert(sent(row));
        }
        assert_eq!(inflight.take_all().iter().map(|s| s.row).collect::<Vec<_>>(), [5, 4, 3, 1]);
    }
}
