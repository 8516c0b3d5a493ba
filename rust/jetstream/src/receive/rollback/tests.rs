use std::collections::BTreeMap;

use super::*;
use crate::random::Random;

const HOUR: i64 = 3_600_000_000_000;

fn mark(seq: u64) -> Mark {
    Mark { seq, nanos: HOUR + seq as i64 * 7 + 1 }
}

fn extent(first_seq: u64, last_seq: u64) -> Extent {
    Extent { first_seq, last_seq, last_nanos: Some(mark(last_seq).nanos) }
}

/// Runs `decide` with lookups in a stream, and counts them.
fn verdict(marks: &[Mark], extent: &Extent, message: impl Fn(u64) -> Option<i64>) -> (RollbackVerdict, usize) {
    let mut looked_up = Vec::new();
    loop {
        match decide(marks, extent, &looked_up) {
            RollbackVerdict::Look(seq) => looked_up.push((seq, message(seq))),
            verdict => return (verdict, looked_up.len()),
        }
    }
}

#[test]
fn grown_stream_holds_with_at_most_one_lookup() {
    let marks = [mark(50), mark(40), mark(10)];
    let there = |seq| Some(mark(seq).nanos);
    assert_eq!(verdict(&marks, &extent(1, 50), there), (RollbackVerdict::Holds, 0));
    assert_eq!(verdict(&marks, &extent(1, 90), there), (RollbackVerdict::Holds, 1));
    assert_eq!(verdict(&[], &extent(1, 90), there), (RollbackVerdict::Holds, 0));
    // Expired or purged: nothing contradicts, and no lookup is needed.
    assert_eq!(verdict(&marks, &extent(51, 50), there), (RollbackVerdict::Holds, 0));
    assert_eq!(verdict(&marks, &extent(80, 90), there), (RollbackVerdict::Holds, 0));
}

#[test]
fn deleted_message_defers_to_an_older_mark() {
    let marks = [mark(50), mark(40), mark(10)];
    let deleted = |seq| (seq != 50).then(|| mark(seq).nanos);
    assert_eq!(verdict(&marks, &extent(1, 90), deleted), (RollbackVerdict::Holds, 2));
    // The last message was deleted, so the stream's last time is not that of the mark.
    let odd = Extent { last_nanos: Some(5), ..extent(1, 50) };
    assert_eq!(verdict(&marks, &odd, deleted), (RollbackVerdict::Holds, 2));
    let other = |seq| (seq != 50).then(|| if seq > 20 { 5 } else { mark(seq).nanos });
    let expected = RollbackVerdict::RolledBack {
        expected: mark(40),
        found: Found::Other(Mark { seq: 40, nanos: 5 }),
        last_good: Some(mark(10)),
    };
    assert_eq!(verdict(&marks, &extent(1, 90), other).0, expected);
}

#[test]
fn shorter_or_different_stream_is_rolled_back() {
    let marks = [mark(50), mark(40), mark(10)];
    let there = |seq| Some(mark(seq).nanos);
    let rolled_back = |expected, found, last_good| RollbackVerdict::RolledBack { expected, found, last_good };
    let end = |last_seq| Found::End { last_seq };
    assert_eq!(verdict(&marks, &extent(1, 45), there).0, rolled_back(mark(50), end(45), Some(mark(40))));
    assert_eq!(verdict(&marks, &extent(1, 40), there), (rolled_back(mark(50), end(40), Some(mark(40))), 0));
    assert_eq!(verdict(&marks, &extent(1, 0), there), (rolled_back(mark(50), end(0), None), 0));
    // The stream has grown past the position again, with other messages from 30 on.
    let grown = |seq| Some(if seq > 30 { -1 } else { mark(seq).nanos });
    let other = Found::Other(Mark { seq: 50, nanos: -1 });
    assert_eq!(verdict(&marks, &extent(1, 90), grown).0, rolled_back(mark(50), other, Some(mark(10))));
    let all = |_| Some(-1);
    assert_eq!(verdict(&marks, &extent(1, 90), all), (rolled_back(mark(50), other, None), 3));
}

#[test]
fn microsecond_marks_are_compared_in_microseconds() {
    let coarse = Mark { seq: 1, nanos: 5_000 };
    assert!(coarse.is_of(5_000) && coarse.is_of(5_999) && !coarse.is_of(6_000) && !coarse.is_of(4_999));
    let before_1970 = Mark { seq: 1, nanos: -5_000 };
    assert!(before_1970.is_of(-4_001) && !before_1970.is_of(-5_001));
    let fine = Mark { seq: 1, nanos: 5_001 };
    assert!(fine.is_of(5_001) && !fine.is_of(5_002));
}

