"""Ordered delivery without acks: 300,000 messages of 128 B from a file store, every `data` read."""

from __future__ import annotations

from collections.abc import Callable

import peers
import pytest
import wire
from harness import Group, Run

NATIVE = "jetarrow._jetarrow"
PUSH = Group("ordered push, 128 B", "read", baseline="raw socket", peer="nats-py ordered push")


@PUSH.row("raw socket")
def raw_socket(run: Run) -> int:
    wire.push(run.url, run.stream, run.count, clock=run.clock())
    return run.count  # it has checked the consumer's own count


@PUSH.row("jetarrow ordered push, async for", needs=NATIVE)
async def ordered_push(run: Run) -> int:
    import jetarrow

    return await peers.ordered_push(run, jetarrow.connect)


@PUSH.row("jetarrow js.ordered_consumer", needs=NATIVE)
async def ordered_consumer(run: Run) -> int:
    """The same without push: it pulls."""
    import jetarrow

    nc = await jetarrow.connect(run.url)
    js = nc.jetstream()
    read = size = 0
    with run.clock():
        async for message in js.ordered_consumer(run.stream):
            size += len(message.data)
            read += 1
            if read == run.count:
                break
    await nc.close()
    run.check_bytes(size)
    return read


PUSH.row("nats-py ordered push", count=60_000)(peers.nats_py_ordered_push)


@pytest.mark.parametrize("name", PUSH.rows)
def test_push(name: str, record: Callable[[Group, str], None]) -> None:
    record(PUSH, name)
