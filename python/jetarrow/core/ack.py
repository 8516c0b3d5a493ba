"""Acknowledging and answering a message: what its verbs do, on either face.

A message that came by a connection of ours goes through its session; one that a program made with another client goes
through that client's `publish` and `request`, as in nats-py. What they return is returned: the async face awaits it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from jetarrow.core.errors import Error, MsgAlreadyAckdError, NotJSMessageError

if TYPE_CHECKING:
    from enum import Enum

    from jetarrow.core.metadata import Metadata
    from jetarrow.core.session import Session

# As nats-py sends them to a reply subject that is no consumer's: an ack is empty there.
_PAYLOADS = {"ack": b"", "nak": b"-NAK", "in_progress": b"+WPI", "term": b"+TERM"}


class Message:
    """A message as the native classes have it (`_jetarrow.Msg`)."""

    _client: Any
    subject: str
    reply: str
    data: bytes
    headers: dict[str, str] | None
    _metadata: Metadata | None
    _ackd: bool
    _sid: int | None

    if TYPE_CHECKING:

        @property
        def _session(self) -> Session | None: ...
        @property
        def seq(self) -> int | None:
            """Sequence in the stream; None where it comes from no stream."""

        @property
        def headers_all(self) -> dict[str, list[str]] | None:
            """Header name to all its values; None without headers."""

        __match_args__: ClassVar[tuple[str, ...]]

        def _claim(self) -> bool: ...
        def _consumer(self) -> tuple[Session, str] | None: ...
        def _hang(self, name: str, value: object) -> None: ...
        def _hung(self, name: str, default: object) -> object: ...


def session_of(msg: Message) -> Session | None:
    """The connection that a message's verbs go through; None where its client is not one of ours."""
    from jetarrow.core.session import SharedState

    session = msg._session or getattr(msg._client, "_session", None)
    return session if isinstance(session, SharedState) else None


def _consumer_of(msg: Message) -> tuple[Session, str] | None:
    """Through which connection, and to which subject, the acks of a message of a stream go."""
    consumer = msg._consumer()
    if consumer is None and msg.seq is not None and (session := session_of(msg)) is not None:
        return session, msg.reply
    return consumer


def _client_of(msg: Message) -> Any:
    if not msg._client:
        raise Error("client not set: the message was made without one")
    return msg._client


def respond(msg: Message, data: bytes | str) -> Any:
    """What the client's `publish` returns."""
    if not msg.reply:
        raise Error("no reply subject available: its sender wants no answer")
    headers = msg.headers_all if session_of(msg) is not None else msg.headers
    return _client_of(msg).publish(msg.reply, data, headers=headers)


def mark_acked(msg: Message) -> None:
    """Marks it as acknowledged, once."""
    if not msg._claim():
        raise MsgAlreadyAckdError(msg) if msg.reply else NotJSMessageError


def send(msg: Message, kind: str, **options: Any) -> Any:
    """Sends an ack. Where it goes through the client's `publish`, what that returns is returned."""
    consumer = _consumer_of(msg)
    if consumer is not None:
        session, reply = consumer
        session.ack(reply, kind, **options)
        return None
    if not msg.reply:
        raise NotJSMessageError
    word = _PAYLOADS[kind]
    if options.get("delay"):
        word += b" " + json.dumps({"delay": int(options["delay"] * 10**9)}).encode()
    if options.get("reason"):
        word += b" " + options["reason"].encode()
    return _client_of(msg).publish(msg.reply, word)


def send_once(msg: Message, kind: str, **options: Any) -> Any:
    """As `_send`, an ack that can be sent only once; where sending fails it counts as not sent."""
    mark_acked(msg)
    try:
        return send(msg, kind, **options)
    except BaseException:
        msg._ackd = False
        raise


async def await_publish(msg: Message, rest: Awaitable[None]) -> None:
    """The same for what `_finish` has left."""
    try:
        await rest
    except BaseException:
        msg._ackd = False
        raise


def request_ack(msg: Message, timeout: float | None) -> Any:
    """The request that is an ack: what the session's, or the client's, `request` returns."""
    consumer = _consumer_of(msg)
    if consumer is not None:
        session, reply = consumer
        return session.request(reply, b"+ACK", timeout, None)
    if not msg.reply:
        raise NotJSMessageError
    return _client_of(msg).request(msg.reply, timeout=timeout)


def ack_with(msg: Any, kind: Enum | str, delay: float | timedelta | None, reason: str | None) -> Any:
    """What the verb that `kind` names returns."""
    match msg._kind(kind).name:
        case "ACK":
            return msg.ack()
        case "NAK":
            return msg.nak(delay)
        case "PROGRESS":
            return msg.in_progress()
        case _:
            return msg.term(reason)
