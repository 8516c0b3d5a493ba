"""A stream whose queue of incoming messages is full refuses messages with 429; they are sent again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import jetarrow
import pytest
from jetarrow.js.errors import APIError, BatchError
from jetarrow.server import NatsServer

TOO_MANY_REQUESTS = 10167
QUEUE = 64
ROWS = 10_000


@pytest.fixture
async def busy() -> AsyncIterator[jetarrow.Client]:
    """A server whose streams queue few messages, on which a client without a window is refused."""
    config = f"jetstream {{ max_buffered_msgs: {QUEUE} }}"
    with NatsServer(config=config) as server:
        async with await jetarrow.connect(server.url) as nc:
            await nc.jetstream().add_stream(name="BUSY", subjects=["busy.>"])
            answers = await nc.subscribe("answers", pending_msgs_limit=-1)
            codes: list[int | None] = []
            # A client without time to write may not fill the queue at once.
            while TOO_MANY_REQUESTS not in codes:
                for _ in range(ROWS):
                    await nc.publish("busy.core", b"x", reply="answers")
                found = [json.loads((await answers.next_msg(30)).data) for _ in range(ROWS)]
                codes = [answer.get("error", {}).get("err_code") for answer in found]
            await nc.jetstream().purge_stream("BUSY")
            yield nc


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("most", [None, 2_000])
async def test_refused_rows_are_sent_again(busy: jetarrow.Client, most: int | None, ids: bool) -> None:
    js = busy.jetstream()
    rows = [b"%d" % number for number in range(ROWS)]
    subjects = [f"busy.{number % 3}" for number in range(ROWS)]
    given = [f"id{number}" for number in range(ROWS)] if ids else None
    result = await js.publish_batch(subjects, rows, msg_ids=given, max_inflight=most, timeout=60)
    result.raise_for_errors()
    assert result.stored == ROWS
    stored = await js.read("BUSY", columns=["data"]).read_all()
    assert sorted(stored.column("data").to_pylist()) == sorted(rows)


async def test_publisher_stores_all(busy: jetarrow.Client) -> None:
    js = busy.jetstream()
    async with js.publisher("busy.a", max_inflight=2_000) as publisher:
        acks = [await publisher.publish(b"%d" % number) for number in range(ROWS)]
        found = await asyncio.gather(*acks)
    assert sorted(ack.seq for ack in found) == sorted({ack.seq for ack in found})
    assert (await js.stream_info("BUSY")).state.messages == ROWS


async def test_rows_without_time_for_another_attempt_name_the_cause(busy: jetarrow.Client) -> None:
    js = busy.jetstream()
    refused: list[APIError] = []
    stored = late = 0
    # On a busy machine all answers may come after the timeout.
    while not refused:
        result = await js.publish_batch("busy.a", [b"x" * 512] * ROWS, max_inflight=ROWS, timeout=0.2)
        refused = [failed.error for failed in result.errors if isinstance(failed.error, APIError)]
        unknown = [failed.error for failed in result.errors if not isinstance(failed.error, APIError)]
        assert all(isinstance(error, jetarrow.errors.TimeoutError) for error in unknown)
        # Rows may be stored after their timeout, but none that was refused.
        stored, late = stored + result.stored, late + len(unknown)
        assert stored <= (await js.stream_info("BUSY")).state.messages <= stored + late
    assert {error.err_code for error in refused} == {TOO_MANY_REQUESTS}
    with pytest.raises(BatchError):
        result.raise_for_errors()
