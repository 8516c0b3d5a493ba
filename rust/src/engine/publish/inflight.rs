//! Rows that were sent and are not answered yet, found by the token in the reply subject.
//!
//! A token is a round and a slot. While answers can be trusted (`window::trust`) rows of one round use its tokens again
//! and again, because a server answers to a subject that it has answered to before in a fifth less of its time: of 300,000
//! messages of 128 B each cost it 3.4 us and not 4.4. Where they cannot, or a row goes without its answer, which may come
//! later, a new round begins, whose tokens nobody has seen.
//!
//! A server keeps about 500 subjects at hand; with more in flight rows that go out one after the other share a token, and
//! so are a group: what comes is noted, and says nothing of any of them before there is an answer for each.

use tokio::time::{Duration, Instant};

use crate::engine::publish::body::Body;
use crate::error::About;

pub mod group;

use group::{Answer, Group, Heard};

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

    /// With large ones no time is saved, and one with another time than its neighbours is not to wait for them.
    fn can_share(&self) -> bool {
        self.bytes <= LARGEST && self.body.timeout().is_none() && self.first == self.sent_at
    }
}

/// More than anybody has in flight; a token with it in still has room for billions of rounds.
const MOST: usize = 1 << 24;
/// In flight for each row that shares a token: so there are few hundred tokens, and none is shared where few rows go.
const EACH: usize = 200;
/// So many share one at most, of so many bytes each.
const MOST_SHARED: usize = 32;
const LARGEST: usize = 4 << 10;
/// With less time for an answer there is none to find out about one that is missing.
pub const PATIENT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Slot {
    /// Its last one.
    token: u64,
    /// An earlier row had it too.
    again: bool,
    group: Group,
}

pub struct Inflight {
    slots: Vec<Slot>,
    /// Used last, used next: few tokens go round.
    free: Vec<u32>,
    /// The group that the next row may share.
    open: Option<usize>,
    round: u64,
    len: usize,
    bytes: usize,
    window: usize,
    /// Of a token, those of the slot.
    bits: u32,
}

impl Inflight {
    pub fn new(window: usize) -> Self {
        let window = window.clamp(1, MOST);
        let bits = window.next_power_of_two().trailing_zeros();
        let (slots, free) = (Vec::new(), Vec::new());
        Inflight { slots, free, open: None, round: 1, len: 0, bytes: 0, window, bits }
    }

    fn index(&self, token: u64) -> usize {
        (token & ((1 << self.bits) - 1)) as usize
    }

