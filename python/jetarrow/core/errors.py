"""Errors of the connection and of core NATS.

The classes, their names and their constructors are those of nats-py's `nats.errors`, so `except` clauses keep working.
Every class also takes an optional message, and every error can be pickled, as Spark and `multiprocessing` require.
JetStream's errors are in `jetarrow.js.errors`.
"""

from __future__ import annotations

import builtins
from typing import Any, ClassVar, TypeVar

from jetarrow.core.error_links import add_link
from jetarrow.core.redaction import redact

__all__ = [
    "AuthorizationError",
    "BadAddressError",
    "BadHeaderError",
    "BadSubjectError",
    "BadSubscriptionError",
    "BadTimeoutError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "ConnectionDrainingError",
    "ConnectionReconnectingError",
    "DrainTimeoutError",
    "Error",
    "FlushTimeoutError",
    "ForkError",
    "InvalidCallbackTypeError",
    "InvalidUserCredentialsError",
    "JsonParseError",
    "MaxPayloadError",
    "MsgAlreadyAckdError",
    "NoRespondersError",
    "NoServersError",
    "NotJSMessageError",
    "OutboundBufferLimitError",
    "PermissionsViolationError",
    "ProtocolError",
    "SecureConnFailedError",
    "SecureConnRequiredError",
    "SecureConnWantedError",
    "ServerNotInPoolError",
    "SlowConsumerError",
    "StaleConnectionError",
    "TimeoutError",
    "UnexpectedEOF",
    "UnsupportedError",
]

_E = TypeVar("_E", bound=BaseException)


def _rebuild(cls: type[_E], args: tuple[Any, ...], state: dict[str, Any]) -> _E:
    """Rebuilds a pickled error without its constructor, whose arguments may have been keywords."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def _portable(value: Any) -> Any:
    """The value, or its text if it cannot be pickled (a subscription, a message)."""
    import pickle

    try:
        pickle.dumps(value)
    except Exception:
        return redact(repr(value))
    return value


class Error(Exception):
    """The base class of jetarrow's errors.

    Args:
        message: The error text. Default: the text of the class.
    """

    _default: ClassVar[str] = "the operation failed"
    # Attributes that may hold an object of this process, which cannot always be pickled.
    _local: ClassVar[tuple[str, ...]] = ()

    message: str | None

    def __init__(self, message: str | None = None, *args: object) -> None:
        self._set_message(message, *args)

    def _set_message(self, message: str | None, *args: object) -> None:
        self.message = None if message is None else redact(str(message))
        # BaseException.__new__ has stored the text with its secrets: replace it.
        Exception.__init__(self, *args if self.message is None else (self.message, *args))

    def _describe(self) -> str:
        """The text of an error without a message."""
        return self._default

    def __str__(self) -> str:
        text = self.message or self._describe()
        return text if text.startswith("nats: ") else f"nats: {text}"

    def __reduce__(self) -> tuple[Any, ...]:
        args, state = self.args, dict(self.__dict__)
        if self._local:
            args = tuple(_portable(value) for value in args)
            state.update({name: _portable(state[name]) for name in self._local if name in state})
        return _rebuild, (type(self), args, state)


class TimeoutError(Error, builtins.TimeoutError):
    """The timeout of the call expired before an answer arrived. Also a builtin (and asyncio) `TimeoutError`."""

    _default = "timeout: no answer within the time allowed; retry, or pass a longer timeout="


class NoRespondersError(Error):
    """No subscription matches the subject of a request: the server answered 503 No Responders."""

    _default = (
        "no responders: the server answered 503, no subscription matches the subject; check it, or start the service"
    )


class StaleConnectionError(Error):
    """The server did not answer `max_outstanding_pings` pings, so the client closed the connection."""

    _default = "stale connection: the server did not answer pings; check the server and the network"


class OutboundBufferLimitError(Error):
    """The bytes queued while disconnected exceed `pending_size`."""

    _default = (
        "outbound buffer limit exceeded: pending_size bytes are queued; publish more slowly, or raise pending_size"
    )


class UnexpectedEOF(StaleConnectionError):
    """The server closed the connection without an error message."""

    _default = "unexpected EOF: the server closed the connection without an error message; see the server's log"


class FlushTimeoutError(TimeoutError):
    """The server did not confirm a flush (PONG) before its timeout."""

    _default = (
        "flush timeout: the server has not confirmed the flush; messages may or may not have arrived; retry the flush"
    )


class ConnectionClosedError(Error):
    """The connection is closed and does not reconnect."""

    _default = "connection closed: this client does not reconnect; connect again"


class SecureConnRequiredError(Error):
    """The server requires TLS."""

    _default = "secure connection required: the server accepts TLS only; pass tls= or use a tls:// address"


class SecureConnWantedError(Error):
    """The client requires TLS, and the server does not offer it."""

    _default = (
        "secure connection not available: the server does not offer TLS; enable it there, or connect without tls="
    )


class SecureConnFailedError(Error):
    """The TLS handshake failed: the client or the server rejected a certificate or its name.

    The error that `connect` raises is also an `ssl.SSLError`.
    """

    _default = "secure connection failed: the TLS handshake failed; check the certificates and the host name"


class BadSubscriptionError(Error):
    """The subscription is unsubscribed, drained or closed."""

    _default = "invalid subscription: it is unsubscribed, drained or closed; subscribe again"


class BadSubjectError(Error):
    """The subject is invalid: it is empty, contains white space, or has an empty token."""

    _default = "invalid subject: it must not be empty, contain white space or have an empty token between dots"


class BadHeaderError(Error):
    """A header name or value cannot be sent.

    Args:
        key: The name of the header. Default: unknown.
        message: The error text. Default: a general text with the name.
    """

    def __init__(self, key: str = "", *, message: str | None = None) -> None:
        self.key = key
        self._set_message(message, *(key,) if key else ())

    def _describe(self) -> str:
        return f"invalid header: {self.key!r}" if self.key else "invalid header"


class SlowConsumerError(Error):
    """A subscription's buffer was full, so messages were dropped.

    Args:
        subject: Subject of the dropped message.
        reply: Its reply subject.
        sid: The subscription's id.
        sub: The subscription.
        message: The error text. Default: made of the above.
    """

    _local = ("sub",)

    def __init__(self, subject: str, reply: str, sid: int, sub: Any, *, message: str | None = None) -> None:
        self.subject = subject
        self.reply = reply
        self.sid = sid
        self.sub = sub
        self._set_message(message, subject, reply, sid, sub)

    def _describe(self) -> str:
        return (
            f"slow consumer: messages on subject {self.subject!r} were dropped, because the buffer of subscription"
            f" {self.sid} was full (sub: {self.sub}); consume faster, or raise pending_msgs_limit"
            " and pending_bytes_limit"
        )


class BadTimeoutError(Error):
    """The timeout is not a positive number of seconds."""

    _default = "timeout invalid: it must be a positive number of seconds"


class AuthorizationError(Error):
    """The server rejected the credentials or the permission."""

    _default = "authorization failed: the server rejected the credentials; check user, password, token or creds file"


class PermissionsViolationError(Error):
    """The server rejected a publish or a subscription: the user has no permission for the subject.

    Args:
        message: The server's error text. Default: a general text.
        operation: `publish` or `subscription`. Default: unknown.
        subject: The subject of the operation. Default: unknown.
    """

    _default = "permissions violation: the user may not publish or subscribe to the subject; change its permissions"

    def __init__(self, message: str | None = None, *, operation: str | None = None, subject: str | None = None) -> None:
        self.operation = operation
        self.subject = subject
        self._set_message(message)


class BadAddressError(Error, ValueError):
    """A server address is invalid. Also a `ValueError`."""

    _default = "invalid connect url: use nats://host:port, tls://host:port, ws://host:port or wss://host:port"


class NoServersError(Error):
    """No server could be reached."""

    _default = "no servers available for connection: no address could be reached; check the addresses and the servers"


class ConnectTimeoutError(NoServersError, TimeoutError):
    """No server sent anything within `connect_timeout`."""


class JsonParseError(Error):
    """The server's INFO line is not JSON."""

    _default = "the server's INFO is not valid JSON: is this a NATS server's client port?"


