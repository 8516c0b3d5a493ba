"""What clients count, and what Prometheus is told of it."""

from __future__ import annotations

import asyncio
import gc
import importlib.util

import jetarrow
import jetarrow.metrics
import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import UnsupportedError
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from tests.tools import wait_until

prometheus_client = pytest.importorskip("prometheus_client")


@pytest.fixture
def registry() -> object:
    return prometheus_client.CollectorRegistry()


def sample(registry: object, name: str, client: str, **labels: str) -> float | None:
    value: float | None = registry.get_sample_value(f"jetarrow_{name}", {"client": client, **labels})  # type: ignore[attr-defined]
    return value


async def test_what_a_client_counts(nc: Client) -> None:
    sub = await nc.subscribe("metrics.>")
    await nc.publish("metrics.a", b"12345")
    await sub.next_msg()
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


def test_prometheus_is_told(nats_url: str, registry: object) -> None:
    with jetarrow.sync.connect(nats_url, name="one") as one, jetarrow.sync.connect(nats_url) as other:
        collector = jetarrow.metrics.prometheus(one, other, registry=registry)
        one.publish("metrics.b", b"123")
        one.flush()
        assert sample(registry, "messages_total", "one", direction="out") == 1
        assert sample(registry, "payload_bytes_total", "one", direction="out") == 3
        assert sample(registry, "messages_total", "default", direction="out") == 0
        assert sample(registry, "connected", "one") == 1
        assert sample(registry, "queue_bytes", "one") == 0
        with pytest.raises(ValueError, match="another client is called 'one'"):
            collector.add(other, "one")
    assert sample(registry, "connected", "one") == 0
    # A client that is gone is no line any more.
    del one, other
    gc.collect()
    assert sample(registry, "connected", "one") is None


async def test_what_is_in_flight(own_server: NatsServer) -> None:
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


async def test_what_acks_take(js: JetStreamContext, nc: Client, stream: str, registry: object) -> None:
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


async def test_what_is_dropped(nc: Client) -> None:
    sub = await nc.subscribe("metrics.dropped", pending_msgs_limit=10)
    for _ in range(25):
        await nc.publish("metrics.dropped", b"x")
    await nc.flush()
    assert (sub.pending_msgs, nc.metrics()["dropped"], nc.metrics()["resent"]) == (10, 15, 0)


async def test_what_is_sent_again(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        begun = asyncio.Event()
        ids = [str(number) for number in range(100_000)]
        published = asyncio.ensure_future(
            js.publish_batch("s.a", [b"x"] * 100_000, msg_ids=ids, timeout=60, progress=lambda *_: begun.set())
        )
        await begun.wait()
        await asyncio.to_thread(own_server.restart)
        (await published).raise_for_errors()
        # What was in flight; more than the window only if it broke again.
        assert 0 < nc.metrics()["resent"] <= 5_000 * nc.metrics()["reconnects"]


def test_a_break_is_counted(own_server: NatsServer, registry: object) -> None:
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
