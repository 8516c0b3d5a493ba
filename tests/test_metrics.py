"""Metrics of clients, and their export to Prometheus."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import threading
from collections.abc import Iterator

import jetarrow
import jetarrow.metrics
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import UnsupportedError
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from tests.tools import until, wait_until

prometheus_client = pytest.importorskip("prometheus_client")


@pytest.fixture
def registry() -> object:
    return prometheus_client.CollectorRegistry()


def sample(registry: object, name: str, client: str, **labels: str) -> float | None:
    value: float | None = registry.get_sample_value(f"jetarrow_{name}", {"client": client, **labels})  # type: ignore[attr-defined]
    return value


async def test_client_counts_messages_and_bytes(nc: Client) -> None:
    sub = await nc.subscribe("metrics.>")
    await nc.publish("metrics.a", b"12345")
    await sub.next_msg(timeout=10)
    counted = nc.metrics()
    assert {name: counted[name] for name in ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "connected")} == {
        "in_msgs": 1,
        "out_msgs": 1,
        "in_bytes": 5,
        "out_bytes": 5,
        "connected": 1,
    }
    await nc.close()
    assert nc.metrics()["connected"] == 0


def test_prometheus_exports_each_client(nats_url: str, registry: object) -> None:
    with jetarrow.sync.connect(nats_url, name="one") as one, jetarrow.sync.connect(nats_url) as other:
        collector = jetarrow.metrics.prometheus(one, other, registry=registry)
        one.publish("metrics.b", b"123")
        one.flush()
        assert sample(registry, "messages_total", "one", direction="out") == 1
        assert sample(registry, "payload_bytes_total", "one", direction="out") == 3
        assert sample(registry, "messages_total", "default", direction="out") == 0
        assert sample(registry, "connected", "one") == 1
        assert sample(registry, "queue_bytes", "one") == 0
        with pytest.raises(ValueError, match="could not add client 'one': another client has this name"):
            collector.add(other, "one")
    assert sample(registry, "connected", "one") == 0
    # A deleted client is not exported any more.
    del one, other
    gc.collect()
    assert sample(registry, "connected", "one") is None


async def test_publish_async_counts_in_flight_messages(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="FLYING", subjects=["flying.>"])
        await js.publish("flying.0", b"")
        own_server.pause()
        futures = [await js.publish_async("flying.1", b"x" * 1000) for _ in range(3)]
        counted = nc.metrics()
        own_server.resume()
        assert counted["in_flight"] == 3
        assert 3000 < counted["in_flight_bytes"] < 6000
        await asyncio.gather(*futures)
        assert (nc.metrics()["in_flight"], nc.metrics()["in_flight_bytes"]) == (0, 0)


async def test_verbs_count_their_messages_and_bytes(
    js: JetStreamContext, nc: Client, nats_url: str, stream: str, registry: object
) -> None:
    """Messages and bytes are counted once each, and the verbs add up to the counts of the connection."""
    jetarrow.metrics.prometheus(nc, names=["verbs"], registry=registry)  # type: ignore[arg-type]
    before = nc.metrics_by_verb()

    def more(verb: str) -> tuple[int, int, int, int]:
        now, then = nc.metrics_by_verb()[verb], before[verb]
        out_msgs, out_bytes, in_msgs, in_bytes = (
            now[key] - then[key] for key in ("out_msgs", "out_bytes", "in_msgs", "in_bytes")
        )
        return out_msgs, out_bytes, in_msgs, in_bytes

    await js.publish_batch(f"{stream}.a", [b"12345"] * 1_000)
    assert more("publish_batch")[:3] == (1_000, 5_000, 1_000)
    for future in [await js.publish_async(f"{stream}.a", b"123") for _ in range(10)]:
        await future
    await js.publish(f"{stream}.a", b"1")
    assert more("publisher")[:3] == (11, 31, 11)
    pull = await js.pull_subscribe(f"{stream}.>", durable="verbs")
    fetched = await pull.fetch(500, timeout=30)
    assert more("fetch")[2:] == (500, 2_500)
    for msg in fetched:
        await msg.ack()
    await nc.flush()
    assert more("ack")[:2] == (500, 500 * len(b"+ACK"))
    assert len(await js.read(stream).read_all()) == 1_011
    # Besides the messages the server sends a status at the end of a request.
    assert more("read")[2] >= 1_011
    assert more("read")[3] == 5_031
    sub = await nc.subscribe("metrics.verbs")
    await nc.publish("metrics.verbs", b"1234")
    await sub.next_msg(timeout=10)
    assert more("subscribe")[2:] == (1, 4)
    assert more("publish") == (1, 4, 0, 0)

    async def answer(msg: jetarrow.Msg) -> None:
        await msg.respond(b"123456")

    service = await nc.subscribe("metrics.ask", cb=answer)
    # From another client: a reader's last request may still be answered on this one.
    async with await jetarrow.connect(nats_url) as other:
        await other.request("metrics.ask", b"12", timeout=30)
        asked = other.metrics_by_verb()["request"]
    assert asked == {"out_msgs": 1, "out_bytes": 2, "in_msgs": 1, "in_bytes": 6, "resent": 0}
    assert more("publish")[:2] == (2, 10)
    await service.unsubscribe()

    def add_up() -> bool:
        sums = [sum(counts[way] for counts in nc.metrics_by_verb().values()) for way in ("in_bytes", "out_bytes")]
        return sums == [nc.metrics()[way] for way in ("in_bytes", "out_bytes")]

    # Messages may arrive between the two reads of the counters.
    await until(add_up)
    assert sample(registry, "verb_messages_total", "verbs", verb="publish_batch", direction="out") == 1_000
    assert sample(registry, "verb_payload_bytes_total", "verbs", verb="read", direction="in") == 5_031
    assert sample(registry, "verb_resent_messages_total", "verbs", verb="publisher") == 0


def test_a_blocking_publish_is_counted_as_one(nats_url: str, stream: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        nc.jetstream().publish(f"{stream}.a", b"12")
        counted = nc.metrics_by_verb()["publisher"]
    assert (counted["out_msgs"], counted["out_bytes"], counted["in_msgs"]) == (1, 2, 1)


async def test_batch_counts_in_flight_rows(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="B", subjects=["b.>"])
        own_server.pause()
        call = asyncio.ensure_future(js.publish_batch("b.a", [b"x" * 100] * 50, mode="window", timeout=60))
        await until(lambda: nc.metrics()["in_flight"] == 50)
        assert 5_000 < nc.metrics()["in_flight_bytes"] < 15_000
        own_server.resume()
        (await call).raise_for_errors()
        assert (nc.metrics()["in_flight"], nc.metrics()["in_flight_bytes"]) == (0, 0)


async def test_fast_batch_counts_in_flight_rows(own_server: NatsServer) -> None:
    """The server confirms hundreds of rows at a time, so a few rows are in flight until the batch ends."""
    seen = threading.Event()

    def blocks() -> Iterator[pa.RecordBatch]:
        for first in (True, False):
            if not first:
                assert seen.wait(60)
            yield pa.record_batch({"data": pa.array([b"x" * 100] * 7)})

    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="B", subjects=["b.>"], allow_batched=True)
        rows = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), blocks())
        call = asyncio.ensure_future(js.publish_batch("b.a", rows, mode="fast", timeout=60))
        await until(lambda: nc.metrics()["in_flight"] > 0)
        assert nc.metrics()["in_flight_bytes"] > 100
        seen.set()
        assert (await call).stored == 14
        assert (nc.metrics()["in_flight"], nc.metrics()["in_flight_bytes"]) == (0, 0)


async def test_ack_latency_is_counted_per_message(
    js: JetStreamContext, nc: Client, stream: str, registry: object
) -> None:
    assert nc.ack_latency().total == 0
    jetarrow.metrics.prometheus(nc, names=["acks"], registry=registry)  # type: ignore[arg-type]
    await js.publish_batch(f"{stream}.a", [b"x"] * 1_000)
    for future in [await js.publish_async(f"{stream}.a", b"x") for _ in range(100)]:
        await future
    await js.publish(f"{stream}.a", b"x")
    took = nc.ack_latency()
    assert sum(count for _, count in took.counts) + took.beyond == 1_101
    assert [bound for bound, _ in took.counts] == [2**place / 1e6 for place in range(28)]
    assert took.total > 0
    assert sample(registry, "ack_latency_seconds_count", "acks") == 1_101
    assert sample(registry, "ack_latency_seconds_bucket", "acks", le="+Inf") == 1_101
    assert sample(registry, "ack_latency_seconds_sum", "acks") == pytest.approx(took.total)


async def test_dropped_messages_are_counted(nc: Client) -> None:
    sub = await nc.subscribe("metrics.dropped", pending_msgs_limit=10)
    for _ in range(25):
        await nc.publish("metrics.dropped", b"x")
    await nc.flush()
    assert (sub.pending_msgs, nc.metrics()["dropped"], nc.metrics()["resent"]) == (10, 15, 0)


async def test_resent_messages_are_counted(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        begun = asyncio.Event()

        def pause(*_: object) -> None:
            if not begun.is_set():
                # At once, so that rows are left, and some are in flight when the link breaks.
                own_server.pause()
                begun.set()

        ids = [str(number) for number in range(400_000)]
        published = asyncio.ensure_future(
            js.publish_batch(
                "s.a",
                [b"x"] * 400_000,
                msg_ids=ids,
                timeout=60,
                max_inflight=5_000,  # else the window grows by itself
                progress=pause,
            )
        )
        await begun.wait()
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        (await published).raise_for_errors()
        # The messages in flight: at most one window per reconnect.
        assert 0 < nc.metrics()["resent"] <= 5_000 * nc.metrics()["reconnects"]


def test_reconnects_are_counted(own_server: NatsServer, registry: object) -> None:
    with jetarrow.sync.connect(own_server.url, name="c", reconnect_time_wait=0.05) as nc:
        jetarrow.metrics.prometheus(nc, registry=registry)
        own_server.restart()
        wait_until(
            lambda: sample(registry, "reconnects_total", "c") == 1.0 and sample(registry, "connected", "c") == 1.0
        )


def test_without_prometheus(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r'pip install "jetarrow\[metrics\]"'):
        jetarrow.metrics.prometheus()
