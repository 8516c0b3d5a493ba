"""Handle of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Unpack

from jetarrow.core.suggestions import suggests_keywords
from jetarrow.jetstream import models
from jetarrow.jetstream.api import CONSUMER_EXISTS, CONSUMER_NOT_FOUND, JetStreamApi
from jetarrow.jetstream.consumer import Consumer
from jetarrow.jetstream.errors import BadRequestError, NotFoundError
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.manage.backup import StreamBackup
from jetarrow.jetstream.manage.consumers import put_consumer
from jetarrow.jetstream.manage.restore import Report
from jetarrow.jetstream.manage.streams import purge
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.jetstream.ordered import OrderedConsumer, make_ordered_consumer
from jetarrow.jetstream.stream_messages import StreamMessages
from jetarrow.jetstream.stream_replicas import StreamReplicas

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import (
        ConsumerOptions,
        NamedConsumerOptions,
        OrderedConsumerOptions,
        StreamOptions,
    )


class Stream(StreamMessages, StreamReplicas):
    """A stream. Created by `js.stream(name)` and `js.get_stream(name)`.

    Attributes:
        name: Its name.
        cached_info: The last information requested through this handle; None before the first request.
    """

    def __init__(self, api: JetStreamApi, name: str | None, info: models.StreamInfo | None = None) -> None:
        self._api = api
        self._manage = Management(api)
        self.name = checked_name("stream", name)
        self.cached_info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def info(self, subjects_filter: str | None = None, *, deleted_details: bool = False) -> models.StreamInfo:
        """Requests configuration and state; kept as `cached_info`.

        Args:
            subjects_filter: Also count the messages of each subject that matches, in `state.subjects`; `">"` counts
                all.
            deleted_details: Also list the sequences of deleted messages, in `state.deleted`.

        Raises:
            NotFoundError: The stream does not exist.
            ValueError: The name is invalid.
        """
        info = await self._manage.stream_info(self.name, subjects_filter, deleted_details=deleted_details)
        self.cached_info = info
        return info

    async def update(
        self, /, config: models.StreamConfig | None = None, **fields: Unpack[StreamOptions]
    ) -> models.StreamInfo:
        """Changes the stream; the response is kept as `cached_info`.

        Args:
            config: The new configuration, which replaces the old one as a whole. None changes only
                the given fields: `stream.update(max_age=3600)`.
            **fields: Fields of `StreamConfig`, by name; they override `config`.

        Raises:
            NotFoundError: The stream does not exist any more.
            BadRequestError: The server rejects the configuration; some fields cannot be changed.
            ServerError: The server rejects the configuration; some fields cannot be changed.
            UnsupportedError: The server is too old for a setting.
        """
        fields["name"] = self.name
        info = await self._manage.update_stream(config or self.name, **fields)
        self.cached_info = info
        return info

    async def delete(self) -> bool:
        """Deletes the stream with all its messages and consumers.

        Raises:
            NotFoundError: It does not exist any more.
        """
        return await self._manage.delete_stream(self.name)

    async def purge(self, seq: int | None = None, subject: str | None = None, keep: int | None = None) -> int:
        """Removes messages.

        The stream remembers the ids of purged messages: published again within its `duplicate_window`, they are
        duplicates, and nothing is stored.

        Args:
            seq: Only those before this sequence; not together with `keep`.
            subject: Only those of the subjects that match.
            keep: The number of newest messages to keep.

        Returns:
            The number of removed messages.

        Raises:
            NotFoundError: The stream does not exist any more.
            BadRequestError: Both `seq` and `keep`.
            ServerError: The stream does not allow it (`deny_purge`, `sealed`).
        """
        return int((await purge(self._api, self.name, seq=seq, subject=subject, keep=keep))["purged"])

    @suggests_keywords
    def ordered_consumer(
        self, subjects: str | Sequence[str] | None = None, **options: Unpack[OrderedConsumerOptions]
    ) -> OrderedConsumer:
        """Its messages in order, one by one and without end; as `js.ordered_consumer`.

        Args:
            subjects: Filters, one or several that do not overlap; None is all.
            **options: `start_seq`, `start_time`, `deliver_policy`, `replay_policy`, `headers_only` and
                `on_rollback`, as for `js.ordered_consumer`.
        """
        return make_ordered_consumer(self._api, self.name, subjects, **options)

    async def backup(
        self,
        directory: str | PathLike[str],
        *,
        consumers: bool = False,
        check: bool = False,
        progress: Report | None = None,
    ) -> StreamBackup:
        """Saves the stream in a folder, as `nats stream backup` does; `js.restore_stream` creates a stream from it.

        Args:
            directory: The folder, which is created if it is missing. A backup in it is replaced when the new one is
                complete.
            consumers: Whether to save its consumers with their positions.
            check: Whether the server checks every message first.
            progress: Called with (bytes so far, None) for every chunk received.

        Raises:
            NotFoundError: The stream does not exist any more.
            ServerError: The server cannot make a backup; older ones cannot back up a stream in memory.
            APIError: The server aborted the backup.
            TimeoutError: The server sent nothing for the context's timeout.
            Error: Another backup is being written into the folder.
            OSError: A file cannot be written.
        """
        return await self._manage.backup_stream(
            self.name, directory, consumers=consumers, check=check, progress=progress
        )

    def consumer(self, name: str) -> Consumer:
        """A handle of a consumer. No request is made; it need not exist yet.

        Args:
            name: The consumer's name.

        Raises:
            ValueError: The name is invalid.
        """
        return Consumer(self._api, self.name, name)

    async def get_consumer(self, name: str) -> Consumer:
        """A handle of an existing consumer, with its information in `cached_info`.

        Args:
            name: The consumer's name.

        Raises:
            NotFoundError: The consumer or the stream does not exist.
            ValueError: The name is invalid.
        """
        consumer = self.consumer(name)
        await consumer.info()
        return consumer

    async def create_consumer(
        self, /, config: models.ConsumerConfig | None = None, **params: Unpack[ConsumerOptions]
    ) -> Consumer:
        """Creates a consumer, or changes the one of that name.

        Args:
            config: The configuration.
            **params: Fields of `ConsumerConfig`, by name; they override `config`.

        Raises:
            NotFoundError: The stream does not exist any more.
            BadRequestError: The server rejects the configuration.
            ServerError: The server rejects the configuration.
            ValueError: A name is invalid.
        """
        return self._handle(await self._manage.add_consumer(self.name, config, **params))

    async def get_or_create_consumer(
        self, /, name: str, config: models.ConsumerConfig | None = None, **params: Unpack[NamedConsumerOptions]
    ) -> Consumer:
        """A handle of the consumer of that name, which is created if it does not exist.

        An existing consumer is not changed.

        Args:
            name: Its name. A durable one needs `durable_name` in the configuration as well.
            config: The configuration.
            **params: Fields of `ConsumerConfig`, by name; they override `config`.

        Raises:
            NotFoundError: The stream does not exist any more.
            BadRequestError: The server rejects the configuration.
            ServerError: The server rejects the configuration.
            ValueError: A name is invalid, or not that of the configuration.
        """
        config = (config or models.ConsumerConfig()).evolve(**params)
        others = {config.name, config.durable_name} - {None, name}
        if others:
            raise ValueError(
                f"could not create consumer {name!r}: the configuration has the name {others.pop()!r}; use one name"
            )
        consumer = self.consumer(name)
        try:
            with expect_not_found():
                await consumer.info()
        except NotFoundError as error:
            if error.err_code != CONSUMER_NOT_FOUND:
                raise
            try:
                info = await put_consumer(self._api, self.name, config.evolve(name=name), action="create")
                consumer.cached_info = info
            except BadRequestError as refusal:
                if refusal.err_code != CONSUMER_EXISTS:
                    raise
                # Another client created it meanwhile.
                await consumer.info()
        return consumer

    async def update_consumer(
        self, /, config: models.ConsumerConfig | None = None, **fields: Unpack[ConsumerOptions]
    ) -> Consumer:
        """Changes an existing consumer.

        Args:
            config: The new configuration, which replaces the old one as a whole. None changes only
                the given fields: `update_consumer(name="worker", ack_wait=60)`.
            **fields: Fields of `ConsumerConfig`; they override `config`. `name` (or `durable_name`) selects the
                consumer.

        Raises:
            NotFoundError: The stream or the consumer does not exist (without `config`).
            BadRequestError: The consumer does not exist (with `config`), or the server rejects the configuration.
            ServerError: the server rejects the configuration; some fields, such as `deliver_policy`, cannot be changed.
            ValueError: The name is missing or invalid.
        """
        return self._handle(await self._manage.update_consumer(self.name, config, **fields))

    async def delete_consumer(self, name: str) -> bool:
        """Deletes a consumer. The messages remain.

        Args:
            name: The consumer's name.

        Raises:
            NotFoundError: The consumer or the stream does not exist.
            ValueError: The name is invalid.
        """
        return await self._manage.delete_consumer(self.name, name)

    async def consumers(self) -> AsyncIterator[models.ConsumerInfo]:
        """All consumers, in the order of their names: `async for info in stream.consumers()`.

        Pages are requested when they are needed; if a consumer is created or deleted meanwhile, another one may be
        listed twice or not at all.

        Raises:
            NotFoundError: The stream does not exist any more.
        """
        async for consumer in self._api.pages(f"CONSUMER.LIST.{self.name}", "consumers"):
            yield models.ConsumerInfo.from_response(consumer)

    async def consumer_names(self) -> AsyncIterator[str]:
        """The names of all consumers, sorted; much cheaper than `consumers`."""
        async for name in self._api.pages(f"CONSUMER.NAMES.{self.name}", "consumers"):
            yield name

    def _handle(self, info: models.ConsumerInfo) -> Consumer:
        return Consumer(self._api, self.name, info.name, info)
