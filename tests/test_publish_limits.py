"""Limits of messages in flight, and subjects without a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import until


@pytest.mark.parametrize("mode", ["window", "fast"])
@pytest.mark.parametrize("most", [2**59, 2**60, 2**63 - 1])
async def test_large_window_stores_all(js: JetStreamContext, stream: str, mode: str, most: int) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_batched=True))
    for max_bytes in (1 << 20, most):
        rows = [b"x"] * 500
        result = await js.publish_batch(f"{stream}.a", rows, mode=mode, max_inflight=most, max_bytes=max_bytes)
        result.raise_for_errors()
        assert result.stored == 500
    async with js.publisher(f"{stream}.a", max_inflight=most) as publisher:
        assert (await (await publisher.publish(b"x"))).seq == 1_001


@pytest.mark.parametrize("mode", ["window", "fast"])
@pytest.mark.parametrize("most", [1, 1_000, 100_000])
async def test_small_max_bytes_stores_all(js: JetStreamContext, stream: str, mode: str, most: int) -> None:
    """Also rows larger than the window, each sent alone."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_batched=True))
    rows = [b"%d:" % i + b"x" * (0 if i % 7 else 3_000) for i in range(300)]
    result = await js.publish_batch(f"{stream}.a", rows, mode=mode, max_bytes=most)
    result.raise_for_errors()
    found = (await js.read(stream, columns=["data"]).read_all()).column(0).to_pylist()
    assert found == rows
    with pytest.raises(ValueError, match="max_bytes"):
        await js.publish_batch(f"{stream}.a", rows, max_bytes=0)