#[test]
fn marks_are_few_and_include_old_ones() {
    let mut marks = Marks::default();
    for seq in 1..=100_000 {
        marks.push(mark(seq));
        marks.push(mark(seq / 2));
    }
    let seqs: Vec<_> = marks.as_slice().iter().map(|mark| mark.seq).collect();
    assert_eq!((seqs.len(), seqs[0], seqs[MAX_MARKS - 1]), (MAX_MARKS, 100_000, 1));
    // Distances grow with age: one for each power of some number.
    let distances: Vec<_> = seqs.iter().map(|seq| 100_000 - seq).collect();
    assert!(distances.windows(3).all(|near| near[2] > near[1] && near[1] > near[0]), "{distances:?}");
    assert!(distances[1] < 100 && distances[3] < 10_000, "{distances:?}");
    marks.truncate(50_000);
    assert!(marks.newest().is_some_and(|newest| newest.seq <= 50_000));
    assert_eq!(Marks::new(marks.as_slice().to_vec()), marks);
}

/// A stream that is appended to, deleted from, purged, expired and rolled back, and the marks of its reader.
#[derive(Default)]
struct History {
    messages: BTreeMap<u64, i64>,
    first: u64,
    last: u64,
    clock: i64,
    marks: Marks,
    /// The lowest end that the stream was rolled back to.
    rolled_back_to: Option<u64>,
}

impl History {
    fn new() -> History {
        History { first: 1, ..History::default() }
    }

    fn step(&mut self, random: &mut Random) {
        self.clock += 1 + random.below(3) as i64;
        match random.below(12) {
            0 => {
                self.messages.remove(&random.below(self.last + 1));
            }
            1 => {
                let first = self.first.max(random.below(self.last + 2));
                self.first = first;
                self.messages.retain(|seq, _| *seq >= first);
            }
            2 if random.below(4) == 0 => self.roll_back(random.below(self.last + 1)),
            3..=5 if self.rolled_back_to.is_none() => {
                if let Some((seq, nanos)) = self.messages.last_key_value() {
                    self.marks.push(Mark { seq: *seq, nanos: *nanos });
                }
            }
            _ => {
                self.last += 1;
                self.messages.insert(self.last, self.clock);
            }
        }
    }

    fn roll_back(&mut self, to: u64) {
        if to < self.last {
            self.rolled_back_to = Some(self.rolled_back_to.map_or(to, |earlier| earlier.min(to)));
        }
        self.last = to;
        self.messages.retain(|seq, _| *seq <= to);
        self.first = self.first.min(to + 1);
    }

    fn extent(&self) -> Extent {
        let last_nanos = self.messages.get(&self.last).copied();
        Extent { first_seq: self.first, last_seq: self.last, last_nanos }
    }

    /// The lowest end of a rollback that affects the newest mark.
    fn affected(&self) -> Option<u64> {
        self.rolled_back_to.filter(|to| self.marks.newest().is_some_and(|newest| newest.seq > *to))
    }

    /// True if no mark can prove a rollback to this end: the message of the newest one in the stream is older.
    fn is_unprovable(&self, to: u64) -> bool {
        let shows = |mark: &Mark| mark.seq > to && (mark.seq > self.last || self.messages.contains_key(&mark.seq));
        let newest_there = self.marks.as_slice().iter().find(|mark| self.messages.contains_key(&mark.seq));
        newest_there.is_none_or(|mark| !shows(mark))
    }
}

#[test]
fn random_histories_have_no_false_and_no_missed_rollbacks() {
    let mut random = Random(1);
    let (mut reported, mut unseen) = (0, 0);
    for _ in 0..20_000 {
        let mut history = History::new();
        for _ in 0..random.below(60) {
            history.step(&mut random);
        }
        let message = |seq| history.messages.get(&seq).copied();
        let (found, _) = verdict(history.marks.as_slice(), &history.extent(), message);
        match (history.affected(), found) {
            (None, found) => assert_eq!(found, RollbackVerdict::Holds),
            (Some(to), RollbackVerdict::RolledBack { expected, last_good, .. }) => {
                reported += 1;
                assert!(expected.seq > to);
                assert!(last_good.is_none_or(|good| good.seq <= to));
            }
            (Some(to), RollbackVerdict::Holds) => {
                unseen += 1;
                assert!(history.is_unprovable(to));
            }
            (_, RollbackVerdict::Look(_)) => unreachable!(),
        }
    }
    assert!(reported > 500 && unseen > 50, "{reported} {unseen}");
}
