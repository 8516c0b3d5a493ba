//! A random stream, other publishers and a network that loses and delays: each end of a row is true of the stream, at once
//! and when every delayed batch has arrived.
//!
//! `JETARROW_MODEL_CHUNKS` runs more chunks, `JETARROW_MODEL_SEED` the same ones again.

use std::collections::HashMap;
use std::time::Duration;

use super::{Repair, RepairEvent, RepairPolicy, RepairRow, RepairStep, RowEnd};
use crate::random::Random;
use base::error::JetError;

const CHUNKS: u64 = 200_000;
/// The duplicate window in steps of a repair. A delayed batch arrives within it.
const WINDOW: u64 = 24;
const MAX_DELAY: u64 = 4;
const MAX_JUMP: u64 = 6;
const LAST_STEP: u64 = 40;

/// A message of the stream: its batch and the row number, which is the id too.
#[derive(Clone, Debug)]
struct Message {
    batch: Option<String>,
    row: u64,
}

#[derive(Default)]
struct Stream {
    messages: Vec<Message>,
    /// Sequence by id, and the step at which the stream forgets it.
    ids: HashMap<u64, (u64, u64)>,
    bad: Vec<u64>,
    now: u64,
}

enum Verdict {
    Stored(u64),
    Duplicate,
    Bad(usize),
}

impl Stream {
    fn known(&self, row: &RepairRow) -> Option<u64> {
        let (seq, until) = self.ids.get(&row.row).filter(|_| row.has_id)?;
        (self.now < *until).then_some(*seq)
    }

    fn check(&self, rows: &[RepairRow]) -> Option<Verdict> {
        rows.iter().enumerate().find_map(|(at, row)| {
            if self.known(row).is_some() {
                return Some(Verdict::Duplicate);
            }
            self.bad.contains(&row.row).then_some(Verdict::Bad(at))
        })
    }

    fn take(&mut self, batch: &str, rows: &[RepairRow]) -> Verdict {
        if let Some(verdict) = self.check(rows) {
            return verdict;
        }
        for row in rows {
            self.messages.push(Message { batch: Some(batch.to_owned()), row: row.row });
            if row.has_id {
                self.ids.insert(row.row, (self.messages.len() as u64, self.now + WINDOW));
            }
        }
        Verdict::Stored(self.messages.len() as u64)
    }

    fn other(&mut self, row: u64, forgotten_at: u64) {
        self.messages.push(Message { batch: None, row });
        self.ids.insert(row, (self.messages.len() as u64, forgotten_at));
    }
}

struct World {
    random: Random,
    stream: Stream,
    /// Batches on their way, and when they were sent.
    delayed: Vec<(String, Vec<RepairRow>, u64)>,
    batches: u64,
    /// One of this many batches is not taken at the moment.
    busy: u64,
}

fn refusal() -> JetError {
    JetError::Api { code: 400, err_code: 10071, description: "refused".to_owned(), stream: None }
}

impl World {
    fn one_in(&mut self, of: u64) -> bool {
        self.random.below(of) == 0
    }

    fn deliver_some(&mut self) {
        let due = |sent: u64, now: u64| now >= sent + MAX_DELAY;
        while self.delayed.first().is_some_and(|first| due(first.2, self.stream.now))
            || !self.delayed.is_empty() && self.one_in(3)
        {
            let (batch, rows, _) = self.delayed.remove(0);
            self.stream.take(&batch, &rows);
        }
    }

    /// The stream rejects other rows than before, as by a limit or an expected sequence.
    fn change_mind(&mut self, rows: &[RepairRow]) {
        if self.one_in(8) {
            let row = rows[self.random.below(rows.len() as u64) as usize].row;
            match self.stream.bad.iter().position(|bad| *bad == row) {
                Some(at) => drop(self.stream.bad.remove(at)),
                None => self.stream.bad.push(row),
            }
        }
    }

    fn send(&mut self, rows: &[RepairRow]) -> RepairEvent {
        self.batches += 1;
        let batch = self.batches.to_string();
        if self.one_in(self.busy) {
            return RepairEvent::Busy(JetError::stream_busy());
        }
        match self.random.below(8) {
            0 => return RepairEvent::Lost(batch),
            1 => {
                self.delayed.push((batch.clone(), rows.to_vec(), self.stream.now));
                return RepairEvent::Lost(batch);
            }
            _ => {}
        }
        let verdict = self.stream.take(&batch, rows);
        if self.one_in(8) {
            return RepairEvent::Lost(batch);
        }
        match verdict {
            Verdict::Stored(last) => RepairEvent::Stored(last),
            Verdict::Duplicate => RepairEvent::Duplicate,
            Verdict::Bad(_) if self.one_in(5) => RepairEvent::Rejected(refusal()),
            Verdict::Bad(at) => RepairEvent::Refused(self.one_in(2).then_some(at), refusal()),
        }
    }

