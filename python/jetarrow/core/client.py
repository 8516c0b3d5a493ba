"""The connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg as Msg

# What is imported as itself (`X as X`), nats-py has here, too.
from jetarrow.core import errors as errors
from jetarrow.core import options as _options
from jetarrow.core.at_exit import watch
from jetarrow.core.errors import ConnectionClosedError, Error
from jetarrow.core.errors import InvalidUserCredentialsError as ErrInvalidUserCredentials
from jetarrow.core.errors import StaleConnectionError as ErrStaleConnection
from jetarrow.core.events import Callback, ErrorCallback, Events, check_callbacks
from jetarrow.core.messaging import DEFAULT_FLUSH_TIMEOUT, Messaging
from jetarrow.core.nuid import NUID as NUID
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
from jetarrow.core.servers import RawCredentials, ReconnectToServerHandler, Server, ServerVersion, Srv
from jetarrow.core.session import bridge_of
from jetarrow.core.subscription import DEFAULT_SUB_PENDING_BYTES_LIMIT as DEFAULT_SUB_PENDING_BYTES_LIMIT
from jetarrow.core.subscription import DEFAULT_SUB_PENDING_MSGS_LIMIT as DEFAULT_SUB_PENDING_MSGS_LIMIT
from jetarrow.core.subscription import Subscription as Subscription
from jetarrow.core.tls import TLS

if TYPE_CHECKING:
    from jetarrow.jetstream.context import JetStreamContext
    from jetarrow.jetstream.manager import JetStreamManager

__all__ = [
    "DEFAULT_CONNECT_TIMEOUT",
    "DEFAULT_DRAIN_TIMEOUT",
    "DEFAULT_FLUSH_TIMEOUT",
    "DEFAULT_INBOX_PREFIX",
    "DEFAULT_MAX_FLUSHER_QUEUE_SIZE",
    "DEFAULT_MAX_OUTSTANDING_PINGS",
    "DEFAULT_MAX_RECONNECT_ATTEMPTS",
    "DEFAULT_PENDING_SIZE",
    "DEFAULT_PING_INTERVAL",
    "DEFAULT_RECONNECT_TIME_WAIT",
    "Callback",
    "Client",
    "CredentialCallback",
    "Credentials",
    "ErrInvalidUserCredentials",
    "ErrStaleConnection",
    "ErrorCallback",
    "JWTCallback",
    "RawCredentials",
    "ReconnectToServerHandler",
    "Server",
    "ServerVersion",
    "SignatureCallback",
    "Srv",
    "TokenCallback",
]

# Seconds that `close` waits for the answers to messages published to streams.
ACK_PATIENCE = 2.0


class Client(Messaging):
    """A connection to NATS, shared by everything that is made from it.

    Make one with `jetarrow.connect`, or with `Client()` and then `await nc.connect(...)`. Use it with `async with`, or
    call `close()` at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._connection: _jetarrow.Connection | None = None
        # Kept after the end, for what can still be asked.
        self._last: _jetarrow.Connection | None = None
        self._events: Events | None = None
        self._notices: _jetarrow.Notices | None = None
        self._connecting = False
        self._closed = False
        self._given_tls: ssl.SSLContext | TLS | None = None
        self.options: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<nats client v{_jetarrow.__version__}>"

    async def connect(
        self,
        servers: str | list[str] = "nats://localhost:4222",
        error_cb: ErrorCallback | None = None,
        disconnected_cb: Callback | None = None,
        closed_cb: Callback | None = None,
        discovered_server_cb: Callback | None = None,
        reconnected_cb: Callback | None = None,
        name: str | None = None,
        pedantic: bool = False,
        verbose: bool = False,
        allow_reconnect: bool = True,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
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
    ) -> None:
        """Connects to the first server that answers.

        Every server is tried once; with `max_reconnect_attempts` below 0 again and again until one answers.

        Parameters:
            servers: one address, several separated by commas, or a list: `nats://host:port`, `ws://` and `wss://` for
                WebSocket, `tls://` for TLS, which is then never left out, not for the other servers either.
            error_cb: called with each error that nobody waits for, failed attempts to connect among them. Without it
                they go to the log "jetarrow". All callbacks are coroutine functions, and run one after the other.
            disconnected_cb, reconnected_cb: called once for each break, and each way back.
            closed_cb: called at the end, after `disconnected_cb`.
            discovered_server_cb: called when a server told about others that are new.
            lame_duck_mode_cb: called when the server is about to shut down.
            name: shown by the server's monitoring.
            allow_reconnect: False closes the connection at the first break.
            connect_timeout: seconds for one attempt at one server.
            reconnect_time_wait: most seconds between two attempts at a server: the first is at once, then the waits
                double, spread by a fifth.
            max_reconnect_attempts: failed attempts at one server until it is given up; the connection is closed when
                all are. 0 or less is never.
            ping_interval, max_outstanding_pings: the connection is given up after this many intervals (seconds) in
                which the server said nothing. Pings go out so that it does say something.
            dont_randomize: try the servers in the given order.
            no_echo: the server does not send us our own messages.
            tls: trust roots, verification and host check are taken from an `ssl.SSLContext`. A client certificate
                cannot be read out of one: use `jetarrow.TLS`. TLS is then never left out.
            tls_hostname: the name that the server's certificate must carry, instead of the address's host.
            tls_handshake_first: TLS begins before the server's first word; the server must be set so as well.
            user, password: strings or functions; or as `nats://user:password@host`.
            token: a string or a function; or as `nats://token@host`.
            user_credentials: path of a credentials file, (JWT file, seed file), or `RawCredentials`. Read again at
                each reconnect.
            nkeys_seed, nkeys_seed_str: path of a file with an nkey seed, or the seed.
            user_jwt_cb, signature_cb: functions that return the user's JWT, and the server's nonce signed (base64).
                They, and the other functions, must not block.
            inbox_prefix: first tokens of the subjects that answers come to.
            drain_timeout: seconds that `drain()` gives the subscriptions.
            pending_size: bytes that may be published while there is no connection.
            reconnect_to_server_handler: called with the servers and the last INFO, returns the server to try (None: the
                first) and the seconds to wait before.
            pedantic, verbose, flusher_queue_size, flush_timeout, skip_subject_validation, loop: nats-py's, without
                effect: subjects are always checked.
            ws_connection_headers: cannot be sent.

        Raises:
            NoServersError: no server could be reached; the text names them and the causes.
            AuthorizationError: a server refused the credentials.
            SecureConnFailedError, SecureConnWantedError: TLS failed, or the server has none.
            InvalidUserCredentialsError, FileNotFoundError: credentials that cannot be used, or read.
            InvalidCallbackTypeError: a callback is not a coroutine function.
            BadAddressError, ValueError, TypeError: an address or an option cannot be understood.
            UnsupportedError: `ws_connection_headers` was given.
        """
        given = locals()
        del given["self"], given["loop"]
        await self._open(given)

    async def _open(self, given: dict[str, Any]) -> None:
        callbacks = {name: given.pop(name) for name in _options.CALLBACKS}
        if self._connection is not None and not self._connection.is_closed:
            raise Error("nats: already connected: close() first, or use another client")
        events, notices = None, None
        if not self._blocks:
            check_callbacks(callbacks)
            events = Events(callbacks)
            notices = _jetarrow.Notices(events.tell, bridge_of(asyncio.get_running_loop()))
        elif used := [name for name, callback in callbacks.items() if callback]:
            raise TypeError(f"{used[0]}: the blocking client runs no callbacks; use jetarrow.connect for them")
        caller = _options.Caller(events)
        call = _jetarrow.connect(_options.native(given, caller), notices)
        self._events, self._notices, self._given_tls = events, notices, given["tls"]
        self._drain_timeout, self._pending_size = given["drain_timeout"], given["pending_size"]
        self.options = _options.public(given)
        self._connecting, self._closed = True, False
        try:
            self._connection = self._last = await self._run(call, lambda late: late.close())
            watch(self._connection)
        except Exception as error:
            await self._settle()
            self._failure = caller.failure or error
            if caller.failure is not None:
                raise caller.failure from None
            raise
        finally:
            self._connecting = False

    async def _settle(self) -> None:
        """Lets the callbacks run for all that has happened so far."""
        if self._events is not None and self._notices is not None:
            self._notices.deliver()
            await self._events.settle()

    def _seen(self) -> _jetarrow.Connection | None:
        return self._connection or self._last

    @property
    def _phase(self) -> str:
        return "closed" if self._closed else self._draining or ("connecting" if self._connecting else "")

    @property
    def _error(self) -> Exception | None:
        return self._failure or (None if self._events is None else self._events.last_error)

    def _tls(self) -> ssl.SSLContext | TLS | None:
        return self._given_tls

    def _ack(self, reply: str, kind: str, **options: Any) -> Any:
        """What a message's ack verbs call; the sync twin blocks here."""
        return self._send_ack(reply, kind, **options)

    async def _send_ack(self, reply: str, kind: str, *, confirm: float | None = None, **options: Any) -> None:
        if confirm is None:
            self._native.ack_one(self._loop(), reply, kind, **options)
        else:
            await self._run(self._native.ack([reply], kind, confirm=confirm))

    def jetstream(self, **options: Any) -> JetStreamContext:
        """A JetStream context on this connection. No request is made.

        Parameters:
            prefix (or api_prefix): first tokens of the API's subjects, default `$JS.API`.
            domain: JetStream domain, instead of a prefix.
            timeout: seconds an API request, or a `publish`, may take, default 5.
            publish_async_max_pending (or max_ack_inflight): most unanswered messages of `publish` and
                `publish_async` together, default 5000.
            backpressure_on_inflight: at that limit `publish_async` waits; False raises `MaxAckPendingError`.
            ack_timeout: seconds until a `publish_async` without an answer fails, default 30.

        Raises:
            TypeError: unknown option, or both `prefix` and `domain`.
        """
        from jetarrow.jetstream.context import JetStreamContext

        return JetStreamContext(self, **options)

    def jsm(self, **options: Any) -> JetStreamManager:
        """Management of JetStream on this connection. No request is made.

        Parameters:
            prefix, timeout: as `jetstream`.
        """
        from jetarrow.jetstream.manager import JetStreamManager

        return JetStreamManager(self, **options)

    async def jetstream_manager(self, /, check_api: bool = True, **options: Any) -> JetStreamContext:
        """As `jetstream`, once it is sure that JetStream answers.

        Parameters:
            check_api: ask for the account's information first; False makes no request.
            options: as `jetstream`.

        Raises:
            ServiceUnavailableError: JetStream is off, or not enabled for the account.
            TypeError: as `jetstream`.
        """
        js = self.jetstream(**options)
        if check_api:
            await js.account_info()
        return js

    def set_server_pool(self, servers: list[str]) -> None:
        """Puts another list of servers in the place of the present one. It counts from the next reconnect on; while
        there is no connection, from the one after it.

        Parameters:
            servers: addresses, as for `connect`.

        Raises:
            BadAddressError: an address cannot be understood; nothing was changed.
            ConnectionClosedError: the connection is closed.
        """
        if self.is_closed:
            raise ConnectionClosedError
        self._native.set_server_pool(_options.server_list(servers))

    async def force_reconnect(self) -> None:
        """Drops the link and connects anew, to another server where there are several.

        Does nothing while there is no connection, or where `allow_reconnect` is False.
        """
        if self._connection is not None and not self._connection.is_closed:
            await self._run(self._connection.force_reconnect())

    async def _close(self, *, hurry: bool = False) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._closed = True
        if not hurry:
            if not self._blocks:
                # What was published in this turn of the loop goes out at its end.
                await asyncio.sleep(0)
            for acks in list(self._publishers):
                # Their futures can still say what became of the messages.
                if acks.here() and connection.is_connected:
                    await acks.drained(ACK_PATIENCE)
        self._stop_subscriptions()
        await self._run(connection.close(hurry))
        await self._settle()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ctrl-C, or cancelled: nobody wants to wait any more.
        await self._close(hurry=kind is not None and not issubclass(kind, Exception))
