//! Rows that were sent and are not answered yet: a fixed number of slots, found by the token in the reply subject.
//!
//! A token is a round and a slot. While answers can be trusted (`window::trust`) rows of one round use its tokens again
//! and again, because a server answers to a subject that it has answered to before in a fifth less of its time: of 300,000
//! messages of 128 B each cost it 3.4 us and not 4.4. Where they cannot, or a row goes without its answer, which may come
//! later, a new round begins, whose tokens nobody has seen.

use tokio::time::Instant;

use crate::engine::publish::body::Body;
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

#[derive(Default)]
struct Slot {
    /// Its last one.
    token: u64,
    /// An earlier row had it too.
    again: bool,
    sent: Option<Sent>,
}

pub struct Inflight {
    slots: Vec<Slot>,
    /// Used last, used next: few tokens go round.
    free: Vec<u32>,
    round: u64,
    bytes: usize,
    window: usize,
    /// Of a token, those of the slot.
    bits: u32,
}

impl Inflight {
    pub fn new(window: usize) -> Self {
        let window = window.clamp(1, MOST);
        let bits = window.next_power_of_two().trailing_zeros();
        Inflight { slots: Vec::new(), free: Vec::new(), round: 1, bytes: 0, window, bits }
    }

    fn index(&self, token: u64) -> usize {
        (token & ((1 << self.bits) - 1)) as usize
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

    /// Takes a slot and returns its token, which an earlier row may have had where `again` is true. Call only while not
    /// full.
    pub fn insert(&mut self, sent: Sent, again: bool) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.round += u64::from(!again);
        let token = self.round << self.bits | u64::from(index);
        let slot = &mut self.slots[index as usize];
        (slot.again, slot.token) = (slot.token == token, token);
        self.bytes += sent.bytes;
        slot.sent = Some(sent);
        token
    }

    /// Whether a token's row is still without its answer.
    pub fn holds(&self, token: u64) -> bool {
        self.at(token).is_some()
    }

    /// A token's row that is without its answer, and whether another row had the token before.
    pub fn at(&self, token: u64) -> Option<(&Sent, bool)> {
        let slot = self.slots.get(self.index(token)).filter(|slot| slot.token == token)?;
        Some((slot.sent.as_ref()?, slot.again))
    }

    /// The row that a token stands for, once, with its answer; `None` for one that comes again or too late.
    pub fn answered(&mut self, token: u64) -> Option<Sent> {
        let index = self.index(token);
        let slot = self.slots.get_mut(index).filter(|slot| slot.token == token)?;
        let sent = slot.sent.take()?;
        self.bytes -= sent.bytes;
        self.free.push(index as u32);
        Some(sent)
    }

    /// The same without its answer.
    pub fn withdraw(&mut self, token: u64) -> Option<Sent> {
        self.round += 1;
        self.answered(token)
    }

    /// True where the row that a token stands for has no answer and is late by now.
    pub fn is_late(&self, token: u64, now: Instant) -> bool {
        self.at(token).is_some_and(|(sent, _)| sent.is_late(now))
    }

    /// Places of all rows.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().filter_map(|slot| Some(slot.sent.as_ref()?.place))
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
        self.round += u64::from(!taken.is_empty());
        taken.sort_unstable_by_key(|sent| sent.place);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::connection::token::{read_token, write_token};
    use crate::engine::publish::body::Single;

    fn sent(row: u64) -> Sent {
        let single = Single { subject: "a".into(), payload: "".into(), headers: None, timeout: None };
        let body = Body::Single(Box::new(single));
        Sent { row, place: 100 - row, body, bytes: 1, deadline: None, first: None, sent_at: None, tries: 0 }
    }

    #[test]
    fn an_answer_counts_once_and_for_its_own_row() {
        let mut inflight = Inflight::new(2);
        let first = inflight.insert(sent(0), false);
        let second = inflight.insert(sent(1), false);
        assert_eq!((inflight.len(), inflight.bytes()), (2, 2));
        assert_eq!(inflight.answered(first).map(|s| s.row), Some(0));
        assert!(inflight.answered(first).is_none(), "answered twice");
        let third = inflight.insert(sent(2), false);
        assert!(inflight.answered(first).is_none(), "the slot is another row's now");
        assert_eq!(inflight.answered(third).map(|s| s.row), Some(2));
        assert_eq!(inflight.take_all().iter().map(|s| s.row).collect::<Vec<_>>(), [1]);
        assert!(inflight.answered(second).is_none());
        assert!(inflight.is_empty() && inflight.answered(u64::MAX).is_none());
        assert_eq!(inflight.bytes(), 0);
    }

    #[test]
    fn a_token_is_used_again_only_after_its_answer() {
        let mut inflight = Inflight::new(8);
        let first = inflight.insert(sent(0), true);
        assert_eq!(inflight.at(first).map(|(sent, again)| (sent.row, again)), Some((0, false)));
        inflight.answered(first);
        assert_eq!(inflight.insert(sent(1), true), first);
        assert_eq!(inflight.at(first).map(|(sent, again)| (sent.row, again)), Some((1, true)));
        // What has no answer may get it later.
        let mut seen = vec![first];
        for without in [Inflight::withdraw, |inflight: &mut Inflight, _| inflight.take_all().pop()] {
            assert!(without(&mut inflight, seen[seen.len() - 1]).is_some());
            let next = inflight.insert(sent(2), true);
            assert!(!seen.contains(&next) && inflight.at(next).is_some_and(|(_, again)| !again));
            seen.push(next);
        }
        // Nor does one that is not to be known have been seen, whatever lies between.
        for row in 0..100 {
            let token = inflight.insert(sent(row), row % 3 == 0);
            assert!(row % 3 == 0 || !seen.contains(&token));
            seen.push(token);
            inflight.answered(token);
        }
    }

    #[test]
    fn the_largest_window_has_tokens_too() {
        let mut inflight = Inflight::new(usize::MAX);
        for row in 0..1_000 {
            let token = inflight.insert(sent(row % 7), row % 2 == 0);
            let mut text = Vec::new();
            write_token(token, &mut text);
            assert_eq!(read_token(&text), Some(token));
            assert!(inflight.holds(token));
            assert_eq!(inflight.answered(token).map(|sent| sent.row), Some(row % 7));
            assert!(!inflight.holds(token));
        }
    }

    #[test]
    fn rows_come_back_as_they_were_published() {
        // Numbers of results are used again: here the last published has the smallest.
        let mut inflight = Inflight::new(8);
        for row in [5, 3, 4, 1] {
            inflight.insert(sent(row), false);
        }
        assert_eq!(inflight.take_all().iter().map(|s| s.row).collect::<Vec<_>>(), [5, 4, 3, 1]);
    }
}
