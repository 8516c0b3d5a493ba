"""Subscribing to what a stream has through consumers that are pulled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import check_whole
from jetarrow.jetstream import consumer_diff, models
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.messages import REQUEST_MESSAGES, Messages
from jetarrow.jetstream.models import DEFAULT_JS_SUB_PENDING_BYTES_LIMIT, DEFAULT_JS_SUB_PENDING_MSGS_LIMIT
from jetarrow.jetstream.not_found import expect_not_found

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import ConsumerOptions, FetchOptions
    from jetarrow.jetstream.priority import PriorityOptions

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _either_order(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """Takes (stream, consumer) by position as well as (consumer, stream): the server knows which is which."""

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
    """The verbs of a JetStream context that pull."""

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
        """Subscribes with a pull consumer, which is created where it is not there.

        A new one takes up to 100,000 messages without an ack (`max_ack_pending`), or what the server allows, so that
        batches are not cut at the server's 1,000.

        Args:
            subject: What to receive; becomes the consumer's filter, where none is given by name.
            durable: Name of a consumer that stays; None or "" makes one that goes when it is not used.
            stream: The stream; None finds it by the subject.
            config: Configuration of a new consumer; one that is there must not differ from it.
            pending_msgs_limit: Most messages that one request asks for, and so the most that wait to be taken.
            pending_bytes_limit: Taken for nats-py's sake, and not needed.
            inbox_prefix: Taken for nats-py's sake, and not needed.
            update: A durable consumer that is there and differs is changed; False is an error.
            **params: Fields of `ConsumerConfig`, by name; they win over `config`.

        Raises:
            NotFoundError: No stream takes the subject.
            BadRequestError: The server refuses the configuration.
            Error: The durable consumer is there with another filter, or other values of what was given; the text lists
                them.
            TypeError: An unknown option.
        """
        check_whole(pending_msgs_limit=pending_msgs_limit)
        config = (config or models.ConsumerConfig()).evolve(**params)
        stream = stream or await self.find_stream_name_by_subject(subject)
        if durable:
            info = None
            with expect_not_found(), suppress(NotFoundError):
                info = await self.consumer_info(stream, durable)
            if info is not None:
                changes = consumer_diff.config_differences(info.config, config, params, subject)
                info = await consumer_diff.reconcile(self, info, changes, update=update)
                return PullSubscription(
                    self._api, stream=stream, consumer=durable, info=info, pending_msgs_limit=pending_msgs_limit
                )
            config = replace(config, name=durable, durable_name=durable)
        if subject and not (config.filter_subject or config.filter_subjects):
            config = replace(config, filter_subject=subject)
        info = await consumer_diff.create_for_batches(self, stream, config)
        return PullSubscription(
            self._api, stream=stream, consumer=info.name, info=info, pending_msgs_limit=pending_msgs_limit
        )

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

        Both by position, they may stand in either order: one request finds out which is the stream. With keywords no
        request is made.

        Args:
            consumer: The consumer.
            name: Another name for `consumer`.
            durable: Another name for `consumer`.
            stream: Its stream.
            inbox_prefix: Taken for nats-py's sake, and not needed.
            pending_msgs_limit: As for `pull_subscribe`.
            pending_bytes_limit: Taken for nats-py's sake, and not needed.

        Raises:
            ValueError: A name is missing or not valid.
        """
        if not stream:
            raise ValueError("nats: stream name is required")
        return PullSubscription(
            self._api,
            stream=stream,
            consumer=durable or name or consumer or "",
            pending_msgs_limit=pending_msgs_limit,
        )

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
