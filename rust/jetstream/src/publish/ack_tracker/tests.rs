use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::attribution::{AckReply, Attribution};
use super::reply_reuse::{ACKS_BEFORE_REUSE, ACKS_OF_STREAM, REUSABLE_TOKENS};
use super::*;
use crate::publish::body::Single;
use crate::publish::puback::Origin;
use wire::token::{read_token, write_token};

fn message(row: u64) -> InFlightMessage {
    message_to("a", row)
}

/// A message, with an id if its number is even.
fn message_to(subject: &str, row: u64) -> InFlightMessage {
    let mut headers = wire::nats::HeaderMap::new();
    if row.is_multiple_of(2) {
        headers.insert("Nats-Msg-Id", row.to_string());
    }
    let single = Single { subject: subject.into(), payload: "".into(), headers: Some(headers), timeout: None };
    InFlightMessage { bytes: 1, ..InFlightMessage::new(row, 100_000 - row, Body::Single(Box::new(single)), None) }
}

struct TestLoop {
    book: AckTracker,
    now: Instant,
    origin: Arc<Origin>,
    seq: u64,
}

/// The origin of acknowledgements by a stream of this name.
fn origin(stream: &str) -> Arc<Origin> {
    Arc::new(Origin { stream: stream.into(), domain: None })
}

impl TestLoop {
    /// A tracker after this number of acknowledged messages.
    fn new(messages: u64) -> Self {
        let (book, now) = (AckTracker::new(600, true), Instant::now());
        let mut client = TestLoop { book, now, origin: origin("S"), seq: 0 };
        while client.seq < messages {
            let rows = client.seq..(client.seq + 8).min(messages);
            let tokens: Vec<_> = rows.clone().map(|row| client.insert(row)).collect();
            for (row, token) in rows.zip(tokens) {
                assert!(matches!(client.ack(token), Attribution::Own(sent) if sent.row == row));
            }
        }
        client
    }

    fn insert(&mut self, row: u64) -> u64 {
        self.book.sent(message(row), self.now)
    }

    fn ack(&mut self, token: u64) -> Attribution {
        self.seq += 1;
        self.ack_with(token, self.seq, false)
    }

    fn ack_with(&mut self, token: u64, seq: u64, duplicate: bool) -> Attribution {
        let origin = self.origin.clone();
        self.answer(token, &AckReply::Ack { origin: &origin, seq, duplicate })
    }

    fn answer(&mut self, token: u64, answer: &AckReply) -> Attribution {
        self.book.attribute(Some(token), answer, self.now)
    }

    fn is_reused(&self, token: u64) -> bool {
        self.book.slot(token).is_some_and(|(_, slot)| slot.claim.is_some())
    }
}

/// Acknowledgements until one token may be used again.
const WARM_UP: u64 = ACKS_BEFORE_REUSE as u64 + 1;

#[test]
fn a_fresh_token_has_the_first_answer_whatever_it_is() {
    let (a, b) = (origin("A"), origin("B"));
    for answer in [
        AckReply::Ack { origin: &a, seq: 7, duplicate: false },
        AckReply::Ack { origin: &b, seq: 1, duplicate: true },
        AckReply::Rejected { stream: None },
        AckReply::NoResponders,
        AckReply::Unreadable,
    ] {
        let mut client = TestLoop::new(3);
        let token = client.insert(9);
        assert!(matches!(client.answer(token, &answer), Attribution::Own(sent) if sent.row == 9), "{answer:?}");
        assert!(matches!(client.answer(token, &answer), Attribution::Foreign), "answered twice");
        assert!(client.book.is_empty() && client.book.bytes() == 0);
    }
}

#[test]
fn tokens_are_used_again_once_acknowledgements_came_in_order() {
    let mut client = TestLoop::new(WARM_UP - 1);
    let token = client.insert(1);
    assert!(!client.is_reused(token));
    client.ack(token);
    let token = client.insert(2);
    assert!(client.is_reused(token));
    let others: Vec<_> = (3..600).map(|row| client.insert(row)).collect();
    assert!(others.iter().all(|other| *other != token), "each message in flight has its own");
    assert!(!client.is_reused(others[590]), "more in flight than the pool holds");
}

