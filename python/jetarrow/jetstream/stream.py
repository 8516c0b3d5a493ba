"""A stream, to work with by handle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Unpack

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

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import (
        ConsumerOptions,
        NamedConsumerOptions,
        OrderedConsumerOptions,
        StreamOptions,
    )


class Stream(StreamMessages):
    """A stream. Made by `js.stream(name)` and `js.get_stream(name)`.

    Attributes:
        name: Its name.
        cached_info: What the server last answered through this handle; None before the first time.
    """

    def __init__(self, api: JetStreamApi, name: str | None, info: models.StreamInfo | None = None) -> None:
        self._api = api
        self._manage = Management(api)
        self.name = checked_name("stream", name)
        self.cached_info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def info(self, subjects_filter: str | None = None, *, deleted_details: bool = False) -> models.StreamInfo:
        """Configuration and state, from the server; kept as `cached_info`.

        Args:
            subjects_filter: Also count the messages of each subject that matches, in `state.subjects`; `">"` is all.
            deleted_details: Also list the sequences of deleted messages, in `state.deleted`.

        Raises:
            NotFoundError: There is no such stream.
            ValueError: The name is not valid.
        """
        info = await self._manage.stream_info(self.name, subjects_filter, deleted_details=deleted_details)
        self.cached_info = info
        return info

    async def update(
        self, /, config: models.StreamConfig | None = None, **fields: Unpack[StreamOptions]
    ) -> models.StreamInfo:
        """Changes the stream; the answer is kept as `cached_info`.

        Args:
            config: The new configuration, which takes the place of the old one as a whole. None keeps the old one but
                for the fields given: `stream.update(max_age=3600)`.
            **fields: Fields of `StreamConfig`, by name; they win over `config`.

        Raises:
            NotFoundError: The stream is gone.
            BadRequestError: The server refuses the configuration; some fields can never change.
            ServerError: The server refuses the configuration; some fields can never change.
            UnsupportedError: A setting that the server is too old for.
        """
        fields["name"] = self.name
        info = await self._manage.update_stream(config or self.name, **fields)
        self.cached_info = info
        return info

    async def delete(self) -> bool:
        """Deletes the stream with all its messages and consumers.

        Raises:
            NotFoundError: It is gone already.
        """
        return await self._manage.delete_stream(self.name)

    async def purge(self, seq: int | None = None, subject: str | None = None, keep: int | None = None) -> int:
        """Removes messages.

        The stream still knows the ids of what is gone: published again within its `duplicate_window` they are
        duplicates, and nothing is stored.

        Args:
            seq: Only those before this sequence; not together with `keep`.
            subject: Only those of the subjects that match.
            keep: The number of newest messages to keep.

        Returns:
            How many were removed.

        Raises:
            NotFoundError: The stream is gone.
            BadRequestError: Both `seq` and `keep`.
            ServerError: The stream does not allow it (`deny_purge`, `sealed`).
        """
        return int((await purge(self._api, self.name, seq=seq, subject=subject, keep=keep))["purged"])

    def ordered_consumer(
        self, subjects: str | Sequence[str] | None = None, **options: Unpack[OrderedConsumerOptions]
    ) -> OrderedConsumer:
        """Its messages in order, one by one and without end; as `js.ordered_consumer`.

        Args:
            subjects: Filters, one or several that do not overlap; None is all.
            **options: `start_seq`, `start_time`, `deliver_policy`, `replay_policy`, `headers_only` and
                `on_rollback`, as there.
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
        """Saves the stream in a folder, as `nats stream backup` does; `js.restore_stream` makes a stream of it.

        Args:
            directory: The folder, which is created if it is missing. A backup in it is replaced when the new one is
                complete.
            consumers: Also its consumers with their positions.
            check: The server checks every message first.
            progress: Called with (bytes so far, None) for every part that comes.

        Raises:
            NotFoundError: The stream is gone.
            ServerError: The server cannot make a backup; older ones have none of a stream in memory.
            APIError: It gave up.
            TimeoutError: The server went silent for the context's timeout.
            Error: Another backup is being written into the folder.
            OSError: A file cannot be written.
        """
        return await self._manage.backup_stream(
            self.name, directory, consumers=consumers, check=check, progress=progress
        )

    def consumer(self, name: str) -> Consumer:
        """A handle of a consumer. No request is made; it need not be there yet.

        Args:
            name: The consumer's name.

        Raises:
            ValueError: The name is not valid.
        """
        return Consumer(self._api, self.name, name)

    async def get_consumer(self, name: str) -> Consumer:
        """A handle of a consumer that is there, with its information in `cached_info`.

        Args:
            name: The consumer's name.

        Raises:
            NotFoundError: There is no such consumer, or stream.
            ValueError: The name is not valid.
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
            **params: Fields of `ConsumerConfig`, by name; they win over `config`.

        Raises:
            NotFoundError: The stream is gone.
            BadRequestError: The server refuses the configuration.
            ServerError: The server refuses the configuration.
            ValueError: A name is not valid.
        """
        return self._handle(await self._manage.add_consumer(self.name, config, **params))

    async def get_or_create_consumer(
        self, /, name: str, config: models.ConsumerConfig | None = None, **params: Unpack[NamedConsumerOptions]
    ) -> Consumer:
        """A handle of the consumer of that name, which is created where it is not there.

        One that is there stays as it is, whatever the configuration says.

        Args:
            name: Its name. A durable one needs `durable_name` in the configuration as well.
            config: The configuration.
            **params: Fields of `ConsumerConfig`, by name; they win over `config`.

        Raises:
            NotFoundError: The stream is gone.
            BadRequestError: The server refuses the configuration.
            ServerError: The server refuses the configuration.
            ValueError: A name is not valid, or not that of the configuration.
        """
        config = (config or models.ConsumerConfig()).evolve(**params)
        others = {config.name, config.durable_name} - {None, name}
        if others:
            raise ValueError(f"the configuration is that of consumer {others.pop()!r}, not {name!r}")
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
                # Another client created it in the meantime.
                await consumer.info()
        return consumer

    async def update_consumer(
        self, /, config: models.ConsumerConfig | None = None, **fields: Unpack[ConsumerOptions]
    ) -> Consumer:
        """Changes a consumer that is there.

        Args:
            config: The new configuration, which takes the place of the old one as a whole. None keeps the old one but
                for the fields given: `update_consumer(name="worker", ack_wait=60)`.
            **fields: Fields of `ConsumerConfig`; they win over `config`. `name` (or `durable_name`) says which
                consumer.

        Raises:
            NotFoundError: There is no such stream or consumer (without `config`).
            BadRequestError: There is no such consumer (with `config`), or the server refuses the configuration.
            ServerError: The server refuses the configuration; some fields, such as `deliver_policy`, can never change.
            ValueError: No name, or one that is not valid.
        """
        return self._handle(await self._manage.update_consumer(self.name, config, **fields))

    async def delete_consumer(self, name: str) -> bool:
        """Deletes a consumer. The messages stay.

        Args:
            name: The consumer's name.

        Raises:
            NotFoundError: There is no such consumer, or stream.
            ValueError: The name is not valid.
        """
        return await self._manage.delete_consumer(self.name, name)

    async def consumers(self) -> AsyncIterator[models.ConsumerInfo]:
        """All consumers, in the order of their names: `async for info in stream.consumers()`.

        Pages are fetched as they are needed; a consumer that is created or deleted meanwhile may make another one
        come twice or not at all.

        Raises:
            NotFoundError: The stream is gone.
        """
        async for consumer in self._api.pages(f"CONSUMER.LIST.{self.name}", "consumers"):
            yield models.ConsumerInfo.from_response(consumer)

    async def consumer_names(self) -> AsyncIterator[str]:
        """The names of all consumers, sorted; as `consumers`, and much cheaper."""
        async for name in self._api.pages(f"CONSUMER.NAMES.{self.name}", "consumers"):
            yield name

    def _handle(self, info: models.ConsumerInfo) -> Consumer:
        return Consumer(self._api, self.name, info.name, info)
