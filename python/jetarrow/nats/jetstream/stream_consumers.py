"""Verbs of a stream for its consumers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast, overload

from jetarrow.nats.jetstream.consumer_config import ConsumerConfig, ConsumerInfo, ConsumerReset, OrderedConsumerConfig
from jetarrow.nats.jetstream.ordered import OrderedConsumer
from jetarrow.nats.jetstream.pull import PullConsumer
from jetarrow.nats.jetstream.wire import to_rfc3339

if TYPE_CHECKING:
    from jetarrow.nats.jetstream.api.types import ConsumerConfig as ConsumerRequest
    from jetarrow.nats.jetstream.jetstream import JetStream
    from jetarrow.nats.jetstream.stream import Stream

CONSUMER_ACTION_CREATE = "create"
CONSUMER_ACTION_UPDATE = "update"
CONSUMER_ACTION_CREATE_OR_UPDATE = ""


class StreamConsumers:
    """Base of `Stream`: creates, updates, pauses, resets and deletes consumers."""

    _jetstream: JetStream
    _name: str

    async def _upsert_consumer(
        self, action: str, config: ConsumerConfig | None, fields: dict[str, Any]
    ) -> PullConsumer:
        if config is None:
            config = ConsumerConfig.from_kwargs(**fields)
        if config.name is None:
            raise ValueError("ConsumerConfig must have a name")
        response = await self._jetstream._api.consumer_create(
            self._name,
            config.name,
            action=action,
            stream_name=self._name,
            config=cast("ConsumerRequest", config.to_request()),
        )
        return self._pull_consumer(ConsumerInfo.from_response(response, strict=self._jetstream.strict))

    def _pull_consumer(self, info: ConsumerInfo) -> PullConsumer:
        if info.config.deliver_subject:
            raise NotImplementedError("Push consumers are not supported yet")
        return PullConsumer(cast("Stream", self), info)

    @overload
    async def create_consumer(self, config: ConsumerConfig, /) -> PullConsumer: ...

    @overload
    async def create_consumer(self, config: None = None, /, *, name: str, **kwargs: Any) -> PullConsumer: ...

    async def create_consumer(self, config: ConsumerConfig | None = None, /, **kwargs: Any) -> PullConsumer:
        """Creates a pull consumer. One with the same configuration may exist.

        Args:
            config: Its configuration.
            **kwargs: Fields of `ConsumerConfig`, in place of `config`.

        Raises:
            ValueError: The configuration has no name.
            StreamNotFoundError: The stream does not exist.
            MaximumConsumersLimitError: The limit of consumers is reached.
            JetStreamError: Another error of the server, as for an existing consumer with another configuration.
            NotImplementedError: The configuration is that of a push consumer, which the server has created.
        """
        return await self._upsert_consumer(CONSUMER_ACTION_CREATE, config, kwargs)

    async def get_consumer_info(self, consumer_name: str) -> ConsumerInfo:
        """Requests a consumer's configuration and state.

        Args:
            consumer_name: The consumer.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            JetStreamError: Another error of the server.
        """
        response = await self._jetstream._api.consumer_info(self._name, consumer_name)
        return ConsumerInfo.from_response(response, strict=self._jetstream.strict)

    async def get_consumer(self, consumer_name: str) -> PullConsumer:
        """Returns a pull consumer.

        Args:
            consumer_name: The consumer.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            NotImplementedError: It is a push consumer.
            JetStreamError: Another error of the server.
        """
        return self._pull_consumer(await self.get_consumer_info(consumer_name))

    async def delete_consumer(self, consumer_name: str) -> bool:
        """Deletes a consumer.

        Args:
            consumer_name: The consumer.

        Returns:
            True.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            JetStreamError: Another error of the server.
        """
        response = await self._jetstream._api.consumer_delete(self._name, consumer_name)
        return response["success"]

    @overload
    async def update_consumer(self, config: ConsumerConfig, /) -> PullConsumer: ...

    @overload
    async def update_consumer(self, config: None = None, /, *, name: str, **kwargs: Any) -> PullConsumer: ...

    async def update_consumer(self, config: ConsumerConfig | None = None, /, **kwargs: Any) -> PullConsumer:
        """Replaces the configuration of a pull consumer; fields that are not given become the defaults.

        Args:
            config: The new configuration.
            **kwargs: Fields of `ConsumerConfig`, in place of `config`.

        Raises:
            ValueError: The configuration has no name.
            JetStreamError: The consumer does not exist, or the server rejects the change.
        """
        return await self._upsert_consumer(CONSUMER_ACTION_UPDATE, config, kwargs)

    @overload
    async def create_or_update_consumer(self, config: ConsumerConfig, /) -> PullConsumer: ...

    @overload
    async def create_or_update_consumer(self, config: None = None, /, *, name: str, **kwargs: Any) -> PullConsumer: ...

    async def create_or_update_consumer(self, config: ConsumerConfig | None = None, /, **kwargs: Any) -> PullConsumer:
        """Creates a pull consumer, or replaces the configuration of an existing one.

        Args:
            config: The configuration.
            **kwargs: Fields of `ConsumerConfig`, in place of `config`.

        Raises:
            ValueError: The configuration has no name.
            JetStreamError: The server rejects the configuration or the change.
        """
        return await self._upsert_consumer(CONSUMER_ACTION_CREATE_OR_UPDATE, config, kwargs)

    async def pause_consumer(self, consumer_name: str, pause_until: float) -> None:
        """Pauses a consumer: it delivers nothing until a time.

        Args:
            consumer_name: The consumer.
            pause_until: The time in seconds since 1970 (UTC).

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            JetStreamError: Another error of the server.
        """
        until = to_rfc3339(datetime.fromtimestamp(pause_until, tz=UTC))
        await self._jetstream._api.consumer_pause(self._name, consumer_name, pause_until=until)

    async def resume_consumer(self, consumer_name: str) -> None:
        """Ends the pause of a consumer.

        Args:
            consumer_name: The consumer.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            JetStreamError: Another error of the server.
        """
        await self._jetstream._api.consumer_pause(self._name, consumer_name)

    async def reset_consumer(self, consumer_name: str, seq: int | None = None) -> ConsumerReset:
        """Resets the delivery state of a consumer (ADR-60), with nats-server 2.14 or later.

        Counts of pending and redelivered messages become 0, the consumer's sequences begin at 1.

        Args:
            consumer_name: The consumer.
            seq: Sequence of the first message, if the deliver policy allows it. Default: None, or 0, the message after
                the last of those that are all acknowledged.

        Returns:
            The consumer's state, and the sequence of the first message.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            ConsumerInvalidResetError: The deliver policy does not allow the sequence.
            TimeoutError: The server is older than 2.14: it does not respond.
            JetStreamError: Another error of the server.
        """
        request = {} if seq is None else {"seq": seq}
        response = await self._jetstream._api.consumer_reset(self._name, consumer_name, **cast("Any", request))
        return ConsumerReset.from_response(response, strict=self._jetstream.strict)

    @overload
    async def ordered_consumer(self, config: OrderedConsumerConfig, /) -> OrderedConsumer: ...

    @overload
    async def ordered_consumer(self, config: None = None, /, **kwargs: Any) -> OrderedConsumer: ...

    async def ordered_consumer(self, config: OrderedConsumerConfig | None = None, /, **kwargs: Any) -> OrderedConsumer:
        """Creates an ordered consumer: every message, in order, and created again after a failure.

        Args:
            config: Its configuration.
            **kwargs: Fields of `OrderedConsumerConfig`, in place of `config`.

        Raises:
            JetStreamError: The server rejects it.
        """
        if config is None:
            config = OrderedConsumerConfig.from_kwargs(**kwargs)
        return await OrderedConsumer.create(cast("Stream", self), config)
