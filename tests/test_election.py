"""Publishing during a leader election: publishes are retried until their timeout."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .slow_link import slow_link
from .tools import until

# Seconds without a leader, between two retries; the order if it returns during a retry has a test of its own.
AWAY = 1.4


@contextlib.asynccontextmanager
async def long_election(
    own: JetStreamContext,
    url: str,
    answer: bool = True,
    *,
    asked: bool = True,
    returns: bool = True,
    after_lookup: bool = False,
) -> AsyncIterator[str]:
    """Fakes an API with a stream for late.> that has no leader at first (or ever), and yields the API's prefix."""
    names: list[bytes] = []
    has_asked = asyncio.Event()

    async def tell(msg: Msg) -> None:
        names.append(msg.data)
        has_asked.set()
        if answer:
            await msg.respond(b'{"streams": ["LATE"], "total": 1, "offset": 0, "limit": 1024}')

    async def later() -> None:
        if returns:
            if after_lookup:
                await has_asked.wait()
            await asyncio.sleep(AWAY)
            await own.add_stream(name="LATE", subjects=["late.>"], allow_batched=True, allow_atomic=True)

    async with await jetarrow.connect(url) as nc:
        await nc.subscribe("FAKE.API.STREAM.NAMES", cb=tell)
        config = (
            b'{"config": {"allow_batched": true, "allow_atomic": true}, "created": "2026-01-01T00:00:00Z", "state": '
        )
        config += b'{"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0}}'

        async def info(msg: Msg) -> None:
            await msg.respond(config)

        await nc.subscribe("FAKE.API.STREAM.INFO.LATE", cb=info)
        await nc.flush()
        late = asyncio.create_task(later())
        yield "FAKE.API"
        await late
    # A leader that stops answering causes no stream lookup.
    assert names or not asked, "nobody asked whether there is a stream"


@pytest.mark.parametrize("answer", [True, False], ids=["answered", "unanswered"])
@pytest.mark.parametrize("verb", ["publish", "publish_async", "publish_batch", "atomic", "fast", "sync"])
async def test_publish_succeeds_after_a_long_election(
    own_server: NatsServer, own: JetStreamContext, verb: str, answer: bool
) -> None:
    if verb in ("fast", "atomic") and not answer:
        pytest.skip("these modes ask for the stream before they begin")
    election = long_election(own, own_server.url, answer, after_lookup=True)
    async with election as prefix, await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream(prefix=prefix)
        rows = [b"%d" % i for i in range(500)]
        if verb == "publish":
            assert (await js.publish("late.a", b"x")).stream == "LATE"
        elif verb == "publish_async":
            futures = [await js.publish_async("late.a", row) for row in rows]
            assert [(await future).seq for future in futures] == list(range(1, 501))
        elif verb == "sync":

            def work() -> str | None:
                with jetarrow.sync.connect(own_server.url) as nc:
                    return nc.jetstream(prefix=prefix).publish("late.a", b"x").stream

            assert await asyncio.to_thread(work) == "LATE"
        else:
            mode = "window" if verb == "publish_batch" else verb
            result = await js.publish_batch("late.a", rows, mode=mode)
            result.raise_for_errors()
            assert result.stored == 500


# Messages that wait for the first one fill a small window, and must leave room to resend it.
WINDOWS: dict[str, dict[str, int]] = {"messages": {"max_inflight": 50}, "bytes": {"max_bytes": 4_000}, "large": {}}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("verb", ["publish_async", "publisher", "publish_batch"])
async def test_order_is_kept_when_the_stream_returns_during_a_resend(
    own_server: NatsServer, own: JetStreamContext, verb: str, window: str
) -> None:
    """The first message gets No Responders a second time, and the stream is available for those behind it."""
    if verb == "publish_async" and window != "large":
        pytest.skip("its window is that of the connection")
    async with long_election(own, own_server.url, returns=False) as prefix, slow_link(own_server.url, 0) as link:

        async def come_back() -> None:
            came = link.came
            # The server answers the first message with 503 No Responders.
            await until(lambda: link.came > came)
            await own.add_stream(name="LATE", subjects=["late.>"])

        link.marker, link.between = b"\r\nrow-0\r\n", come_back
        async with await jetarrow.connect(link.url, ping_interval=60) as nc:
            js, rows = nc.jetstream(prefix=prefix), [b"row-%d" % i for i in range(500)]
            if verb == "publish_batch":
                result = await js.publish_batch("late.a", rows, **WINDOWS[window])
                result.raise_for_errors()
                seqs = result.seqs.to_pylist()
            else:
                async with js.publisher("late.a", **WINDOWS[window]) as publisher:
                    if verb == "publisher":
                        futures = [await publisher.publish(row) for row in rows]
                    else:
                        futures = [await js.publish_async("late.a", row) for row in rows]
                    seqs = [(await future).seq for future in futures]
    assert seqs == list(range(1, 501))


