"""A traced client sends trace context in headers and links spans by it; other clients do not."""

from __future__ import annotations

import asyncio
import builtins
import inspect
from typing import Any

import jetarrow.sync
import jetarrow.tracing
import pyarrow as pa
import pytest
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.errors import UnsupportedError

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Traces:
    """A tracer provider of one test, and its finished spans."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def spans(self) -> list[ReadableSpan]:
        """Returns the spans that have ended since the last call."""
        found = list(self._exporter.get_finished_spans())
        self._exporter.clear()
        return found


@pytest.fixture
def traces() -> Traces:
    return Traces()


def parent(span: ReadableSpan) -> str:
    """The `traceparent` of messages that are published within a span."""
    context = span.context
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def test_one_message_carries_its_caller(nc: Client, stream: str, traces: Traces) -> None:
    jetarrow.tracing.trace(nc, tracer_provider=traces.provider)
    js = nc.jetstream()
    core = await nc.subscribe(f"core.{stream}")
    with traces.tracer.start_as_current_span("order"):
        await nc.publish(f"core.{stream}", b"1")
        await js.publish(f"{stream}.a", b"2", headers={"a": "b"})
        await js.publish(f"{stream}.a", b"3", None, None, {"traceparent": "mine"})
        await (await js.publish_async(f"{stream}.a", b"4"))
        async with js.publisher(f"{stream}.a") as publisher:
            await publisher.publish(b"5")
    await js.publish(f"{stream}.a", b"6")
    received = await core.next_msg(timeout=10)
    (order,) = traces.spans()
    assert received.headers == {"traceparent": parent(order)}
    stored = [(await js.get_msg(stream, seq)).headers for seq in range(1, 6)]
    with_caller = {"traceparent": parent(order)}
    assert stored == [{"a": "b", **with_caller}, {"traceparent": "mine"}, with_caller, with_caller, None]


async def test_a_batch_is_one_span(nc: Client, stream: str, traces: Traces) -> None:
    jetarrow.tracing.trace(nc, tracer_provider=traces.provider)
    js = nc.jetstream()
    await js.publish_batch(f"{stream}.a", ["1", "2"], headers=[{"a": "b"}, None])
    await js.publish_table(pa.table({"id": [1, 2, 3]}), f"{stream}.a")
    result = await js.publish_batch("nobody.listens", ["1"], timeout=1)
    first, table, failed = traces.spans()
    assert [span.name for span in (first, table, failed)] == ["publish_batch", "publish_table", "publish_batch"]
    assert first.kind is otel.SpanKind.PRODUCER
    assert dict(first.attributes or {}) == {
        "messaging.system": "nats",
        "messaging.operation.name": "publish_batch",
        "messaging.destination.name": f"{stream}.a",
        "messaging.batch.message_count": 2,
        "jetarrow.stored": 2,
        "jetarrow.duplicates": 0,
    }
    assert not result.ok
    assert (failed.status.status_code, failed.status.description) == (
        otel.StatusCode.ERROR,
        "1 of 1 rows were not stored",
    )

    sub = await js.pull_subscribe(f"{stream}.a", durable="traced", stream=stream)
    batch = await sub.fetch_batch(5)
    (received,) = traces.spans()
    assert (received.name, received.kind) == ("fetch_batch", otel.SpanKind.CONSUMER)
    assert (received.attributes or {})["messaging.batch.message_count"] == 5
    assert received.start_time is not None
    assert received.end_time is not None
    assert received.start_time < received.end_time
    linked = {(link.context.trace_id, link.context.span_id) for link in received.links}
    assert linked == {(span.context.trace_id, span.context.span_id) for span in (first, table)}
    assert {(one.context.trace_id, one.context.span_id) for one in jetarrow.tracing.links(batch)} == linked
    assert {(one.context.trace_id, one.context.span_id) for one in jetarrow.tracing.links(list(batch))} == linked
    # A fetch without messages has no span.
    assert len(await sub.fetch_batch(5, timeout=1)) == 0
    with pytest.raises(jetarrow.errors.TimeoutError):
        await sub.fetch(1, timeout=0.1)
    assert traces.spans() == []
    await js.delete_consumer(stream, "traced")
    with pytest.raises(jetarrow.js.errors.APIError):
        await sub.fetch_batch(5, timeout=5)
    (gone,) = traces.spans()
    assert gone.status.status_code is otel.StatusCode.ERROR
    assert [event.name for event in gone.events] == ["exception"]


async def test_a_request_and_its_handler_are_one_trace(nc: Client, traces: Traces) -> None:
    subject = nc.new_inbox()

    async def answer(msg: Msg) -> None:
        with traces.tracer.start_as_current_span("answer"):
            await msg.respond(b"yes")

    jetarrow.tracing.trace(nc, tracer_provider=traces.provider)
    await nc.subscribe(subject, cb=answer)
    await nc.request(subject, b"?", timeout=5)
    answered, asked = sorted(traces.spans(), key=lambda span: span.name)
    assert (asked.name, asked.kind) == ("request", otel.SpanKind.CLIENT)
    assert answered.parent is not None
    assert answered.parent.span_id == asked.context.span_id
    assert answered.context.trace_id == asked.context.trace_id


def test_the_sync_face(nats_url: str, traces: Traces) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        jetarrow.tracing.trace(nc, tracer_provider=traces.provider)
        js = nc.jetstream()
        name = f"TRACED{id(nc)}"
        js.add_stream(name=name, subjects=[f"{name}.>"])
        with traces.tracer.start_as_current_span("order"):
            js.publish(f"{name}.1", b"1")
            js.publish_table(pa.table({"id": [1]}), f"{name}.2")
        table, order = traces.spans()
        assert table.parent is not None
        assert table.parent.span_id == order.context.span_id
        sub = js.pull_subscribe(f"{name}.>", durable="d")
        one, other = sub.fetch(2)
        assert [message.headers for message in (one, other)] == [
            {"traceparent": parent(order)},
            {"traceparent": parent(table)},
        ]
        (received,) = traces.spans()
        assert [link.context.span_id for link in received.links] == [order.context.span_id, table.context.span_id]
        with jetarrow.tracing.attached(other):
            assert otel.get_current_span().get_span_context().span_id == table.context.span_id
        assert not otel.get_current_span().get_span_context().is_valid
        js.delete_stream(name)


async def test_only_the_traced_client_is_wrapped(nc: Client, stream: str, traces: Traces) -> None:
    """Only the traced client's methods are wrapped, and only once; they keep their signatures."""
    js = nc.jetstream()
    with traces.tracer.start_as_current_span("order"):
        await js.publish(f"{stream}.a", b"1")
    assert (await js.get_msg(stream, 1)).headers is None
    assert not any(callable(value) for value in vars(nc).values())
    signature = inspect.signature(nc.publish)
    assert jetarrow.tracing.trace(nc, tracer_provider=traces.provider) is nc
    wrapped = nc.publish
    jetarrow.tracing.trace(nc, tracer_provider=traces.provider)
    assert nc.publish == wrapped
    assert inspect.signature(nc.publish) == signature
    assert asyncio.iscoroutinefunction(nc.publish)


def test_links_ignore_header_case_and_are_limited() -> None:
    """A header `Traceparent` of another client is a link; an invalid context is not."""

    class Received:
        def __init__(self, value: str) -> None:
            self.headers = {"Traceparent": value}

    many = [Received(f"00-{1:032x}-{number:016x}-01") for number in range(1, 200)]
    assert len(jetarrow.tracing.links(many)) == jetarrow.tracing.MOST_LINKS
    assert jetarrow.tracing.links([Received("nonsense")]) == []


def test_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UnsupportedError, match=r'pip install "jetarrow\[tracing\]"'):
        jetarrow.tracing.trace(object())
