"""Errors of the connection and of core NATS.

The tree, the names and the constructors are those of nats-py's `nats.errors`, so `except` clauses carry
over. Two things are added: every class takes an optional message of its own, and every error can be pickled,
which Spark and `multiprocessing` need. JetStream's errors are in `jetarrow.js.errors`.
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
    """Unpickle an error without calling its constructor, whose arguments may have been keywords."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def _portable(value: Any) -> Any:
    """The value itself, or its text where it cannot leave this process (a subscription, a message)."""
    import pickle

    try:
        pickle.dumps(value)
    except Exception:
        return redact(repr(value))
    return value


class Error(Exception):
    """The base of every error that jetarrow raises on its own account.

    Args:
        message: What happened, in words. Default: a text that fits the class.
    """

    _default: ClassVar[str] = "the operation failed"
    # Attributes that may hold a live object of this process, hence cannot always be pickled.
    _local: ClassVar[tuple[str, ...]] = ()

    message: str | None

    def __init__(self, message: str | None = None, *args: object) -> None:
        self._set_message(message, *args)

    def _set_message(self, message: str | None, *args: object) -> None:
        self.message = None if message is None else redact(str(message))
        # Set again here: BaseException.__new__ kept the text as it came, secrets included.
        Exception.__init__(self, *args if self.message is None else (self.message, *args))

    def _describe(self) -> str:
        """The text where no message was given."""
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
    """No answer came in the time that the call was given. Also a builtin (and asyncio) `TimeoutError`."""

    _default = "timeout: no answer came in the time allowed; try again, or allow more with timeout="


class NoRespondersError(Error):
    """A request had nobody to answer it: no subscription matches its subject."""

    _default = "no responders: nobody listens on the subject of this request, so it cannot be answered"


class StaleConnectionError(Error):
    """The server stopped answering pings, so the connection was given up."""

    _default = "stale connection: the server no longer answers pings"


class OutboundBufferLimitError(Error):
    """More is waiting to be sent than `pending_size` allows."""

    _default = "outbound buffer limit exceeded: publish more slowly, or raise pending_size when connecting"


class UnexpectedEOF(StaleConnectionError):
    """The server ended the connection without a word."""

    _default = "unexpected EOF: the server ended the connection"


class FlushTimeoutError(TimeoutError):
    """A flush was not confirmed in time."""

    _default = "flush timeout: the server has not confirmed what was sent; it may or may not have arrived"


class ConnectionClosedError(Error):
    """The connection has been closed, for good."""

    _default = "connection closed: this client cannot be used any more; connect again"


class SecureConnRequiredError(Error):
    """The server takes TLS connections only."""

    _default = "secure connection required: the server takes TLS only; pass tls= or use a tls:// address"


class SecureConnWantedError(Error):
    """TLS was asked for, and the server has none."""

    _default = "secure connection not available: TLS was asked for, but the server does not offer it"


class SecureConnFailedError(Error):
    """The TLS handshake failed: a certificate or its name was refused, by us or by the server.

    What `connect` raises is an `ssl.SSLError`, too.
    """

    _default = "secure connection failed: the TLS handshake did not succeed; check certificates and host name"


class BadSubscriptionError(Error):
    """The subscription has ended, or never was valid."""

    _default = "invalid subscription: it has been unsubscribed, drained or closed"


class BadSubjectError(Error):
    """The subject cannot be used: empty, with white space, or with an empty token."""

    _default = "invalid subject: it must not be empty, hold white space or have an empty part between dots"


class BadHeaderError(Error):
    """A header name or value cannot be sent.

    Args:
        key: The name of the header. Default: unknown.
        message: What is wrong with it. Default: a general text with the name.
    """

    def __init__(self, key: str = "", *, message: str | None = None) -> None:
        self.key = key
        self._set_message(message, *(key,) if key else ())

    def _describe(self) -> str:
        return f"invalid header: {self.key!r}" if self.key else "invalid header"


