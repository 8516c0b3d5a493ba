"""Counters and end of the sync client's pull subscriptions and consumers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest
from jetarrow.errors import BadSubscriptionError
from jetarrow.sync import Consumer, JetStream, PullSubscription

from .tools import fill_sync

Make = Callable[[], PullSubscription | Consumer]


@pytest.fixture(params=["subscription", "handle"])
def make(request: pytest.FixtureRequest, sync_js: JetStream, stream: str) -> Make:
    """A function that binds to the consumer "d" of the stream; the first call creates it."""
    if request.param == "subscription":
        return lambda: sync_js.pull_subscribe(f"{stream}.>", durable="d")
    return lambda: sync_js.stream(stream).get_or_create_consumer("d", durable_name="d")


def test_pull_subscription_counts_delivered_and_pending_messages(make: Make, sync_js: JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 10)
    sub = make()
    assert (sub.delivered, sub.pending_msgs, sub.pending_bytes) == (0, 0, 0)
    assert [len(sub.fetch(3)), sub.delivered] == [3, 3]
    assert [msg.seq for msg in islice(sub.consume(2), 2)] == [4, 5]
    assert sub.delivered == 5
    sub.pull(1)
    assert [msg.seq for msg in sub] == [6]
    assert sub.delivered == 6
    # The client buffers no message that was not requested.
    assert (sub.pending_msgs, sub.pending_bytes) == (0, 0)
    # Each subscription has its own counters.
    assert make().delivered == 0


def test_unsubscribe(make: Make, sync_js: JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 2)
    sub = make()
    (msg,) = sub.fetch(1)
    msg.ack_sync(timeout=20)
    assert sub.unsubscribe() is None
    with pytest.raises(BadSubscriptionError):
        sub.unsubscribe()
    # The consumer still exists and continues at its position.
    assert sync_js.consumer_info(stream, "d").num_pending == 1
    assert [msg.seq for msg in make().fetch(1)] == [2]
