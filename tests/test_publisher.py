"""publish_async and publisher(): many single messages in flight."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Awaitable, Callable, Iterator

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.aio.msg import Msg
from jetarrow.js import errors as js_errors
from jetarrow.js.api import PubAck
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import until


async def test_concurrent_tasks_publish(js: JetStreamContext, stream: str) -> None:
    async def worker(number: int) -> list[int]:
        return [(await js.publish(f"{stream}.{number}", b"x")).seq for _ in range(50)]

    seqs = [seq for part in await asyncio.gather(*map(worker, range(20))) for seq in part]
    assert sorted(seqs) == list(range(1, 1_001))


async def test_publish_async_returns_future_of_ack(js: JetStreamContext, stream: str) -> None:
    futures = [await js.publish_async(f"{stream}.a", b"%d" % i, msg_id=str(i % 900)) for i in range(1_000)]
    assert 0 < js.publish_async_pending() <= 1_000
    await js.publish_async_completed()
    assert js.publish_async_pending() == 0
    acks = [future.result() for future in futures]
    assert [ack.seq for ack in acks] == [*range(1, 901), *range(1, 101)]
    assert [ack.duplicate for ack in acks] == [False] * 900 + [True] * 100
    assert acks[0].stream == stream
    assert acks[0] == type(acks[0])(stream=stream, seq=1)
    assert acks[0].as_dict() == {"stream": stream, "seq": 1}


async def test_server_error_resolves_future(js: JetStreamContext, stream: str) -> None:
    nobody = await js.publish_async("nobody.listens", b"")
    wrong = await js.publish_async(f"{stream}.a", b"", stream="OTHER")
    good = await js.publish_async(f"{stream}.a", b"")
    with pytest.raises(js_errors.NoStreamResponseError, match="nobody"):
        await nobody
    with pytest.raises(js_errors.BadRequestError) as info:
        await wrong
    assert info.value.err_code == 10060
    assert (await good).seq == 1
    for bad in ("a b", ""):
        with pytest.raises(errors.BadSubjectError):
            await js.publish_async(bad, b"")
    with pytest.raises(TypeError):
        await js.publish_async(f"{stream}.a", 5)  # type: ignore[arg-type]
    assert js.publish_async_pending() == 0


async def test_context_limit_applies_to_publish_async(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"])
        js = nc.jetstream(publish_async_max_pending=3)
        strict = nc.jetstream(max_ack_inflight=3, backpressure_on_inflight=False)
        with pytest.raises(TypeError, match="names of one option"):
            nc.jetstream(publish_async_max_pending=3, max_ack_inflight=3)
        own_server.pause()
        futures = [await js.publish_async("s.a", b"x") for _ in range(3)]
        with pytest.raises(js_errors.TooManyStalledMsgsError):
            await js.publish_async("s.a", b"x", wait_stall=0.05)
        stalled = asyncio.ensure_future(js.publish_async("s.a", b"x"))
        await asyncio.sleep(0)
        stalled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stalled
        more = [await strict.publish_async("s.a", b"x") for _ in range(3)]
        with pytest.raises(js_errors.MaxAckPendingError):
            await strict.publish_async("s.a", b"x")
        waits = asyncio.ensure_future(js.publish_async("s.a", b"x"))
        own_server.resume()
        acks = await asyncio.gather(*futures, *more, await waits)
        assert len({ack.seq for ack in acks}) == 7


async def test_publish_without_ack_times_out(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"])
        js = nc.jetstream(ack_timeout=0.5)
        await js.publish("s.a", b"x")
        own_server.pause()
        future = await js.publish_async("s.a", b"x")
        with pytest.raises(errors.TimeoutError, match=r"0\.2 s"):
            await js.publish("s.a", b"x", timeout=0.2)
        with pytest.raises(errors.TimeoutError):
            await future
        own_server.resume()
        assert (await js.publish("s.a", b"x")).stream == "S"


async def test_cancelled_publish_leaves_no_pending_message(js: JetStreamContext, stream: str) -> None:
    tasks = [asyncio.ensure_future(js.publish(f"{stream}.a", b"x")) for _ in range(100)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 50
    await js.publish_async_completed()
    assert js.publish_async_pending() == 0


async def test_publisher_publishes_and_counts(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a", max_inflight=10) as publisher:
        futures = [await publisher.publish(b"%d" % i) for i in range(1_000)]
        assert publisher.pending <= 10
        other = await publisher.publish("text", subject=f"{stream}.b", headers={"H": "1"}, msg_id="m")
        await publisher.flush()
        assert publisher.stats == (1_001, 0, 0, 0, 0)
    assert [future.result().seq for future in futures] == list(range(1, 1_001))
    assert other.result().seq == 1_001
    with pytest.raises(TypeError, match="subject"):
        await js.publisher().publish(b"x")


async def test_publisher_without_backpressure_raises_when_full(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        own_server.pause()
        async with js.publisher("s.a", max_inflight=5, backpressure=False) as publisher:
            for _ in range(5):
                await publisher.publish(b"x")
            with pytest.raises(js_errors.MaxAckPendingError):
                await publisher.publish(b"x")
            own_server.resume()
            await publisher.flush()
            await publisher.publish(b"x")
        assert (await js.stream_info("S")).state.messages == 6
        own_server.pause()
        async with js.publisher("s.a", max_bytes=1_000, backpressure=False) as publisher:
            await publisher.publish(bytes(5_000))
            with pytest.raises(js_errors.MaxAckPendingError):
                await publisher.publish(b"x")
            own_server.resume()


async def test_unawaited_failures_raise_at_block_end(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(js_errors.BatchError, match="futures were not awaited") as info:
        async with js.publisher() as publisher:
            await publisher.publish(b"x", subject="nobody.listens")
            await publisher.publish(b"x", subject=f"{stream}.a")
    assert [type(error.error) for error in info.value.errors] == [js_errors.NoStreamResponseError]
    async with js.publisher() as publisher:
        future = await publisher.publish(b"x", subject="nobody.listens")
        with pytest.raises(js_errors.NoStreamResponseError):
            await future


async def test_lost_connection_fails_messages_without_id_at_once(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        own_server.pause()
        before = nc.stats["out_msgs"]
        future = await js.publish_async("s.a", b"x")
        await until(lambda: nc.stats["out_msgs"] > before)
        own_server.kill()
        with pytest.raises(js_errors.PublishUnconfirmedError):
            await asyncio.wait_for(future, 10)


def test_publish_works_in_consecutive_loops(nats_url: str, stream: str) -> None:
    async def work() -> int:
        async with await jetarrow.connect(nats_url) as nc:
            js = nc.jetstream()
            return (await (await js.publish_async(f"{stream}.a", b"x"))).seq

    assert [asyncio.run(work()) for _ in range(3)] == [1, 2, 3]
    gc.collect()


async def test_close_flushes_messages_of_current_iteration(nats_url: str, stream: str) -> None:
    for number in (1, 2, 3, 200):
        async with await jetarrow.connect(nats_url) as nc:
            js = nc.jetstream()
            before = (await js.stream_info(stream)).state.messages
            futures = [await js.publish_async(f"{stream}.a", b"x") for _ in range(number)]
        async with await jetarrow.connect(nats_url) as nc:
            js = nc.jetstream()
            wanted = before + number

            async def stored(js: JetStreamContext = js, wanted: int = wanted) -> bool:
                return (await js.stream_info(stream)).state.messages >= wanted

            await until(stored)
        for future in futures:
            future.cancel()


async def test_publish_async_does_not_keep_failed_futures(js: JetStreamContext) -> None:
    """Only a `publisher()` keeps its failed futures, whose errors it raises at its end."""

    async def fail(publish: Callable[[], Awaitable[asyncio.Future[PubAck]]]) -> weakref.ref[object]:
        future = await publish()
        await asyncio.wait({future})
        assert isinstance(future.exception(), js_errors.NoStreamResponseError)
        return weakref.ref(future)

    publisher = js.publisher()
    dropped = await fail(lambda: js.publish_async("nobody.listens", b""))
    kept = await fail(lambda: publisher.publish(b"", subject="nobody.listens"))
    gc.collect()
    assert dropped() is None
    assert kept() is not None


@pytest.mark.parametrize("with_ids", [False, True])
async def test_full_connection_reports_lost_link(own_server: NatsServer, with_ids: bool) -> None:
    # More than the connection's queue and the sockets buffer: the loop waits to enqueue when the server is killed.
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s.>"])
        js = nc.jetstream(publish_async_max_pending=6000)
        await js.publish("s.a", b"x")
        own_server.pause()
        futures = []
        for number in range(6000):
            identity = f"id-{number}" if with_ids else None
            futures.append(await js.publish_async("s.a", b"x" * 8192, msg_id=identity))
            if number % 500 == 0:
                await asyncio.sleep(0.01)
        own_server.kill()
        if with_ids:
            own_server.restart()
            acks = await asyncio.wait_for(asyncio.gather(*futures), 20)
            assert len({ack.seq for ack in acks}) == 6000
            assert (await js.stream_info("S")).state.messages == 6001
        else:
            # Messages in flight at the disconnect fail at once. Unsent ones are sent after the reconnect.
            with pytest.raises(js_errors.PublishUnconfirmedError):
                await asyncio.wait_for(futures[0], 10)
            own_server.restart()
            results = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 20)
            lost = [result for result in results if isinstance(result, js_errors.PublishUnconfirmedError)]
            stored = [result for result in results if not isinstance(result, BaseException)]
            assert len(lost) + len(stored) == 6000
            assert 0 < len(lost) < 6000


@pytest.fixture
def hub_server() -> Iterator[NatsServer]:
    """A server whose JetStream has a domain."""
    with NatsServer(config="jetstream { domain: hub }") as server:
        yield server


async def test_acks_have_domain(hub_server: NatsServer) -> None:
    async with await jetarrow.connect(hub_server.url) as nc:
        js = nc.jetstream(domain="hub")
        await js.add_stream(name="S", subjects=["s.>"])
        futures = [await js.publish_async("s.a", b"x", msg_id=str(i % 4)) for i in range(5)]
        assert [(await future).domain for future in futures] == ["hub"] * 5
        assert [(await future).duplicate for future in futures] == [False] * 4 + [True]
        assert (await js.publish("s.a", b"x")).domain == "hub"


@pytest.mark.parametrize(("place", "domain"), [("", None), ("_.hash.", None), ("hub.hash.", "hub")])
def test_metadata_has_domain(place: str, domain: str | None) -> None:
    """Servers omit it by default, and reject such reply subjects from clients, so the message is constructed."""
    for end in ["", ".random"] if place else [""]:
        message = Msg(reply=f"$JS.ACK.{place}S.c.1.2.3.4.5{end}")
        assert (message.metadata.stream, message.metadata.domain) == ("S", domain)


async def test_acks_of_counters_and_batches_have_all_fields(own: JetStreamContext) -> None:
    await own.add_stream(name="C", subjects=["c.>"], allow_msg_counter=True, allow_direct=True)
    futures = [await own.publish_async("c.a", headers={"Nats-Incr": "2"}) for _ in range(3)]
    assert [(await future).val for future in futures] == ["2", "4", "6"]
    assert (await own.publish("c.b", headers={"Nats-Incr": "5"})).val == "5"
    await own.add_stream(name="A", subjects=["a.>"], allow_atomic=True)
    commit = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    for publish in (own.publish_async("a.a", b"x", headers=commit), own.publish_async("a.a", b"x", headers=commit)):
        ack = await (await publish)
        assert (ack.batch_id, ack.batch_size) == ("b", 1)
    # Fields of one ack are not copied to the next.
    plain = await (await own.publish_async("a.a", b"x"))
    assert (plain.stream, plain.batch_id, plain.batch_size, plain.val) == ("A", None, None, None)


async def test_callback_of_unreferenced_future_is_called(js: JetStreamContext, stream: str) -> None:
    called: list[int] = []
    async with js.publisher(f"{stream}.a") as publisher:
        for _ in range(300):
            # Futures without callbacks, which are not awaited.
            await publisher.publish(b"forgotten")
            (await publisher.publish(b"watched")).add_done_callback(lambda done: called.append(done.result().seq))
    await asyncio.sleep(0)
    assert called == list(range(2, 601, 2))
    assert publisher.stats[:3] == (600, 0, 0)


async def test_large_payloads_are_sent_unchanged_and_released(js: JetStreamContext, stream: str) -> None:
    """Immutable payloads are sent without a copy."""
    held = [b"%d" % size + b"x" * size for size in (1 << 14, 100_000)]
    before = [sys.getrefcount(payload) for payload in held]
    changing = bytearray(b"y" * 50_000)
    async with js.publisher(f"{stream}.a") as publisher:
        futures = [await publisher.publish(payload) for payload in held]
        futures.append(await publisher.publish(b"only here" * 5_000))
        futures.append(await publisher.publish(changing))
        changing[:5] = b"other"
        futures.append(await publisher.publish("ü" * 20_000))
        assert [(await future).seq for future in futures] == [1, 2, 3, 4, 5]
    result = await js.publish_batch(f"{stream}.a", held)
    result.raise_for_errors()
    assert [sys.getrefcount(payload) for payload in held] == before
    wanted = [*held, b"only here" * 5_000, b"y" * 50_000, "ü".encode() * 20_000, *held]
    assert (await js.read(stream, columns=["data"]).read_all()).column(0).to_pylist() == wanted
