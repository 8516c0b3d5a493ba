"""Pulling from a consumer by its name, without a subscription or handle of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from jetarrow._jetarrow import Msg
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.messages import REQUEST_MESSAGES, Messages

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import FetchOptions
    from jetarrow.jetstream.priority import PriorityOptions


class FetchVerbs:
    """The verbs `fetch` and `consume` of a context."""

    _api: JetStreamApi

    async def fetch(
        self, stream: str, consumer: str, batch: int | None = None, **options: Unpack[FetchOptions]
    ) -> list[Msg]:
        """Fetches messages from a pull consumer; as `fetch` of a subscription, which is cheaper for many calls.

        Args:
            stream: The stream.
            consumer: Its consumer.
            batch: Most messages, default 1.
            **options: `timeout`, `heartbeat`, `max_bytes`, `no_wait` and the rest, as there.

        Raises:
            FetchTimeoutError: No message within `timeout`.
            NotFoundError: There is no such stream or consumer.
            APIError: The server refuses the request.
            ValueError: A name or a number is not valid.
        """
        return await PullSubscription(self._api, stream=stream, consumer=consumer).fetch(batch, **options)

    def consume(
        self,
        stream: str,
        consumer: str,
        max_messages: int = REQUEST_MESSAGES,
        *,
        max_bytes: int | None = None,
        threshold: int | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> Messages:
        """All messages of a pull consumer as they come, without end: `async for msg in js.consume("S", "worker")`.

        Args:
            stream: The stream.
            consumer: Its consumer.
            max_messages: Most messages of one request.
            max_bytes: Most bytes of one request, as the server counts them; None is no limit.
            threshold: With so few left at hand the next request is sent; default half of `max_messages`.
            **priority: `group` and so on, as `fetch` of a subscription.

        Raises:
            NotFoundError: While it is iterated: there is no such stream or consumer.
            ValueError: A name is not valid.
        """
        sub = PullSubscription(self._api, stream=stream, consumer=consumer)
        return sub.consume(max_messages, max_bytes=max_bytes, threshold=threshold, **priority)
