"""Management of JetStream: JSON over request and reply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# What is imported as itself (`X as X`), nats-py has here, too.
from jetarrow.core.errors import NoRespondersError as NoRespondersError
from jetarrow.jetstream import models
from jetarrow.jetstream.advisories import Advisories
from jetarrow.jetstream.api import STREAM_NAME_IN_USE, STREAM_NOT_FOUND
from jetarrow.jetstream.errors import APIError as APIError
from jetarrow.jetstream.errors import BadRequestError, NotFoundError
from jetarrow.jetstream.errors import ConsumerInvalidResetError as ConsumerInvalidResetError
from jetarrow.jetstream.errors import ServiceUnavailableError as ServiceUnavailableError
from jetarrow.jetstream.manage.consumers import ConsumerAdmin
from jetarrow.jetstream.manage.messages import MessageAdmin
from jetarrow.jetstream.manage.streams import StreamAdmin
from jetarrow.jetstream.models import AdvisoryKind
from jetarrow.jetstream.stream import Stream


class JetStreamManager(StreamAdmin, ConsumerAdmin, MessageAdmin):
    """Administration of streams and consumers. Made by `nc.jsm()`; a context of `nc.jetstream()` is one too."""

    async def account_info(self) -> models.AccountInfo:
        """What the account uses and may use.

        Raises:
            ServiceUnavailableError: JetStream is off, or not enabled for the account.
        """
        return models.AccountInfo.from_response(await self._api("INFO"))

    def advisories(
        self,
        stream: str | None = None,
        kinds: AdvisoryKind | str | Iterable[AdvisoryKind | str] | None = None,
    ) -> Advisories:
        """Events that JetStream reports about itself, as they happen: `async for event in js.advisories()`.

        `async with js.advisories() as events:` listens from there on, so that nothing is missed before the iteration.

        Parameters:
            stream: only what is about this stream; None is all.
            kinds: only these, one or several of `AdvisoryKind` or their strings; None is all. Kinds that this version
                does not know come as plain strings in `event.kind`.

        Raises:
            ValueError: a kind that is not known.
        """
        return Advisories(self._nc, stream, kinds)

    def stream(self, name: str) -> Stream:
        """A handle of a stream. No request is made; it need not be there yet.

        Raises:
            ValueError: the name is not valid.
        """
        return Stream(self, name)

    async def get_stream(self, name: str) -> Stream:
        """A handle of a stream that is there, with its information in `cached_info`.

        Raises:
            NotFoundError: there is no such stream.
            ValueError: the name is not valid.
        """
        stream = Stream(self, name)
        await stream.info()
        return stream

    async def get_or_create_stream(self, /, config: models.StreamConfig | None = None, **params: Any) -> Stream:
        """A handle of the stream of that name, which is created where it is not there.

        One that is there stays as it is, whatever the configuration says.

        Parameters:
            config: the configuration; every field of `StreamConfig` is a keyword as well, and keywords win.

        Raises:
            BadRequestError: the server refuses the configuration.
            ValueError: no name, or one that is not valid.
        """
        config = (config or models.StreamConfig()).evolve(**params)
        stream = Stream(self, config.name)
        try:
            await stream.info()
        except NotFoundError:
            try:
                stream.cached_info = await self.add_stream(config)
            except BadRequestError as error:
                if error.err_code != STREAM_NAME_IN_USE:
                    raise
                # Somebody else created it meanwhile.
                await stream.info()
        return stream

    async def create_or_update_stream(self, /, config: models.StreamConfig | None = None, **params: Any) -> Stream:
        """A handle of the stream of that name, which has this configuration now: created, or updated as a whole.

        Parameters:
            config: the configuration; every field of `StreamConfig` is a keyword as well, and keywords win.

        Raises:
            BadRequestError, ServerError: the server refuses the configuration; some fields can never change.
            ValueError: no name, or one that is not valid.
        """
        config = (config or models.StreamConfig()).evolve(**params)
        try:
            info = await self.update_stream(config)
        except NotFoundError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
            try:
                info = await self.add_stream(config)
            except BadRequestError as refusal:
                if refusal.err_code != STREAM_NAME_IN_USE:
                    raise
                # Somebody else created it meanwhile.
                info = await self.update_stream(config)
        return Stream(self, config.name, info)