class SlowConsumerError(Error):
    """A subscription's buffer was full, and messages for it were dropped.

    Args:
        subject: Subject of the message that was dropped.
        reply: Its reply subject.
        sid: The number of its subscription.
        sub: The subscription.
        message: What happened. Default: a text made of the above.
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
            f"slow consumer: messages on subject {self.subject!r} were dropped, because subscription"
            f" {self.sid} is read too slowly (sub: {self.sub}); read faster, or raise pending_msgs_limit"
            " and pending_bytes_limit"
        )


class BadTimeoutError(Error):
    """The timeout is not a positive number of seconds."""

    _default = "timeout invalid: it must be a positive number of seconds"


class AuthorizationError(Error):
    """The server refused the credentials, or the permission."""

    _default = "authorization failed: the server refused the credentials or the permission"


class PermissionsViolationError(Error):
    """The server refused a publish or a subscription: this user has no permission for it.

    Args:
        message: The server's words. Default: a general text.
        operation: `publish` or `subscription`. Default: unknown.
        subject: What it was for. Default: unknown.
    """

    _default = "permissions violation: this user may not publish, or subscribe, to the subject"

    def __init__(self, message: str | None = None, *, operation: str | None = None, subject: str | None = None) -> None:
        self.operation = operation
        self.subject = subject
        self._set_message(message)


class BadAddressError(Error, ValueError):
    """A server address cannot be understood. Also a `ValueError`."""

    _default = "invalid connect url: use nats://host:port, tls://host:port, ws://host:port or wss://host:port"


class NoServersError(Error):
    """None of the servers could be reached."""

    _default = "no servers available for connection: none of the given addresses could be reached"


class ConnectTimeoutError(NoServersError, TimeoutError):
    """None of the servers said anything within `connect_timeout`."""


class JsonParseError(Error):
    """The server's INFO line is not JSON."""

    _default = "the server's INFO is not valid JSON: is this a NATS server's client port?"


class MaxPayloadError(Error):
    """The message, headers included, is larger than the server takes."""

    _default = "maximum payload exceeded: with its headers the message is larger than the server takes"


class DrainTimeoutError(TimeoutError):
    """Draining took longer than `drain_timeout`."""

    _default = "draining the connection timed out: some messages may be left unhandled; see drain_timeout"


class ConnectionDrainingError(Error):
    """The connection is draining and takes nothing new."""

    _default = "connection draining: it finishes what it has and takes nothing new"


class ConnectionReconnectingError(Error):
    """The connection is lost at the moment and being made again."""

    _default = "connection reconnecting: try again when it is back"


class InvalidUserCredentialsError(Error):
    """The credentials cannot be read."""

    _default = "invalid user credentials: a JWT and an nkey seed are needed, as in the .creds files of nsc"


class InvalidCallbackTypeError(Error):
    """A callback is not an `async def` function."""

    _default = "callbacks must be coroutine functions: define them with async def"


class ProtocolError(Error):
    """The server sent something that is not NATS protocol."""

    _default = "protocol error: the server sent something that is not NATS protocol"


class ServerNotInPoolError(Error):
    """The chosen server is not among those the client knows."""

    _default = "the selected server is not in the pool of known servers"


class NotJSMessageError(Error):
    """A JetStream verb (`ack`, `metadata` ...) was used on a message that no stream delivered."""

    _default = "not a JetStream message: it was not delivered by a consumer, so it has no metadata or acks"


class MsgAlreadyAckdError(Error):
    """The message has had its final acknowledgement.

    Args:
        msg: The message. Default: unknown.
        message: What happened. Default: a text that names the message.
    """

    _local = ("_msg",)

    def __init__(self, msg: Any = None, *, message: str | None = None) -> None:
        self._msg = msg
        self._set_message(message, *() if msg is None else (msg,))

    def _describe(self) -> str:
        text = "message was already acknowledged; one message takes one ack, nak or term"
        # Its subject: a payload is not for a log.
        return text if self._msg is None else f"{text}: {getattr(self._msg, 'subject', self._msg)}"


class ForkError(Error):
    """A client made before `os.fork()` was used in the child process."""

    _default = "this client was connected in the parent process; after a fork, connect again in the child"


class UnsupportedError(Error):
    """Something is missing that the feature needs: in the server, in the stream, or on this machine.

    Args:
        feature: What was asked for.
        needs: What it needs. Default: unknown.
        has: What there is instead. Default: unknown.
        message: The whole text. Default: made of the three.
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


# Tracebacks and pickles name the public path.
for _name in __all__:
    globals()[_name].__module__ = "jetarrow.errors"
    add_link(globals()[_name])
