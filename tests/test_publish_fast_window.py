"""publish_batch(mode="fast") with message IDs that the server forgets while a result is unknown."""

from __future__ import annotations

import asyncio

import jetarrow
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.server import NatsServer

from .conftest import EAGER
from .slow_link import slow_link
from .tools import until

COUNT = 20_000


@pytest.mark.parametrize(("window", "lost"), [(0.1, None), (0.5, b"stream_info_response"), (120.0, None)])
async def test_rows_are_resent_within_the_duplicate_window_only(
    own_server: NatsServer, window: float, lost: bytes | None
) -> None:
    """Acks are lost, and the server is restarted: what it has stored is known by its ids, or forgotten.

    Without an answer about the window nothing is resent.
    """
    ids = [str(number) for number in range(COUNT)]
    async with slow_link(own_server.url, 0.0) as link, await jetarrow.connect(own_server.url, **EAGER) as other:
        js = other.jetstream()
        await js.add_stream(name="FAST", subjects=["fast.>"], allow_batched=True, duplicate_window=window)

        async def restart() -> None:
            counts: list[int] = []

            async def is_settled() -> bool:
                """All rows in flight are stored."""
                counts.append((await js.stream_info("FAST")).state.messages)
                return len(counts) > 5 and len(set(counts[-5:])) == 1

            await until(is_settled)
            await asyncio.to_thread(own_server.kill)
            # Longer than the short windows.
            await asyncio.sleep(0.8)
            link.swallowed = lost
            await asyncio.to_thread(own_server.start)

        restarting: list[asyncio.Task[None]] = []

        def progress(done: int, total: int | None) -> None:
            if not restarting:
                link.swallowed = b'"type":"ack"'
                restarting.append(asyncio.ensure_future(restart()))

        async with await jetarrow.connect(link.url, **EAGER) as nc:
            result = await nc.jetstream().publish_batch(
                "fast.a", ids, msg_ids=ids, mode="fast", max_inflight=500, timeout=8, progress=progress
            )
        await restarting[0]
        found = [int(data) for data in (await js.read("FAST", columns=["data"]).read_all()).column(0).to_pylist()]
    unknown = {error.row for error in result.errors}
    assert len(found) == len(set(found))
    assert set(found) | unknown == set(range(COUNT))
    if window > 1:
        result.raise_for_errors()
    else:
        # Some of them are stored, because their acks were lost.
        assert unknown & set(found)
        assert {type(error.error) for error in result.errors} == {js_errors.PublishUnconfirmedError}
        assert ("duplicates for 0.1 s only" in str(result.errors[0].error)) == (lost is None)
