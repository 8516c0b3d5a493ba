use super::*;
use crate::engine::publish::body::{Body, Single};

fn sent(row: u64, subject: &str, payload: &str) -> Sent {
    let (subject, payload) = (subject.into(), payload.to_owned().into());
    let body = Body::Single(Box::new(Single { subject, payload, headers: None, timeout: None }));
    Sent { row, place: row, body, bytes: 1, deadline: None, first: None, sent_at: None, tries: 0 }
}

/// Rows 0, 1, ... with these payloads.
fn group(payloads: &[&str]) -> Group {
    let rows = (0..).zip(payloads).map(|(row, payload)| sent(row, "a", payload)).collect();
    Group { rows, ..Group::default() }
}

thread_local! {
    static ORIGIN: Arc<Origin> = Arc::default();
}

fn stored(seq: u64) -> Answer {
    Answer::Stored(seq, ORIGIN.with(Arc::clone))
}

fn foreign(seq: u64) -> Answer {
    Answer::Foreign(Box::new(PubAck { stream: "ELSEWHERE".into(), seq, ..PubAck::default() }))
}

fn failed() -> Answer {
    Answer::Failed(Box::new(JetError::Api { code: 400, err_code: 10077, description: "full".into() }))
}

fn holds(subject: &str, payload: &str) -> Stored {
    let (headers, time) = (Vec::new(), String::new());
    Stored { subject: subject.into(), seq: 1, headers, payload: payload.into(), time }
}

fn numbers(rows: &[Sent]) -> Vec<u64> {
    rows.iter().map(|sent| sent.row).collect()
}

/// What it says at each answer.
fn hear(group: &mut Group, answers: Vec<Answer>) -> Vec<Heard> {
    let now = Instant::now();
    answers.into_iter().map(|answer| group.hear(answer, now)).collect()
}

#[test]
fn nothing_is_said_before_there_is_an_answer_for_each() {
    let mut all = group(&["x", "y", "z"]);
    assert_eq!(hear(&mut all, vec![stored(1), stored(2), stored(3)]), [Heard::Some, Heard::Some, Heard::All]);
    let mut none = group(&["x", "y"]);
    assert_eq!(hear(&mut none, vec![failed(), Answer::Nobody]), [Heard::Some, Heard::All]);
    let mut mixed = group(&["x", "y"]);
    assert_eq!(hear(&mut mixed, vec![stored(1), failed()]), [Heard::Some, Heard::Unclear]);
    let duplicate = Answer::Odd(Box::new(PubAck { stream: "S".into(), seq: 1, duplicate: true, ..PubAck::default() }));
    assert_eq!(hear(&mut group(&["x", "y"]), vec![stored(2), duplicate]), [Heard::Some, Heard::Unclear]);
}

#[test]
fn an_ack_of_another_stream_may_be_one_too_many() {
    let mut group = group(&["x", "y"]);
    let answers = vec![stored(1), foreign(7), stored(2)];
    assert_eq!(hear(&mut group, answers), [Heard::Some, Heard::Some, Heard::All]);
    let mut flooded = self::group(&["x", "y"]);
    hear(&mut flooded, (0..1_000).map(foreign).collect());
    assert_eq!(flooded.answers.len(), MOST_ANSWERS);
    assert_eq!(hear(&mut flooded, vec![stored(1), stored(2)]), [Heard::Some, Heard::All]);
    assert!(group.answers.len() == 2 && group.answers.iter().all(Answer::is_plain));
}

#[test]
fn acks_of_streams_that_took_turns_have_no_order() {
    let other = Answer::Stored(9, Arc::default());
    assert_eq!(hear(&mut group(&["x", "y"]), vec![stored(1), other]), [Heard::Some, Heard::Unclear]);
}

#[test]
fn the_stream_is_asked_once_for_what_is_missing() {
    let mut group = group(&["x", "y", "z"]);
    hear(&mut group, vec![stored(5), stored(6)]);
    let (now, later) = (Instant::now(), Instant::now() + DECIDE);
    assert!(!group.is_puzzling(now) && group.is_puzzling(later));
    let wanted = [(0, String::new(), 5), (1, String::new(), 6)];
    assert_eq!(group.ask().as_deref(), Some(&wanted[..]));
    assert!(group.ask().is_none() && !group.is_puzzling(later));
    // The middle one is missing; another comes while the stream is asked.
    let (known, hopeless) = group.learn(&Found::from([(0, holds("a", "x")), (1, holds("a", "z"))]));
    assert_eq!(known.iter().map(|(sent, _)| sent.row).collect::<Vec<_>>(), [0, 2]);
    assert!(hopeless.is_empty() && numbers(&group.rows) == [1] && !group.is_shared());
    assert!(!group.is_puzzling(later));
}

#[test]
fn what_comes_while_the_stream_is_asked_is_kept() {
    let mut group = group(&["x", "y", "z"]);
    hear(&mut group, vec![stored(5)]);
    assert!(group.ask().is_some());
    hear(&mut group, vec![stored(6)]);
    let (known, hopeless) = group.learn(&Found::from([(0, holds("a", "x"))]));
    assert!(known.len() == 1 && hopeless.is_empty() && numbers(&group.rows) == [1, 2]);
    assert_eq!(hear(&mut group, vec![stored(7)]), [Heard::All]);
}

#[test]
fn errors_are_for_the_rows_that_are_not_there() {
    let mut group = group(&["x", "y", "z"]);
    assert_eq!(hear(&mut group, vec![failed(), stored(5), stored(6)]).pop(), Some(Heard::Unclear));
    assert!(group.ask().is_some());
    let (known, hopeless) = group.learn(&Found::from([(1, holds("a", "x")), (2, holds("a", "y"))]));
    assert!(known.len() == 2 && hopeless.is_empty() && numbers(&group.rows) == [2]);
    assert!(group.heard() == Heard::All && matches!(group.answers[..], [Answer::Failed(_)]));
}

#[test]
fn where_the_stream_does_not_say_no_row_is_stored_or_failed() {
    let mut group = group(&["x", "y", "z"]);
    hear(&mut group, vec![failed(), stored(5), stored(6)]);
    assert!(group.ask().is_some());
    let (known, hopeless) = group.learn(&Found::from([(2, holds("a", "y"))]));
    assert_eq!(known.iter().map(|(sent, _)| sent.row).collect::<Vec<_>>(), [1]);
    assert!(group.rows.is_empty() && numbers(&hopeless) == [0, 2]);
}

#[test]
fn an_ack_of_something_else_is_not_of_these_rows() {
    let mut group = group(&["x", "y"]);
    hear(&mut group, vec![stored(5), foreign(6)]);
    assert!(group.ask().is_some());
    let (known, hopeless) = group.learn(&Found::from([(0, holds("a", "x")), (1, holds("a", "else"))]));
    assert!(known.len() == 1 && hopeless.is_empty());
    assert!(numbers(&group.rows) == [1] && group.is_unheard());
}

#[test]
fn rows_that_are_alike_are_told_apart_by_their_subjects() {
    let alike = || vec![Some(sent(0, "a", "x")), Some(sent(1, "b", "x")), Some(sent(2, "b", "x"))];
    assert_eq!(find(&alike(), &holds("b", "x")), Some(1));
    // The stream has changed them.
    assert_eq!(find(&alike(), &holds("c.b", "x")), None);
    assert_eq!(find(&alike()[1..], &holds("c.b", "x")), Some(0));
    assert_eq!(find(&alike(), &holds("b", "y")), None);
}