class MaxPayloadError(Error):
    """The message, headers included, exceeds the server's `max_payload`."""

    _default = (
        "maximum payload exceeded: message and headers exceed the server's max_payload; split it, or raise max_payload"
    )


class DrainTimeoutError(TimeoutError):
    """Draining took longer than `drain_timeout`."""

    _default = "draining the connection timed out: some messages may be unprocessed; raise drain_timeout"


class ConnectionDrainingError(Error):
    """The connection is draining and accepts no new operations."""

    _default = "connection draining: it accepts no new operations; connect again"


class ConnectionReconnectingError(Error):
    """The client is disconnected and reconnecting."""

    _default = "connection reconnecting: the client is disconnected; retry after the reconnect"


class InvalidUserCredentialsError(Error):
    """The credentials cannot be read."""

    _default = "invalid user credentials: a JWT and an nkey seed are required, as in a .creds file of nsc"


class InvalidCallbackTypeError(Error):
    """A callback is not an `async def` function."""

    _default = "callbacks must be coroutine functions: define them with async def"


class ProtocolError(Error):
    """The server sent data that is not NATS protocol."""

    _default = "protocol error: the server sent data that is not NATS protocol; check the address and the port"


class ServerNotInPoolError(Error):
    """The server selected by `reconnect_to_server_handler` is not in the server pool."""

    _default = "the selected server is not in the pool of known servers; return one of the given servers"


class NotJSMessageError(Error):
    """A JetStream method (`ack`, `metadata` ...) was called on a message that no consumer delivered."""

    _default = "not a JetStream message: no consumer delivered it, so it has no metadata and cannot be acknowledged"


class MsgAlreadyAckdError(Error):
    """The message was already acknowledged with ack, nak or term.

    Args:
        msg: The message. Default: unknown.
        message: The error text. Default: a text with the message's subject.
    """

    _local = ("_msg",)

    def __init__(self, msg: Any = None, *, message: str | None = None) -> None:
        self._msg = msg
        self._set_message(message, *() if msg is None else (msg,))

    def _describe(self) -> str:
        text = "message was already acknowledged; send one ack, nak or term per message"
        # The subject only: payloads do not belong in logs.
        return text if self._msg is None else f"{text}: {getattr(self._msg, 'subject', self._msg)}"


class ForkError(Error):
    """A client connected before `os.fork()` was used in the child process."""

    _default = "this client was connected in the parent process, before a fork; connect again in the child process"


class UnsupportedError(Error):
    """A requirement of the feature is not met by the server, the stream or this machine.

    Args:
        feature: The requested feature.
        needs: Its requirement. Default: unknown.
        has: The present state. Default: unknown.
        message: The error text. Default: made of the three.
    """

    def __init__(
        self, feature: str, needs: str | None = None, has: str | None = None, *, message: str | None = None
    ) -> None:
        self.feature = feature
        self.needs = needs
        self.has = has
        self._set_message(message, feature, needs, has)

    def _describe(self) -> str:
        text = f"{self.feature} is not available here"
        if self.needs:
            text += f": it needs {self.needs}"
        return f"{text} ({self.has})" if self.has else text


# Tracebacks and pickles use the public module name.
for _name in __all__:
    globals()[_name].__module__ = "jetarrow.errors"
    add_link(globals()[_name])
