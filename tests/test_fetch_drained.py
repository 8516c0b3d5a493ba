"""drain() of a pull subscription whose iteration has a response in its buffer."""

from __future__ import annotations

from typing import Any

import pytest
from jetarrow.js.client import JetStreamContext

from .tools import fill, until


@pytest.mark.parametrize("ack_policy", ["none", "explicit"])
async def test_drained_iteration_yields_the_response_of_the_request_ahead(
    js: JetStreamContext, stream: str, ack_policy: Any
) -> None:
    """It had arrived before the drain, as had the messages of the request before it."""
    await fill(js, stream, 8)
    sub = await js.pull_subscribe(f"{stream}.>", ack_policy=ack_policy)
    made: list[Any] = []
    start: Any = sub._start_fetch

    def noted(*arguments: Any) -> Any:
        made.append(start(*arguments))
        return made[-1]

    sub._start_fetch = noted  # type: ignore[method-assign]
    iteration = aiter(sub.consume(4, threshold=3))
    seen = [(await anext(iteration)).seq, (await anext(iteration)).seq]
    await until(lambda: made and made[0][0].done())
    await sub.drain()
    seen += [msg.seq async for msg in iteration]
    assert seen == list(range(1, 9))
