"""Where a message stands in its stream and consumer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, TypeVar

from jetarrow.core.errors import NotJSMessageError

if TYPE_CHECKING:
    from jetarrow._jetarrow import Msg

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class SequencePair:
    """A message's numbers: `consumer` counts deliveries, `stream` is where it is stored."""

    consumer: int
    stream: int


@dataclass
class Metadata:
    """What the server says about a delivered message, by nats-py's names; nats.js's are there too.

    Attributes:
        sequence: Its numbers in consumer and stream.
        num_pending: Messages of the consumer that are still to come.
        num_delivered: How often this message was delivered, this time included.
        timestamp: When it was stored, in microseconds; `timestamp_ns` is exact.
        stream: The stream's name.
        consumer: The consumer's name.
        domain: JetStream domain, where there is one.
    """

    sequence: SequencePair
    num_pending: int
    num_delivered: int
    timestamp: datetime
    stream: str
    consumer: str
    domain: str | None = None
    timestamp_ns: int = 0

    SequencePair: ClassVar = SequencePair

    @property
    def stream_sequence(self) -> int:
        """Its sequence in the stream."""
        return self.sequence.stream

    @property
    def consumer_sequence(self) -> int:
        """Its number among the consumer's deliveries."""
        return self.sequence.consumer

    @property
    def delivery_count(self) -> int:
        """The same as `num_delivered`."""
        return self.num_delivered

    @property
    def delivery_sequence(self) -> int:
        """The same as `num_delivered`."""
        return self.num_delivered

    @property
    def timestamp_nanos(self) -> int:
        """The same as `timestamp_ns`: nanoseconds since 1970."""
        return self.timestamp_ns

    @property
    def pending(self) -> int:
        """The same as `num_pending`."""
        return self.num_pending

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before."""
        return self.num_delivered > 1


def build(
    stream: str,
    consumer: str,
    delivered: int,
    seq: int,
    consumer_seq: int,
    nanos: int,
    pending: int,
    domain: str | None,
) -> Metadata:
    """From the numbers of an ack subject; called by the native message."""
    timestamp = _EPOCH + timedelta(microseconds=nanos // 1000)
    pair = SequencePair(consumer_seq, seq)
    return Metadata(pair, pending, delivered, timestamp, stream, consumer, domain, timestamp_ns=nanos)


class Ack:
    """The words of the ack protocol, by nats-py's names."""

    Ack = b"+ACK"
    Nak = b"-NAK"
    Progress = b"+WPI"
    Term = b"+TERM"

    Prefix0 = "$JS"
    Prefix1 = "ACK"
    # Where the tokens of the newer ack subject are.
    Domain = 2
    AccHash = 3
    Stream = 4
    Consumer = 5
    NumDelivered = 6
    StreamSeq = 7
    ConsumerSeq = 8
    Timestamp = 9
    NumPending = 10


_T = TypeVar("_T")


def _field(name: str, read: Callable[[Metadata], _T], doc: str) -> property:
    def get(msg: Msg) -> _T | None:
        try:
            return read(msg.metadata)
        except NotJSMessageError:
            return None

    get.__name__ = name
    return property(get, doc=doc)


# Set on the native class by `jetarrow.core.message.complete`.
FIELDS: dict[str, property] = {
    name: _field(name, read, doc)
    for name, (read, doc) in {
        "stream": (lambda meta: meta.stream, "Its stream's name."),
        "consumer": (lambda meta: meta.consumer, "Its consumer's name."),
        "stream_sequence": (lambda meta: meta.sequence.stream, "Its sequence in the stream, as `seq`."),
        "consumer_sequence": (lambda meta: meta.sequence.consumer, "Its number among the consumer's deliveries."),
        "delivered": (lambda meta: meta.num_delivered, "How often it was delivered, this time included."),
        "pending": (lambda meta: meta.num_pending, "Messages of the consumer that are still to come."),
        "published": (lambda meta: meta.timestamp, "When it was stored: a datetime in UTC, in microseconds."),
    }.items()
}


def _ack_subject(msg: Msg) -> str | None:
    return None if FIELDS["stream"].__get__(msg) is None else msg.reply


FIELDS["ack_subject"] = property(_ack_subject, doc="The subject that its acks go to.")
