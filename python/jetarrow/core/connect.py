"""Connecting, draining and closing."""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from jetarrow import _jetarrow
from jetarrow.core import options as _options
from jetarrow.core.arguments import DEFAULT_SERVERS
from jetarrow.core.at_exit import register_connection
from jetarrow.core.context_files import load, merge
from jetarrow.core.errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    Error,
)
from jetarrow.core.events import Callback, ErrorCallback
from jetarrow.core.options import (
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_DRAIN_TIMEOUT,
    DEFAULT_INBOX_PREFIX,
    DEFAULT_MAX_FLUSHER_QUEUE_SIZE,
    DEFAULT_MAX_OUTSTANDING_PINGS,
    DEFAULT_MAX_RECONNECT_ATTEMPTS,
    DEFAULT_PENDING_SIZE,
    DEFAULT_PING_INTERVAL,
    DEFAULT_RECONNECT_TIME_WAIT,
    CredentialCallback,
    Credentials,
    JWTCallback,
    SignatureCallback,
    TokenCallback,
)
from jetarrow.core.publish import DEFAULT_FLUSH_TIMEOUT
from jetarrow.core.servers import ReconnectToServerHandler
from jetarrow.core.session import Session
from jetarrow.core.tls import TLS

# Seconds that `close` waits for the answers to messages published to streams.
LAST_ACKS_TIMEOUT = 2.0
# The same where the program was interrupted: Ctrl-C ends it within one second.
INTERRUPTED_ACKS_TIMEOUT = 0.3
# Seconds that `close` gives the callbacks for messages that have come.
LAST_CALLBACKS_TIMEOUT = 2.0


def _is_interruption(kind: type[BaseException] | None) -> bool:
    """True for Ctrl-C, a cancellation and the like: the caller does not wait any longer."""
    return kind is not None and not issubclass(kind, Exception)


