"""Messages of the async and the sync API."""

from datetime import datetime
from typing import Any, ClassVar, Self

from jetarrow.core import message as _message
from jetarrow.core import metadata as _metadata
from typing_extensions import disjoint_base

class _MsgBase(_message.AnyMessage):
    """Fields of a message."""

    Ack: ClassVar[type[_metadata.Ack]]
    Metadata: ClassVar[type[_metadata.Metadata]]

    @property
    def header(self) -> dict[str, str] | None:
        """The same as `headers`."""

    @property
    def headers_all(self) -> dict[str, list[str]] | None:
        """Header name to all its values; None without headers."""

    def _parts(self) -> tuple[str, bytes, str | None, dict[str, list[str]] | None, str | None, str | None]:
        """Return the received parts, without what a program has set.

        Returns:
            Subject, payload, reply, headers with all values, code and description of the server's status line; None
            for what is absent.
        """

    @property
    def sid(self) -> int:
        """Number of the subscription.

        Raises:
            Error: The message has no subscription.
        """

    @property
    def seq(self) -> int | None:
        """Sequence in the stream; None without a stream."""

    @property
    def stream(self) -> str | None:
        """Name of the stream; None without a stream."""

    @property
    def consumer(self) -> str | None:
        """Name of the consumer; None without a stream."""

    @property
    def stream_sequence(self) -> int | None:
        """Sequence in the stream, as `seq`."""

    @property
    def consumer_sequence(self) -> int | None:
        """Sequence among the consumer's deliveries; None without a stream."""

    @property
    def delivered(self) -> int | None:
        """Number of deliveries, with this one; None without a stream."""

    @property
    def pending(self) -> int | None:
        """Messages that the consumer has yet to deliver; None without a stream."""

    @property
    def published(self) -> datetime | None:
        """Time of storage in UTC, in microseconds; None without a stream."""

    @property
    def ack_subject(self) -> str | None:
        """The subject for acks; None without a stream."""

    @property
    def redelivered(self) -> bool:
        """True if the message was delivered before."""

    @property
    def metadata(self) -> _metadata.Metadata:
        """The message's position in stream and consumer.

        Raises:
            NotJSMessageError: The message has no stream.
        """

    @property
    def info(self) -> _metadata.Metadata:
        """The same as `metadata`."""

    @property
    def is_acked(self) -> bool:
        """True after `ack`, `ack_sync`, `nak` or `term`."""

@disjoint_base
class Msg(_MsgBase, _message.AsyncMessage):
    """A message whose verbs are awaited."""

    def __new__(
        cls,
        _client: Any = None,
        subject: str = "",
        reply: str = "",
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        _metadata: _metadata.Metadata | None = None,
        _ackd: bool = False,
        _sid: int | None = None,
    ) -> Self: ...

class SyncMsg(_MsgBase, _message.SyncMessage):
    """A message whose verbs block."""

    def __new__(
        cls,
        _client: Any = None,
        subject: str = "",
        reply: str = "",
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        _metadata: _metadata.Metadata | None = None,
        _ackd: bool = False,
        _sid: int | None = None,
    ) -> Self: ...