    fn slot(&mut self, token: u64) -> Option<&mut Slot> {
        let index = self.index(token);
        self.slots.get_mut(index).filter(|slot| slot.token == token && !slot.group.rows.is_empty())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn window(&self) -> usize {
        self.window
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the row in and returns its token, which an earlier row may have had where `again` is true, and others have where
    /// it `shares`, too. Call only while not full.
    pub fn insert(&mut self, sent: Sent, again: bool, shares: bool) -> u64 {
        let most = (self.len / EACH).min(MOST_SHARED);
        self.len += 1;
        self.bytes += sent.bytes;
        let shares = again && shares && sent.can_share();
        if let Some(slot) = self.open.take().filter(|_| shares).map(|open| &mut self.slots[open]) {
            let group = &mut slot.group;
            // What goes again goes as a whole.
            let alike = |first: &Sent| first.body.has_id() == sent.body.has_id();
            if group.rows.len() < most && group.is_unheard() && group.rows.first().is_some_and(alike) {
                group.rows.push(sent);
                let token = slot.token;
                self.open = Some(self.index(token));
                return token;
            }
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.round += u64::from(!again);
        let token = self.round << self.bits | u64::from(index);
        let slot = &mut self.slots[index as usize];
        (slot.again, slot.token) = (slot.token == token, token);
        slot.group.rows.push(sent);
        self.open = shares.then_some(index as usize);
        token
    }

    /// No other row shares the token of the last.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Whether a token's row is still without its answer.
    pub fn holds(&self, token: u64) -> bool {
        self.at(token).is_some()
    }

    /// The rows of a token, and whether another row had it before.
    pub fn group(&self, token: u64) -> Option<(&Group, bool)> {
        let slot = self.slots.get(self.index(token)).filter(|slot| slot.token == token)?;
        (!slot.group.rows.is_empty()).then_some((&slot.group, slot.again))
    }

    /// A token's last row that is without its answer.
    pub fn at(&self, token: u64) -> Option<&Sent> {
        self.group(token)?.0.rows.last()
    }

    /// The row that a token stands for alone, once, with its answer; `None` for one that comes again or too late.
    pub fn answered(&mut self, token: u64) -> Option<Sent> {
        let index = self.index(token);
        let rows = &mut self.slot(token)?.group.rows;
        let sent = rows.pop()?;
        if rows.is_empty() {
            self.free.push(index as u32);
        }
        self.count_off(&sent);
        Some(sent)
    }

    /// Notes an answer for one of the rows of a token.
    pub fn hear(&mut self, token: u64, answer: Answer, now: Instant) -> Option<Heard> {
        Some(self.slot(token)?.group.hear(answer, now))
    }

    /// All rows of a token, with their answers; `keep` has the memory used again.
    pub fn settled(&mut self, token: u64) -> Option<Group> {
        self.change(token, std::mem::take)
    }

    /// Lets rows of a token be taken out.
    pub fn change<R>(&mut self, token: u64, change: impl FnOnce(&mut Group) -> R) -> Option<R> {
        let index = self.index(token);
        let group = &mut self.slot(token)?.group;
        let size = |group: &Group| (group.rows.len(), group.rows.iter().map(|sent| sent.bytes).sum::<usize>());
        let before = size(group);
        let result = change(group);
        let after = size(group);
        if group.rows.is_empty() {
            group.clear();
            self.free.push(index as u32);
        }
        self.len -= before.0 - after.0;
        self.bytes -= before.1 - after.1;
        Some(result)
    }

    /// Tokens of which an answer is missing that should have come with others.
    pub fn puzzling(&self, now: Instant) -> Vec<u64> {
        let slots = self.slots.iter().filter(|slot| slot.group.is_puzzling(now));
        slots.map(|slot| slot.token).collect()
    }

    pub fn keep(&mut self, token: u64, mut group: Group) {
        group.clear();
        let index = self.index(token);
        if let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.group.rows.is_empty()) {
            slot.group = group;
        }
    }

    fn count_off(&mut self, sent: &Sent) {
        self.len -= 1;
        self.bytes -= sent.bytes;
    }

    /// The last row of a token, which never went out, or will never have an answer.
    pub fn withdraw(&mut self, token: u64) -> Option<Sent> {
        self.round += 1;
        self.answered(token)
    }

    /// The last row of a token, which has not gone out, has one of its own from now on: the one that this returns.
    pub fn alone(&mut self, token: u64) -> u64 {
        match self.group(token) {
            Some((group, _)) if group.is_shared() => match self.withdraw(token) {
                Some(sent) => self.insert(sent, false, false),
                None => token,
            },
            _ => token,
        }
    }

    /// True where the last row of a token has no answer and is late by now.
    pub fn is_late(&self, token: u64, now: Instant) -> bool {
        self.at(token).is_some_and(|sent| sent.is_late(now))
    }

    fn rows(&self) -> impl Iterator<Item = &Sent> {
        self.slots.iter().flat_map(|slot| &slot.group.rows)
    }

    /// Places of all rows.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        self.rows().map(|sent| sent.place)
    }

    /// The oldest of the rows that are wanted.
    pub fn find(&self, want: impl Fn(&Sent) -> bool) -> Option<&Sent> {
        self.rows().filter(|sent| want(sent)).min_by_key(|sent| sent.place)
    }

    /// All rows, oldest row first.
    pub fn take_all(&mut self) -> Vec<Sent> {
        self.take_rows(|_| true)
    }

    /// All rows of the groups that are wanted, oldest row first.
    pub fn take_rows(&mut self, want: impl Fn(&Group) -> bool) -> Vec<Sent> {
        let mut rows: Vec<_> = self.take(want).into_iter().flat_map(|group| group.rows).collect();
        rows.sort_unstable_by_key(|sent| sent.place);
        rows
    }

    /// The groups that are wanted, oldest row first.
    pub fn take(&mut self, want: impl Fn(&Group) -> bool) -> Vec<Group> {
        let mut taken = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if !slot.group.rows.is_empty() && want(&slot.group) {
                taken.push(std::mem::take(&mut slot.group));
                self.free.push(index as u32);
            }
        }
        taken.iter().flat_map(|group| &group.rows).for_each(|sent| self.count_off(sent));
        self.round += u64::from(!taken.is_empty());
        taken.sort_unstable_by_key(|group| group.rows[0].place);
        taken
    }

    /// The rows that are wanted, as they will have no answer, oldest row first; and what is heard of others of their tokens.
    pub fn remove(&mut self, want: impl Fn(&Sent) -> bool) -> (Vec<Sent>, Vec<(u64, Heard)>) {
        let (mut removed, mut heard) = (Vec::new(), Vec::new());
        let wanted = self.slots.iter().filter(|slot| slot.group.rows.iter().any(&want));
        for token in wanted.map(|slot| slot.token).collect::<Vec<_>>() {
            let rest = self.change(token, |group| {
                removed.extend(group.rows.extract_if(.., |sent| want(sent)));
                group.heard()
            });
            heard.extend(rest.map(|heard| (token, heard)));
        }
        self.round += u64::from(!removed.is_empty());
        removed.sort_unstable_by_key(|sent| sent.place);
        (removed, heard)
    }
}

#[cfg(test)]
mod tests;