    fn answer(&mut self, step: RepairStep, rows: &[RepairRow]) -> RepairEvent {
        if step != RepairStep::Pause && self.one_in(30) {
            return RepairEvent::Unanswered(refusal());
        }
        match step {
            RepairStep::AskIds => RepairEvent::Ids(rows.iter().map(|row| self.stream.known(row)).collect()),
            RepairStep::FindBatch(open) => {
                let batch = |message: &Message| message.batch.clone().filter(|batch| open.contains(batch));
                let found =
                    self.stream.messages.iter().enumerate().find_map(|(at, message)| Some((at, batch(message)?)));
                match found {
                    Some((at, batch)) => RepairEvent::Found(batch, 0, at as u64 + 1),
                    None => RepairEvent::NotFound,
                }
            }
            RepairStep::FindRow => match self.stream.check(rows) {
                Some(Verdict::Bad(at)) => RepairEvent::BadRow(at, refusal()),
                Some(Verdict::Duplicate) => RepairEvent::Duplicate,
                _ => RepairEvent::NoBadRow,
            },
            RepairStep::Pause => RepairEvent::Paused,
            RepairStep::Send | RepairStep::Done => unreachable!("no question"),
        }
    }

    fn rows(&mut self) -> Vec<RepairRow> {
        let (count, ids) = (1 + self.random.below(6), self.random.below(3));
        let rows = (100..100 + count).map(|row| RepairRow { row, has_id: ids == 1 || ids == 2 && self.one_in(2) });
        rows.collect()
    }
}

#[test]
fn each_end_is_true_of_the_stream() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("JETARROW_MODEL_SEED").unwrap_or(11);
    let (mut stored, mut failed, mut unknown, mut split) = (0, 0, 0, 0);
    for chunk in 0..number("JETARROW_MODEL_CHUNKS").unwrap_or(CHUNKS) {
        let mut world = World {
            random: Random(seed.wrapping_mul(1_000_003).wrapping_add(chunk)),
            stream: Stream::default(),
            delayed: Vec::new(),
            batches: 0,
            busy: 8,
        };
        if world.one_in(3) {
            world.busy = 2;
        }
        let rows = world.rows();
        for row in &rows {
            if world.one_in(12) {
                let forgotten_at = world.random.below(WINDOW);
                world.stream.other(row.row, forgotten_at);
            } else if world.one_in(12) {
                world.stream.bad.push(row.row);
            }
        }
        let resend = [None, None, Some(false), Some(true)][world.random.below(4) as usize];
        let policy = RepairPolicy { resend, split: world.one_in(2), window: Duration::from_secs(WINDOW) };
        let first = world.send(&rows);
        let mut repair = Repair::new(rows.clone(), policy, first, Duration::ZERO);
        let mut steps = 0;
        while repair.step() != RepairStep::Done {
            steps += 1;
            let left = repair.left().to_vec();
            // An attempt follows its decision at once; answers take their time.
            let sent = (repair.step() == RepairStep::Send).then(|| world.send(&left));
            world.stream.now += 1 + if world.one_in(4) { world.random.below(MAX_JUMP) } else { 0 };
            world.deliver_some();
            world.change_mind(&rows);
            let event = match sent {
                Some(event) => event,
                None if steps >= LAST_STEP => RepairEvent::Late(refusal()),
                None => world.answer(repair.step(), &left),
            };
            repair.on(event, Duration::from_secs(world.stream.now));
            assert!(steps <= 2 * LAST_STEP, "chunk {chunk} does not end");
        }
        for (batch, rows, _) in std::mem::take(&mut world.delayed) {
            world.stream.take(&batch, &rows);
        }
        let ends: HashMap<u64, RowEnd> = repair.take_ended().into_iter().collect();
        assert_eq!(ends.len(), rows.len(), "chunk {chunk}: each row has one end");
        let mine = |row: u64| world.stream.messages.iter().filter(|m| m.row == row && m.batch.is_some()).count();
        let forced = resend == Some(true);
        for row in &rows {
            let copies = mine(row.row);
            assert!(copies <= 1 || forced, "chunk {chunk}: row {} is stored {copies} times", row.row);
            match &ends[&row.row] {
                RowEnd::Stored { seq, .. } => {
                    let there = &world.stream.messages[*seq as usize - 1];
                    assert_eq!(there.row, row.row, "chunk {chunk}: another row has the sequence {seq}");
                    stored += 1;
                }
                RowEnd::Failed(JetError::Unconfirmed { .. }) => unknown += 1,
                RowEnd::Failed(error) => {
                    assert_eq!(copies, 0, "chunk {chunk}: row {} is stored, and failed: {error}", row.row);
                    failed += 1;
                }
            }
        }
        // Whole or absent, but for rows that were taken out of it.
        let in_stream = rows.iter().filter(|row| mine(row.row) > 0).count();
        if in_stream > 0 {
            let out = |row: &&RepairRow| mine(row.row) == 0;
            for row in rows.iter().filter(out) {
                match &ends[&row.row] {
                    RowEnd::Stored { duplicate, .. } => assert!(duplicate),
                    RowEnd::Failed(error) => {
                        assert!(
                            policy.split,
                            "chunk {chunk}: row {} is absent, and others are stored: {error}",
                            row.row
                        );
                        split += 1;
                    }
                }
            }
        }
    }
    assert!(
        stored > 100_000 && failed > 10_000 && unknown > 10_000 && split > 100,
        "{stored} {failed} {unknown} {split}"
    );
}
