//! Rows that were sent and are not answered yet: a fixed number of slots, found by the token in the reply subject.

use tokio::time::Instant;

use crate::engine::publish::rows::Body;

pub struct Sent {
    /// The number of its result.
    pub row: u64,
    pub body: Body,
    /// When it counts as unanswered.
    pub deadline: Instant,
}

struct Slot {
    /// Rises at each use, so that a late answer to an earlier row is not taken for this one.
    round: u64,
    sent: Option<Sent>,
}

pub struct Inflight {
    slots: Vec<Slot>,
    free: Vec<u32>,
    window: usize,
}

impl Inflight {
    pub fn new(window: usize) -> Self {
        Inflight { slots: Vec::new(), free: Vec::new(), window }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_full(&self) -> bool {
        self.len() >= self.window
    }

    /// Takes a slot and returns its token. Call only while not full.
    pub fn insert(&mut self, sent: Sent) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { round: 0, sent: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.round += 1;
        slot.sent = Some(sent);
        slot.round * self.window as u64 + u64::from(index)
    }

    /// The row that a token stands for, once; `None` for an answer that comes again or too late.
    pub fn remove(&mut self, token: u64) -> Option<Sent> {
        let index = (token % self.window as u64) as usize;
        let slot = self.slots.get_mut(index).filter(|slot| slot.round == token / self.window as u64)?;
        let sent = slot.sent.take()?;
        self.free.push(index as u32);
        Some(sent)
    }

    /// True while the row that a token stands for has no answer.
    pub fn contains(&self, token: u64) -> bool {
        let slot = self.slots.get((token % self.window as u64) as usize);
        slot.is_some_and(|slot| slot.round == token / self.window as u64 && slot.sent.is_some())
    }

    /// True where the row that a token stands for has no answer and is late by now.
    pub fn is_late(&self, token: u64, now: Instant) -> bool {
        let slot = self.slots.get((token % self.window as u64) as usize);
        slot.is_some_and(|slot| {
            slot.round == token / self.window as u64 && slot.sent.as_ref().is_some_and(|sent| sent.deadline <= now)
        })
    }

    /// All rows that are late by now, oldest row first.
    pub fn expire(&mut self, now: Instant) -> Vec<Sent> {
        self.take(|sent| sent.deadline <= now)
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
                taken.push(sent);
                self.free.push(index as u32);
            }
        }
        taken.sort_unstable_by_key(|sent| sent.row);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::publish::rows::Single;

    fn sent(row: u64) -> Sent {
        let single = Single { subject: "a".into(), payload: "".into(), headers: None, timeout: None };
        Sent { row, body: Body::Single(Box::new(single)), deadline: Instant::now() }
    }

    #[test]
    fn an_answer_counts_once_and_for_its_own_row() {
        let mut inflight = Inflight::new(2);
        let first = inflight.insert(sent(0));
        let second = inflight.insert(sent(1));
        assert!(inflight.is_full());
        assert_eq!(inflight.remove(first).map(|s| s.row), Some(0));
        assert!(inflight.remove(first).is_none(), "answered twice");
        let third = inflight.insert(sent(2));
        assert!(inflight.remove(first).is_none(), "the slot is another row's now");
        assert_eq!(inflight.remove(third).map(|s| s.row), Some(2));
        assert_eq!(inflight.take_all().iter().map(|s| s.row).collect::<Vec<_>>(), [1]);
        assert!(inflight.remove(second).is_none());
        assert!(inflight.is_empty() && inflight.remove(u64::MAX).is_none());
    }
}
