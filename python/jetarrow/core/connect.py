"""The client methods `connect`, `drain` and `close`."""

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
    DEFAULT_RECONNECT_JITTER,
    DEFAULT_RECONNECT_JITTER_TLS,
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
from jetarrow.core.suggestions import suggests_keywords_async
from jetarrow.core.tls import TLS
from jetarrow.core.weak_sets import members

# Seconds that `close` waits for the acks of messages published to streams.
LAST_ACKS_TIMEOUT = 2.0
# The same if the program was interrupted: Ctrl-C has to end it within one second.
INTERRUPTED_ACKS_TIMEOUT = 0.3
# Seconds that `close` waits for the callbacks of received messages.
LAST_CALLBACKS_TIMEOUT = 2.0


def _is_interruption(kind: type[BaseException] | None) -> bool:
    """Whether the exception is Ctrl-C, a cancellation or similar, so that the caller does not wait."""
    return kind is not None and not issubclass(kind, Exception)


class Connect:
    """The methods `connect`, `drain`, `close`, `set_server_pool` and `force_reconnect` of a client."""

    _session: Session

    @suggests_keywords_async
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
        reconnect_jitter: float = DEFAULT_RECONNECT_JITTER,
        reconnect_jitter_tls: float = DEFAULT_RECONNECT_JITTER_TLS,
        ignore_discovered_servers: bool = False,
    ) -> None:
        """Connects to the first server that answers.

        Each server is tried once. If `max_reconnect_attempts` is below 0, the servers are tried until one answers.

        Args:
            servers: One address, several separated by commas, or a list: `nats://host:port`, `ws://` and `wss://` for
                WebSocket, `tls://` for TLS. One `tls://` address makes TLS required for all servers.
            error_cb: Called with each error that no call raises, failed connection attempts included. Without it,
                errors are logged by the logger "jetarrow". All callbacks are coroutine functions and run one at a time.
            disconnected_cb: Called after each disconnect.
            reconnected_cb: Called after each reconnect.
            closed_cb: Called when the connection is closed, after `disconnected_cb`.
            discovered_server_cb: Called when a server announces new ones.
            lame_duck_mode_cb: Called when the server announces its shutdown (lame duck mode).
            name: Client name, shown by the server's monitoring.
            allow_reconnect: False closes the connection at the first disconnect.
            connect_timeout: Seconds for one attempt at one server; None has no limit.
            reconnect_time_wait: Seconds between two attempts at one server, plus the jitter. The first attempt has no
                delay.
            reconnect_jitter: Most seconds of a random addition to `reconnect_time_wait`, so that the clients of a
                restarted server spread.
            reconnect_jitter_tls: The same for connections with TLS.
            ignore_discovered_servers: Use only the given servers, and not those that they announce.
            max_reconnect_attempts: Failed attempts after which a server is removed from the pool. The connection is
                closed when the pool is empty. 0 or less has no limit.
            ping_interval: Seconds between pings.
            max_outstanding_pings: Number of ping intervals without data from the server after which the client
                disconnects.
            dont_randomize: Try the servers in the given order.
            no_echo: The server does not send the client its own messages.
            tls: Requires TLS. An `ssl.SSLContext` provides trusted CAs, verification and host name check. Its client
                certificate cannot be read: use `jetarrow.TLS` for one.
            tls_hostname: Host name that the server's certificate must have, instead of the address's host.
            tls_handshake_first: The TLS handshake precedes the server's INFO; the server needs the same setting.
            user: A string or a function; or as `nats://user:password@host`.
            password: Likewise.
            token: A string or a function; or as `nats://token@host`.
            user_credentials: Path of a credentials file, (JWT file, seed file), or `RawCredentials`. Files are read
                again at each reconnect.
            nkeys_seed: Path of a file with an nkey seed.
            nkeys_seed_str: The seed itself.
            user_jwt_cb: Returns the user's JWT. Like the other functions, it must not block.
            signature_cb: Called with the server's nonce, returns it signed (base64).
            inbox_prefix: First tokens of reply subjects.
            drain_timeout: Maximum seconds that `drain()` waits for the subscriptions.
            pending_size: Maximum bytes of messages and requests that are queued while disconnected.
            reconnect_to_server_handler: Called with the servers and the last INFO; returns the server to try (None: the
                first) and the seconds to wait before the attempt.
            pedantic: nats-py's, without effect.
            verbose: nats-py's, without effect.
            flusher_queue_size: nats-py's, without effect.
            flush_timeout: nats-py's, without effect.
            skip_subject_validation: True skips the checks of subjects in `publish`, `request` and `subscribe`, except
                the check for white space and control characters.
            loop: nats-py's, without effect.
            ws_connection_headers: Headers of the request that opens a WebSocket, by name, each with its values.
            context: Name of a context of the `nats` tool. Its servers, credentials, TLS and JetStream domain are used
                unless an option here sets them. True is the context of $NATS_CONTEXT, else the selected one.

        Raises:
            NoServersError: No server could be reached; the text has the addresses and the causes.
            AuthorizationError: A server rejected the credentials.
            SecureConnFailedError: The TLS handshake failed.
            SecureConnWantedError: TLS is required, and the server does not offer it.
            InvalidUserCredentialsError: The credentials are invalid.
            FileNotFoundError: The credentials file or the context does not exist.
            InvalidCallbackTypeError: A callback is not a coroutine function.
            BadAddressError: An address is invalid.
            ValueError: An option has an invalid value.
            TypeError: An option has a wrong type.
            UnsupportedError: The context has a field that jetarrow does not support.
        """
        given = locals()
        del given["self"], given["loop"]
        await self._open(given)

    async def _open(self, given: dict[str, Any]) -> None:
        session = self._session
        callbacks = {name: given.pop(name) for name in _options.CALLBACKS}
        context = given["context"]
        if session.connection is not None and not session.connection.is_closed:
            raise Error("nats: already connected: call close() first, or use another client")
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
        """Drains all subscriptions, flushes queued messages, and closes the connection.

        A drain waits until received messages are processed. Subscriptions that exceed `drain_timeout` (default 30
        seconds) are cancelled, and the error callback receives a DrainTimeoutError.

        Raises:
            ConnectionClosedError: The connection is closed.
            ConnectionReconnectingError: The client is disconnected.
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
            # Ctrl-C or a cancellation: do not wait.
            await self._close(hurry=True)
            raise
        finally:
            session.draining = "pubs"
            # The callbacks have had `drain_timeout` seconds.
            await self._close(callbacks=0.0)
            session.draining = ""

    async def close(self) -> None:
        """Flushes queued messages, closes the connection, and returns after `closed_cb`.

        Received messages are still delivered: to callbacks before the connection closes (callbacks that take longer
        than 2 seconds are cancelled; `drain` waits longer), to iteration and `next_msg` also afterwards. A second call
        does nothing. While Ctrl-C or a cancellation is handled, for example in a `finally`, it takes at most one
        second; messages not yet written to the socket are discarded then.
        """
        await self._close(hurry=_is_interruption(sys.exc_info()[0]))

    async def _close(self, *, hurry: bool = False, callbacks: float | None = None) -> None:
        session = self._session
        connection = session.connection
        if connection is None or (session.closed and not hurry):
            session.closed = session.closed or not session.connecting
            return
        session.closed = True
        try:
            # Still connected: callbacks may reply and acknowledge.
            wait = LAST_CALLBACKS_TIMEOUT if callbacks is None else callbacks
            await session.deliver_pending(list(session.subscriptions.values()), 0.0 if hurry else wait)
        except BaseException:
            # Cancelled: the next call of `close` closes the connection.
            session.closed = False
            raise
        session.connection = None
        try:
            await self._close_native(connection, hurry)
        except BaseException:
            # As above, unless a new connection was opened meanwhile.
            if not connection.is_closed and session.connection is None and not session.connecting:
                session.connection, session.closed = connection, False
            raise

    async def _close_native(self, connection: _jetarrow.Connection, hurry: bool) -> None:
        """Waits for acks, closes the connection, and waits for the callbacks of its events."""
        session = self._session
        # Messages published in this turn of the loop are enqueued at its end.
        await session.sleep(0)
        deadline = time.monotonic() + INTERRUPTED_ACKS_TIMEOUT
        for publisher in members(session.publishers):
            # Their futures can still be resolved.
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
        """Replaces the server pool.

        It is used from the next reconnect on; while a reconnect is in progress, from the one after it.

        Args:
            servers: Addresses, as for `connect`.

        Raises:
            BadAddressError: An address is invalid; the pool is unchanged.
            ConnectionClosedError: The connection is closed.
        """
        if self._session.is_closed:
            raise ConnectionClosedError
        self._session.native.set_server_pool(_options.server_list(servers))

    async def force_reconnect(self) -> None:
        """Disconnects and reconnects, to another server if the pool has several.

        Does nothing while disconnected, or if `allow_reconnect` is False.
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
