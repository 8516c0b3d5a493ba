"""Subscriptions of a JetStream context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jetarrow import _jetarrow
from jetarrow.batch import MessageBatch

if TYPE_CHECKING:
    from jetarrow.js import api
    from jetarrow.js.client import JetStreamContext


class PullSubscription:
    """Takes messages from a pull consumer when asked. Made by `js.pull_subscribe`."""

    def __init__(self, js: JetStreamContext, native: _jetarrow.PullSubscription, *, stream: str, consumer: str) -> None:
        self._js = js
        self._native = native
        self._stream = stream
        self._consumer = consumer

    async def consumer_info(self) -> api.ConsumerInfo:
        """Configuration and state of the consumer.

        Raises:
            NotFoundError: the consumer is gone.
        """
        return await self._js.consumer_info(self._stream, self._consumer)

    async def fetch_batch(
        self,
        max_messages: int = 1000,
        *,
        max_bytes: int | None = None,
        timeout: float = 5.0,
        min_messages: int = 1,
        heartbeat: float | None = None,
        columns: Sequence[str] | None = None,
    ) -> MessageBatch:
        """Fetches messages into Arrow columns.

        Returns when `max_messages` or `max_bytes` are there, or at `timeout` with what came (an empty batch is a value,
        not an error); earlier only once `min_messages` are there and no more are waiting at the server.

        Parameters:
            max_messages: most rows.
            max_bytes: most bytes of messages, as the server counts them; None is no limit.
            timeout: seconds.
            min_messages: rows worth waiting for.
            heartbeat: seconds between the server's signs of life while it has nothing; default a quarter of the
                wait, none under 2 s. Two missed ones and the request is sent again.
            columns: what is built; default stream, seq, subject, timestamp, headers, data. There are also delivered,
                consumer_seq, pending, reply.

        Raises:
            NotFoundError: the consumer is gone.
            APIError: the server refuses the request, such as more than the consumer's `max_request_batch`.
            ValueError: a limit is not positive, a column is unknown, or the next message is larger than `max_bytes`.
            ConnectionClosedError: the connection is closed.
        """
        call = self._native.fetch_batch(
            max_messages,
            max_bytes=max_bytes,
            timeout=timeout,
            min_messages=min_messages,
            heartbeat=heartbeat,
            columns=columns,
        )
        return MessageBatch(self._js._nc, await self._js._nc._run(call))
