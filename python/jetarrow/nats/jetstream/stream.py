"""Streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from jetarrow.nats.client.errors import StatusError
from jetarrow.nats.jetstream.errors import MessageNotFoundError
from jetarrow.nats.jetstream.stream_config import (
    CompressionType,
    DiscardPolicy,
    ExternalStreamSource,
    PersistMode,
    Placement,
    Republish,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamSource,
    SubjectTransform,
)
from jetarrow.nats.jetstream.stream_consumers import (
    CONSUMER_ACTION_CREATE,
    CONSUMER_ACTION_CREATE_OR_UPDATE,
    CONSUMER_ACTION_UPDATE,
    StreamConsumers,
)
from jetarrow.nats.jetstream.stream_info import (
    ClusterInfo,
    LostStreamData,
    PeerInfo,
    StreamInfo,
    StreamSourceInfo,
    StreamState,
)
from jetarrow.nats.jetstream.stream_messages import StreamMessage, direct_get

if TYPE_CHECKING:
    from jetarrow.nats.jetstream.jetstream import JetStream

__all__ = [
    "CONSUMER_ACTION_CREATE",
    "CONSUMER_ACTION_CREATE_OR_UPDATE",
    "CONSUMER_ACTION_UPDATE",
    "ClusterInfo",
    "CompressionType",
    "DiscardPolicy",
    "ExternalStreamSource",
    "LostStreamData",
    "MessageNotFoundError",
    "PeerInfo",
    "PersistMode",
    "Placement",
    "Republish",
    "RetentionPolicy",
    "StatusError",
    "StorageType",
    "Stream",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamInfo",
    "StreamManager",
    "StreamMessage",
    "StreamSource",
    "StreamSourceInfo",
    "StreamState",
    "SubjectTransform",
]


@runtime_checkable
class StreamManager(Protocol):
    """An object with the verbs for streams, such as `JetStream`."""

    def stream_names(self) -> AsyncIterator[str]:
        """The names of all streams."""
        ...

    def list_streams(self, subject: str | None = None) -> AsyncIterator[StreamInfo]:
        """All streams, or those with a subject."""
        ...

    async def create_stream(self, **config: Any) -> Stream:
        """Creates a stream."""
        ...

    async def update_stream(self, **config: Any) -> StreamInfo:
        """Replaces the configuration of a stream."""
        ...

    async def delete_stream(self, name: str) -> bool:
        """Deletes a stream."""
        ...

    async def get_stream_info(
        self,
        name: str,
        *,
        deleted_details: bool = False,
        subjects_filter: str | None = None,
        offset: int | None = None,
    ) -> StreamInfo:
        """Requests a stream's configuration and state."""
        ...

    async def get_stream(self, name: str) -> Stream:
        """Returns a stream."""
        ...


class Stream(StreamConsumers):
    """A stream. Created by `JetStream.create_stream` and `JetStream.get_stream`."""

    def __init__(self, jetstream: JetStream, name: str, info: StreamInfo | None = None) -> None:
        self._jetstream = jetstream
        self._name = name
        self._info = info

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._name

    @property
    def info(self) -> StreamInfo | None:
        """Configuration and state as of the last response; None before the first."""
        return self._info

    async def get_info(
        self,
        *,
        deleted_details: bool = True,
        subjects_filter: str | None = None,
        offset: int | None = None,
    ) -> StreamInfo:
        """Requests configuration and state.

        Args:
            deleted_details: Includes the sequences of removed messages. Default: True.
            subjects_filter: Includes the number of messages of each of these subjects. Default: no subject.
            offset: Number of subjects, or of removed messages, to skip. Default: 0.

        Raises:
            StreamNotFoundError: The stream does not exist.
        """
        self._info = await self._jetstream.get_stream_info(
            self._name, deleted_details=deleted_details, subjects_filter=subjects_filter, offset=offset
        )
        return self._info

    async def purge(self, *, filter: str | None = None, keep: int | None = None, sequence: int | None = None) -> None:
        """Removes messages.

        Args:
            filter: Subject of the messages, wildcards allowed. Default: all.
            keep: Number of messages, the last ones, that remain. Default: 0.
            sequence: Removes the messages before this sequence. Not together with `keep`.

        Raises:
            JetStreamError: The stream does not exist, or denies it.
        """
        options = {"filter": filter, "keep": keep, "seq": sequence}
        request = {key: value for key, value in options.items() if value is not None}
        await self._jetstream._api.stream_purge(self._name, **cast("Any", request))

    async def get_message(self, sequence: int) -> StreamMessage:
        """Requests a message.

        If the stream has `allow_direct`, any replica may respond, on which the newest messages may be missing.

        Args:
            sequence: Its sequence.

        Raises:
            MessageNotFoundError: The message does not exist.
            JetStreamError: Another error of the server.
        """
        return await self._get_message(sequence, None)

    async def get_last_message_for_subject(self, subject: str) -> StreamMessage:
        """Requests the last message of a subject; a replica may respond, as for `get_message`.

        Args:
            subject: The subject, wildcards allowed.

        Raises:
            MessageNotFoundError: The subject has no message.
            JetStreamError: Another error of the server.
        """
        return await self._get_message(None, subject)

    async def _get_message(self, sequence: int | None, subject: str | None) -> StreamMessage:
        if self._info is not None and self._info.config.allow_direct:
            return await direct_get(self._jetstream, self._name, sequence, subject)
        if sequence is not None:
            return await self._jetstream.get_message(self._name, sequence)
        return await self._jetstream.get_last_message_for_subject(self._name, cast("str", subject))

    async def delete_message(self, sequence: int) -> None:
        """Removes a message; its bytes remain on disk until the server overwrites them.

        Args:
            sequence: Its sequence.

        Raises:
            JetStreamError: The message does not exist, or the stream denies it.
        """
        await self._jetstream._api.stream_msg_delete(self._name, seq=sequence, no_erase=True)

    async def secure_delete_message(self, sequence: int) -> None:
        """Removes a message and overwrites its bytes on disk.

        Args:
            sequence: Its sequence.

        Raises:
            JetStreamError: The message does not exist, or the stream denies it.
        """
        await self._jetstream._api.stream_msg_delete(self._name, seq=sequence, no_erase=False)
