"""Fetching from a consumer whose ack window (`max_ack_pending`) is smaller than what is asked for."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from urllib.parse import urlsplit

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .survive.proxy import Proxy
from .tools import fill, fill_sync, until

# Long enough that a fetch which waits it out is seen for sure.
LONG = 20.0


class Overtaking(Proxy):
    """Holds messages of consumer sequences above 15 until two requests for the consumer's state are answered."""

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, told: bool) -> None:
        if not told:
            return await super()._pipe(reader, writer, told=told)
        held, answers = b"", 0
        while line := await reader.readline():
            words = line.split()
            if words[0] in (b"MSG", b"HMSG"):
                line += await reader.readexactly(int(words[-1]) + 2)
                # $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<time>.<pending>
                if words[3].startswith(b"$JS.ACK.") and int(words[3].split(b".")[6]) > 15 and answers < 2:
                    held += line
                    continue
                answers += bool(held) and b"consumer_info_response" in line
            writer.write(line)
            if held and answers == 2:
                writer.write(held)
                held = b""
        writer.close()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Without the warning that a batch cannot be so large."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


async def test_a_batch_ends_where_the_window_is_full(js: JetStreamContext, stream: str, quiet: None) -> None:
    await fill(js, stream, 50)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", max_ack_pending=20)
    begin = time.monotonic()
    sizes = []
    for _ in range(3):
        batch = await sub.fetch_batch(1_000, timeout=LONG)
        sizes.append(len(batch))
        await batch.ack_sync()
    assert sizes == [20, 20, 10]
    assert time.monotonic() - begin < LONG / 2


async def test_a_bound_subscription_finds_it_out(js: JetStreamContext, stream: str, quiet: None) -> None:
    await fill(js, stream, 50)
    await js.add_consumer(stream, durable_name="d", max_ack_pending=20)
    sub = await js.pull_subscribe_bind(consumer="d", stream=stream)
    begin = time.monotonic()
    assert len(await sub.fetch_batch(1_000, timeout=LONG)) == 20
    assert time.monotonic() - begin < LONG / 2


@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
async def test_the_answer_that_the_window_is_full_overtakes_messages(
    nats_url: str, js: JetStreamContext, stream: str, quiet: None, verb: str
) -> None:
    await fill(js, stream, 50)
    await js.add_consumer(stream, durable_name="d", max_ack_pending=20)
    port = urlsplit(nats_url).port
    assert port is not None
    async with Overtaking(port) as proxy, await jetarrow.connect(proxy.url) as nc:
        sub = await nc.jetstream().pull_subscribe_bind(consumer="d", stream=stream)
        begin = time.monotonic()
        assert len(await getattr(sub, verb)(1_000, timeout=LONG)) == 20
        assert time.monotonic() - begin < LONG / 2


async def test_messages_and_handles_too(js: JetStreamContext, stream: str, quiet: None) -> None:
    await fill(js, stream, 50)
    await js.add_consumer(stream, durable_name="d", max_ack_pending=20)
    begin = time.monotonic()
    messages = await (await js.pull_subscribe_bind(consumer="d", stream=stream)).fetch(1_000, timeout=LONG)
    assert len(messages) == 20
    await asyncio.gather(*(msg.ack_sync(timeout=20) for msg in messages))
    async for batch in js.stream(stream).consumer("d").batches(1_000, timeout=LONG):
        assert len(batch) == 20
        break
    assert time.monotonic() - begin < LONG / 2


async def test_two_that_fetch_share_the_window(js: JetStreamContext, stream: str, quiet: None) -> None:
    """Neither gets all of it, so neither can know by counting its own."""
    await fill(js, stream, 100)
    await js.add_consumer(stream, durable_name="d", max_ack_pending=20, ack_wait=60)
    one, other = [await js.pull_subscribe_bind(consumer="d", stream=stream) for _ in range(2)]
    assert len(await one.fetch_batch(7, timeout=LONG)) == 7
    begin = time.monotonic()
    assert len(await other.fetch_batch(1_000, timeout=LONG)) == 13
    assert time.monotonic() - begin < LONG / 2


