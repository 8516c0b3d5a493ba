"""Verbs of the JetStream context for consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from jetarrow.nats.jetstream import api
from jetarrow.nats.jetstream.consumer_config import ConsumerInfo, OrderedConsumerConfig
from jetarrow.nats.jetstream.pages import pages

if TYPE_CHECKING:
    from jetarrow.nats.jetstream.ordered import OrderedConsumer
    from jetarrow.nats.jetstream.pull import PullConsumer
    from jetarrow.nats.jetstream.stream import Stream


class ContextConsumers:
    """Base of `JetStream`: creates, updates, lists and deletes the consumers of a stream."""

    _api: api.Client
    _strict: bool

    async def get_stream(self, name: str) -> Stream:
        """As `JetStream.get_stream`."""
        raise NotImplementedError

    async def create_consumer(
        self, stream_name: str, name: str, durable_name: str | None = None, **config: Any
    ) -> PullConsumer:
        """Creates a pull consumer. One with the same configuration may exist.

        Args:
            stream_name: The stream.
            name: The consumer's name.
            durable_name: The same name, for a durable consumer with `inactive_threshold`.
            **config: Further fields of `ConsumerConfig`.

        Raises:
            StreamNotFoundError: The stream does not exist.
            MaximumConsumersLimitError: The limit of consumers is reached.
            JetStreamError: Another error of the server.
        """
        stream = await self.get_stream(stream_name)
        if durable_name:
            config.setdefault("durable_name", durable_name)
        return await stream.create_consumer(name=name, **config)

    async def get_consumer(self, stream_name: str, consumer_name: str) -> PullConsumer:
        """Returns a pull consumer.

        Args:
            stream_name: The stream.
            consumer_name: The consumer.

        Raises:
            StreamNotFoundError: The stream does not exist.
            ConsumerNotFoundError: The consumer does not exist.
            NotImplementedError: It is a push consumer.
            JetStreamError: Another error of the server.
        """
        return await (await self.get_stream(stream_name)).get_consumer(consumer_name)

    async def delete_consumer(self, stream_name: str, consumer_name: str) -> bool:
        """Deletes a consumer.

        Args:
            stream_name: The stream.
            consumer_name: The consumer.

        Returns:
            True.

        Raises:
            StreamNotFoundError: The stream does not exist.
            ConsumerNotFoundError: The consumer does not exist.
            JetStreamError: Another error of the server.
        """
        return await (await self.get_stream(stream_name)).delete_consumer(consumer_name)

    async def update_consumer(self, stream_name: str, consumer_name: str, **config: Any) -> PullConsumer:
        """Replaces the configuration of a pull consumer; fields that are not given become the defaults.

        Args:
            stream_name: The stream.
            consumer_name: The consumer.
            **config: Further fields of `ConsumerConfig`.

        Raises:
            StreamNotFoundError: The stream does not exist.
            JetStreamError: The consumer does not exist, or the server rejects the change.
        """
        return await (await self.get_stream(stream_name)).update_consumer(name=consumer_name, **config)

    async def create_or_update_consumer(self, stream_name: str, **config: Any) -> PullConsumer:
        """Creates a pull consumer, or replaces the configuration of an existing one.

        Args:
            stream_name: The stream.
            **config: Fields of `ConsumerConfig`, of them at least `name`.

        Raises:
            ValueError: The configuration has no name.
            StreamNotFoundError: The stream does not exist.
            JetStreamError: The server rejects the configuration or the change.
        """
        return await (await self.get_stream(stream_name)).create_or_update_consumer(**config)

    async def ordered_consumer(
        self, stream_name: str, config: OrderedConsumerConfig | None = None, /, **kwargs: Any
    ) -> OrderedConsumer:
        """Creates an ordered consumer: every message, in order, and created again after a failure.

        Args:
            stream_name: The stream.
            config: Its configuration.
            **kwargs: Fields of `OrderedConsumerConfig`, in place of `config`.

        Raises:
            StreamNotFoundError: The stream does not exist.
            JetStreamError: The server rejects it.
        """
        stream = await self.get_stream(stream_name)
        return await (stream.ordered_consumer(**kwargs) if config is None else stream.ordered_consumer(config))

    async def consumer_names(self, stream_name: str) -> AsyncIterator[str]:
        """Iterates over the names of the consumers of a stream, requested in pages.

        Args:
            stream_name: The stream.

        Raises:
            JetStreamError: The stream does not exist, or another error of the server.
        """

        async def page(offset: int) -> Mapping[str, Any]:
            return await self._api.consumer_names(stream_name, offset=offset)

        async for name in pages(page, "consumers"):
            yield name

    async def list_consumers(self, stream_name: str) -> AsyncIterator[ConsumerInfo]:
        """Iterates over the consumers of a stream, requested in pages.

        Args:
            stream_name: The stream.

        Raises:
            JetStreamError: The stream does not exist, or another error of the server.
            ValueError: `strict`, and a key of a response is unknown.
        """

        async def page(offset: int) -> Mapping[str, Any]:
            return await self._api.consumer_list(stream_name, offset=offset)

        async for consumer in pages(page, "consumers"):
            yield ConsumerInfo.from_response(consumer, strict=self._strict)

    async def get_consumer_info(self, stream_name: str, consumer_name: str) -> ConsumerInfo:
        """Requests a consumer's configuration and state.

        Args:
            stream_name: The stream.
            consumer_name: The consumer.

        Raises:
            ConsumerNotFoundError: The consumer does not exist.
            JetStreamError: Another error of the server.
        """
        response = await self._api.consumer_info(stream_name, consumer_name)
        return ConsumerInfo.from_response(response, strict=self._strict)
