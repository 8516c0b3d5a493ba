"""Messages and publish acks."""

# Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from jetarrow.jetstream.models.aliases import aliased
from jetarrow.jetstream.models.base import Base, Codec, Moment
from jetarrow.jetstream.models.values import Choices, epoch_ns


class AckKind(Choices):
    """Kinds of acknowledgements; the values are the payloads that are sent."""

    ACK = "+ACK"
    NAK = "-NAK"
    PROGRESS = "+WPI"
    TERM = "+TERM"


@aliased(sequence="seq")
@dataclass
class PubAck(Base):
    """The server's acknowledgement of a stored message. `sequence` is another name of `seq`.

    Attributes:
        stream: The stream that it is stored in.
        seq: Its sequence there.
        domain: The JetStream domain, if it is in one.
        duplicate: Whether a message with this id was stored before; `seq` is then the sequence of that one.
        batch_id: Id of the batch that it committed.
        batch_size: Number of messages of that batch.
        val: In counter streams: the value of the counter after the message, as text.
    """

    _wire: ClassVar[dict[str, str]] = {"batch_id": "batch", "batch_size": "count"}

    stream: str
    seq: int
    domain: str | None = None
    duplicate: bool = False
    batch_id: str | None = None
    batch_size: int | None = None
    val: str | None = None
    if TYPE_CHECKING:  # the attributes that `aliased` adds, for type checkers
        sequence: int = 0

    def as_dict(self) -> dict[str, object]:
        """Convert to the server's JSON, which has `duplicate` only if it is true."""
        result = super().as_dict()
        if not self.duplicate:
            result.pop("duplicate", None)
        return result


@dataclass
class RawStreamMsg(Base):
    """A stored message, read without a consumer.

    Attributes:
        subject: Its subject.
        seq: Its sequence in the stream.
        stream: The stream that it is stored in.
        data: Its payload; None if it is empty.
        hdrs: Its encoded headers (base64; None from a direct get).
        headers: Its headers, name to the last value; None without headers.
        headers_all: Its headers, name to all values; None without headers.
        time: Time at which it was stored, UTC, in microseconds; `time_ns` has all digits.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"time": Moment()}

    subject: str | None = None
    seq: int | None = None
    data: bytes | None = None
    hdrs: str | None = None
    headers: dict[str, Any] | None = None
    stream: str | None = None
    time: datetime | None = None
    headers_all: dict[str, list[str]] | None = None

    @property
    def sequence(self) -> int | None:
        """Alias of `seq`."""
        return self.seq

    @property
    def header(self) -> dict[str, Any] | None:
        """Alias of `headers`."""
        return self.headers

    @property
    def time_ns(self) -> int | None:
        """Time at which it was stored, in nanoseconds since 1970."""
        raw = self._raw_time("time")
        return None if raw is None else epoch_ns(raw)


class PurgeResponse(int):
    """Result of a purge: true if it succeeded, as in nats-py, and the number of removed messages.

    Attributes:
        purged: The number of messages that were removed.
    """

    purged: int

    def __new__(cls, success: bool, purged: int) -> PurgeResponse:
        """Create it from the server's response."""
        response = super().__new__(cls, success)
        response.purged = purged
        return response

    @property
    def success(self) -> bool:
        """Whether it succeeded."""
        return bool(self)

    def __repr__(self) -> str:
        return f"PurgeResponse(success={self.success}, purged={self.purged})"

    def __getnewargs__(self) -> tuple[bool, int]:  # type: ignore[override]  # of this __new__, not of int's
        return self.success, self.purged


@dataclass
class StreamPurgeRequest(Base):
    """The messages to remove from a stream; `seq` and `keep` exclude each other.

    Attributes:
        seq: Remove messages before this sequence. Default: all.
        filter: Only these subjects. Default: all.
        keep: The number of newest messages to keep. Default: none.
    """

    seq: int | None = None
    filter: str | None = None
    keep: int | None = None
