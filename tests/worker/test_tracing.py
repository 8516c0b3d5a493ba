"""Spans of handlers: in the context in which their messages were published."""

from __future__ import annotations

import asyncio
from typing import Any

import jetarrow
import jetarrow.sync
import jetarrow.tracing
import pytest

from ..tools import wait_until

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("face", ["async", "sync"])
@pytest.mark.parametrize("batched", [False, True])
def test_handler_has_a_span_in_the_context_of_its_message(
    face: str, batched: bool, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    sync_js.publish(f"{stream}.a", b"1", headers={"traceparent": PARENT})
    options: dict[str, Any] = {"durable": "w", "signals": False}
    name = "batch_handler" if batched else "handler"
    if face == "sync":
        with jetarrow.sync.connect(nats_url) as nc:
            js = jetarrow.tracing.trace(nc, tracer_provider=provider).jetstream()
            with jetarrow.sync.worker(js, stream, **options, **{name: lambda received: None}) as worker:
                wait_until(lambda: worker.metrics().handled == 1)
    else:

        async def handle(received: Any) -> None: ...

        async def main() -> None:
            async with await jetarrow.connect(nats_url) as nc:
                js = jetarrow.tracing.trace(nc, tracer_provider=provider).jetstream()
                async with jetarrow.worker(js, stream, **options, **{name: handle}) as worker:
                    while worker.metrics().handled < 1:
                        await asyncio.sleep(0.01)

        asyncio.run(main())
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "process w"]
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 1
    origin = span.links[0].context if batched else span.parent
    assert origin is not None
    assert f"{origin.trace_id:032x}-{origin.span_id:016x}" in PARENT