#[test]
fn a_reused_token_takes_only_an_answer_that_proves_itself() {
    let leaf = Arc::new(Origin { domain: Some("leaf".into()), ..(*origin("S")).clone() });
    let (same, other) = (origin("S"), origin("T"));
    for row in [1, 2] {
        for answer in [
            AckReply::Ack { origin: &same, seq: WARM_UP, duplicate: false },
            AckReply::Ack { origin: &same, seq: WARM_UP + 1, duplicate: true },
            AckReply::Ack { origin: &leaf, seq: WARM_UP + 1, duplicate: false },
            AckReply::Ack { origin: &other, seq: WARM_UP + 1, duplicate: false },
            AckReply::Rejected { stream: None },
            AckReply::Rejected { stream: Some("T") },
            AckReply::Unreadable,
        ] {
            let mut client = TestLoop::new(WARM_UP);
            let token = client.insert(row);
            assert!(client.is_reused(token));
            match client.answer(token, &answer) {
                Attribution::Resend(sent) => assert_eq!((row, sent.row), (2, 2)),
                Attribution::Ambiguous => assert_eq!(row, 1),
                _ => panic!("{answer:?} was believed"),
            }
            if row == 1 {
                assert!(client.book.get(token).is_some_and(|sent| sent.ambiguous));
                assert!(matches!(client.ack(token), Attribution::Own(_)), "its own answer counts still");
            }
            let next = client.insert(3);
            assert!(!client.is_reused(next), "tokens are fresh after a doubt");
        }
        for answer in [
            AckReply::Ack { origin: &same, seq: WARM_UP + 9, duplicate: false },
            AckReply::Rejected { stream: Some("S") },
            AckReply::NoResponders,
        ] {
            let mut client = TestLoop::new(WARM_UP);
            let token = client.insert(row);
            assert!(matches!(client.answer(token, &answer), Attribution::Own(_)), "{answer:?}");
        }
    }
}

#[test]
fn a_token_is_not_used_again_unless_its_message_ended_with_a_plain_acknowledgement() {
    let stream = origin("S");
    for answer in [
        Some(AckReply::Rejected { stream: Some("S") }),
        Some(AckReply::NoResponders),
        Some(AckReply::Ack { origin: &stream, seq: 3, duplicate: true }),
        None,
    ] {
        let mut client = TestLoop::new(2 * WARM_UP);
        client.book.restart_reuse();
        let token = client.insert(1);
        match answer {
            Some(answer) => drop(client.answer(token, &answer)),
            None => drop(client.book.withdraw(token)),
        }
        for row in 0..2 * WARM_UP {
            let next = client.insert(row);
            assert_ne!(next, token);
            client.ack(next);
        }
    }
}

#[test]
fn a_message_of_an_unknown_subject_has_a_fresh_token() {
    let mut client = TestLoop::new(WARM_UP);
    let token = client.book.sent(message_to("b", 1), client.now);
    assert!(!client.is_reused(token));
    let token = client.insert(2);
    assert!(client.is_reused(token));
}

/// A tracker after messages to streams in turn, and their tokens by stream. Each subject is the name of its stream.
fn in_turn(names: &[&str], messages: u64) -> (TestLoop, HashMap<String, HashSet<u64>>) {
    let (mut client, mut tokens) = (TestLoop::new(0), HashMap::<_, HashSet<_>>::new());
    for row in 0..messages {
        let name = names[row as usize % names.len()];
        let token = client.book.sent(message_to(name, row), client.now);
        tokens.entry(name.to_owned()).or_default().insert(token);
        client.origin = origin(name);
        assert!(matches!(client.ack(token), Attribution::Own(sent) if sent.row == row));
    }
    (client, tokens)
}

#[test]
fn streams_in_turn_have_tokens_of_their_own() {
    let names = ["A", "B", "C"];
    let (_, tokens) = in_turn(&names, 20 * WARM_UP);
    assert_eq!(tokens.len(), names.len());
    for one in &names {
        assert!(tokens[*one].len() < 2 * WARM_UP as usize / names.len(), "{one} has fresh tokens only");
        assert!(names.iter().filter(|other| *other != one).all(|other| tokens[*one].is_disjoint(&tokens[*other])));
    }
}

#[test]
fn the_first_messages_to_a_stream_have_fresh_tokens() {
    let (mut client, _) = in_turn(&["A"], 2 * WARM_UP);
    client.origin = origin("B");
    for row in 0..=u64::from(ACKS_OF_STREAM) {
        let token = client.book.sent(message_to("B", row), client.now);
        assert!(!client.is_reused(token));
        client.ack(token);
    }
    let token = client.book.sent(message_to("B", 1), client.now);
    assert!(client.is_reused(token));
    let of_the_first = client.book.sent(message_to("A", 2), client.now);
    assert!(client.is_reused(of_the_first), "another stream changes nothing");
}

#[test]
fn a_subject_that_another_stream_acknowledges_makes_tokens_fresh() {
    let (mut client, _) = in_turn(&["A", "B"], 2 * WARM_UP);
    client.book.suspend_reuse(client.now + Duration::from_millis(1));
    let fresh: Vec<_> = (0..2).map(|row| client.book.sent(message_to("A", row), client.now)).collect();
    client.origin = origin("A");
    client.ack(fresh[0]);
    client.origin = origin("B");
    client.ack(fresh[1]);
    assert_eq!(client.book.reuse.most_tokens(), REUSABLE_TOKENS, "one stream since the restart");
}

