"""The connection."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetarrow import _jetarrow
from jetarrow._exit import watch
from jetarrow.aio._messaging import Messaging

if TYPE_CHECKING:
    from jetarrow.js.client import JetStreamContext
    from jetarrow.js.manager import JetStreamManager

DEFAULT_CONNECT_TIMEOUT = 2.0
DEFAULT_PING_INTERVAL = 10.0
DEFAULT_RECONNECT_TIME_WAIT = 0.25


class Client(Messaging):
    """A connection to NATS, shared by everything that is made from it.

    Make one with `jetarrow.connect`, or with `Client()` and then `await nc.connect(...)`. Use it with `async with`, or
    call `close()` at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._connection: _jetarrow.Connection | None = None

    async def connect(
        self,
        servers: str | list[str] = "nats://localhost:4222",
        *,
        name: str | None = None,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        ping_interval: float = DEFAULT_PING_INTERVAL,
        reconnect_time_wait: float = DEFAULT_RECONNECT_TIME_WAIT,
        max_reconnect_attempts: int = -1,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        user_credentials: str | os.PathLike[str] | None = None,
        inbox_prefix: str | bytes | None = None,
        no_echo: bool = False,
    ) -> None:
        """Connects to the first server that answers.

        Parameters:
            servers: one address, several separated by commas, or a list. `nats://host:port`, or `tls://` for TLS,
                which is then never left out.
            name: shown by the server's monitoring.
            connect_timeout: seconds for one attempt at one server.
            ping_interval: seconds between pings on a quiet connection; two unanswered ones end it.
            reconnect_time_wait: seconds between attempts to reconnect; the first is at once.
            max_reconnect_attempts: attempts before the connection counts as closed; -1 is for ever.
            user, password: or as `nats://user:password@host`.
            token: instead of user and password.
            user_credentials: path of a credentials file (JWT and seed).
            inbox_prefix: first tokens of the subjects that answers come to, default `_INBOX`.
            no_echo: the server does not send us our own messages.

        Raises:
            NoServersError: no server answered in time; the text names them and the cause.
            AuthorizationError: a server refused the credentials.
            ValueError: an address cannot be understood.
        """
        addresses = servers.split(",") if isinstance(servers, str) else list(servers)
        prefix = inbox_prefix.decode() if isinstance(inbox_prefix, bytes) else inbox_prefix
        call = _jetarrow.connect(
            [address.strip() for address in addresses],
            name=name,
            connect_timeout=connect_timeout,
            ping_interval=ping_interval,
            user=user,
            password=password,
            token=token,
            credentials=os.fspath(user_credentials) if user_credentials is not None else None,
            inbox_prefix=prefix.rstrip(".") if prefix else None,
            no_echo=no_echo,
            max_reconnects=max_reconnect_attempts if max_reconnect_attempts >= 0 else None,
            reconnect_wait=reconnect_time_wait,
        )
        self._connection = await self._run(call)
        watch(self._connection)

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
            prefix: first tokens of the API's subjects, default `$JS.API`.
            domain: JetStream domain, instead of a prefix.
            timeout: seconds an API request, or a `publish`, may take, default 5.
            publish_async_max_pending (or max_ack_inflight): most unanswered messages of `publish` and
                `publish_async` together, default 5000.
            backpressure_on_inflight: at that limit `publish_async` waits; False raises `MaxAckPendingError`.
            ack_timeout: seconds until a `publish_async` without an answer fails, default 30.

        Raises:
            TypeError: unknown option, or both `prefix` and `domain`.
        """
        from jetarrow.js.client import JetStreamContext

        return JetStreamContext(self, **options)

    def jsm(self, **options: Any) -> JetStreamManager:
        """Management of JetStream on this connection. No request is made.

        Parameters:
            prefix, timeout: as `jetstream`.
        """
        from jetarrow.js.manager import JetStreamManager

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

    @property
    def is_connected(self) -> bool:
        """True while the link to a server is up."""
        return self._connection is not None and self._connection.is_connected

    @property
    def max_payload(self) -> int:
        """The server's limit for one message, in bytes, headers counted."""
        return self._native.max_payload

    async def close(self) -> None:
        """Sends what is queued, then closes the connection. A second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if not self._blocks:
                # What was published in this turn of the loop goes out at its end.
                await asyncio.sleep(0)
            self._stop_subscriptions()
            await self._run(connection.close())

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