@pytest.mark.parametrize("verb", ["publish", "publish_async", "publish_batch", "sync"])
async def test_publish_fails_when_the_election_outlasts_its_timeout(
    own_server: NatsServer, own: JetStreamContext, verb: str
) -> None:
    election = long_election(own, own_server.url, returns=False)
    async with election as prefix, await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream(prefix=prefix, ack_timeout=1)

        async def publish() -> None:
            if verb == "publish":
                await js.publish("late.a", b"x", timeout=1)
            elif verb == "publish_async":
                await (await js.publish_async("late.a", b"x"))
            elif verb == "publish_batch":
                raise (await js.publish_batch("late.a", [b"x"], timeout=1)).errors[0].error
            else:

                def work() -> None:
                    with jetarrow.sync.connect(own_server.url) as nc:
                        nc.jetstream(prefix=prefix).publish("late.a", b"x", timeout=1)

                await asyncio.to_thread(work)

        said = ""
        # The best of five: a busy machine may leave no time for a second attempt.
        for _ in range(5):
            begun = time.monotonic()
            with pytest.raises(js_errors.NoStreamResponseError) as caught:
                await publish()
            # The defaults are 5 and 30 s.
            assert time.monotonic() - begun < 4.5
            if "had no leader within 1 s" in (said := str(caught.value)):
                break
        assert "had no leader within 1 s" in said


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no ids"])
async def test_fast_batch_completes_after_a_leader_change(
    own_server: NatsServer, own: JetStreamContext, ids: bool
) -> None:
    """The subject is removed for a while, so that the server loses the batch like a new leader."""
    config = {"allow_batched": True, "duplicate_window": 60}
    await own.add_stream(name="S", subjects=["s.>", "late.>"], **config)
    rows = 3_000

    def blocks() -> Iterator[pa.RecordBatch]:
        for block in range(3):
            numbers = range(block * 1_000, block * 1_000 + 1_000)
            columns: dict[str, Any] = {"data": [b"%d" % n for n in numbers]}
            if ids:
                columns["msg_id"] = [f"id-{n}" for n in numbers]
            if block == 2:
                asyncio.run_coroutine_threadsafe(away(), loop).result(20)
            yield pa.RecordBatch.from_pydict(columns)

    async def away() -> None:
        await own.update_stream(name="S", subjects=["s.>"], **config)
        back.append(asyncio.create_task(again()))

    async def again() -> None:
        await asyncio.sleep(AWAY)
        await own.update_stream(name="S", subjects=["s.>", "late.>"], **config)

    loop, back = asyncio.get_running_loop(), list[asyncio.Task[None]]()
    first = next(blocks())
    reader = pa.RecordBatchReader.from_batches(first.schema, blocks())
    result = await own.publish_batch("late.a", reader, mode="fast", expected_stream="S", timeout=20)
    await back[0]
    result.raise_for_errors()
    assert result.stored == rows
    assert (await own.stream_info("S")).state.messages == rows


@pytest.mark.parametrize("verb", ["publish", "publish_batch"])
@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no ids"])
async def test_messages_without_an_ack_are_resent_only_with_ids(
    own_server: NatsServer, own: JetStreamContext, verb: str, ids: bool
) -> None:
    """A first receiver never answers; only messages with ids, which the stream deduplicates, are resent to the next."""
    async with long_election(own, own_server.url, asked=ids) as prefix, await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream(prefix=prefix)
        swallowed = await nc.subscribe("late.a")
        await nc.flush()
        msg_ids = [f"id-{n}" for n in range(50)] if ids else None
        # Messages with ids are resent within 3 s; without them the whole timeout passes.
        timeout = 20 if ids else 4
        begun = time.monotonic()
        if verb == "publish":
            call = asyncio.ensure_future(js.publish("late.a", b"x", timeout=timeout, msg_id="id" if ids else None))
            await swallowed.next_msg(5)
        else:
            rows = [b"%d" % n for n in range(50)]
            call = asyncio.ensure_future(js.publish_batch("late.a", rows, timeout=timeout, msg_ids=msg_ids))
            for _ in rows:
                await swallowed.next_msg(5)
        await swallowed.unsubscribe()
        if verb == "publish" and not ids:
            with pytest.raises(jetarrow.errors.TimeoutError):
                await call
        elif verb == "publish":
            assert (await call).seq == 1
        else:
            result = await call
            assert result.stored == (50 if ids else 0)
            if ids:
                assert result.seqs.to_pylist() == list(range(1, 51))
        took = time.monotonic() - begun
        assert took < timeout if ids else took >= timeout
