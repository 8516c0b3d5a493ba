"""Drains of workers that are members of a consumer group."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.jetstream.groups.group_batch import GroupBatch

from ..tools import wait_until
from .faces import running


@pytest.mark.parametrize("face", ["async", "sync"])
def test_a_drain_that_times_out_during_a_confirmation_leaves_the_group(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = sync_js.create_consumer_group(stream, "G", partitions=2, filter=f"{stream}.*", members=["m1"])
    sync_js.add_stream(name=f"{stream}_DEAD", subjects=[f"dead.{stream}"])
    asked, gate = threading.Event(), threading.Event()
    ack = GroupBatch._ack

    async def slow(self: Any, kind: Any, *more: Any, **options: Any) -> None:
        """A confirmation that comes after the drain."""
        if kind == "ack":
            asked.set()
            while not gate.wait(0.0 if face != "sync" else 60.0):
                await asyncio.sleep(0.005)
        await ack(self, kind, *more, **options)

    monkeypatch.setattr(GroupBatch, "_ack", slow)
    options: dict[str, Any] = {"durable": None, "group": "G", "member": "m1", "dead_letter": f"dead.{stream}"}
    try:
        with running(
            face, nats_url, stream, handler=lambda _: None, confirm=True, drain_timeout=0.05, **options
        ) as run:
            sync_js.publish(f"{stream}.a", b"1")
            assert asked.wait(30)
            run.worker.stop()
            # The drain's end leaves the group: its partitions are for another program.
            core = (run.worker._inner if face == "sync" else run.worker)._core
            left = core.source
            wait_until(lambda: left._closed or run.error is not None, 20)
            gate.set()
        assert run.error is None
        assert left._closed
    finally:
        gate.set()
        group.delete()
        sync_js.delete_stream(f"{stream}_DEAD")
