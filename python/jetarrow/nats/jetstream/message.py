"""Messages of a stream, and their acknowledgements."""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from jetarrow._jetarrow import Msg
from jetarrow.core import errors
from jetarrow.nats.client.client import NO_DESCRIPTION
from jetarrow.nats.client.errors import NoRespondersError
from jetarrow.nats.client.message import Headers

if TYPE_CHECKING:
    from jetarrow.nats.jetstream.jetstream import JetStream

__all__ = ["Headers", "Message", "Metadata", "SequencePair"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class SequencePair:
    """The sequences of a message.

    Args:
        consumer: Its number among the deliveries of the consumer.
        stream: Its sequence in the stream.
    """

    consumer: int
    stream: int


@dataclass
class Metadata:
    """Origin of a message.

    Args:
        sequence: Its sequences.
        num_delivered: Number of its deliveries, with this one.
        num_pending: Messages that the consumer has yet to deliver.
        timestamp: Time at which the stream stored it.
        stream: Name of the stream.
        consumer: Name of the consumer.
        domain: JetStream domain, or an empty string.
    """

    sequence: SequencePair
    num_delivered: int
    num_pending: int
    timestamp: datetime
    stream: str
    consumer: str
    domain: str = ""

    @classmethod
    def from_reply(cls, reply_subject: str) -> Metadata:
        """Reads the metadata of an ack subject (ADR-15).

        Args:
            reply_subject: `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<ns>.<pending>`, or its
                newer form with domain and account hash before the stream; the old form without `<pending>` too.

        Raises:
            ValueError: It is not an ack subject.
        """
        first, second, *fields = reply_subject.split(".")[:12] if reply_subject.count(".") else ("", "")
        domain = ""
        if len(fields) >= 9:
            domain, _, *fields = fields
        if (first, second) != ("$JS", "ACK") or len(fields) not in (6, 7, 8):
            raise ValueError(f"Invalid JetStream ACK reply subject format: {reply_subject}")
        stream, consumer = fields[:2]
        delivered, stream_seq, consumer_seq, nanos, *rest = map(int, fields[2:7])
        return cls(
            sequence=SequencePair(consumer=consumer_seq, stream=stream_seq),
            num_delivered=delivered,
            num_pending=rest[0] if rest else 0,
            timestamp=_EPOCH + timedelta(microseconds=nanos // 1000),
            stream=stream,
            consumer=consumer,
            domain="" if domain == "_" else domain,
        )


class Message:
    """A message that a consumer delivered.

    Args:
        data: The payload.
        subject: The subject that it was published to.
        reply: The ack subject.
        headers: The headers.
        metadata: Its origin. Default: as in `reply`.
        jetstream: The context that acknowledges it.
    """

    __slots__ = ("_given", "_jetstream", "_msg")

    def __init__(
        self,
        data: bytes,
        subject: str,
        reply: str | None,
        headers: Headers | None,
        metadata: Metadata | None = None,
        jetstream: JetStream | None = None,
    ) -> None:
        self._msg = Msg(subject=subject, reply=reply or "", data=data)
        self._jetstream = jetstream
        # Values that are not those of the native message.
        self._given: dict[str, Any] | None = {"headers": headers}
        if metadata is not None:
            self._given["metadata"] = metadata

    def __repr__(self) -> str:
        return f"<Message of {self.subject!r}: {len(self.data)} bytes>"

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._msg.data

    @property
    def subject(self) -> str:
        """The subject that it was published to."""
        return self._msg.subject

    @property
    def reply(self) -> str:
        """The ack subject, or an empty string."""
        return self._msg.reply

    @property
    def headers(self) -> Headers | None:
        """The headers; None without headers."""
        given = self._given
        if given is None or "headers" not in given:
            values: Any = self._msg.headers_all
            given = self._given = {**(given or {}), "headers": Headers(values) if values else None}
        headers: Headers | None = given["headers"]
        return headers

    @property
    def metadata(self) -> Metadata:
        """Its origin; empty without an ack subject."""
        given = self._given
        if given is None or "metadata" not in given:
            given = self._given = {**(given or {}), "metadata": _metadata_of(self._msg.reply)}
        metadata: Metadata = given["metadata"]
        return metadata

    async def ack(self) -> None:
        """Acknowledges the message: it is not delivered again.

        Raises:
            ValueError: The message has no ack subject, or no context.
            RuntimeError: The connection is closed.
        """
        if self._jetstream is None or not self._msg._ack_received(get_running_loop()):
            self._send("acknowledge", "ack")

    async def double_ack(self, *, timeout: float = 1.0) -> None:
        """Acknowledges the message, and waits for the server's confirmation.

        Args:
            timeout: Maximum seconds.

        Raises:
            TimeoutError: No confirmation in time.
            NoRespondersError: The consumer does not exist any more.
            ValueError: The message has no ack subject, or no context.
            RuntimeError: The connection is closed.
        """
        client = self._context("acknowledge").client
        try:
            await client.nc._session.request(self._msg.reply, b"+ACK", timeout, None)
        except errors.NoRespondersError:
            raise NoRespondersError("503", NO_DESCRIPTION, self._msg.reply) from None
        except errors.TimeoutError:
            raise TimeoutError from None
        except errors.ConnectionClosedError:
            raise RuntimeError("Connection is closed") from None

    async def nak(self) -> None:
        """Rejects the message: it is delivered again at once.

        Raises:
            ValueError: As `ack`.
            RuntimeError: As `ack`.
        """
        self._send("NAK", "nak")

    async def nak_with_delay(self, delay: float) -> None:
        """Rejects the message: it is delivered again later.

        Args:
            delay: Minimum seconds until then.

        Raises:
            ValueError: As `ack`.
            RuntimeError: As `ack`.
        """
        self._send("NAK", "nak", delay=delay)

    async def in_progress(self) -> None:
        """Restarts the time after which the message is delivered again (`ack_wait`).

        Raises:
            ValueError: As `ack`.
            RuntimeError: As `ack`.
        """
        self._send("send in-progress for", "in_progress")

    async def term(self) -> None:
        """Terminates the message: it is not delivered again to any client.

        Raises:
            ValueError: As `ack`.
            RuntimeError: As `ack`.
        """
        self._send("terminate", "term")

    async def term_with_reason(self, reason: str) -> None:
        """Terminates the message, with a reason for the server's advisory.

        Args:
            reason: The text.

        Raises:
            ValueError: As `ack`.
            RuntimeError: As `ack`.
        """
        self._send("terminate", "term", reason=reason)

    def _context(self, verb: str) -> JetStream:
        if not self._msg.reply:
            raise ValueError(f"Cannot {verb} message without reply")
        if self._jetstream is None:
            raise ValueError(f"Cannot {verb} message without JetStream reference")
        return self._jetstream

    def _send(self, verb: str, kind: str, **options: Any) -> None:
        session = self._context(verb).client.nc._session
        try:
            session.ack(self._msg.reply, kind, **options)
        except errors.ConnectionClosedError:
            raise RuntimeError("Connection is closed") from None


def _metadata_of(reply: str) -> Metadata:
    try:
        return Metadata.from_reply(reply)
    except ValueError:
        return Metadata(SequencePair(0, 0), 0, 0, datetime.now(UTC), "", "")


def wrapped(messages: Sequence[Msg], jetstream: JetStream) -> list[Message]:
    """Messages of the native core, the last one first, so that `pop` gives them in order."""
    new, result = Message.__new__, []
    for msg in reversed(messages):
        message = new(Message)
        message._msg, message._jetstream, message._given = msg, jetstream, None
        result.append(message)
    return result
