"""Management of JetStream."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.advisories import Advisories
from jetarrow.jetstream.api import STREAM_NAME_IN_USE, STREAM_NOT_FOUND, HasSession, JetStreamApi
from jetarrow.jetstream.doctor.verb import Doctor
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
    """The API prefix of the options."""
    if api_prefix is not None:
        if prefix != models.DEFAULT_PREFIX:
            raise TypeError("prefix and api_prefix are names of one option: pass one of them")
        prefix = api_prefix
    if domain is None:
        return prefix
    of_domain = f"$JS.{checked_name('domain', domain)}.API"
    if prefix not in (models.DEFAULT_PREFIX, of_domain):
        raise TypeError(f"prefix={prefix!r} is not that of domain={domain!r}: pass prefix or domain, not both")
    return of_domain


class JetStreamManager(Doctor, Lag, Management):
    """Administration of streams and consumers. Created by `nc.jsm()`; a context of `nc.jetstream()` is one too."""

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
        # nats-py's name, by which programs access the client.
        self._nc = conn
        self._domain = domain

    def __repr__(self) -> str:
        # `connected_url` has no user and password.
        connection = self._api.session.last_connection
        where = (connection and connection.connected_url) or "not connected"
        return f"<{type(self).__name__} {self._api.prefix} at {where}>"

    def get_options(self) -> JetStreamOptions:
        """The options of its creation: `api_prefix`, `domain` and `timeout` in seconds.

        `nc.jetstream(**options)` creates another one.
        """
        return {"api_prefix": self._api.prefix, "domain": self._domain, "timeout": self._api.timeout}

    def jetstream(self) -> JetStreamContext:
        """A context with the same options. No request is made."""
        client: Any = self._nc
        context: JetStreamContext = client.jetstream(**self.get_options())
        return context

    async def account_info(self, *, totals: bool = True) -> models.AccountInfo:
        """Requests usage and limits of the account.

        Args:
            totals: Whether to add up `messages` and `bytes`, which lists the streams: one more request per 256 streams.
                They are None if listing is not permitted. False makes a single request.

        Raises:
            ServiceUnavailableError: JetStream is disabled on the server or for the account.
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
        """Receives JetStream's advisories: `async for event in js.advisories()`.

        `async with js.advisories() as events:` subscribes at once, so that no event before the iteration is missed.

        Args:
            stream: Only events of this stream; None is all.
            kinds: Only these kinds, one or several of `AdvisoryKind` or their strings; None is all. A kind that this
                version does not have is a plain string in `event.kind`.

        Raises:
            ValueError: A kind is unknown.
        """
        return Advisories(self._api.session, stream, kinds)

    def stream(self, name: str) -> Stream:
        """A handle of a stream. No request is made; it need not exist yet.

        Args:
            name: The stream's name.

        Raises:
            ValueError: The name is invalid.
        """
        return Stream(self._api, name)

    async def get_stream(self, name: str) -> Stream:
        """A handle of an existing stream, with its information in `cached_info`.

        Args:
            name: The stream's name.

        Raises:
            NotFoundError: The stream does not exist.
            ValueError: The name is invalid.
        """
        stream = Stream(self._api, name)
        await stream.info()
        return stream

    async def get_or_create_stream(
        self, /, config: models.StreamConfig | None = None, **params: Unpack[StreamOptions]
    ) -> Stream:
        """A handle of the stream of that name, which is created if it does not exist.

        An existing stream is not changed.

        Args:
            config: The configuration.
            **params: Fields of `StreamConfig`, by name; they override `config`.

        Raises:
            BadRequestError: The server rejects the configuration.
            ValueError: The name is missing or invalid.
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
                # Another client created it meanwhile.
                await stream.info()
        return stream

    async def create_or_update_stream(
        self, /, config: models.StreamConfig | None = None, **params: Unpack[StreamOptions]
    ) -> Stream:
        """Creates the stream of that name, or updates its whole configuration, and returns a handle.

        Args:
            config: The configuration.
            **params: Fields of `StreamConfig`, by name; they override `config`.

        Raises:
            BadRequestError: The server rejects the configuration; some fields cannot be changed.
            ServerError: The server rejects the configuration; some fields cannot be changed.
            ValueError: The name is missing or invalid.
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
                # Another client created it meanwhile.
                info = await self.update_stream(config)
        return Stream(self._api, config.name, info)