#[test]
fn a_reused_token_of_one_stream_takes_no_answer_of_another() {
    let (mut client, _) = in_turn(&["A", "B"], 2 * WARM_UP);
    let token = client.book.sent(message_to("A", 1), client.now);
    assert!(client.is_reused(token));
    client.origin = origin("B");
    assert!(matches!(client.ack(token), Attribution::Ambiguous));
    client.origin = origin("A");
    assert!(matches!(client.ack(token), Attribution::Own(_)));
}

#[test]
fn an_answer_to_a_message_that_has_ended_suspends_reuse_for_a_minute() {
    let mut client = TestLoop::new(WARM_UP);
    let (token, seq) = (client.insert(1), client.seq);
    assert!(matches!(client.ack_with(token - 1, seq, false), Attribution::Foreign));
    for row in 0..2 * WARM_UP {
        let token = client.insert(row);
        assert!(!client.is_reused(token));
        client.ack(token);
    }
    // With one in flight all the time, so that it is no idle connection that has fresh tokens.
    let (waiting, last) = (client.insert(1), client.insert(3));
    client.now += SUSPENSION - Duration::from_millis(1);
    client.ack(last);
    let token = client.insert(1);
    assert!(!client.is_reused(token));
    client.now += Duration::from_millis(1);
    client.ack(token);
    let token = client.insert(2);
    assert!(client.is_reused(token) && !client.is_reused(waiting));
}

#[test]
fn a_second_stream_of_the_same_name_proves_nothing() {
    let mut client = TestLoop::new(WARM_UP + 8);
    let (ended, waiting, with_id) = (client.insert(1), client.insert(3), client.insert(4));
    client.ack(ended);
    let seq = client.seq;
    // A repetition is harmless; a sequence that was never acknowledged is not.
    assert!(matches!(client.ack_with(ended, seq, false), Attribution::Foreign));
    assert!(client.book.slots.iter().filter_map(|slot| slot.claim.as_ref()).all(|claim| !claim.void));
    assert!(matches!(client.ack_with(ended, seq + 900, false), Attribution::Foreign));
    assert!(matches!(client.ack_with(waiting, seq + 901, false), Attribution::Ambiguous));
    assert!(matches!(client.ack_with(with_id, seq + 902, false), Attribution::Resend(_)));
}

#[test]
fn a_late_answer_is_no_second_one() {
    let mut client = TestLoop::new(WARM_UP + 8);
    let (late, waiting) = (client.insert(1), client.insert(3));
    assert!(client.book.withdraw(late).is_some());
    assert!(matches!(client.ack(late), Attribution::Foreign));
    assert!(matches!(client.ack(waiting), Attribution::Own(_)));
}

#[test]
fn sequences_that_fall_make_tokens_fresh() {
    let mut client = TestLoop::new(WARM_UP + 8);
    let (first, second) = (client.insert(1), client.insert(2));
    client.seq = 0;
    assert!(matches!(client.ack(first), Attribution::Ambiguous));
    assert!(matches!(client.ack(second), Attribution::Resend(_)));
    let token = client.insert(2);
    assert!(!client.is_reused(token) && matches!(client.ack(token), Attribution::Own(_)));
}

#[test]
fn tokens_are_fresh_after_an_idle_moment() {
    let mut client = TestLoop::new(WARM_UP);
    client.now += IDLE_SLOT_AGE;
    let token = client.insert(1);
    assert!(!client.is_reused(token));
}

#[test]
fn messages_come_back_in_publish_order() {
    // Numbers of results are used again: here the last published has the smallest.
    let mut client = TestLoop::new(0);
    for row in [5, 3, 4, 1] {
        client.insert(row);
    }
    assert_eq!(client.book.find(|sent| sent.row < 5).map(|sent| sent.row), Some(4));
    assert_eq!(client.book.on_disconnect().iter().map(|s| s.row).collect::<Vec<_>>(), [5, 4, 3, 1]);
    assert!(client.book.is_empty());
}

#[test]
fn the_largest_window_has_tokens_that_fit_a_reply_subject() {
    let mut book = AckTracker::new(usize::MAX, true);
    for row in 0..1_000 {
        let token = book.sent(message(row), Instant::now());
        let mut text = Vec::new();
        write_token(token, &mut text);
        assert_eq!(read_token(&text), Some(token));
        assert!(book.get(token).is_some_and(|sent| sent.row == row));
    }
}
