"""The rules of `js.doctor` about consumers, at their thresholds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from jetarrow.jetstream.doctor.snapshot import ConsumerFacts, StreamFacts

from .facts import ago, all_of, consumer, found, measured, of_consumer, snapshot, stream

WARNING = [("warning", "consumer S > C")]


def idle(seconds: float, **more: Any) -> Any:
    position = {"consumer_seq": 10, "stream_seq": 10, "last_active": ago(seconds)}
    return consumer(num_waiting=0, delivered=position, ack_floor=position, **more)


@pytest.mark.parametrize(("seconds", "expected"), [(3599, []), (3600, WARNING)])
def test_a_pull_consumer_without_activity(seconds: float, expected: list[tuple[str, str]]) -> None:
    assert found(of_consumer(idle(seconds))) == expected
    # A client waits for messages, or the consumer is new.
    assert found(of_consumer(consumer(delivered=None, ack_floor=None))) == []
    assert found(of_consumer(consumer(num_waiting=0, delivered=None, ack_floor=None, created=ago(10)))) == []


def test_names_in_the_commands_of_a_remedy_are_quoted() -> None:
    (finding,) = all_of(of_consumer(idle(4000, name="a;reboot")))
    assert finding.remedy.endswith("jetarrow consumer rm S 'a;reboot'")


def test_an_unused_consumer_that_makes_its_stream_keep_messages() -> None:
    (finding,) = all_of(of_consumer(idle(4000, num_pending=7), stream(config={"retention": "interest"})))
    assert finding.problem.endswith("the stream keeps messages for it")
    assert "7 unprocessed messages" in finding.evidence


@pytest.mark.parametrize(("bound", "expected"), [(True, []), (False, WARNING)])
def test_a_push_consumer_without_a_subscriber(bound: bool, expected: list[tuple[str, str]]) -> None:
    push = consumer(config={"deliver_subject": "to.me"}, num_waiting=0, push_bound=bound)
    assert found(of_consumer(push)) == expected


def test_a_paused_consumer_is_an_info_and_not_unused() -> None:
    (finding,) = all_of(of_consumer(idle(4000, paused=True, pause_remaining=90 * 10**9)))
    assert (finding.severity, finding.evidence) == ("info", "paused for another 1.5m")


@pytest.mark.parametrize(("seconds", "count"), [(299, 0), (300, 1)])
def test_ephemeral_consumers_left_behind_are_one_finding(seconds: float, count: int) -> None:
    config = {"durable_name": None, "inactive_threshold": 3600 * 10**9}
    left = tuple(ConsumerFacts(idle(seconds, config=config, name=f"E{number}")) for number in range(5))
    facts = snapshot(StreamFacts(stream(), left))
    assert found(facts) == [("warning", "stream S")] * count
    assert all("E0, E1, E2 and 2 more" in one.evidence for one in all_of(facts))


@pytest.mark.parametrize(("seconds", "expected"), [(3599, []), (3600, WARNING), (None, [])])
def test_a_consumer_that_lags(seconds: float | None, expected: list[tuple[str, str]]) -> None:
    behind = None if seconds is None else timedelta(seconds=seconds)
    assert found(of_consumer(ConsumerFacts(consumer(num_pending=5), behind))) == expected


@pytest.mark.parametrize(("seconds", "count"), [(79, 0), (80, 1)])
def test_a_lag_that_reaches_max_age_is_an_error(seconds: float, count: int) -> None:
    facts = ConsumerFacts(consumer(num_pending=5), timedelta(seconds=seconds))
    assert found(of_consumer(facts, stream(config={"max_age": 100 * 10**9}))) == [("error", "consumer S > C")] * count


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({"max_ack_pending": 999}, 1),
        ({"max_ack_pending": 1000}, 0),
        ({"max_ack_pending": -1}, 0),
        ({"max_ack_pending": 1000, "max_batch": 1001}, 1),
        ({"max_ack_pending": 10, "max_batch": 10}, 0),
        ({"max_ack_pending": 10, "ack_policy": "none"}, 0),
        ({"max_ack_pending": 10, "deliver_subject": "to.me"}, 0),
    ],
)
def test_max_ack_pending_is_compared_with_the_batch(config: dict[str, Any], count: int) -> None:
    assert found(of_consumer(consumer(config=config, push_bound=True))) == WARNING * count


@pytest.mark.parametrize(("unacked", "pending", "count"), [(999, 5, 0), (1000, 0, 0), (1000, 5, 1)])
def test_max_ack_pending_that_is_reached(unacked: int, pending: int, count: int) -> None:
    facts = of_consumer(consumer(num_ack_pending=unacked, num_pending=pending))
    assert found(facts) == WARNING * count
    later = measured(consumer(num_ack_pending=unacked, num_pending=pending), delivered=0, unacked=unacked - 1)
    assert found(of_consumer(later)) == []


@pytest.mark.parametrize(
    ("unacked", "delivered", "count"),
    # 10 acknowledgements a second: 300 messages are acknowledged within 30 s.
    [(300, 10, 0), (310, 10, 1), (310, 9, 0), (310, 100, 0)],
)
def test_ack_wait_is_compared_with_the_estimated_time(unacked: int, delivered: int, count: int) -> None:
    first = consumer(num_ack_pending=unacked)
    facts = measured(first, delivered=delivered, unacked=unacked)
    assert found(of_consumer(facts)) == WARNING * count


@pytest.mark.parametrize(("slowest", "count"), [(30.0, 0), (30.1, 1)])
def test_ack_wait_is_compared_with_ack_samples(slowest: float, count: int) -> None:
    facts = measured(consumer(num_ack_pending=5), delivered=0, unacked=5, samples=3, slowest=slowest)
    assert found(of_consumer(facts)) == WARNING * count
    assert all("slowest of 3 ack samples: 30.1s" in one.evidence for one in all_of(of_consumer(facts)))


def test_the_first_backoff_counts_as_ack_wait() -> None:
    first = consumer(num_ack_pending=5, config={"backoff": [2 * 10**9, 60 * 10**9], "ack_wait": 2 * 10**9})
    facts = measured(first, delivered=0, unacked=5, samples=3, slowest=3.0)
    assert found(of_consumer(facts)) == WARNING


@pytest.mark.parametrize(
    ("redelivered", "unacked", "severity"),
    [(0, 50, []), (9, 50, ["info"]), (10, 50, ["warning"]), (10, 101, ["info"]), (5, 0, [])],
)
def test_redelivered_messages_are_a_sign(redelivered: int, unacked: int, severity: list[str]) -> None:
    facts = of_consumer(consumer(num_redelivered=redelivered, num_ack_pending=unacked))
    assert found(facts) == [(one, "consumer S > C") for one in severity]