async def test_with_nothing_at_all_it_waits_for_room(js: JetStreamContext, stream: str, quiet: None) -> None:
    await fill(js, stream, 30)
    await js.add_consumer(stream, durable_name="d", max_ack_pending=20, ack_wait=60)
    one, other = [await js.pull_subscribe_bind(consumer="d", stream=stream) for _ in range(2)]
    held = await one.fetch_batch(20, timeout=LONG)
    waiting = asyncio.ensure_future(other.fetch_batch(1_000, timeout=LONG))

    async def asked() -> bool:
        return (await one.consumer_info()).num_waiting == 1

    await until(asked)
    assert len(await other.fetch(5, no_wait=True)) == 0
    await held.ack()
    assert 1 <= len(await waiting) <= 10


async def test_min_messages_beyond_the_window(js: JetStreamContext, stream: str, quiet: None) -> None:
    await fill(js, stream, 30)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", max_ack_pending=20)
    begin = time.monotonic()
    assert len(await sub.fetch_batch(1_000, timeout=LONG, min_messages=30)) == 20
    assert time.monotonic() - begin < LONG / 2


async def test_a_window_that_was_changed_is_noticed(js: JetStreamContext, stream: str, quiet: None) -> None:
    await fill(js, stream, 60)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", max_ack_pending=20)
    await js.update_consumer(stream, name="d", max_ack_pending=5)
    begin = time.monotonic()
    batch = await sub.fetch_batch(1_000, timeout=LONG)
    assert len(batch) == 5
    assert time.monotonic() - begin < LONG / 2


async def test_too_much_is_warned_of_once(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 1)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d", max_ack_pending=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await sub.fetch_batch(20)
    with pytest.warns(UserWarning, match=r"at most 20 unacknowledged messages .*max_ack_pending=21") as caught:
        await sub.fetch_batch(21, timeout=10, min_messages=0)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await sub.fetch_batch(22, timeout=10, min_messages=0)


def test_too_much_is_warned_of_in_the_sync_face(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 1)
    sub = sync_js.pull_subscribe(f"{stream}.>", durable="d", max_ack_pending=20)
    with pytest.warns(UserWarning, match="at most 20 unacknowledged messages") as caught:
        sub.fetch_batch(21, timeout=10, min_messages=0)
    assert caught[0].filename == __file__


async def test_new_durables_fit_batches(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3_000)
    sub = await js.pull_subscribe(f"{stream}.>", durable="d")
    assert (await sub.consumer_info()).config.max_ack_pending == 100_000
    assert len(await sub.fetch_batch(10_000)) == 3_000
    none = await js.pull_subscribe(f"{stream}.>", durable="n", ack_policy="none")
    assert len(await none.fetch_batch(10_000)) == 3_000


async def test_where_the_stream_allows_less(own: JetStreamContext) -> None:
    await own.add_stream(name="S", subjects=["s.>"], consumer_limits={"max_ack_pending": 50})
    sub = await own.pull_subscribe("s.>", durable="d")
    assert (await sub.consumer_info()).config.max_ack_pending == 50


def test_the_loop_of_the_readme(own_server: NatsServer, own_sync: jetarrow.sync.JetStream, quiet: None) -> None:
    """On a durable with the server's default window: 20 fetches, each of which waited for its timeout."""
    own_sync.add_stream(name="S", subjects=["s.>"])
    own_sync.publish_batch("s.a", [b"x"] * 20_000).raise_for_errors()
    own_sync.add_consumer("S", durable_name="worker")
    sub = own_sync.pull_subscribe("s.>", durable="worker")
    begin, rows = time.monotonic(), 0
    while rows < 20_000:
        batch = sub.fetch_batch(10_000, timeout=LONG)
        rows += len(batch)
        batch.ack()
    assert time.monotonic() - begin < LONG
