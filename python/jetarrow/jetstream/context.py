"""The JetStream context."""

from __future__ import annotations

from jetarrow.core.arguments import check_whole, seconds
from jetarrow.jetstream import models
from jetarrow.jetstream.api import HasSession
from jetarrow.jetstream.dead_letters import DeadLetterVerbs
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.manager import JetStreamManager
from jetarrow.jetstream.objects.object_stores import ObjectStores
from jetarrow.jetstream.publisher import LoopPublisher
from jetarrow.jetstream.push import PushSubscription
from jetarrow.jetstream.sinks.sinks import Sinks
from jetarrow.jetstream.table import PublishTable


class JetStreamContext(KeyValues, ObjectStores, PublishTable, Sinks, DeadLetterVerbs, JetStreamManager):
    """JetStream on a connection. Made by `nc.jetstream()`."""

    PullSubscription = PullSubscription
    PushSubscription = PushSubscription

    def __init__(
        self,
        conn: HasSession,
        prefix: str = models.DEFAULT_PREFIX,
        domain: str | None = None,
        timeout: float | None = 5.0,
        publish_async_max_pending: int | None = None,
        *,
        max_ack_inflight: int | None = None,
        backpressure_on_inflight: bool = True,
        ack_timeout: float = 30.0,
        api_prefix: str | None = None,
    ) -> None:
        if publish_async_max_pending is not None and max_ack_inflight is not None:
            raise TypeError("publish_async_max_pending and max_ack_inflight are one number: give one of them")
        check_whole(publish_async_max_pending=publish_async_max_pending, max_ack_inflight=max_ack_inflight)
        seconds("timeout", timeout)
        seconds("ack_timeout", ack_timeout)
        self._max_pending = publish_async_max_pending or max_ack_inflight or None
        self._backpressure = backpressure_on_inflight
        self._ack_timeout = ack_timeout
        self._publisher: LoopPublisher | None = None
        super().__init__(conn, prefix, timeout, domain=domain, api_prefix=api_prefix)
