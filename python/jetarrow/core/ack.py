"""Acknowledgements and replies of messages, for the async and the sync classes.

A message that jetarrow received is acknowledged through its session. A message that a program made with another client
uses that client's `publish` and `request`, as in nats-py; their result is returned, so that the async class awaits it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from jetarrow.core.errors import Error, MsgAlreadyAckdError, NotJSMessageError

if TYPE_CHECKING:
    from enum import Enum

    from jetarrow.core.metadata import Metadata
    from jetarrow.core.session import Session

# Payloads that nats-py sends to a reply subject without a consumer: an ack is empty.
_PAYLOADS = {"ack": b"", "nak": b"-NAK", "in_progress": b"+WPI", "term": b"+TERM"}


class Message:
    """The attributes of the native message classes (`_jetarrow.Msg`)."""

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
            """Sequence in the stream; None if no stream delivered it."""

        @property
        def headers_all(self) -> dict[str, list[str]] | None:
            """All values by header name; None without headers."""

        __match_args__: ClassVar[tuple[str, ...]]

        def _ack_received(self, event_loop: asyncio.AbstractEventLoop) -> bool: ...
        def _claim(self) -> bool: ...
        def _consumer(self) -> tuple[Session, str] | None: ...
        def _hang(self, name: str, value: object) -> None: ...
        def _hung(self, name: str, default: object) -> object: ...


def session_of(msg: Message) -> Session | None:
    """The session of a message; None if its client is not jetarrow's."""
    from jetarrow.core.session import SharedState

    session = msg._session or getattr(msg._client, "_session", None)
    return session if isinstance(session, SharedState) else None


def _consumer_of(msg: Message) -> tuple[Session, str] | None:
    """The session and the ack subject of a message of a stream; None for other messages."""
    consumer = msg._consumer()
    if consumer is None and msg.seq is not None and (session := session_of(msg)) is not None:
        return session, msg.reply
    return consumer


def _client_of(msg: Message) -> Any:
    if not msg._client:
        raise Error("client not set: the message was created without a client; pass _client=")
    return msg._client


def respond(msg: Message, data: bytes | str) -> Any:
    """Publishes a reply, and returns the result of the client's `publish`."""
    if not msg.reply:
        raise Error("no reply subject available: the message was published without one; only requests can be answered")
    headers = msg.headers_all if session_of(msg) is not None else msg.headers
    return _client_of(msg).publish(msg.reply, data, headers=headers)


def mark_acked(msg: Message) -> None:
    """Marks a message as acknowledged, once."""
    if not msg._claim():
        raise MsgAlreadyAckdError(msg) if msg.reply else NotJSMessageError


def send(msg: Message, kind: str, **options: Any) -> Any:
    """Sends an ack; returns the result of the client's `publish` if the message uses one, else None."""
    consumer = _consumer_of(msg)
    if consumer is not None:
        session, reply = consumer
        session.ack(reply, kind, **options)
        return None
    if not msg.reply:
        raise NotJSMessageError
    payload = _PAYLOADS[kind]
    if options.get("delay"):
        payload += b" " + json.dumps({"delay": int(options["delay"] * 10**9)}).encode()
    if options.get("reason"):
        payload += b" " + options["reason"].encode()
    return _client_of(msg).publish(msg.reply, payload)


def send_once(msg: Message, kind: str, **options: Any) -> Any:
    """As `send`, for an ack that is sent once. If sending fails, the message counts as not acknowledged."""
    mark_acked(msg)
    try:
        return send(msg, kind, **options)
    except BaseException:
        msg._ackd = False
        raise


async def await_publish(msg: Message, published: Awaitable[None]) -> None:
    """Awaits the publish that `send_once` returned. If it fails, the message counts as not acknowledged."""
    try:
        await published
    except BaseException:
        msg._ackd = False
        raise


def request_ack(msg: Message, timeout: float | None) -> Any:
    """Sends an ack as a request; returns the result of the `request` of the session or the client."""
    consumer = _consumer_of(msg)
    if consumer is not None:
        session, reply = consumer
        return session.request(reply, b"+ACK", timeout, None)
    if not msg.reply:
        raise NotJSMessageError
    return _client_of(msg).request(msg.reply, timeout=timeout)


def ack_with(msg: Any, kind: Enum | str, delay: float | timedelta | None, reason: str | None) -> Any:
    """Calls the ack method that `kind` names, and returns its result."""
    match msg._kind(kind).name:
        case "ACK":
            return msg.ack()
        case "NAK":
            return msg.nak(delay)
        case "PROGRESS":
            return msg.in_progress()
        case _:
            return msg.term(reason)
