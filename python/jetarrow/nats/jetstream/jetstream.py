"""The JetStream context. Public as `jetarrow.nats.jetstream`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast, overload

from jetarrow.nats.jetstream import api
from jetarrow.nats.jetstream.account import AccountInfo
from jetarrow.nats.jetstream.context_consumers import ContextConsumers
from jetarrow.nats.jetstream.data_verbs import DataVerbs
from jetarrow.nats.jetstream.pages import pages
from jetarrow.nats.jetstream.publish import publish
from jetarrow.nats.jetstream.stream import Stream
from jetarrow.nats.jetstream.stream_config import StreamConfig
from jetarrow.nats.jetstream.stream_info import StreamInfo
from jetarrow.nats.jetstream.stream_messages import StreamMessage, from_stored
from jetarrow.nats.jetstream.wire import encode

if TYPE_CHECKING:
    from jetarrow.nats.client import Client
    from jetarrow.nats.jetstream.publish_ack import PublishAck


class JetStream(ContextConsumers, DataVerbs):
    """JetStream on a connection. Created by `new`, which has the same arguments."""

    def __init__(
        self, client: Client, prefix: str = "$JS.API", domain: str | None = None, strict: bool = False
    ) -> None:
        self._client = client
        self._prefix = f"$JS.{domain}.API" if domain else prefix
        self._strict = strict
        self._api = api.Client(client, self._prefix)

    def __repr__(self) -> str:
        return f"<JetStream {self._prefix} of {self._client!r}>"

    @property
    def client(self) -> Client:
        """The NATS client."""
        return self._client

    @property
    def api_prefix(self) -> str:
        """First tokens of the API's subjects."""
        return self._prefix

    @property
    def strict(self) -> bool:
        """Whether unknown keys of responses raise."""
        return self._strict

    async def publish(
        self,
        subject: str,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        retry_attempts: int = 2,
        retry_wait: float = 0.25,
        timeout: float = 5.0,
    ) -> PublishAck:
        """Publishes a message and waits until a stream has stored it.

        Args:
            subject: Its subject.
            payload: Its payload.
            headers: Its headers. `nats.jetstream.headers` has the names of JetStream's.
            retry_attempts: Number of further attempts if no stream responds, as during an election. Default: 2.
            retry_wait: Seconds before a further attempt, default 0.25.
            timeout: Maximum seconds of all attempts together, default 5.

        Raises:
            NoRespondersError: No stream responded to any attempt.
            TimeoutError: Not acknowledged in time.
            JetStreamError: The stream rejects it.
        """
        return await publish(
            self,
            subject,
            payload,
            headers=headers,
            retry_attempts=retry_attempts,
            retry_wait=retry_wait,
            timeout=timeout,
        )

    async def stream_names(self, subject: str | None = None) -> AsyncIterator[str]:
        """Iterates over the names of the streams, requested in pages.

        Args:
            subject: Only streams with this subject, wildcards allowed. Default: all.

        Raises:
            JetStreamError: An error of the server.
        """

        async def page(offset: int) -> Mapping[str, Any]:
            return await self._api.stream_names(offset=offset, **_without_none(subject=subject))

        async for name in pages(page, "streams"):
            yield name

    async def list_streams(self, subject: str | None = None) -> AsyncIterator[StreamInfo]:
        """Iterates over the streams, requested in pages.

        Args:
            subject: Only streams with this subject, wildcards allowed. Default: all.

        Raises:
            JetStreamError: An error of the server.
            ValueError: `strict`, and a key of a response is unknown.
        """

        async def page(offset: int) -> Mapping[str, Any]:
            return await self._api.stream_list(offset=offset, **_without_none(subject=subject))

        async for stream in pages(page, "streams"):
            yield StreamInfo.from_response(stream, strict=self._strict)

    @overload
    async def create_stream(self, config: StreamConfig, /) -> Stream: ...

    @overload
    async def create_stream(self, config: None = None, /, *, name: str, **kwargs: Any) -> Stream: ...

    async def create_stream(self, config: StreamConfig | None = None, /, **kwargs: Any) -> Stream:
        """Creates a stream. One with the same configuration may exist.

        Args:
            config: Its configuration.
            **kwargs: Fields of `StreamConfig`, in place of `config`; nested dataclasses may be dicts.

        Raises:
            ValueError: The configuration has no name.
            StreamNameAlreadyInUseError: A stream with this name and another configuration exists.
            JetStreamError: Another error of the server.
        """
        if config is None:
            config = StreamConfig.from_kwargs(**kwargs)
        if config.name is None:
            raise ValueError("StreamConfig must have a name")
        response = await self._api.stream_create(config.name, **cast("Any", config.to_request()))
        return Stream(self, config.name, StreamInfo.from_response(response, strict=self._strict))

    async def update_stream(self, **config: Any) -> StreamInfo:
        """Replaces the configuration of a stream; options that are not given become the server's defaults.

        Args:
            **config: The stream's `name`, and options as the server has them, for example
                `**StreamConfig(...).to_request()`. Durations may be timedelta, nested objects dataclasses or dicts.

        Raises:
            ValueError: No name.
            StreamNotFoundError: The stream does not exist.
            JetStreamError: Another error of the server.
        """
        name = config.get("name")
        if name is None:
            raise ValueError("Stream name is required for update")
        response = await self._api.stream_update(name, **encode(config))
        return StreamInfo.from_response(response, strict=self._strict)

    async def delete_stream(self, name: str) -> bool:
        """Deletes a stream.

        Args:
            name: The stream.

        Returns:
            True.

        Raises:
            StreamNotFoundError: The stream does not exist.
            JetStreamError: Another error of the server.
        """
        return (await self._api.stream_delete(name))["success"]

    async def get_stream_info(
        self,
        name: str,
        *,
        deleted_details: bool = False,
        subjects_filter: str | None = None,
        offset: int | None = None,
    ) -> StreamInfo:
        """Requests a stream's configuration and state.

        Args:
            name: The stream.
            deleted_details: Includes the sequences of removed messages. Default: False.
            subjects_filter: Includes the number of messages of each of these subjects. Default: no subject.
            offset: Number of subjects, or of removed messages, to skip. Default: 0.

        Raises:
            StreamNotFoundError: The stream does not exist.
            JetStreamError: Another error of the server.
        """
        options = _without_none(deleted_details=deleted_details, subjects_filter=subjects_filter, offset=offset)
        return StreamInfo.from_response(await self._api.stream_info(name, **options), strict=self._strict)

    async def get_stream(self, name: str) -> Stream:
        """Returns a stream, after a request for its configuration and state.

        Args:
            name: The stream.

        Raises:
            StreamNotFoundError: The stream does not exist.
            JetStreamError: Another error of the server.
        """
        return Stream(self, name, await self.get_stream_info(name))

    async def account_info(self) -> AccountInfo:
        """Requests the usage and limits of the account.

        Raises:
            JetStreamNotEnabledError: JetStream is not enabled on the server.
            JetStreamNotEnabledForAccountError: JetStream is not enabled for the account.
            JetStreamError: Another error of the server.
        """
        return AccountInfo.from_response(await self._api.account_info(), strict=self._strict)

    async def get_message(self, stream: str, sequence: int) -> StreamMessage:
        """Requests a message of the stream's leader.

        Args:
            stream: The stream.
            sequence: The message's sequence.

        Raises:
            MessageNotFoundError: The message does not exist.
            JetStreamError: Another error of the server.
        """
        return from_stored((await self._api.stream_msg_get(stream, seq=sequence))["message"])

    async def get_last_message_for_subject(self, stream: str, subject: str) -> StreamMessage:
        """Requests the last message of a subject of the stream's leader.

        Args:
            stream: The stream.
            subject: The subject, wildcards allowed.

        Raises:
            MessageNotFoundError: The subject has no message.
            JetStreamError: Another error of the server.
        """
        return from_stored((await self._api.stream_msg_get(stream, last_by_subj=subject))["message"])


def _without_none(**options: Any) -> Any:
    return {name: value for name, value in options.items() if value is not None}
