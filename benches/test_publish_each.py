"""Awaiting the ack of each message: by 100 tasks at once, and one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import peers
import pytest
import successor_peer
import wire
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
# The raw sockets have as many unanswered messages as the others.
TASKS = Group(
    "100 tasks awaiting publish, 128 B",
    "publish",
    baseline="raw socket, 100 unanswered",
    peer="nats-py publish, 100 tasks",
    count=60_000,
)
AWAITED = Group(
    "one awaited publish after another, 128 B",
    "publish",
    baseline="raw socket, 1 unanswered",
    peer="nats-py publish",
    count=5_000,
)


def raw_socket(run: Run, window: int) -> int:
    wire.publish(run.url, run.subject, run.size, run.count, window=window, clock=run.clock())
    return run.count


TASKS.row("raw socket, 100 unanswered")(partial(raw_socket, window=peers.TASKS))
AWAITED.row("raw socket, 1 unanswered")(partial(raw_socket, window=1))


@TASKS.row("jetarrow publish, 100 tasks", needs=NATIVE)
async def publish_tasks(run: Run) -> int:
    import jetarrow

    payloads = run.payloads
    nc = await jetarrow.connect(run.url)
    with run.clock():
        done = await peers.in_tasks(nc.jetstream().publish, run.subject, payloads)
    await nc.close()
    return done


TASKS.row("nats-py publish, 100 tasks", count=20_000)(peers.nats_py_publish_tasks)
TASKS.row("nats-jetstream publish, 100 tasks", count=20_000, command=successor_peer.PYTHON)(
    successor_peer.publish_tasks
)


@AWAITED.row("jetarrow publish", needs=NATIVE)
async def publish_awaited(run: Run) -> int:
    import jetarrow

    payloads = run.payloads
    nc = await jetarrow.connect(run.url)
    with run.clock():
        done = await peers.one_by_one(nc.jetstream().publish, run.subject, payloads)
    await nc.close()
    return done


@AWAITED.row("jetarrow publish, sync", needs=NATIVE)
def publish_awaited_sync(run: Run) -> int:
    import jetarrow.sync

    payloads = run.payloads
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            for payload in payloads:
                js.publish(run.subject, payload)
    return run.count  # the harness asks the stream


AWAITED.row("nats-py publish")(peers.nats_py_publish)
AWAITED.row("nats-jetstream publish", count=500, command=successor_peer.PYTHON)(successor_peer.publish)


@pytest.mark.parametrize("name", TASKS.rows)
def test_publish_tasks(name: str, record: Callable[[Group, str], None]) -> None:
    record(TASKS, name)


@pytest.mark.parametrize("name", AWAITED.rows)
def test_publish_awaited(name: str, record: Callable[[Group, str], None]) -> None:
    record(AWAITED, name)
