"""Messages of a cancelled fetch are delivered by the next call if the consumer has no acks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import jetarrow
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext

from .tools import fill, until

COLUMNS = [None, ["seq"], ["data", "seq"]]


async def waiting(js: JetStreamContext, stream: str, call: Awaitable[Any]) -> asyncio.Future[Any]:
    """A call that requests more messages than the stream has, and to which the server has sent all of them."""
    future = asyncio.ensure_future(call)

    async def has_sent() -> bool:
        info = await js.consumer_info(stream, "d")
        return (info.num_waiting, info.num_pending) == (1, 0)

    await until(has_sent)
    return future


async def cancelled(future: asyncio.Future[Any]) -> None:
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future


@pytest.mark.parametrize("bound", [False, True], ids=["made here", "by its name"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
async def test_cancelled_fetch_without_acks_keeps_rows_for_next_call(
    js: JetStreamContext, stream: str, verb: str, columns: list[str] | None, bound: bool
) -> None:
    """With any columns of the cancelled call. A subscription by name requests the ack policy."""
    for number in range(5):
        await js.publish(f"{stream}.a", b"%d" % number, headers={"N": str(number)})
    await js.add_consumer(stream, durable_name="d", ack_policy="none")
    sub = await (js.pull_subscribe_bind("d", stream) if bound else js.pull_subscribe(f"{stream}.>", durable="d"))
    await cancelled(await waiting(js, stream, sub.fetch_batch(10, timeout=30, min_messages=10, columns=columns)))
    if verb == "fetch":
        # The requested number of rows; the others are kept.
        found = await sub.fetch(2, timeout=30) + await sub.fetch(10, timeout=30)
        assert [(msg.seq, msg.subject, msg.data, msg.headers) for msg in found] == [
            (number + 1, f"{stream}.a", b"%d" % number, {"N": str(number)}) for number in range(5)
        ]
    else:
        batch = await sub.fetch_batch(10, timeout=30, min_messages=5)
        table = batch.to_pyarrow()
        assert table.column("seq").to_pylist() == [1, 2, 3, 4, 5]
        assert table.column("data").to_pylist() == [b"0", b"1", b"2", b"3", b"4"]
        assert table.column("headers").to_pylist() == [[("N", [str(number)])] for number in range(5)]
        assert set(table.column("subject").to_pylist()) == {f"{stream}.a"}


@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
async def test_fetch_cancelled_at_any_time_keeps_each_message_in_order(
    js: JetStreamContext, stream: str, verb: str
) -> None:
    """While it waits, while messages arrive, and before the result is returned: each message arrives once, in order."""
    count = 3_000
    await fill(js, stream, count)
    sub = await js.pull_subscribe(f"{stream}.>", ack_policy="none")
    rng = random.Random(verb)
    seen: list[int | None] = []
    cut = 0
    while len(seen) < count:
        call: Awaitable[Any] = sub.fetch(30, timeout=30) if verb == "fetch" else sub.fetch_batch(30, timeout=30)
        future = asyncio.ensure_future(call)
        if cut < 200:
            await asyncio.sleep(rng.uniform(0, 0.002))
            future.cancel()
        try:
            found = await future
        except asyncio.CancelledError:
            cut += 1
        else:
            seen += [msg.seq for msg in found]
    assert seen == list(range(1, count + 1))
    assert cut


async def test_cancelled_list_fetch_keeps_messages_for_next_call(js: JetStreamContext, stream: str) -> None:
    """Messages of a cancelled list fetch, for a list and for columns."""
    await js.add_consumer(stream, durable_name="d", ack_policy="none")
    await js.publish(f"{stream}.a", b"x", headers={"A": "1"})
    await js.publish(f"{stream}.b", b"y")
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    await cancelled(await waiting(js, stream, sub._fetch(3, timeout=30, min_messages=3)))
    (found,) = await sub.fetch(1, timeout=30)
    assert (found.subject, found.data, found.headers_all) == (f"{stream}.a", b"x", {"A": ["1"]})
    assert (await sub.fetch_batch(1, timeout=30)).to_pyarrow().column("data").to_pylist() == [b"y"]


@pytest.mark.parametrize(
    "begin",
    [lambda sub: sub.messages, lambda sub: sub.consume(4, threshold=2)],
    ids=["messages", "consume"],
)
async def test_ended_iteration_keeps_prefetched_messages(
    js: JetStreamContext, stream: str, begin: Callable[[Any], Any]
) -> None:
    """Requested messages that were not yielded are delivered to the next iteration."""
    await fill(js, stream, 20)
    sub = await js.pull_subscribe(f"{stream}.>", ack_policy="none")
    seen: list[int] = []
    while len(seen) < 18:
        iteration = aiter(begin(sub))
        seen += [(await anext(iteration)).seq for _ in range(3)]
        await iteration.aclose()
    seen += [msg.seq for msg in await sub.fetch(10, timeout=30)]
    assert sorted(seen) == list(range(1, 21))


async def test_kept_rows_without_payload_report_deleted_messages(
    js: JetStreamContext, nats_url: str, stream: str
) -> None:
    """A batch without payloads was cancelled, and the messages were deleted since."""
    told: list[Exception] = []

    async def failed(error: Exception) -> None:
        told.append(error)

    async with await jetarrow.connect(nats_url, error_cb=failed) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d", ack_policy="none")
        for attempt in range(5):
            await fill(js, stream, 3)
            await cancelled(await waiting(js, stream, sub.fetch_batch(5, timeout=30, min_messages=5, columns=["seq"])))
            first, deleted, last = (3 * attempt + number for number in (1, 2, 3))
            await js.delete_msg(stream, deleted)
            found: list[int] = []
            while last not in found:
                found += [msg.seq for msg in await sub.fetch(5, timeout=30)]
            if found == [first, last]:
                break
            # The messages had not reached the client when the call was cancelled: they are kept with their payload.
            assert found == [first, deleted, last]
            assert not told
        else:
            pytest.fail("five times no message had arrived before the call was cancelled")
        await until(lambda: told)
    assert [type(error) for error in told] == [js_errors.DataLossError]
    assert f"messages {deleted} to {deleted}" in str(told[0])


async def test_cancelled_fetch_with_acks_naks_messages(js: JetStreamContext, stream: str) -> None:
    """The next request receives them, also if the ack policy was unknown."""
    await fill(js, stream, 5)
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit", ack_wait=600)
    sub = await js.pull_subscribe_bind("d", stream)
    await cancelled(await waiting(js, stream, sub.fetch_batch(10, timeout=30, min_messages=10)))
    other = await js.pull_subscribe_bind("d", stream)
    batch = await other.fetch_batch(5, timeout=30, min_messages=5, columns=["seq", "delivered"])
    assert batch.to_pyarrow().column("delivered").to_pylist() == [2] * 5
    with suppress(js_errors.FetchTimeoutError):
        assert not await sub.fetch(5, no_wait=True)
