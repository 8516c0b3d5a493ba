"""What a message of a stream says of itself, by async-nats' names; None for other messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from jetarrow.core.errors import NotJSMessageError

if TYPE_CHECKING:
    from jetarrow._jetarrow import Msg
    from jetarrow.core.metadata import Metadata

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
