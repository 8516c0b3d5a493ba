"""Management of JetStream: JSON over request and reply."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.advisories import Advisories
from jetarrow.jetstream.api import STREAM_NAME_IN_USE, STREAM_NOT_FOUND, HasSession, JetStreamApi
from jetarrow.jetstream.errors import BadRequestError, NotFoundError
from jetarrow.jetstream.lag import Lag
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.models import AdvisoryKind
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.jetstream.stream import Stream

if TYPE_CHECKING:
    from jetarrow.jetstream.context import JetStreamContext
    from jetarrow.jetstream.option_types import JetStreamOptions, StreamOptions


def _prefix(prefix: str, api_prefix: str | None, domain: str | None) -> str:
    """The one prefix that the options mean."""
    if api_prefix is not None:
        if prefix != models.DEFAULT_PREFIX:
            raise TypeError("prefix and api_prefix are one: give one of them")
        prefix = api_prefix
    if domain is None:
        return prefix
    of_domain = f"$JS.{checked_name('domain', domain)}.API"
    if prefix not in (models.DEFAULT_PREFIX, of_domain):
        raise TypeError("give prefix or domain, not both")
    return of_domain


class JetStreamManager(Lag, Management):
    """Administration of streams and consumers. Made by `nc.jsm()`; a context of `nc.jetstream()` is one too."""

    def __init__(
        self,
        conn: HasSession,
        prefix: str = models.DEFAULT_PREFIX,
        timeout: float | None = 5.0,
        *,
        domain: str | None = None,
        api_prefix: str | None = None,
    ) -> None:
        super().__init__(JetStreamApi(conn._session, _prefix(prefix, api_prefix, domain), timeout))
        # nats-py's name; programs go by it to the client.
        self._nc = conn
        self._domain = domain

    def __repr__(self) -> str:
        # Of an address without user and password.
        connection = self._api.session.last_connection
        where = (connection and connection.connected_url) or "not connected"
        return f"<{type(self).__name__} {self._api.prefix} at {where}>"

    def get_options(self) -> JetStreamOptions:
        """The options that it was made with: `api_prefix`, `domain` and `timeout` in seconds.

        `nc.jetstream(**options)` makes another one.
        """
        return {"api_prefix": self._api.prefix, "domain": self._domain, "timeout": self._api.timeout}

    def jetstream(self) -> JetStreamContext:
        """A context with the same options. No request is made."""
        client: Any = self._nc
        context: JetStreamContext = client.jetstream(**self.get_options())
        return context

    async def account_info(self, *, totals: bool = True) -> models.AccountInfo:
        """What the account uses and may use.

        Args:
            totals: Also `messages` and `bytes`, for which the streams are listed: a request more for every 256 of them.
                They are None where that is not permitted. False makes one request in all.

        Raises:
            ServiceUnavailableError: JetStream is off, or not enabled for the account.
        """
        info = models.AccountInfo.from_response(await self._api.request("INFO"))
        if totals:
            states = []
            with suppress(Error):
                if info.streams:
                    states = [stream["state"] async for stream in self._api.pages("STREAM.LIST", "streams")]
                info.messages = sum(state["messages"] for state in states)
                info.bytes = sum(state["bytes"] for state in states)
        return info

    def advisories(
        self,
        stream: str | None = None,
        kinds: AdvisoryKind | str | Iterable[AdvisoryKind | str] | None = None,
    ) -> Advisories:
        """Events that JetStream reports about itself, as they happen: `async for event in js.advisories()`.

        `async with js.advisories() as events:` listens from there on, so that nothing is missed before the iteration.

        Args:
            stream: Only what is about this stream; None is all.
            kinds: Only these, one or several of `AdvisoryKind` or their strings; None is all. Kinds that this version
                does not know come as plain strings in `event.kind`.

        Raises:
            ValueError: A kind that is not known.
        """
        return Advisories(self._api.session, stream, kinds)

    def stream(self, name: str) -> Stream:
        """A handle of a stream. No request is made; it need not be there yet.

        Args:
            name: The stream's name.

        Raises:
            ValueError: The name is not valid.
        """
        return Stream(self._api, name)

    async def get_stream(self, name: str) -> Stream:
        """A handle of a stream that is there, with its information in `cached_info`.

        Args:
            name: The stream's name.

        Raises:
            NotFoundError: There is no such stream.
            ValueError: The name is not valid.
        """
        stream = Stream(self._api, name)
        await stream.info()
        return stream

    async def get_or_create_stream(
        self, /, config: models.StreamConfig | None = None, **params: Unpack[StreamOptions]
    ) -> Stream:
        """A handle of the stream of that name, which is created where it is not there.

        One that is there stays as it is, whatever the configuration says.

        Args:
            config: The configuration.
            **params: Fields of `StreamConfig`, by name; they win over `config`.

        Raises:
            BadRequestError: The server refuses the configuration.
            ValueError: No name, or one that is not valid.
        """
        config = (config or models.StreamConfig()).evolve(**params)
        stream = Stream(self._api, config.name)
        try:
            with expect_not_found():
                await stream.info()
        except NotFoundError:
            try:
                stream.cached_info = await self.add_stream(config)
            except BadRequestError as error:
                if error.err_code != STREAM_NAME_IN_USE:
                    raise
                # Another client created it in the meantime.
                await stream.info()
        return stream

    async def create_or_update_stream(
        self, /, config: models.StreamConfig | None = None, **params: Unpack[StreamOptions]
    ) -> Stream:
        """A handle of the stream of that name, which has this configuration now: created, or updated as a whole.

        Args:
            config: The configuration.
            **params: Fields of `StreamConfig`, by name; they win over `config`.

        Raises:
            BadRequestError: The server refuses the configuration; some fields can never change.
            ServerError: The server refuses the configuration; some fields can never change.
            ValueError: No name, or one that is not valid.
        """
        config = (config or models.StreamConfig()).evolve(**params)
        try:
            with expect_not_found():
                info = await self.update_stream(config)
        except NotFoundError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
            try:
                info = await self.add_stream(config)
            except BadRequestError as refusal:
                if refusal.err_code != STREAM_NAME_IN_USE:
                    raise
                # Another client created it in the meantime.
                info = await self.update_stream(config)
        return Stream(self._api, config.name, info)
