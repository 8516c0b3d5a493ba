"""Subscribing to a stream with pull consumers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from jetarrow._jetarrow import Msg
from jetarrow.jetstream import consumer_diff, models
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.messages import REQUEST_MESSAGES, Messages
from jetarrow.jetstream.models import DEFAULT_JS_SUB_PENDING_BYTES_LIMIT, DEFAULT_JS_SUB_PENDING_MSGS_LIMIT
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.jetstream.pull_lifecycle import pending_limits

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import ConsumerOptions, FetchOptions
    from jetarrow.jetstream.priority import PriorityOptions

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _either_order(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """Accepts (stream, consumer) by position as well as (consumer, stream): a request decides which one it is."""

    @functools.wraps(method)
    async def bind(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if len(args) >= 2:
            stream, consumer = args[:2]
            with expect_not_found(), suppress(NotFoundError, ValueError):
                await self.consumer_info(stream, consumer)
                swapped: Any = (consumer, stream, *args[2:])
                return await method(self, *swapped, **kwargs)
        return await method(self, *args, **kwargs)

    return bind


class PullSubscribe(Management):
    """The verbs of a JetStream context for pull consumers."""

    async def pull_subscribe(
        self,
        /,
        subject: str,
        durable: str | None = None,
        stream: str | None = None,
        config: models.ConsumerConfig | None = None,
        pending_msgs_limit: int = DEFAULT_JS_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = DEFAULT_JS_SUB_PENDING_BYTES_LIMIT,
        inbox_prefix: bytes | None = None,
        update: bool = False,
        **params: Unpack[ConsumerOptions],
    ) -> PullSubscription:
        """Subscribes with a pull consumer, which is created if it does not exist.

        A new one delivers up to 100,000 unacknowledged messages (`max_ack_pending`), or as many as the server allows,
        so that batches are not limited to the server's default of 1,000.

        Args:
            subject: The subject to receive; it becomes the consumer's filter if no filter is given by name.
            durable: Name of a durable consumer; None or "" creates an ephemeral one, which is removed when it is
                unused.
            stream: The stream; None looks it up by the subject.
            config: Configuration of a new consumer; an existing one must not differ from it.
            pending_msgs_limit: Most messages of one request, and therefore most buffered messages; a larger fetch sends
                several requests. 0 or less is no limit.
            pending_bytes_limit: Most bytes of messages that one call of `fetch` or `fetch_batch` returns, and that one
                request of an iteration asks for, as the server counts them. The default, and 0 or less, is no limit. A
                larger message raises `ValueError`.
            inbox_prefix: Accepted for compatibility with nats-py; ignored.
            update: Whether an existing durable consumer that differs is changed; False raises an error.
            **params: Fields of `ConsumerConfig`, by name; they override `config`.

        Raises:
            NotFoundError: No stream stores the subject.
            BadRequestError: The server rejects the configuration.
            Error: The durable consumer exists with another filter, or with other values of the given options, which the
                text lists.
            TypeError: An unknown option.
        """
        limits = pending_limits(pending_msgs_limit, pending_bytes_limit)
        config = (config or models.ConsumerConfig()).evolve(**params)
        stream = stream or await self.find_stream_name_by_subject(subject)
        if durable:
            info = None
            with expect_not_found(), suppress(NotFoundError):
                info = await self.consumer_info(stream, durable)
            if info is not None:
                changes = consumer_diff.config_differences(info.config, config, params, subject)
                info = await consumer_diff.reconcile(self, info, changes, update=update)
                return PullSubscription(self._api, stream=stream, consumer=durable, info=info, limits=limits)
            config = replace(config, name=durable, durable_name=durable)
        if subject and not (config.filter_subject or config.filter_subjects):
            config = replace(config, filter_subject=subject)
        info = await consumer_diff.create_for_batches(self, stream, config)
        return PullSubscription(self._api, stream=stream, consumer=info.name, info=info, limits=limits)

    @_either_order
    async def pull_subscribe_bind(
        self,
        consumer: str | None = None,
        stream: str | None = None,
        inbox_prefix: bytes | None = None,
        pending_msgs_limit: int = DEFAULT_JS_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = DEFAULT_JS_SUB_PENDING_BYTES_LIMIT,
        name: str | None = None,
        durable: str | None = None,
    ) -> PullSubscription:
        """Subscribes to an existing pull consumer.

        Two positional arguments may be in either order: one request decides which of them is the stream. With keywords
        no request is made.

        Args:
            consumer: The consumer.
            name: Another name for `consumer`.
            durable: Another name for `consumer`.
            stream: Its stream.
            inbox_prefix: Accepted for compatibility with nats-py; ignored.
            pending_msgs_limit: As for `pull_subscribe`.
            pending_bytes_limit: As for `pull_subscribe`.

        Raises:
            ValueError: A name is missing or invalid.
        """
        if not stream:
            raise ValueError("nats: stream name is required")
        limits = pending_limits(pending_msgs_limit, pending_bytes_limit)
        return PullSubscription(self._api, stream=stream, consumer=durable or name or consumer or "", limits=limits)

    async def fetch(
        self, stream: str, consumer: str, batch: int | None = None, **options: Unpack[FetchOptions]
    ) -> list[Msg]:
        """Fetches messages from a pull consumer; `fetch` of a subscription is cheaper for many calls.

        Args:
            stream: The stream.
            consumer: Its consumer.
            batch: Most messages, default 1.
            **options: `timeout`, `heartbeat`, `max_bytes`, `no_wait` and the other options of `PullSubscription.fetch`.

        Raises:
            FetchTimeoutError: No message within `timeout`.
            NotFoundError: The stream or the consumer does not exist.
            APIError: The server rejects the request.
            ValueError: A name or a number is invalid.
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
        """All messages of a pull consumer as they arrive, without end: `async for msg in js.consume("S", "worker")`.

        Args:
            stream: The stream.
            consumer: Its consumer.
            max_messages: Most messages of one request.
            max_bytes: Most bytes of one request, as the server counts them; None is no limit.
            threshold: Number of unprocessed messages below which the next request is sent; default half of
                `max_messages`.
            **priority: `group` and so on, as `fetch` of a subscription.

        Raises:
            NotFoundError: While it is iterated: the stream or the consumer does not exist.
            ValueError: A name is invalid.
        """
        sub = PullSubscription(self._api, stream=stream, consumer=consumer)
        return sub.consume(max_messages, max_bytes=max_bytes, threshold=threshold, **priority)
