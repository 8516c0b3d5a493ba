"""Subscribing to a stream with push consumers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import check_whole, function
from jetarrow.core.errors import MsgAlreadyAckdError
from jetarrow.core.subscribe import subscription_factory
from jetarrow.core.subscription import Callback as SubscriptionCallback
from jetarrow.jetstream import models
from jetarrow.jetstream.api import HasSession
from jetarrow.jetstream.errors import APIError, Error, NotFoundError
from jetarrow.jetstream.manage.consumers import put_consumer
from jetarrow.jetstream.models import DEFAULT_JS_SUB_PENDING_BYTES_LIMIT, DEFAULT_JS_SUB_PENDING_MSGS_LIMIT
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.jetstream.pull_subscribe import PullSubscribe
from jetarrow.jetstream.push import PushSubscription, ordered_config

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import PushConsumerOptions

Callback = Callable[[Msg], Awaitable[None] | None]


def _coroutine(cb: Callback, ack: bool) -> Callable[[Msg], Awaitable[None]]:
    """The callback as a coroutine function, which acknowledges each message after the callback has returned."""

    async def call(msg: Msg) -> None:
        result = cb(msg)
        if inspect.isawaitable(result):
            await result
        if ack:
            with suppress(MsgAlreadyAckdError):
                await msg.ack()

    return call


class Subscribe(PullSubscribe):
    """The subscribe verbs of a JetStream context."""

    _nc: HasSession

    async def subscribe(
        self,
        /,
        subject: str,
        queue: str | None = None,
        cb: Callback | None = None,
        durable: str | None = None,
        stream: str | None = None,
        config: models.ConsumerConfig | None = None,
        manual_ack: bool = False,
        ordered_consumer: bool = False,
        idle_heartbeat: float | None = None,
        flow_control: bool = False,
        pending_msgs_limit: int = DEFAULT_JS_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = DEFAULT_JS_SUB_PENDING_BYTES_LIMIT,
        deliver_policy: models.DeliverPolicy | str | None = None,
        headers_only: bool | None = None,
        inactive_threshold: float | None = None,
        **params: Unpack[PushConsumerOptions],
    ) -> PushSubscription:
        """Subscribes with a push consumer, which is created if it does not exist.

        Args:
            subject: The subject to receive; it becomes the consumer's filter if no filter is given by name.
            queue: Deliver group; without `durable` it is the consumer's durable name as well. `config.deliver_group`
                overrides it.
            cb: Called with each message, sequentially: a coroutine function or a plain one. Without it, read the
                messages from the returned subscription, and acknowledge them.
            durable: Name of a durable consumer; None or "" creates an ephemeral one, which ends with the subscription.
                `config.durable_name` and `config.name` override it.
            stream: The stream; None looks it up by the subject.
            config: Configuration of a new consumer.
            manual_ack: Do not acknowledge messages after the callback has returned.
            ordered_consumer: All messages in order, without acks: the consumer is recreated at the next sequence when a
                message is missing.
            idle_heartbeat: Seconds between heartbeats while there are no messages, default 5 for an ordered consumer.
            flow_control: The server pauses until the messages that it has sent were processed.
            pending_msgs_limit: Most buffered messages.
            pending_bytes_limit: Most bytes of buffered payloads.
            deliver_policy: As in `ConsumerConfig`.
            headers_only: As in `ConsumerConfig`.
            inactive_threshold: As in `ConsumerConfig`.
            **params: Fields of `ConsumerConfig`, by name; they override `config`.

        Raises:
            NotFoundError: No stream stores the subject.
            BadRequestError: The server rejects the configuration.
            Error: The consumer exists with another deliver group or filter, or is bound to another subscription.
        """
        function("cb", cb)
        check_whole(pending_msgs_limit=pending_msgs_limit, pending_bytes_limit=pending_bytes_limit)
        stream = stream or await self.find_stream_name_by_subject(subject)
        config = (config or models.ConsumerConfig()).evolve(**params)
        # The configuration's name has priority: another name would create another consumer, which receives the stream
        # again.
        durable = config.durable_name or ((config.name or durable or queue) if queue or durable else None)
        queue = config.deliver_group or queue
        info = None
        if durable:
            with expect_not_found(), suppress(NotFoundError):
                info = await self.consumer_info(stream, durable)
        if info is not None and info.config is not None:
            _check_group(info, queue)
            check_subject(info, subject, config)
        else:
            given: dict[str, Any] = {
                "durable_name": durable,
                "deliver_group": queue,
                "headers_only": headers_only,
                "deliver_policy": deliver_policy,
                "inactive_threshold": inactive_threshold,
                "idle_heartbeat": idle_heartbeat,
                "flow_control": flow_control,
            }
            config = config.evolve(**{name: value for name, value in given.items() if value})
            config = self._complete(config, subject, ordered_consumer)
            info = await self._create_or_join(stream, config, durable, queue)
        sub = await self._bind(
            stream,
            info.name,
            info.config,
            cb=cb,
            manual_ack=manual_ack,
            ordered=ordered_consumer,
            limits=(pending_msgs_limit, pending_bytes_limit),
        )
        if ordered_consumer:
            sub._set_start(info)
        return sub

    def _complete(self, config: models.ConsumerConfig, subject: str, ordered: bool) -> models.ConsumerConfig:
        """Adds what a new push consumer requires: the deliver subject, the filter, the fields of an ordered one."""
        if config.deliver_subject is None:
            config = replace(config, deliver_subject=self._api.session.native.new_inbox())
        if subject and not (config.filter_subject or config.filter_subjects):
            config = replace(config, filter_subject=subject)
        return ordered_config(config) if ordered else config

    async def _create_or_join(
        self, stream: str, config: models.ConsumerConfig, durable: str | None, queue: str | None
    ) -> models.ConsumerInfo:
        """Creates the consumer, or joins the one that another member of the group has created first."""
        if not durable:
            return await self.add_consumer(stream, config)
        try:
            return await put_consumer(self._api, stream, config, action="create")
        except APIError:
            try:
                with expect_not_found():
                    info = await self.consumer_info(stream, durable)
            except NotFoundError:
                info = None
            if info is None:
                raise
            _check_group(info, queue)
            check_subject(info, "", config)
            return info

    async def subscribe_bind(
        self,
        /,
        stream: str,
        config: models.ConsumerConfig | str | None = None,
        consumer: str | None = None,
        cb: Callback | None = None,
        manual_ack: bool = False,
        ordered_consumer: bool = False,
        pending_msgs_limit: int = DEFAULT_JS_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = DEFAULT_JS_SUB_PENDING_BYTES_LIMIT,
    ) -> PushSubscription:
        """Subscribes to an existing push consumer.

        Args:
            stream: The stream.
            config: The consumer's configuration; None requests it from the server. A str is the consumer's name:
                `subscribe_bind(stream, consumer)`.
            consumer: The consumer's name.
            cb: As for `subscribe`.
            manual_ack: As for `subscribe`.
            ordered_consumer: As for `subscribe`.
            pending_msgs_limit: As for `subscribe`.
            pending_bytes_limit: As for `subscribe`.

        Raises:
            NotFoundError: The consumer does not exist.
            TypeError: It is a pull consumer, or its name is missing.
        """
        if isinstance(config, str):
            config, consumer = None, consumer or config
        if consumer is None:
            raise TypeError("the consumer's name is missing: pass consumer=")
        if config is None:
            config = (await self.consumer_info(stream, consumer)).config
        if config is None or config.deliver_subject is None:
            raise TypeError("config.deliver_subject is required: this is a pull consumer, use pull_subscribe_bind")
        limits = (pending_msgs_limit, pending_bytes_limit)
        return await self._bind(
            stream, consumer, config, cb=cb, manual_ack=manual_ack, ordered=ordered_consumer, limits=limits
        )

    async def _bind(
        self,
        stream: str,
        consumer: str,
        config: models.ConsumerConfig,
        *,
        cb: Callback | None,
        manual_ack: bool,
        ordered: bool,
        limits: tuple[int, int],
    ) -> PushSubscription:
        acks = config.ack_policy not in (models.AckPolicy.NONE, models.AckPolicy.FLOW_CONTROL)
        function("cb", cb)
        call = None if cb is None else _coroutine(cb, acks and not manual_ack)

        def make(cb: SubscriptionCallback | None, limits: tuple[int, int]) -> PushSubscription:
            return PushSubscription(self._api, stream, consumer, config, cb=cb, ordered=ordered, limits=limits)

        token = subscription_factory.set(make)
        try:
            sub: PushSubscription = await cast("Any", self._nc).subscribe(
                config.deliver_subject,
                queue=config.deliver_group or "",
                cb=call,
                pending_msgs_limit=limits[0],
                pending_bytes_limit=limits[1],
            )
        finally:
            subscription_factory.reset(token)
        return sub

    @classmethod
    def is_status_msg(cls, msg: Msg | None) -> str | None:
        """The status of a status message, such as "100"; None for other messages.

        Args:
            msg: The message.
        """
        return None if msg is None or msg.headers is None else msg.headers.get(models.Header.STATUS.value)


def check_subject(info: models.ConsumerInfo, subject: str, config: models.ConsumerConfig) -> None:
    """Checks that an existing consumer delivers the requested subject; without a filter it delivers every subject.

    Args:
        info: The consumer.
        subject: The requested subject, if `config` has no filter.
        config: The requested configuration.

    Raises:
        Error: It delivers other subjects.
    """
    named, has = _filters(config), _filters(info.config)
    asked = named or ([subject] if subject else [])
    if asked and asked != has and (has or named):
        raise Error(
            f"subject does not match consumer {info.name!r} of stream {info.stream_name!r}: it delivers"
            f" {', '.join(has) or 'all subjects'}, not {', '.join(asked)}; use another consumer"
        )


def _filters(config: models.ConsumerConfig) -> list[str]:
    return sorted(config.filter_subjects or ([config.filter_subject] if config.filter_subject else []))


def _check_group(info: models.ConsumerInfo, queue: str | None) -> None:
    """Checks that an existing consumer's deliver group is the subscription's queue."""
    group = info.config.deliver_group if info.config is not None else None
    if not group:
        if queue:
            raise Error("cannot create a queue subscription for a consumer without a deliver group")
        if info.push_bound:
            raise Error("consumer is already bound to a subscription")
    elif not queue:
        raise Error(f"cannot create a subscription for a consumer with a deliver group {group}")
    elif queue != group:
        raise Error(f"cannot create a queue subscription {queue} for a consumer with a deliver group {group}")