class Connect:
    """The verbs `connect`, `drain` and `close` of a client, and what they need."""

    _session: Session

    async def connect(
        self,
        servers: str | list[str] = DEFAULT_SERVERS,
        error_cb: ErrorCallback | None = None,
        disconnected_cb: Callback | None = None,
        closed_cb: Callback | None = None,
        discovered_server_cb: Callback | None = None,
        reconnected_cb: Callback | None = None,
        name: str | None = None,
        pedantic: bool = False,
        verbose: bool = False,
        allow_reconnect: bool = True,
        connect_timeout: float | None = DEFAULT_CONNECT_TIMEOUT,
        reconnect_time_wait: float = DEFAULT_RECONNECT_TIME_WAIT,
        max_reconnect_attempts: int = DEFAULT_MAX_RECONNECT_ATTEMPTS,
        ping_interval: float = DEFAULT_PING_INTERVAL,
        max_outstanding_pings: int = DEFAULT_MAX_OUTSTANDING_PINGS,
        dont_randomize: bool = False,
        flusher_queue_size: int = DEFAULT_MAX_FLUSHER_QUEUE_SIZE,
        no_echo: bool = False,
        tls: ssl.SSLContext | TLS | None = None,
        tls_hostname: str | None = None,
        tls_handshake_first: bool = False,
        user: str | CredentialCallback | None = None,
        password: str | CredentialCallback | None = None,
        token: str | TokenCallback | None = None,
        drain_timeout: float = DEFAULT_DRAIN_TIMEOUT,
        signature_cb: SignatureCallback | None = None,
        user_jwt_cb: JWTCallback | None = None,
        user_credentials: Credentials | None = None,
        nkeys_seed: str | None = None,
        nkeys_seed_str: str | None = None,
        inbox_prefix: str | bytes = DEFAULT_INBOX_PREFIX,
        pending_size: int = DEFAULT_PENDING_SIZE,
        flush_timeout: float | None = None,
        ws_connection_headers: Mapping[str, list[str]] | None = None,
        reconnect_to_server_handler: ReconnectToServerHandler | None = None,
        lame_duck_mode_cb: Callback | None = None,
        skip_subject_validation: bool = False,
        loop: object = None,
        *,
        context: str | bool | None = None,
    ) -> None:
        """Connects to the first server that answers.

        Every server is tried once; with `max_reconnect_attempts` below 0 again and again until one answers.

        Args:
            servers: One address, several separated by commas, or a list: `nats://host:port`, `ws://` and `wss://` for
                WebSocket, `tls://` for TLS, which is then never left out, not for the other servers either.
            error_cb: Called with each error that no call raises, failed attempts to connect among them. Without it
                they go to the log "jetarrow". All callbacks are coroutine functions, and run one after the other.
            disconnected_cb: Called once for each time that the connection breaks.
            reconnected_cb: Called once for each time that it is back.
            closed_cb: Called at the end, after `disconnected_cb`.
            discovered_server_cb: Called when a server announces new ones.
            lame_duck_mode_cb: Called when the server is about to shut down.
            name: Shown by the server's monitoring.
            allow_reconnect: False closes the connection at the first break.
            connect_timeout: Seconds for one attempt at one server; None waits as long as it takes.
            reconnect_time_wait: Seconds between two attempts at a server, up to a tenth more; the first is at once.
            max_reconnect_attempts: Failed attempts at one server until it is given up; the connection is closed when
                all are. 0 or less is never.
            ping_interval: Seconds between pings, which go out so that the server says something.
            max_outstanding_pings: The connection is given up after this many intervals in which the server said
                nothing.
            dont_randomize: Try the servers in the given order.
            no_echo: The server does not send us our own messages.
            tls: Trust roots, verification and host check are taken from an `ssl.SSLContext`. A client certificate
                cannot be read out of one: use `jetarrow.TLS`. TLS is then never left out.
            tls_hostname: The name that the server's certificate must carry, instead of the address's host.
            tls_handshake_first: TLS begins before the server's first word; the server must be set so as well.
            user: A string or a function; or as `nats://user:password@host`.
            password: Likewise.
            token: A string or a function; or as `nats://token@host`.
            user_credentials: Path of a credentials file, (JWT file, seed file), or `RawCredentials`. Read again at each
                reconnect.
            nkeys_seed: Path of a file with an nkey seed.
            nkeys_seed_str: The seed itself.
            user_jwt_cb: Returns the user's JWT. It, and the other functions, must not block.
            signature_cb: Called with the server's nonce, returns it signed (base64).
            inbox_prefix: First tokens of the subjects that answers come to.
            drain_timeout: Seconds that `drain()` gives the subscriptions.
            pending_size: Bytes of whole messages, requests among them, that are queued while there is no connection.
            reconnect_to_server_handler: Called with the servers and the last INFO, returns the server to try (None: the
                first) and the seconds to wait before.
            pedantic: nats-py's, without effect.
            verbose: nats-py's, without effect.
            flusher_queue_size: nats-py's, without effect.
            flush_timeout: nats-py's, without effect.
            skip_subject_validation: True takes the subjects of `publish`, `request` and `subscribe` as they are, where
                they are one word on a line of the protocol (no white space, no control characters).
            loop: nats-py's, without effect.
            ws_connection_headers: Headers of the request that opens a WebSocket, by name, each with its values.
            context: A context of the `nats` tool, by name: its servers, credentials, TLS and JetStream domain count
                where no option here gives them. True is the one of $NATS_CONTEXT, else the selected one.

        Raises:
            NoServersError: No server could be reached; the text names them and the causes.
            AuthorizationError: A server refused the credentials.
            SecureConnFailedError: The TLS handshake failed.
            SecureConnWantedError: TLS was asked for, and the server has none.
            InvalidUserCredentialsError: The credentials cannot be used.
            FileNotFoundError: The file of the credentials is not there, or there is no such context.
            InvalidCallbackTypeError: A callback is not a coroutine function.
            BadAddressError: An address cannot be understood.
            ValueError: An option has a value that cannot be used.
            TypeError: An option is of a wrong type.
            UnsupportedError: The context holds what we have not.
        """
        given = locals()
        del given["self"], given["loop"]
        await self._open(given)

    async def _open(self, given: dict[str, Any]) -> None:
        session = self._session
        callbacks = {name: given.pop(name) for name in _options.CALLBACKS}
        context = given["context"]
        if session.connection is not None and not session.connection.is_closed:
            raise Error("nats: already connected: close() first, or use another client")
        if context:
            found = load(None if context is True else context)
            merge(given, found)
            session.jetstream_options = found.jetstream
        notices = session.begin(callbacks)
        functions = _options.UserFunctions(session.enqueue_event)
        call = _jetarrow.connect(_options.native_options(given, functions), notices)
        session.tls, session.options = given["tls"], _options.without_secrets(given)
        session.drain_timeout = given["drain_timeout"]
        session.connecting, session.closed = True, False
        try:
            session.connection = session.last_connection = await session.run(call, lambda late: late.close())
            register_connection(session.connection)
        except Exception as error:
            await session.wait_for_callbacks()
            session.failure = functions.failure or error
            if functions.failure is not None:
                raise functions.failure from None
            raise
        finally:
            session.connecting = False

    async def drain(self) -> None:
        """Ends all subscriptions, waits until their messages are processed, sends what is queued, and closes.

        Subscriptions that take longer than `drain_timeout` (30 seconds unless `connect` sets another time) are given
        up, and the error callback gets DrainTimeoutError.

        Raises:
            ConnectionClosedError: The connection is closed.
            ConnectionReconnectingError: The link is down.
        """
        session = self._session
        if session.draining:
            return
        if session.is_closed:
            raise ConnectionClosedError
        if not session.native.is_connected:
            raise ConnectionReconnectingError
        subs = list(session.subscriptions.values())
        session.draining = "subs"
        try:
            await session.drain(subs)
            session.draining = "pubs"
            await session.run(session.native.flush(DEFAULT_FLUSH_TIMEOUT))
        except Error as error:
            session.report_error(error)
        except BaseException:
            # Ctrl-C, or cancelled: the caller does not wait any longer.
            await self._close(hurry=True)
            raise
        finally:
            session.draining = "pubs"
            # They had their time.
            await self._close(callbacks=0.0)
            session.draining = ""

    async def close(self) -> None:
        """Sends what is queued, then closes the connection, and returns after `closed_cb`.

        Messages that have come are still handed out: to callbacks before the connection ends (those that take longer
        than 2 seconds are cancelled; `drain` waits longer), to iteration and `next_msg` also after it. A second call
        does nothing. While Ctrl-C or a cancellation is handled, as in a `finally`, it takes at most a second: what a
        server that stands still has not taken by then is not sent.
        """
        await self._close(hurry=_is_interruption(sys.exc_info()[0]))

    async def _close(self, *, hurry: bool = False, callbacks: float = LAST_CALLBACKS_TIMEOUT) -> None:
        session = self._session
        connection = session.connection
        if connection is None or (session.closed and not hurry):
            session.closed = session.closed or not session.connecting
            return
        session.closed = True
        try:
            # The link is still there: callbacks may answer, and acknowledge.
            await session.deliver_pending(list(session.subscriptions.values()), 0.0 if hurry else callbacks)
        except BaseException:
            # Cancelled: the next call closes.
            session.closed = False
            raise
        session.connection = None
        # What was published in this turn of the loop goes out at its end.
        await session.sleep(0)
        deadline = time.monotonic() + INTERRUPTED_ACKS_TIMEOUT
        for publisher in list(session.publishers):
            # Their futures can still say what became of the messages.
            if publisher.is_usable_here() and connection.is_connected:
                await publisher.wait_for_acks(max(deadline - time.monotonic(), 0) if hurry else LAST_ACKS_TIMEOUT)
        await session.deliver_pending(list(session.subscriptions.values()), 0.0)
        session.subscriptions.clear()
        session.hold_events()
        try:
            await session.run(connection.close(hurry))
        finally:
            await session.wait_for_callbacks()

    def set_server_pool(self, servers: list[str]) -> None:
        """Puts another list of servers in the place of the present one.

        It counts from the next reconnect on; while there is no connection, from the one after it.

        Args:
            servers: Addresses, as for `connect`.

        Raises:
            BadAddressError: An address cannot be understood; nothing was changed.
            ConnectionClosedError: The connection is closed.
        """
        if self._session.is_closed:
            raise ConnectionClosedError
        self._session.native.set_server_pool(_options.server_list(servers))

    async def force_reconnect(self) -> None:
        """Drops the link and reconnects, to another server where there are several.

        Does nothing while there is no connection, or where `allow_reconnect` is False.
        """
        session = self._session
        if session.connection is not None and not session.connection.is_closed:
            await session.run(session.connection.force_reconnect())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(hurry=_is_interruption(kind))
