"""Metadata of messages that a consumer has delivered."""

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
    """Sequences of a message: `consumer` counts the consumer's deliveries, `stream` is the sequence in the stream."""

    consumer: int
    stream: int


@dataclass
class Metadata:
    """Metadata in the ack subject of a delivered message, with the names of nats-py and of nats.js.

    Attributes:
        sequence: Its sequences in the consumer and the stream.
        num_pending: Number of messages that the consumer has not delivered yet.
        num_delivered: Number of deliveries of this message, this one included.
        timestamp: Time at which it was stored, in microseconds; `timestamp_ns` has nanoseconds.
        stream: The stream's name.
        consumer: The consumer's name.
        domain: JetStream domain; None without one.
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
        """The sequence in the stream."""
        return self.sequence.stream

    @property
    def consumer_sequence(self) -> int:
        """The sequence of the delivery in the consumer."""
        return self.sequence.consumer

    @property
    def delivery_count(self) -> int:
        """Alias of `num_delivered`."""
        return self.num_delivered

    @property
    def delivery_sequence(self) -> int:
        """Alias of `num_delivered`."""
        return self.num_delivered

    @property
    def timestamp_nanos(self) -> int:
        """Alias of `timestamp_ns`: nanoseconds since 1970."""
        return self.timestamp_ns

    @property
    def pending(self) -> int:
        """Alias of `num_pending`."""
        return self.num_pending

    @property
    def redelivered(self) -> bool:
        """Whether the message was delivered before."""
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
    """Builds the metadata from the fields of an ack subject. The native message calls it."""
    timestamp = _EPOCH + timedelta(microseconds=nanos // 1000)
    pair = SequencePair(consumer_seq, seq)
    return Metadata(pair, pending, delivered, timestamp, stream, consumer, domain, timestamp_ns=nanos)


class Ack:
    """Payloads of the ack protocol and tokens of the ack subject, by nats-py's names."""

    Ack = b"+ACK"
    Nak = b"-NAK"
    Progress = b"+WPI"
    Term = b"+TERM"

    Prefix0 = "$JS"
    Prefix1 = "ACK"
    # Token positions in the ack subject with domain and account hash (server 2.10 and later, ADR-15).
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


# Properties of a message by async-nats' names; None if no consumer delivered it. Added to the native class by
# `jetarrow.core.message.complete`.
FIELDS: dict[str, property] = {
    name: _field(name, read, doc)
    for name, (read, doc) in {
        "stream": (lambda meta: meta.stream, "The stream's name."),
        "consumer": (lambda meta: meta.consumer, "The consumer's name."),
        "stream_sequence": (lambda meta: meta.sequence.stream, "The sequence in the stream, as `seq`."),
        "consumer_sequence": (lambda meta: meta.sequence.consumer, "The sequence of the delivery in the consumer."),
        "delivered": (lambda meta: meta.num_delivered, "Number of deliveries, this one included."),
        "pending": (lambda meta: meta.num_pending, "Number of messages that the consumer has not delivered yet."),
        "published": (lambda meta: meta.timestamp, "Time at which it was stored: a datetime in UTC, in microseconds."),
    }.items()
}


def _ack_subject(msg: Msg) -> str | None:
    return None if FIELDS["stream"].__get__(msg) is None else msg.reply


FIELDS["ack_subject"] = property(_ack_subject, doc="The subject of its acks.")
