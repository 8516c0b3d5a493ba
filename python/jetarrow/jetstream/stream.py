"""A stream, to work with by handle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream import models
from jetarrow.jetstream.api import CONSUMER_EXISTS, CONSUMER_NOT_FOUND, checked
from jetarrow.jetstream.consumer import Consumer
from jetarrow.jetstream.errors import BadRequestError, NotFoundError

if TYPE_CHECKING:
    from jetarrow.jetstream.manager import JetStreamManager


class Stream:
    """A stream. Made by `js.stream(name)` and `js.get_stream(name)`.

    Attributes:
        name: its name.
        cached_info: what the server told last through this handle; None before the first time.
    """

    def __init__(self, js: JetStreamManager, name: str | None, info: models.StreamInfo | None = None) -> None:
        self._js = js
        self.name = checked("stream", name)
        self.cached_info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def info(self, subjects_filter: str | None = None, *, deleted_details: bool = False) -> models.StreamInfo:
        """Configuration and state, from the server; kept as `cached_info`.

        Parameters and errors: as `js.stream_info`.
        """
        info = await self._js.stream_info(self.name, subjects_filter, deleted_details=deleted_details)
        self.cached_info = info
        return info

    async def purge(self, seq: int | None = None, subject: str | None = None, keep: int | None = None) -> int:
        """Removes messages.

        Parameters:
            seq: only those before this sequence; not together with `keep`.
            subject: only those of the subjects that match.
            keep: all but so many of the newest.

        Returns:
            How many were removed.

        Raises:
            NotFoundError: the stream is gone.
            BadRequestError: both `seq` and `keep`.
            ServerError: the stream does not allow it (`deny_purge`, `sealed`).
        """
        return int((await self._js._purge(self.name, seq, subject, keep))["purged"])

    async def get_msg(
        self,
        seq: int | None = None,
        subject: str | None = None,
        direct: bool = False,
        next: bool = False,
    ) -> models.RawStreamMsg:
        """Reads one message; parameters and errors as `js.get_msg`."""
        return await self._js.get_msg(self.name, seq, subject, direct, next)

    async def get_last_msg(self, subject: str, direct: bool = False) -> models.RawStreamMsg:
        """Reads the last message of a subject; parameters and errors as `js.get_last_msg`."""
        return await self._js.get_last_msg(self.name, subject, direct)

    async def direct_get(self, seq: int) -> models.RawStreamMsg:
        """Reads one message from any replica or mirror, which may not know the newest yet.

        Raises:
            NotFoundError: there is no such message.
            NoRespondersError: there is no such stream, or it has not `allow_direct`.
        """
        return await self._js.get_msg(self.name, seq, direct=True)

    async def direct_get_last_for_subject(self, subject: str) -> models.RawStreamMsg:
        """Reads the last message of a subject (wildcards allowed), as `direct_get`."""
        return await self._js.get_msg(self.name, subject=subject, direct=True)

    async def delete_msg(self, seq: int, erase: bool = True) -> bool:
        """Deletes one message; parameters and errors as `js.delete_msg`."""
        return await self._js.delete_msg(self.name, seq, erase)

    def consumer(self, name: str) -> Consumer:
        """A handle of a consumer. No request is made; it need not be there yet.

        Raises:
            ValueError: the name is not valid.
        """
        return Consumer(self._js, self.name, name)

    async def get_consumer(self, name: str) -> Consumer:
        """A handle of a consumer that is there, with its information in `cached_info`.

        Raises:
            NotFoundError: there is no such consumer, or stream.
            ValueError: the name is not valid.
        """
        consumer = self.consumer(name)
        await consumer.info()
        return consumer

    async def create_consumer(self, /, config: models.ConsumerConfig | None = None, **params: Any) -> Consumer:
        """Creates a consumer, or changes the one of that name.

        Parameters:
            config: the configuration; every field of `ConsumerConfig` is a keyword as well, and keywords win.

        Raises:
            NotFoundError: the stream is gone.
            BadRequestError, ServerError: the server refuses the configuration.
            ValueError: a name is not valid.
        """
        return self._handle(await self._js.add_consumer(self.name, config, **params))

    async def get_or_create_consumer(
        self, /, name: str, config: models.ConsumerConfig | None = None, **params: Any
    ) -> Consumer:
        """A handle of the consumer of that name, which is created where it is not there.

        One that is there stays as it is, whatever the configuration says.

        Parameters:
            name: its name. A durable one needs `durable_name` in the configuration as well.
            config: the configuration; every field of `ConsumerConfig` is a keyword as well, and keywords win.

        Raises:
            NotFoundError: the stream is gone.
            BadRequestError, ServerError: the server refuses the configuration.
            ValueError: a name is not valid, or not that of the configuration.
        """
        config = (config or models.ConsumerConfig()).evolve(**params)
        others = {config.name, config.durable_name} - {None, name}
        if others:
            raise ValueError(f"the configuration is that of consumer {others.pop()!r}, not {name!r}")
        consumer = self.consumer(name)
        try:
            await consumer.info()
        except NotFoundError as error:
            if error.err_code != CONSUMER_NOT_FOUND:
                raise
            try:
                info = await self._js._put_consumer(self.name, config.evolve(name=name), "create", None)
                consumer.cached_info = info
            except BadRequestError as refusal:
                if refusal.err_code != CONSUMER_EXISTS:
                    raise
                # Somebody else created it meanwhile.
                await consumer.info()
        return consumer

    async def update_consumer(self, /, config: models.ConsumerConfig | None = None, **fields: Any) -> Consumer:
        """Changes a consumer that is there; parameters and errors as `js.update_consumer`."""
        return self._handle(await self._js.update_consumer(self.name, config, **fields))

    async def delete_consumer(self, name: str) -> bool:
        """Deletes a consumer. The messages stay.

        Raises:
            NotFoundError: there is no such consumer, or stream.
            ValueError: the name is not valid.
        """
        return await self._js.delete_consumer(self.name, name)

    async def consumers(self) -> AsyncIterator[models.ConsumerInfo]:
        """All consumers, in the order of their names: `async for info in stream.consumers()`.

        Pages are fetched as they are needed; a consumer that is created or deleted meanwhile may make another one
        come twice or not at all.

        Raises:
            NotFoundError: the stream is gone.
        """
        async for consumer in self._js._pages(f"CONSUMER.LIST.{self.name}", "consumers"):
            yield models.ConsumerInfo.from_response(consumer)

    async def consumer_names(self) -> AsyncIterator[str]:
        """The names of all consumers, sorted; as `consumers`, and much cheaper."""
        async for name in self._js._pages(f"CONSUMER.NAMES.{self.name}", "consumers"):
            yield name

    def _handle(self, info: models.ConsumerInfo) -> Consumer:
        return Consumer(self._js, self.name, info.name, info)
