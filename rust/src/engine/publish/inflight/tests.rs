use super::*;
use crate::engine::connection::token::{read_token, write_token};
use crate::engine::publish::body::Single;

fn sent(row: u64) -> Sent {
    let single = Single { subject: "a".into(), payload: "".into(), headers: None, timeout: None };
    let body = Body::Single(Box::new(single));
    Sent { row, place: 100_000 - row, body, bytes: 1, deadline: None, first: None, sent_at: None, tries: 0 }
}

#[test]
fn an_answer_counts_once_and_for_its_own_row() {
    let mut inflight = Inflight::new(2);
    let first = inflight.insert(sent(0), false, false);
    let second = inflight.insert(sent(1), false, false);
    assert_eq!((inflight.len(), inflight.bytes()), (2, 2));
    assert_eq!(inflight.answered(first).map(|s| s.row), Some(0));
    assert!(inflight.answered(first).is_none(), "answered twice");
    let third = inflight.insert(sent(2), false, false);
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
    let first = inflight.insert(sent(0), true, false);
    assert_eq!(inflight.group(first).map(|(group, again)| (group.rows[0].row, again)), Some((0, false)));
    inflight.answered(first);
    assert_eq!(inflight.insert(sent(1), true, false), first);
    assert_eq!(inflight.group(first).map(|(group, again)| (group.rows[0].row, again)), Some((1, true)));
    // What has no answer may get it later.
    let mut seen = vec![first];
    for without in [Inflight::withdraw, |inflight: &mut Inflight, _| inflight.take_all().pop()] {
        assert!(without(&mut inflight, seen[seen.len() - 1]).is_some());
        let next = inflight.insert(sent(2), true, false);
        assert!(!seen.contains(&next) && inflight.group(next).is_some_and(|(_, again)| !again));
        seen.push(next);
    }
    // Nor does one that is not to be known have been seen, whatever lies between.
    for row in 0..100 {
        let token = inflight.insert(sent(row), row % 3 == 0, false);
        assert!(row % 3 == 0 || !seen.contains(&token));
        seen.push(token);
        inflight.answered(token);
    }
}

#[test]
fn the_largest_window_has_tokens_too() {
    let mut inflight = Inflight::new(usize::MAX);
    for row in 0..1_000 {
        let token = inflight.insert(sent(row % 7), row % 2 == 0, false);
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
        inflight.insert(sent(row), false, false);
    }
    assert_eq!(inflight.take_all().iter().map(|s| s.row).collect::<Vec<_>>(), [5, 4, 3, 1]);
}

/// So many rows in flight.
fn sharing(rows: u64) -> Inflight {
    let mut inflight = Inflight::new(10_000);
    for row in 0..rows {
        inflight.insert(Sent { place: row, ..sent(row) }, true, true);
    }
    inflight
}

#[test]
fn the_more_are_in_flight_the_more_share_a_token() {
    let tokens = |rows| sharing(rows).slots.len();
    assert_eq!(tokens(400), 400, "few go alone");
    assert!(tokens(2_000) < 1_000 && tokens(9_000) < 1_500);
    let mut inflight = sharing(2_000);
    let tokens: Vec<_> = inflight.slots.iter().map(|slot| slot.token).collect();
    assert!(inflight.slots.iter().all(|slot| slot.group.rows.len() <= MOST_SHARED));
    for token in tokens {
        let rows = inflight.settled(token).map_or(0, |group| group.rows.len());
        assert!(rows > 0 && inflight.settled(token).is_none());
    }
    assert!(inflight.is_empty() && inflight.bytes() == 0);
    // Now each token is that of an earlier row.
    let token = inflight.insert(sent(0), true, true);
    assert_eq!(inflight.group(token).map(|(_, again)| again), Some(true));
}

#[test]
fn some_rows_share_with_nobody() {
    let mut inflight = sharing(2_000);
    let next = inflight.insert(sent(1), true, true);
    assert_eq!(inflight.insert(sent(2), true, true), next);
    let alone: [fn(Sent) -> Sent; 2] =
        [|sent| Sent { bytes: LARGEST + 1, ..sent }, |sent| Sent { first: Some(Instant::now()), ..sent }];
    for change in alone {
        let token = inflight.insert(change(sent(3)), true, true);
        let after = inflight.insert(sent(4), true, true);
        assert!(token != after && inflight.group(token).is_some_and(|(group, _)| !group.is_shared()));
    }
    // Nor one behind which an answer has come, or which has not gone out.
    let next = inflight.insert(sent(5), true, true);
    inflight.insert(sent(6), true, true);
    inflight.hear(next, Answer::Nobody, Instant::now());
    assert_ne!(inflight.insert(sent(7), true, true), next);
    let next = inflight.insert(sent(8), true, true);
    assert_eq!(inflight.insert(sent(9), true, true), next);
    let own = inflight.alone(next);
    assert!(own != next && inflight.at(own).is_some_and(|sent| sent.row == 9));
    assert!(inflight.at(next).is_some_and(|sent| sent.row != 9) && inflight.alone(own) == own);
}

#[test]
fn rows_that_will_have_no_answer_are_not_waited_for() {
    let mut inflight = sharing(2_000);
    inflight.close();
    let token = inflight.insert(sent(10), true, true);
    for row in [11, 12] {
        assert_eq!(inflight.insert(sent(row), true, true), token);
    }
    let (bytes, len) = (inflight.bytes(), inflight.len());
    assert_eq!(inflight.hear(token, Answer::Nobody, Instant::now()), Some(Heard::Some));
    assert_eq!(inflight.hear(token, Answer::Nobody, Instant::now()), Some(Heard::Some));
    let (removed, heard) = inflight.remove(|sent| sent.row == 11 && sent.place == 99_989);
    assert!(removed.len() == 1 && heard == [(token, Heard::All)]);
    assert_eq!((inflight.bytes(), inflight.len()), (bytes - 1, len - 1));
    assert_eq!(inflight.settled(token).map(|group| group.answers.len()), Some(2));
    assert_eq!(inflight.take_all().len(), len - 3);
    assert!(inflight.is_empty() && inflight.bytes() == 0);
}
