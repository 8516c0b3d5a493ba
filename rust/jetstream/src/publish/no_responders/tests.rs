use super::*;
use crate::publish::body::{Body, Single};

fn sent(place: u64, subject: &str) -> InFlightMessage {
    let single = Single { subject: subject.into(), payload: "".into(), headers: None, timeout: None };
    let body = Body::Single(Box::new(single));
    InFlightMessage { bytes: 10, ..InFlightMessage::new(place, place, body, None) }
}

fn places(sent: impl IntoIterator<Item = InFlightMessage>) -> Vec<u64> {
    let mut places: Vec<_> = sent.into_iter().map(|sent| sent.place).collect();
    places.sort_unstable();
    places
}

/// Returns three held messages of one subject and their due list. They are out of order, as replies arrive.
fn three(now: Instant) -> (NoResponders, Vec<InFlightMessage>) {
    let mut no_responders = NoResponders::default();
    for place in [3, 1, 2] {
        assert!(no_responders.hold_back(sent(place, "a"), now).is_none());
    }
    assert!(no_responders.due(now).is_empty());
    let mut due = no_responders.due(now + RETRY_INTERVAL);
    due.sort_unstable_by_key(|sent| sent.place);
    assert!(due.len() == 3 && no_responders.is_empty());
    (no_responders, due)
}

/// Returns the only message that may be sent.
fn alone(no_responders: &mut NoResponders, due: Vec<InFlightMessage>) -> InFlightMessage {
    let mut first: Vec<_> = due.into_iter().filter_map(|sent| no_responders.hold(sent)).collect();
    assert_eq!(first.len(), 1);
    first.remove(0)
}

#[test]
fn one_message_is_retried_and_the_others_follow_its_ack() {
    let now = Instant::now();
    let (mut no_responders, due) = three(now);
    let first = alone(&mut no_responders, due);
    assert_eq!((first.place, no_responders.len(), no_responders.bytes()), (1, 2, 20));
    assert!(no_responders.due(now + 2 * RETRY_INTERVAL).is_empty() && no_responders.question().is_none());
    // The link had no room for it at first. Later messages wait, and answers to others have no effect.
    let first = no_responders.hold(first).unwrap();
    assert!(no_responders.hold(sent(4, "a")).is_none() && no_responders.hold(sent(5, "b")).is_some());
    assert!(no_responders.heard(&sent(9, "a")).is_empty() && no_responders.heard(&sent(1, "b")).is_empty());
    assert_eq!(places(no_responders.heard(&first)), [2, 3, 4]);
    assert!(no_responders.hold(sent(6, "a")).is_some() && no_responders.is_empty() && no_responders.bytes() == 0);
}

#[test]
fn second_no_responders_counts_for_all_messages_of_the_subject() {
    let now = Instant::now();
    let (mut no_responders, due) = three(now);
    let first = alone(&mut no_responders, due);
    assert!(no_responders.hold(sent(4, "a")).is_none());
    assert!(no_responders.hold_back(first, now).is_none());
    assert_eq!(no_responders.question().as_deref(), Some("a"));
    assert!(no_responders.question().is_none() && no_responders.answer("a", StreamLookup::Taken, now).0.is_empty());
    let due = no_responders.due(now + RETRY_INTERVAL);
    assert_eq!(due.iter().map(|sent| sent.tries).collect::<Vec<_>>(), [2; 4]);
}

#[test]
fn busy_stream_is_tried_with_one_message_and_never_looked_up() {
    let now = Instant::now();
    let mut no_responders = NoResponders::default();
    for place in [2, 1] {
        assert!(no_responders.hold_busy(sent(place, "a"), now).is_none());
    }
    let mut due = no_responders.due(now + RETRY_INTERVAL);
    due.sort_unstable_by_key(|sent| sent.place);
    let first = alone(&mut no_responders, due);
    let later = now + RETRY_INTERVAL;
    assert!(no_responders.hold_busy(first, later).is_none() && no_responders.question().is_none());
    assert!(no_responders.due(later).is_empty());
    let due = no_responders.due(later + RETRY_INTERVAL);
    assert_eq!(due.iter().map(|sent| (sent.place, sent.tries)).collect::<Vec<_>>(), [(2, 0), (1, 0)]);
    let late = InFlightMessage { deadline: Some(now + RETRY_INTERVAL), ..sent(3, "a") };
    assert!(no_responders.hold_busy(late, now).is_some());
}

#[test]
fn only_messages_with_their_own_503_fail() {
    let now = Instant::now();
    let (mut no_responders, due) = three(now);
    let sent_once = |sent: InFlightMessage| InFlightMessage { sent_at: Some(now), ..sent };
    let first = alone(&mut no_responders, due.into_iter().map(sent_once).collect());
    assert!(no_responders.hold(sent(4, "a")).is_none() && no_responders.hold_back(first, now).is_none());
    assert_eq!(no_responders.question().as_deref(), Some("a"));
    let (failed, unsent) = no_responders.answer("a", StreamLookup::Nobody, now);
    assert_eq!((places(failed), places(unsent)), (vec![1, 2, 3], vec![4]));
    // A further message fails with its first 503 for one second. After that a stream may have been created.
    let late = now + WITHOUT_STREAM_TTL;
    assert!(no_responders.hold_back(sent_once(sent(5, "a")), late - Duration::from_millis(1)).is_some());
    assert!(no_responders.hold_back(sent_once(sent(6, "a")), late).is_none());
}

#[test]
fn next_message_is_sent_if_the_first_ended_otherwise() {
    let now = Instant::now();
    let (mut no_responders, due) = three(now);
    let first = alone(&mut no_responders, due);
    let (mut inflight, mut again) = (AckTracker::new(8, true), VecDeque::from([first]));
    no_responders.recall(now, &inflight, &again);
    for first in again.drain(..) {
        inflight.sent(first, now);
    }
    no_responders.recall(now, &inflight, &again);
    assert!(no_responders.due(now).is_empty());
    inflight.on_disconnect();
    no_responders.recall(now, &inflight, &again);
    again.extend(no_responders.due(now));
    no_responders.recall(now, &inflight, &again);
    assert!(again.len() == 2 && no_responders.due(now).is_empty(), "they are at hand");
    // Messages whose timeout expired end here; earlier ones continue in order, whatever else is in flight.
    again.clear();
    inflight.sent(sent(9, "b"), now);
    assert!(no_responders.hold_back(sent(0, "a"), now).is_none());
    no_responders.recall(now, &inflight, &again);
    assert_eq!(places(no_responders.due(now)), [0]);
    no_responders.recall(now, &inflight, &again);
    assert!(no_responders.groups.is_empty());
}
