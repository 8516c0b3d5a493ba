"""The blocking API: the same names as the async one, without `await`.

    import jetarrow.sync

    with jetarrow.sync.connect("nats://127.0.0.1:4222") as nc:
        js = nc.jetstream()
        js.publish_batch("events.new", [b"one", b"two"])

Every call blocks in native code with the GIL released, and Ctrl-C interrupts it. Any thread may call it, and so may a
process that was forked before `connect`. The methods run the coroutines of the async API. Those wait for the connection
only, and a blocking session makes these waits block, so each coroutine runs to completion in one step.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jetarrow.sync.client import Client, connect
from jetarrow.sync.context import JetStream
from jetarrow.sync.dead_letters import DeadLetters
from jetarrow.sync.fetch import MessageBatch, PullSubscription, Reader
from jetarrow.sync.handles import Advisories, Consumer, Stream
from jetarrow.sync.manager import JetStreamManager
from jetarrow.sync.msg import Msg
from jetarrow.sync.publisher import Publisher
from jetarrow.sync.subscription import PushSubscription, Subscription

if TYPE_CHECKING:
    from jetarrow.sync.groups import ConsumerGroup, GroupBatch, GroupMember
    from jetarrow.sync.kv import KeyValue, KeyWatcher
    from jetarrow.sync.objects import ObjectStore, ObjectWatcher
    from jetarrow.sync.pipes import Pipe
    from jetarrow.sync.sinks import Sink
    from jetarrow.sync.system import System
    from jetarrow.sync.workers import Worker, worker

__all__ = [
    "Advisories",
    "Client",
    "Consumer",
    "ConsumerGroup",
    "DeadLetters",
    "GroupBatch",
    "GroupMember",
    "JetStream",
    "JetStreamManager",
    "KeyValue",
    "KeyWatcher",
    "MessageBatch",
    "Msg",
    "ObjectStore",
    "ObjectWatcher",
    "Pipe",
    "Publisher",
    "PullSubscription",
    "PushSubscription",
    "Reader",
    "Sink",
    "Stream",
    "Subscription",
    "System",
    "Worker",
    "connect",
    "worker",
]

if not TYPE_CHECKING:
    # Few programs need these names: importing their modules would take a third longer.
    _RARE = {
        "ConsumerGroup": "groups",
        "GroupBatch": "groups",
        "GroupMember": "groups",
        "KeyValue": "kv",
        "KeyWatcher": "kv",
        "ObjectStore": "objects",
        "ObjectWatcher": "objects",
        "Pipe": "pipes",
        "Sink": "sinks",
        "System": "system",
        "Worker": "workers",
        "worker": "workers",
    }

    def __getattr__(name: str) -> Any:
        if name in _RARE:
            return getattr(importlib.import_module(f"{__name__}.{_RARE[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
