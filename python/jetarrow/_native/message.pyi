"""A message, as the two faces have it."""

from datetime import datetime
from typing import Any, ClassVar, Self

from jetarrow.core import message as _message
from jetarrow.core import metadata as _metadata
from typing_extensions import disjoint_base

class _MsgBase(_message.AnyMessage):
    """What a message says."""

    Ack: ClassVar[type[_metadata.Ack]]
    Metadata: ClassVar[type[_metadata.Metadata]]

    @property
    def header(self) -> dict[str, str] | None:
        """The same as `headers`."""

    @property
    def headers_all(self) -> dict[str, list[str]] | None:
        """Header name to all its values; None without headers."""

    @property
    def sid(self) -> int:
        """Number of the subscription that it came from.

        Raises:
            Error: It came from none.
        """

    @property
    def seq(self) -> int | None:
        """Sequence in the stream; None where it comes from no stream."""

    @property
    def stream(self) -> str | None:
        """Name of its stream; None, as what follows, where it comes from no stream."""

    @property
    def consumer(self) -> str | None:
        """Name of its consumer."""

    @property
    def stream_sequence(self) -> int | None:
        """Sequence in the stream, as `seq`."""

    @property
    def consumer_sequence(self) -> int | None:
        """Its number among the consumer's deliveries."""

    @property
    def delivered(self) -> int | None:
        """How often it was delivered, this time included."""

    @property
    def pending(self) -> int | None:
        """Messages of the consumer that are still to come."""

    @property
    def published(self) -> datetime | None:
        """When it was stored: in UTC, in microseconds."""

    @property
    def ack_subject(self) -> str | None:
        """The subject that its acks go to."""

    @property
    def redelivered(self) -> bool:
        """True when it was delivered before."""

    @property
    def metadata(self) -> _metadata.Metadata:
        """Where it stands in stream and consumer.

        Raises:
            NotJSMessageError: It comes from no stream.
        """

    @property
    def info(self) -> _metadata.Metadata:
        """The same as `metadata`."""

    @property
    def is_acked(self) -> bool:
        """True once `ack`, `ack_sync`, `nak` or `term` was called."""

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