async def test_fast_rows_of_growing_size_are_stored(js: JetStreamContext, stream: str) -> None:
    """The server sets the ack interval in rows by the first row: many larger rows are sent before the next ack."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_batched=True))
    rows = [b"x"] * 10 + [b"%d" % i + b"x" * 100_000 for i in range(300)]
    begun = time.monotonic()
    result = await js.publish_batch(f"{stream}.a", rows, mode="fast", max_bytes=1 << 20)
    result.raise_for_errors()
    assert time.monotonic() - begun < 20  # a ping every 3 s would take a minute and a half
    assert (await js.read(stream, columns=["data"]).read_all()).column(0).to_pylist() == rows


async def test_bytes_in_flight_do_not_exceed_max_bytes(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        strict = js.publisher("s.a", max_bytes=1_000, backpressure=False)
        waits = js.publisher("s.a", max_bytes=1_000)
        own_server.pause()
        futures = []
        for publisher in (strict, waits):
            futures.append(await publisher.publish(b"x" * 600))
            assert publisher.stats.pending_bytes <= 1_000
        with pytest.raises(js_errors.MaxAckPendingError):
            await strict.publish(b"x" * 600)
        futures.append(await strict.publish(b"x" * 300))  # the smaller one has room
        assert strict.stats.pending_bytes <= 1_000
        waiting = [asyncio.ensure_future(waits.publish(b"x" * size)) for size in (600, 5_000)]
        await asyncio.sleep(0.1)
        assert not any(future.done() for future in waiting)
        own_server.resume()
        futures += [await future for future in waiting]
        for future in futures:
            await future
        assert (await js.stream_info("S")).state.messages == 5


async def _later(js: JetStreamContext, subject: str, answered: Callable[[], bool]) -> None:
    """Adds the stream once the first message was answered with 503, a quarter of a second before it is sent again."""
    await until(answered)
    await js.add_stream(name="LATE", subjects=[subject])


@pytest.mark.parametrize("verb", ["publish", "publish_async", "publish_batch", "sync"])
async def test_publish_during_leader_election_is_retried(
    own_server: NatsServer, own: JetStreamContext, verb: str
) -> None:
    """As during an election: the subject has no stream, and has one shortly after."""
    clients: list[Any] = [own._nc]  # type: ignore[attr-defined]

    def has_answer() -> bool:
        counts = [client.metrics_by_verb() for client in clients]
        return any(one[name]["in_msgs"] for one in counts for name in ("publisher", "publish_batch"))

    late = asyncio.create_task(_later(own, "late.>", has_answer))
    if verb == "publish":
        assert (await own.publish("late.a", b"x")).stream == "LATE"
    elif verb == "publish_async":
        futures = [await own.publish_async("late.a", b"%d" % i) for i in range(100)]
        assert [(await future).seq for future in futures] == list(range(1, 101))
    elif verb == "publish_batch":
        result = await own.publish_batch("late.a", [b"%d" % i for i in range(20_000)])
        result.raise_for_errors()
        assert result.seqs.to_pylist() == list(range(1, 20_001))
    else:

        def work() -> str | None:
            with jetarrow.sync.connect(own_server.url) as nc:
                clients.append(nc)
                return nc.jetstream().publish("late.a", b"x").stream

        assert await asyncio.to_thread(work) == "LATE"
    await late


async def test_subject_without_stream_fails_early(own: JetStreamContext) -> None:
    await own.add_stream(name="S", subjects=["s.>"])
    begun = time.monotonic()
    with pytest.raises(js_errors.NoStreamResponseError):
        await own.publish("unbound", b"x")
    one = time.monotonic() - begun
    assert 0.25 <= one < 15
    begun = time.monotonic()
    subjects = ["unbound" if i % 2 else "s.a" for i in range(20_000)]
    result = await own.publish_batch(subjects, [b"%d" % i for i in range(20_000)])
    # The time of one row: the lookup of the subject is not repeated for each row.
    assert time.monotonic() - begun < 10 + 10 * one
    assert (result.stored, len(result.errors)) == (10_000, 10_000)
    assert {type(failed.error) for failed in result.errors} == {js_errors.NoStreamResponseError}
    assert [seq for seq in result.seqs.to_pylist() if seq] == list(range(1, 10_001))
    with pytest.raises(js_errors.NoStreamResponseError):
        await own.publish("unbound", b"x", timeout=2)


async def test_subject_without_stream_does_not_delay_other_rows(own: JetStreamContext) -> None:
    await own.add_stream(name="S", subjects=["s.>"])
    first = []
    # A busy machine may delay the rows for as long as the other one waits.
    while not any(first) and len(first) < 20:
        unstored = await own.publish_async("unstored", b"x")
        for _ in range(3):
            await (await own.publish_async("s.a", b"x"))
        first.append(not unstored.done())
        with pytest.raises(js_errors.NoStreamResponseError):
            await unstored
    assert any(first)


@pytest.mark.parametrize("mode", ["window", "fast"])
async def test_rows_without_response_report_whether_they_were_sent(
    own_server: NatsServer, own: JetStreamContext, mode: str
) -> None:
    """Sent rows may be stored when the server resumes; rows that were not sent are not stored."""
    await own.add_stream(name="S", subjects=["s.>"], allow_batched=True)
    rows = 300

    if mode == "window":
        own_server.pause()
        result = await own.publish_batch("s.a", [b"x"] * rows, max_inflight=100, timeout=1)
    else:
        reached = asyncio.Event()

        def progress(done: int, total: int | None) -> None:
            if done:
                loop.call_soon_threadsafe(reached.set)

        loop = asyncio.get_running_loop()
        call = asyncio.ensure_future(
            own.publish_batch("s.a", [b"x"] * 200_000, mode=mode, max_inflight=100, timeout=1, progress=progress)
        )
        await asyncio.wait_for(reached.wait(), 20)
        own_server.pause()
        result = await call
    own_server.resume()
    texts = [str(failed.error) for failed in result.errors]
    assert texts
    assert {type(failed.error) for failed in result.errors} == {jetarrow.errors.TimeoutError}
    assert "it was sent, so the server may have processed it, or may still do so" in texts[0]
    if mode == "window":
        assert sum("may still do so" in text for text in texts) == 100
        assert sum("will not be sent" in text for text in texts) == rows - 100
